/*
 * The options a client gives at START_REPLICATION (or to the SQL functions): those of the server's own
 * pgoutput of this version, with its error texts, and schemasync's own.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "core/wire.hpp"

#include <cstdint>

#include "pg/postgres.hpp"

struct List;
struct LogicalDecodingContext;

namespace schemasync::decoder {

enum class Streaming { Off, On, Parallel };

/* Whether the rows of a table rewrite are sent (option rewrites). */
enum class Rewrites { Refuse, Carry };

struct Options {
	std::uint32_t protocol_version = 0;
	List *publication_names = nullptr; /* char *, in the session's context */
	bool binary = false;
	bool messages = false;
	bool two_phase = false;
	Streaming streaming = Streaming::Off;
	bool origin_none = false;

	bool schemasync = false; /* send schemasync.* messages (docs/wire.md) */
	Rewrites rewrites = Rewrites::Refuse;
	List *relations = nullptr; /* oids: rows of these alone are sent; empty: of all */
};

/*
 * Reads the options and checks them against each other and against what the context can do; sets
 * context's streaming and two-phase switches accordingly.
 *
 * in:      ctx->output_plugin_options
 * returns: the options; lists in the current memory context
 * errors:  the ones that pgoutput raises, in its order
 */
Options read_options(LogicalDecodingContext *ctx);

} // namespace schemasync::decoder
