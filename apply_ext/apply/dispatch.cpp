#include "apply_ext/apply/dispatch.hpp"

#include "apply_ext/apply/boundary.hpp"
#include "apply_ext/apply/carried_rows.hpp"
#include "apply_ext/apply/rows.hpp"
#include "apply_ext/apply/spool.hpp"
#include "apply_ext/apply/transaction.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/xact.h"
#include "utils/memutils.h"
}

namespace schemasync::apply {

namespace {

using protocol::Kind;
using protocol::Message;

constexpr std::string_view schema_prefix = "schemasync.";

const char *
command_name(Kind kind)
{
	switch (kind) {
	case Kind::Insert:
		return "INSERT";
	case Kind::Update:
		return "UPDATE";
	case Kind::Delete:
		return "DELETE";
	case Kind::Truncate:
		return "TRUNCATE";
	case Kind::LogicalMessage:
		return "DDL";
	case Kind::Relation:
		return "RELATION";
	case Kind::Prepare:
	case Kind::StreamPrepare:
		return "PREPARE";
	case Kind::CommitPrepared:
		return "COMMIT PREPARED";
	case Kind::RollbackPrepared:
		return "ROLLBACK PREPARED";
	default:
		return "TRANSACTION";
	}
}

template <typename Body>
const Body &
body(const Message &message)
{
	const Body *result = std::get_if<Body>(&message.body);
	if (result == nullptr)
		elog(ERROR, "a message's body is not of its kind");
	return *result;
}

// ---- leaves: may ereport; plain data only ----

[[noreturn]] void
raise_malformed(const protocol::WireError &error, std::string_view message)
{
	ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
	                errmsg("the publisher sent a malformed message: %s", error.what),
	                errdetail("Message \"%c\" of %zu bytes, at byte %zu.", message.empty() ? '?' : message[0],
	                          message.size(), error.offset)));
}

void
need_transaction(const Session *session)
{
	if (!session->remote.active)
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
		                errmsg("the publisher sent a change outside of a transaction")));
}

/* A change of rows. */
void
apply_change(Session *session, const Message &message, std::string_view in, bool replayed)
{
	need_transaction(session);
	if (session->remote.skipped)
		return;
	need_local(session);
	switch (message.kind) {
	case Kind::Insert:
		if (!keep_carried_row(body<protocol::Insert>(message).relation, in, replayed))
			apply_insert(session, body<protocol::Insert>(message));
		break;
	case Kind::Update:
		apply_update(session, body<protocol::Update>(message));
		break;
	case Kind::Delete:
		apply_delete(session, body<protocol::Delete>(message));
		break;
	default:
		apply_truncate(session, body<protocol::Truncate>(message));
		break;
	}
	session->position.schema = session->position.relation = nullptr;
	session->remote.rows++;
	session->group.rows++;
}

Step
apply_message(Session *session, const protocol::LogicalMessage &message)
{
	if (message.prefix.substr(0, schema_prefix.size()) != schema_prefix)
		return Step::Done;
	need_transaction(session);
	if (session->remote.skipped)
		return Step::Done;
	session->remote.ordinal++;
	/* a change of the schema waits for locks and may be refused: the transactions before it need not wait
	 * with it */
	if (session->remote.rows == 0 && session->remote.ordinal == 1 && session->group.count > 0)
		commit_group(session);
	need_local(session);
	flush_rows(session);
	close_locals(session->relations->locals);
	need_snapshot(session->relations->locals);
	session->schema_prefix = message.prefix;
	session->schema_content = message.content;
	return Step::Schema;
}

/* Replays a streamed transaction; how it ends is kept for finish_replay. */
void
begin_replay(Session *session, TransactionId xid, XLogRecPtr final_lsn, TimestampTz commit_time)
{
	commit_group(session);
	begin_remote(session, final_lsn, commit_time, xid);
	if (session->remote.active)
		start_replay(session->spools, xid);
}

void
spool(Session *session, std::string_view message)
{
	bytes::Reader reader(message);

	reader.u8();
	TransactionId xid = reader.u32();
	if (reader.failed() || xid == InvalidTransactionId)
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
		                errmsg("the publisher sent a malformed message in a stream block")));
	spool_message(session->spools, xid, message);
}

