/*
 * schemasync_decode: one message of a pgoutput stream as jsonb, for people and tests.
 *
 * Zone: server code; leaves throughout: the parsed message is plain data.
 */
#include "core/protocol.hpp"

#include <cstring>

#include "pg/catalog/json.hpp"

extern "C" {
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(schemasync_decode);
}

namespace {

namespace json = schemasync::pg::json;
using namespace schemasync::protocol;

constexpr char reserved_prefix[] = "schemasync.";

// ---- leaves: may ereport; plain data only ----

void
put_lsn(StringInfo out, const char *name, Lsn lsn)
{
	json::string(out, name, psprintf("%X/%X", static_cast<uint32>(lsn >> 32), static_cast<uint32>(lsn)));
}

void
put_time(StringInfo out, const char *name, Time time)
{
	json::string(out, name, timestamptz_to_str(time));
}

void
put_text(StringInfo out, const char *name, std::string_view text)
{
	json::string(out, name, pnstrdup(text.data(), text.size()));
}

char *
as_hex(std::string_view bytes)
{
	char *text = static_cast<char *>(palloc(bytes.size() * 2 + 3));

	text[0] = '\\';
	text[1] = 'x';
	uint64 length = hex_encode(bytes.data(), bytes.size(), text + 2);
	text[2 + length] = '\0';
	return text;
}

/* Text is in the server's encoding already: the decoder's output functions gave it. */
void
put_row(StringInfo out, const char *name, std::span<const Value> row)
{
	if (row.empty())
		return;
	json::begin_array(out, name);
	for (const Value &value : row) {
		json::separate(out);
		if (value.is_null())
			appendStringInfoString(out, "null");
		else if (value.is_unchanged())
			appendStringInfoString(out, "{\"unchanged\":true}");
		else if (value.kind == 'b') {
			appendStringInfoString(out, "{\"binary\":");
			escape_json(out, as_hex(value.view()));
			appendStringInfoChar(out, '}');
		} else {
			const char *text = pnstrdup(value.data, static_cast<Size>(value.length));
			pg_verifymbstr(text, value.length, false);
			escape_json(out, text);
		}
	}
	json::end_array(out);
}

void
put(StringInfo out, const Begin &m)
{
	json::string(out, "message", "begin");
	put_lsn(out, "final_lsn", m.final_lsn);
	put_time(out, "commit_time", m.commit_time);
	json::number(out, "xid", m.xid);
}

void
put(StringInfo out, const Commit &m)
{
	json::string(out, "message", "commit");
	put_lsn(out, "commit_lsn", m.commit_lsn);
	put_lsn(out, "end_lsn", m.end_lsn);
	put_time(out, "commit_time", m.commit_time);
}

void
put(StringInfo out, const Origin &m)
{
	json::string(out, "message", "origin");
	put_lsn(out, "lsn", m.lsn);
	put_text(out, "name", m.name);
}

void
put(StringInfo out, const schemasync::protocol::Relation &m)
{
	json::string(out, "message", "relation");
	json::number(out, "oid", m.oid);
	put_text(out, "schema", m.schema.empty() ? "pg_catalog" : m.schema);
	put_text(out, "name", m.name);
	json::character(out, "replica_identity", m.replica_identity);
	json::begin_array(out, "columns");
	for (const RelationColumn &column : m.columns) {
		json::begin_object(out);
		put_text(out, "name", column.name);
		json::number(out, "type", column.type);
		json::number(out, "typmod", column.typmod);
		json::boolean(out, "key", column.key);
		json::end_object(out);
	}
	json::end_array(out);
}

void
put(StringInfo out, const Type &m)
{
	json::string(out, "message", "type");
	json::number(out, "oid", m.oid);
	put_text(out, "schema", m.schema.empty() ? "pg_catalog" : m.schema);
	put_text(out, "name", m.name);
}

void
put(StringInfo out, const Insert &m)
{
	json::string(out, "message", "insert");
	json::number(out, "relation", m.relation);
	put_row(out, "new", m.row);
}

void
put(StringInfo out, const Update &m)
{
	json::string(out, "message", "update");
	json::number(out, "relation", m.relation);
	put_row(out, m.old_kind == 'K' ? "key" : "old", m.old_row);
	put_row(out, "new", m.new_row);
}

void
put(StringInfo out, const Delete &m)
{
	json::string(out, "message", "delete");
	json::number(out, "relation", m.relation);
	put_row(out, m.old_kind == 'K' ? "key" : "old", m.old_row);
}

void
put(StringInfo out, const Truncate &m)
{
	json::string(out, "message", "truncate");
	json::boolean(out, "cascade", m.cascade);
	json::boolean(out, "restart_identity", m.restart_identity);
	json::begin_array(out, "relations");
	for (std::uint32_t i = 0; i < m.count; i++)
		json::element(out, m.relation(i));
	json::end_array(out);
}

bool
has_own_prefix(const LogicalMessage &m)
{
	return m.prefix.substr(0, sizeof(reserved_prefix) - 1) == reserved_prefix;
}

/* Ours are JSON, in UTF-8; those of users are bytes. */
void
put(StringInfo out, const LogicalMessage &m)
{
	json::string(out, "message", "message");
	json::boolean(out, "transactional", m.transactional);
	put_lsn(out, "lsn", m.lsn);
	put_text(out, "prefix", m.prefix);
	if (has_own_prefix(m)) {
		char *content = pnstrdup(m.content.data(), m.content.size());
		json::key(out, "content");
		appendStringInfoString(out, pg_any_to_server(content, static_cast<int>(m.content.size()), PG_UTF8));
	} else
		json::string(out, "content", as_hex(m.content));
}

void
put(StringInfo out, const BeginPrepare &m)
{
	json::string(out, "message", "begin_prepare");
	put_lsn(out, "prepare_lsn", m.prepare_lsn);
	put_lsn(out, "end_lsn", m.end_lsn);
	put_time(out, "prepare_time", m.prepare_time);
	json::number(out, "xid", m.xid);
	put_text(out, "gid", m.gid);
}

void
put(StringInfo out, const Prepare &m, const char *name)
{
	json::string(out, "message", name);
	put_lsn(out, "prepare_lsn", m.prepare_lsn);
	put_lsn(out, "end_lsn", m.end_lsn);
	put_time(out, "prepare_time", m.prepare_time);
	json::number(out, "xid", m.xid);
	put_text(out, "gid", m.gid);
}

void
put(StringInfo out, const CommitPrepared &m)
{
	json::string(out, "message", "commit_prepared");
	put_lsn(out, "commit_lsn", m.commit_lsn);
	put_lsn(out, "end_lsn", m.end_lsn);
	put_time(out, "commit_time", m.commit_time);
	json::number(out, "xid", m.xid);
	put_text(out, "gid", m.gid);
}

void
put(StringInfo out, const RollbackPrepared &m)
{
	json::string(out, "message", "rollback_prepared");
	put_lsn(out, "prepare_end_lsn", m.prepare_end_lsn);
	put_lsn(out, "rollback_end_lsn", m.rollback_end_lsn);
	put_time(out, "prepare_time", m.prepare_time);
	put_time(out, "rollback_time", m.rollback_time);
	json::number(out, "xid", m.xid);
	put_text(out, "gid", m.gid);
}

void
put(StringInfo out, const StreamStart &m)
{
	json::string(out, "message", "stream_start");
	json::number(out, "xid", m.xid);
	json::boolean(out, "first_segment", m.first_segment);
}

void
put(StringInfo out, const StreamStop &)
{
	json::string(out, "message", "stream_stop");
}

void
put(StringInfo out, const StreamCommit &m)
{
	json::string(out, "message", "stream_commit");
	json::number(out, "xid", m.xid);
	put_lsn(out, "commit_lsn", m.commit_lsn);
	put_lsn(out, "end_lsn", m.end_lsn);
	put_time(out, "commit_time", m.commit_time);
}

void
put(StringInfo out, const StreamAbort &m)
{
	json::string(out, "message", "stream_abort");
	json::number(out, "xid", m.xid);
	json::number(out, "subxid", m.subxid);
	if (m.has_abort_info) {
		put_lsn(out, "abort_lsn", m.abort_lsn);
		put_time(out, "abort_time", m.abort_time);
	}
}

void
put_message(StringInfo out, const Message &message)
{
	json::begin_object(out);
	if (message.xid != 0)
		json::number(out, "in_transaction", message.xid);
	if (const auto *prepare = std::get_if<Prepare>(&message.body))
		put(out, *prepare, message.kind == Kind::StreamPrepare ? "stream_prepare" : "prepare");
	else
		std::visit(
		    [out](const auto &body) {
			    if constexpr (!std::is_same_v<std::decay_t<decltype(body)>, Prepare>)
				    put(out, body);
		    },
		    message.body);
	json::end_object(out);
}

/*
 * A message does not tell whether it comes inside a stream block, where a transaction id follows its letter. It
 * can be read in one of the two ways only, but for logical messages, whose prefix then tells: read in the wrong
 * way it has some bytes too many or too few in front.
 */
bool
parse_anywhere(std::string_view in, Scratch &scratch, Message &message, WireError &error)
{
	Message streamed;
	WireError ignored{};

	if (!parse(in, false, scratch, message, error))
		return parse(in, true, scratch, message, ignored);
	const auto *plain = std::get_if<LogicalMessage>(&message.body);
	if (plain == nullptr || !parse(in, true, scratch, streamed, ignored))
		return true;
	if (!has_own_prefix(*plain) && has_own_prefix(std::get<LogicalMessage>(streamed.body)))
		message = streamed;
	return true;
}

} // namespace

SCHEMASYNC_EXPORT Datum
schemasync_decode(PG_FUNCTION_ARGS)
{
	bytea *bytes = PG_GETARG_BYTEA_PP(0);
	std::string_view in(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	auto *scratch = static_cast<Scratch *>(palloc(sizeof(Scratch)));
	WireError error{};
	Message message;
	StringInfoData out;

	if (!parse_anywhere(in, *scratch, message, error))
		ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), errmsg("message could not be read"),
		                errdetail("At byte %zu: %s.", error.offset, error.what)));
	initStringInfo(&out);
	put_message(&out, message);
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(out.data));
}
