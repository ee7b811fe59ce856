/*
 * One decoding session: what lives from startup to shutdown of the plugin.
 *
 * The session is plain data in ctx->context and hangs on ctx->output_plugin_private. Its three contexts are
 * children of ctx->context and go with it:
 *   row_context          one callback; reset at its end
 *   cache_context        the session: relation cache, formats, filters
 *   publication_context  from one reading of the publications to the next
 *
 * Zone: server code; leaves. Nothing here has a destructor, so every callback may ereport anywhere.
 */
#pragma once

#include <cstddef>

#include "decoder/options.hpp"
#include "pg/compat.hpp"

namespace schemasync::decoder {

struct RelationCache;
struct Announcer;

struct Session {
	MemoryContext row_context;
	MemoryContext cache_context;
	MemoryContext publication_context;

	Options options;
	bool in_streaming; /* between stream_start and stream_stop */

	RelationCache *relations;
	Announcer *announcer; /* of announce.hpp; null without option schemasync */

	std::size_t unflushed;        /* bytes put into the connection's buffer since its last flush */
	TimestampTz oldest_unflushed; /* when the first of them was put there, microseconds since 2000 */
	int changes_since_progress;   /* see report_progress() */
};

/* What is kept for each transaction that has a begin_cb; streamed and prepared ones have none. */
struct Transaction {
	bool begin_sent; /* Begin is sent with the first change, so that empty transactions send nothing */
};

inline Session *
session_of(LogicalDecodingContext *ctx)
{
	return static_cast<Session *>(ctx->output_plugin_private);
}

/* Whether rows of a relation, published as publish_as, are asked for: option relations. */
inline bool
is_asked_for(const Session *session, Oid relid, Oid publish_as)
{
	const List *relations = session->options.relations;

	return relations == nullptr || list_member_oid(relations, relid) || list_member_oid(relations, publish_as);
}

inline Transaction *
transaction_of(ReorderBufferTXN *txn)
{
	return static_cast<Transaction *>(txn->output_plugin_private);
}

/*
 * Makes the session of a context. With is_init (a slot is being made) no options are read and nothing will
 * be decoded into output.
 *
 * errors: those of read_options()
 */
void start_session(LogicalDecodingContext *ctx, OutputPluginOptions *output, bool is_init);

/* Detaches the session from the invalidation callbacks; its memory goes with ctx->context. */
void end_session(LogicalDecodingContext *ctx);

/*
 * Tells the server how far decoding has come, so that a walsender answers and sends keepalives in a long
 * transaction of which nothing is sent. From 16 the reorder buffer does that between changes; then only
 * ends of transactions call it.
 */
void report_progress(LogicalDecodingContext *ctx, bool skipped_transaction);

/* The same for each change that passes. */
inline void
report_change(LogicalDecodingContext *ctx)
{
	if (pg::compat::plugin_reports_progress)
		report_progress(ctx, false);
}

} // namespace schemasync::decoder
