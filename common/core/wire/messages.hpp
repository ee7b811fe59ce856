/*
 * What the writer and the reader of a pgoutput stream must agree on: message letters, column kinds,
 * flags and protocol versions. The decoder writes them, the apply side and schemasync_decode read them.
 *
 * Zone: core.
 */
#pragma once

#include <cstdint>

#include "core/pure.hpp"

namespace schemasync::wire {

/* First byte of every message. source: PostgreSQL documentation, "Logical Replication Message Formats" */
enum class Message : char {
	Begin = 'B',
	Commit = 'C',
	Origin = 'O',
	Insert = 'I',
	Update = 'U',
	Delete = 'D',
	Truncate = 'T',
	Relation = 'R',
	Type = 'Y',
	Logical = 'M',
	BeginPrepare = 'b',
	Prepare = 'P',
	CommitPrepared = 'K',
	RollbackPrepared = 'r',
	StreamStart = 'S',
	StreamStop = 'E',
	StreamCommit = 'c',
	StreamAbort = 'A',
	StreamPrepare = 'p',
};

/* Which tuple follows inside Insert, Update and Delete. */
enum class Tuple : char {
	New = 'N',
	OldKey = 'K',
	OldRow = 'O',
};

/* How a column travels inside a tuple. Unchanged is a TOAST value that the row change left alone. */
enum class Column : char {
	Null = 'n',
	Unchanged = 'u',
	Text = 't',
	Binary = 'b',
};

/* flag byte of a column in Relation */
constexpr std::uint8_t column_is_key = 1;
/* flag byte of Truncate */
constexpr std::uint8_t truncate_cascade = 1;
constexpr std::uint8_t truncate_restart_sequences = 2;
/* flag byte of Logical */
constexpr std::uint8_t message_transactional = 1;

/* first protocol version with each feature; parallel streaming came with PostgreSQL 16 */
constexpr std::uint32_t protocol_min = 1;
constexpr std::uint32_t protocol_streaming = 2;
constexpr std::uint32_t protocol_two_phase = 3;
constexpr std::uint32_t protocol_parallel = 4;

/* prefixes of the logical messages that the decoder adds to the stream (docs/wire.md) */
constexpr char prefix_reserved[] = "schemasync";
constexpr char prefix_marker[] = "schemasync.marker";
constexpr char prefix_state[] = "schemasync.state";
constexpr char prefix_ddl[] = "schemasync.ddl";
constexpr char prefix_rewrite[] = "schemasync.rewrite";

} // namespace schemasync::wire