void
apply_end(Session *session, const Message &message)
{
	switch (message.kind) {
	case Kind::Commit: {
		const auto &commit = body<protocol::Commit>(message);
		if (session->remote.active && commit.commit_lsn != session->remote.final_lsn)
			ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
			                errmsg("the publisher committed another transaction than it began")));
		commit_remote(session, commit.end_lsn, commit.commit_time);
		break;
	}
	case Kind::Prepare: {
		const auto &prepare = body<protocol::Prepare>(message);
		need_transaction(session);
		prepare_remote(session, prepare.end_lsn, prepare.prepare_time);
		break;
	}
	case Kind::CommitPrepared: {
		const auto &commit = body<protocol::CommitPrepared>(message);
		at_boundary(session, commit.xid, commit.commit_lsn);
		commit_prepared(session, commit.xid, commit.commit_lsn, commit.end_lsn, commit.commit_time);
		break;
	}
	default: {
		const auto &rollback = body<protocol::RollbackPrepared>(message);
		rollback_prepared(session, rollback.xid, rollback.prepare_end_lsn, rollback.prepare_time,
		                  rollback.rollback_end_lsn, rollback.rollback_time);
		break;
	}
	}
}

void
apply_stream(Session *session, const Message &message)
{
	switch (message.kind) {
	case Kind::StreamStart: {
		const auto &start = body<protocol::StreamStart>(message);
		begin_stream_block(session->spools, start.xid, start.first_segment);
		break;
	}
	case Kind::StreamStop:
		end_stream_block(session->spools);
		break;
	case Kind::StreamAbort: {
		const auto &abort = body<protocol::StreamAbort>(message);
		abort_spooled(session->spools, abort.xid, abort.subxid);
		break;
	}
	case Kind::StreamCommit: {
		const auto &commit = body<protocol::StreamCommit>(message);
		at_boundary(session, commit.xid, commit.commit_lsn);
		begin_replay(session, commit.xid, commit.commit_lsn, commit.commit_time);
		session->replay = {false, commit.end_lsn, commit.commit_time};
		break;
	}
	default: {
		const auto &prepare = body<protocol::Prepare>(message);
		begin_replay(session, prepare.xid, prepare.prepare_lsn, prepare.prepare_time);
		session->replay = {true, prepare.end_lsn, prepare.prepare_time};
		session->remote.prepares = true;
		break;
	}
	}
}

} // namespace

Step
dispatch(Session *session, std::string_view in, bool replayed)
{
	Message message;
	protocol::WireError error;

	/* (the origin of a cascade's transaction follows the start of its first block, and names no transaction) */
	if (!replayed && in_stream_block(session->spools) && !in.empty() && in[0] != static_cast<char>(Kind::StreamStop) &&
	    in[0] != static_cast<char>(Kind::Origin)) {
		spool(session, in);
		return Step::Done;
	}
	if (!protocol::parse(in, replayed, *session->scratch, message, error))
		raise_malformed(error, in);
	session->position.command = command_name(message.kind);

	Step step = Step::Done;
	switch (message.kind) {
	case Kind::Insert:
	case Kind::Update:
	case Kind::Delete:
	case Kind::Truncate:
		apply_change(session, message, in, replayed);
		break;
	case Kind::Begin: {
		const auto &begin = body<protocol::Begin>(message);
		at_boundary(session, begin.xid, begin.final_lsn);
		begin_remote(session, begin.final_lsn, begin.commit_time, begin.xid);
		break;
	}
	case Kind::BeginPrepare: {
		const auto &begin = body<protocol::BeginPrepare>(message);
		/* it ends with a PREPARE of its own */
		commit_group(session);
		begin_remote(session, begin.prepare_lsn, begin.prepare_time, begin.xid);
		session->remote.prepares = true;
		break;
	}
	case Kind::Commit:
	case Kind::Prepare:
	case Kind::CommitPrepared:
	case Kind::RollbackPrepared:
		apply_end(session, message);
		break;
	case Kind::Relation:
		remember_relation(session, body<protocol::Relation>(message));
		break;
	case Kind::Type:
		remember_type(session, body<protocol::Type>(message));
		break;
	case Kind::LogicalMessage:
		step = apply_message(session, body<protocol::LogicalMessage>(message));
		break;
	case Kind::Origin:
		break;
	default:
		apply_stream(session, message);
		break;
	}
	if (step == Step::Done)
		session->position.command = nullptr;
	return step;
}

void
finish_replay(Session *session)
{
	if (session->replay.prepares) {
		prepare_remote(session, session->replay.end_lsn, session->replay.time);
		return;
	}
	session->group.ends = true;
	commit_remote(session, session->replay.end_lsn, session->replay.time);
}

} // namespace schemasync::apply
