/*
 * What protocol.hpp, the reader, leaves to the writer of a pgoutput stream: kinds of tuples and columns,
 * flags and the protocol versions.
 *
 * Zone: core. Source: "Logical Replication Message Formats" of the server's documentation.
 */
#pragma once

#include <cstdint>

#include "core/protocol.hpp"

#include "core/pure.hpp"

namespace schemasync::wire {

using Message = protocol::Kind;

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

/* Logical messages whose prefix begins so are schemasync's own (docs/wire.md). */
constexpr char reserved_prefix[] = "schemasync";

} // namespace schemasync::wire
