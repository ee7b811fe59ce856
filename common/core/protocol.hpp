/*
 * The messages of pgoutput, protocol versions 1 to 4, as the subscriber reads them.
 *
 * Everything here is plain data that views into the message: no destructor, no allocation, so that server
 * code may hold it across calls that can ereport. Rows are put into a Scratch that the caller makes once.
 *
 * Called by the apply worker for each message and by schemasync_decode.
 *
 * Zone: core. Source: "Logical Replication Message Formats" of the server's documentation.
 */
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

#include "core/bytes.hpp"

#include "core/pure.hpp"

namespace schemasync::protocol {

using Oid = std::uint32_t;
using Xid = std::uint32_t;
using Lsn = std::uint64_t; /* byte position */
using Time = std::int64_t; /* microseconds since 2000-01-01 UTC */

/* The letter that each message begins with. */
enum class Kind : char {
	Begin = 'B',
	Commit = 'C',
	Origin = 'O',
	Relation = 'R',
	Type = 'Y',
	Insert = 'I',
	Update = 'U',
	Delete = 'D',
	Truncate = 'T',
	LogicalMessage = 'M',
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

/* A row of the server has at most this many columns (MaxTupleAttributeNumber); a message with more is an
 * error. */
inline constexpr std::size_t max_columns = 1664;

/*
 * One value of a row. `data` is not terminated; but the byte after it belongs to the message (the next
 * value's kind, or the terminator that libpq puts behind a CopyData), so a caller that owns the buffer may
 * put a NUL there.
 */
struct Value {
	const char *data;
	std::int32_t length;
	char kind; /* 'n' null, 'u' unchanged TOAST, 't' text, 'b' binary */

	bool
	is_null() const
	{
		return kind == 'n';
	}
	bool
	is_unchanged() const
	{
		return kind == 'u';
	}
	std::string_view
	view() const
	{
		return {data, static_cast<std::size_t>(length)};
	}
};

struct RelationColumn {
	std::string_view name;
	Oid type;
	std::int32_t typmod;
	bool key; /* part of the replica identity */
};

/* Room for the rows and columns of one message; about 160 kB, made once by the caller. Plain data. */
struct Scratch {
	std::array<Value, max_columns> old_row;
	std::array<Value, max_columns> new_row;
	std::array<RelationColumn, max_columns> columns;
};

struct Begin {
	Lsn final_lsn;
	Time commit_time;
	Xid xid;
};
struct Commit {
	Lsn commit_lsn, end_lsn;
	Time commit_time;
};
struct Origin {
	Lsn lsn;
	std::string_view name;
};
struct Relation {
	Oid oid;
	std::string_view schema; /* empty means pg_catalog */
	std::string_view name;
	char replica_identity;
	std::span<const RelationColumn> columns;
};
struct Type {
	Oid oid;
	std::string_view schema, name;
};
struct Insert {
	Oid relation;
	std::span<const Value> row;
};
struct Update {
	Oid relation;
	char old_kind; /* 'K' the key's old values, 'O' the whole old row, 0 none was sent */
	std::span<const Value> old_row;
	std::span<const Value> new_row;
};
struct Delete {
	Oid relation;
	char old_kind; /* 'K' or 'O' */
	std::span<const Value> old_row;
};
struct Truncate {
	bool cascade, restart_identity;
	std::uint32_t count;
	const char *oids; /* big-endian; see relation() */

	Oid
	relation(std::uint32_t index) const
	{
		return bytes::Reader({oids + std::size_t{index} * 4, 4}).u32();
	}
};
struct LogicalMessage {
	bool transactional;
	Lsn lsn;
	std::string_view prefix, content;
};
struct BeginPrepare {
	Lsn prepare_lsn, end_lsn;
	Time prepare_time;
	Xid xid;
	std::string_view gid;
};
struct Prepare { /* also of a streamed transaction */
	Lsn prepare_lsn, end_lsn;
	Time prepare_time;
	Xid xid;
	std::string_view gid;
};
struct CommitPrepared {
	Lsn commit_lsn, end_lsn;
	Time commit_time;
	Xid xid;
	std::string_view gid;
};
struct RollbackPrepared {
	Lsn prepare_end_lsn, rollback_end_lsn;
	Time prepare_time, rollback_time;
	Xid xid;
	std::string_view gid;
};
struct StreamStart {
	Xid xid;
	bool first_segment;
};
struct StreamStop {};
struct StreamCommit {
	Xid xid;
	Lsn commit_lsn, end_lsn;
	Time commit_time;
};
struct StreamAbort {
	Xid xid, subxid;
	bool has_abort_info; /* protocol 4 with streaming = parallel */
	Lsn abort_lsn;
	Time abort_time;
};

struct Message {
	Kind kind;
	Xid xid; /* the (sub)transaction of a message inside a stream block, else 0 */
	std::variant<Begin, Commit, Origin, Relation, Type, Insert, Update, Delete, Truncate, LogicalMessage,
	             BeginPrepare, Prepare, CommitPrepared, RollbackPrepared, StreamStart, StreamStop,
	             StreamCommit, StreamAbort>
	    body;
};
static_assert(std::is_trivially_destructible_v<Message> && std::is_trivially_destructible_v<Scratch>);

/* Where a message could not be read, and why (a constant text). */
struct WireError {
	std::size_t offset; /* bytes from the start of the input */
	const char *what;
};

/*
 * Reads one message.
 *
 * in:        the payload of one XLogData ('w'), without its header
 * in_stream: whether it comes between StreamStart and StreamStop, where changes carry their transaction id
 * scratch:   receives the rows; `message` views into it and into `in`
 * returns:   false with `error` set when the message is malformed, has bytes left over, or is of an unknown
 * kind errors:    none raised
 */
[[nodiscard]] bool parse(std::string_view in, bool in_stream, Scratch &scratch, Message &message,
                         WireError &error);

/* What the walsender sends as CopyData: 'w' with a message, or 'k', a keepalive. */
struct Frame {
	bool keepalive;
	Lsn start_lsn; /* 'w' only */
	Lsn end_lsn;
	Time send_time;
	bool reply_requested;     /* 'k' only */
	std::string_view payload; /* 'w' only */
};
[[nodiscard]] bool parse_frame(std::string_view copy_data, Frame &frame, WireError &error);

/* The reply 'r' of a standby: positions written, flushed and applied. Always 34 bytes. */
using StatusUpdate = std::array<char, 34>;
StatusUpdate status_update(Lsn written, Lsn flushed, Lsn applied, Time now, bool reply_requested);

} // namespace schemasync::protocol
