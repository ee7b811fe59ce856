/*
 * The apply worker of a subscription: connects, hands each message to apply/, and sees to everything that is
 * due in between: commits of idle groups, feedback, reloads, draining. What goes wrong ends the run; the
 * launcher starts the next.
 */
#include "apply_ext/apply/boundary.hpp"
#include "apply_ext/apply/ddl_execute.hpp"
#include "apply_ext/apply/dispatch.hpp"
#include "apply_ext/apply/prepared.hpp"
#include "apply_ext/apply/relation_map.hpp"
#include "apply_ext/apply/session.hpp"
#include "apply_ext/apply/spool.hpp"
#include "apply_ext/apply/transaction.hpp"
#include "apply_ext/worker/beside.hpp"
#include "apply_ext/worker/copy.hpp"
#include "apply_ext/worker/index_builds.hpp"
#include "apply_ext/worker/local.hpp"
#include "apply_ext/worker/shared.hpp"
#include "core/reason.hpp"
#include "pg/compat.hpp"
#include "pg/guard.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "postmaster/walwriter.h"
#include "replication/walreceiver.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
}

SCHEMASYNC_EXPORT void schemasync_apply_main(Datum argument);

namespace schemasync::worker {

namespace {

using apply::Session;

/* How long a wait lasts when nothing else says, ms. */
constexpr long nap = 1000;
/* ... and while somebody waits for a position that has not come yet. */
constexpr long short_nap = 100;

// ---- leaves: may ereport; plain data only ----

void
save(const Session *session, const char *state)
{
	begin();
	catalog::save_state(session->subscription->subid, state, nullptr);
	commit();
}

Session *
make_session(const catalog::Subscription *subscription)
{
	MemoryContext context =
	    AllocSetContextCreate(TopMemoryContext, "schemasync apply", ALLOCSET_DEFAULT_SIZES);
	Session *session = new (MemoryContextAllocZero(context, sizeof(Session))) Session();

	session->context = context;
	session->message = AllocSetContextCreate(context, "schemasync message", ALLOCSET_DEFAULT_SIZES);
	session->error = AllocSetContextCreate(context, "schemasync error", ALLOCSET_DEFAULT_SIZES);
	session->upstream.context =
	    AllocSetContextCreate(context, "schemasync connection", ALLOCSET_DEFAULT_SIZES);
	session->subscription = subscription;
	session->binary = subscription->options.binary;
	session->scratch =
	    static_cast<protocol::Scratch *>(MemoryContextAlloc(context, sizeof(protocol::Scratch)));
	session->relations = apply::make_relations(context, subscription->options.run_as_owner);
	session->spools = apply::make_spools(context);
	session->position.subscription = subscription->name;
	return session;
}

/* Everything up to the copy of the rows is done once, in transactions of its own. */
const catalog::Subscription *
bring_up(const catalog::Subscription *subscription)
{
	if (strcmp(subscription->state, "init") != 0)
		return subscription;
	set_state(State::Copying);
	apply::load_prepared(subscription->subid);
	initial_copy(*subscription);
	const catalog::Subscription *loaded = load(subscription->subid);
	if (loaded == nullptr)
		end_worker(Leave::Again); /* dropped meanwhile: the next run cleans up */
	return loaded;
}

void
open_stream(Session *session)
{
	XLogRecPtr from = session->catch_up.active ? catch_up_from(session) : current_progress();

	session->progress.received = from;
	session->progress.told_write = session->progress.told_flush = session->progress.told_received =
	    InvalidXLogRecPtr;
	session->progress.received_at = GetCurrentTimestamp();
	session->progress.asked = false;
	start_stream(&session->upstream, *session->subscription, from, session->binary, session->catch_up.relations);
	session->opened_at = GetCurrentTimestamp();
	set_state(session->subscription->drain ? State::Draining : State::Streaming);
	pgstat_report_activity(STATE_IDLE, nullptr);
}

/* The connection goes, and with it what only made sense in it. */
void
close_stream(Session *session)
{
	stop_stream(&session->upstream);
	apply::drop_spools(session->spools);
}

/* --- what is due when nothing more has arrived
 * --------------------------------------------------------------- */

bool
is_idle(const Session *session)
{
	return !session->remote.active && !session->group.open;
}

bool
same_publications(const catalog::Subscription *left, const catalog::Subscription *right)
{
	int i = 0;

	for (; left->publications[i] != nullptr && right->publications[i] != nullptr; i++) {
		if (strcmp(left->publications[i], right->publications[i]) != 0)
			return false;
	}
	return left->publications[i] == right->publications[i];
}

/* Somebody has changed the subscription. What the run was built on cannot change under it: then a new one
 * begins. */
void
reload(Session *session)
{
	const catalog::Subscription *old = session->subscription;
	const catalog::Subscription *subscription = load(old->subid);

	if (subscription == nullptr || !subscription->enabled || strcmp(subscription->state, "init") == 0 ||
	    subscription->owner != old->owner || strcmp(subscription->conninfo, old->conninfo) != 0 ||
	    strcmp(subscription->slot_name, old->slot_name) != 0 || !same_publications(subscription, old))
		end_worker(Leave::Again);
	session->subscription = subscription;
	session->position.subscription = subscription->name;
	if (subscription->drain)
		set_state(State::Draining);
}

/* The stream is to be read once more, or that is over. */
void
reopen_stream(Session *session)
{
	apply::commit_group(session);
	close_stream(session);
	if (session->catch_up.done)
		end_catch_up(session);
	open_stream(session);
}

/* Everything up to drain_lsn is applied: says so to the publisher, for good, and ends. */
void
end_drained(Session *session)
{
	(void) advance_idle(&session->progress, Haste::Now);
	flush_commits(&session->progress);
	send_feedback(&session->progress, &session->upstream, true, true, false);
	pg::at_point("drained");
	save(session, "drained");
	set_state(State::Drained);
	close_stream(session);
	end_worker(Leave::Stay);
}

/* Whether somebody waits for a position: schemasync_wait, or draining. */
XLogRecPtr
wanted_position(const Session *session)
{
	XLogRecPtr wanted = awaited();

	if (session->subscription->drain)
		wanted = Max(wanted, session->subscription->drain_lsn);
	return wanted;
}

/* Gives a sign of life, or finds that the publisher gives none. */
void
watch_connection(Session *session)
{
	Progress *progress = &session->progress;
	TimestampTz now = GetCurrentTimestamp();

	if (wal_receiver_timeout <= 0)
		return;
	if (TimestampDifferenceExceeds(progress->received_at, now, wal_receiver_timeout))
		ereport(ERROR, (errcode(ERRCODE_CONNECTION_FAILURE),
		                errmsg("nothing was heard from the publisher for longer than wal_receiver_timeout")));
	if (!progress->asked &&
	    TimestampDifferenceExceeds(progress->received_at, now, wal_receiver_timeout / 2)) {
		send_feedback(progress, &session->upstream, is_idle(session), true, true);
		progress->asked = true;
	}
}

/* The run that failed before is over: this one has applied something, or had nothing to apply for a while. */
void
note_recovery(Session *session)
{
	constexpr int quiet = 5000; /* ms */

	if (session->recovered || (!session->progress.committed &&
	                           !TimestampDifferenceExceeds(session->opened_at, GetCurrentTimestamp(), quiet)))
		return;
	session->recovered = true;
	begin();
	catalog::resolve_errors(session->subscription->subid);
	if (strcmp(session->subscription->state, "failed") == 0)
		catalog::save_state(session->subscription->subid, "ready", nullptr);
	commit();
}

/* Nothing has arrived: does what is due and waits for more. */
void
rest(Session *session)
{
	Progress *progress = &session->progress;

	if (!session->remote.active)
		apply::commit_group(session);
	else
		apply::drop_snapshot(session->relations->locals);
	if (session->arrived) {
		session->arrived = false;
		progress->received_at = GetCurrentTimestamp();
		progress->asked = false;
		report_received(progress->received, session->sent_at);
	}
	if (ConfigReloadPending) {
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	bool idle = is_idle(session);
	if (idle) {
		note_recovery(session);
		AcceptInvalidationMessages();
		if (reload_requested())
			reload(session);
		if (session->catch_up.active)
			session->catch_up.done = session->catch_up.done || progress->received >= session->catch_up.until;
		else
			report_applied(progress->received, 0);
		if (session->catch_up.done || tend_beside(session)) {
			reopen_stream(session);
			return;
		}
		tend_index_builds(session);
		apply::at_rest(session);
		store_counters(true);
		if (session->subscription->drain && progress->received >= session->subscription->drain_lsn &&
		    !is_copying_beside(session))
			end_drained(session);
	}

	XLogRecPtr wanted = wanted_position(session);
	bool hurry = wanted > progress->told_flush;
	long early = 0;
	if (idle && !session->catch_up.active)
		early = advance_idle(progress, hurry ? Haste::Now : session->upstream.is_awaited ? Haste::Publisher : Haste::None);
	if (hurry && idle)
		flush_commits(progress);
	send_feedback(progress, &session->upstream, idle, false, false);
	/* a publisher that has nothing to send says how far it is only when asked */
	if (hurry && idle && wanted > progress->received)
		send_feedback(progress, &session->upstream, idle, true, true);

	MemoryContextReset(session->message);
	long timeout = hurry ? short_nap : progress->count > 0 ? Min(WalWriterDelay, nap) : nap;
	if (early > 0)
		timeout = Min(timeout, early);
	if (idle && session->running) {
		pgstat_report_activity(STATE_IDLE, nullptr);
		session->running = false;
	}
	if (wait_for_message(&session->upstream, timeout)) {
		watch_connection(session);
		if (idle)
			pgstat_report_stat(true);
	}
}

/* --- the messages
 * -------------------------------------------------------------------------------------------- */

/* Takes a message out of its frame. returns: false when the frame was a keepalive, which is dealt with */
bool
open_frame(Session *session, std::string_view data, std::string_view *message)
{
	Progress *progress = &session->progress;
	protocol::Frame frame;
	protocol::WireError error;

	if (!protocol::parse_frame(data, frame, error))
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
		                errmsg("the publisher sent a malformed frame: %s", error.what)));
	session->arrived = true;
	session->sent_at = frame.send_time;
	progress->received = Max(progress->received, Max(frame.start_lsn, frame.end_lsn));
	if (!frame.keepalive) {
		*message = frame.payload;
		return true;
	}
	if (frame.reply_requested) {
		/* as one that is being shut down does, which waits until it has heard of everything */
		if (is_idle(session) && !session->catch_up.active) {
			(void) advance_idle(progress, Haste::Now);
			flush_commits(progress);
		}
		send_feedback(progress, &session->upstream, is_idle(session), true, false);
	}
	return false;
}

/* Applies the stream until a schema message comes, whose handling is not a leaf's. */
void
pump(Session *session)
{
	for (;;) {
		std::string_view data, message;
		bool replayed = apply::is_replaying(session->spools);

		CHECK_FOR_INTERRUPTS();
		if (session->index_turn && is_idle(session) && !replayed && !session->catch_up.active)
			give_way_to_build(session);
		MemoryContextSwitchTo(session->message);
		if (replayed) {
			if (!apply::next_spooled(session->spools, &message)) {
				apply::finish_replay(session);
				continue;
			}
		} else {
			if (!next_message(&session->upstream, &data)) {
				rest(session);
				continue;
			}
			if (!open_frame(session, data, &message))
				continue;
		}
		session->running = true;
		if (is_idle(session) && !replayed) {
			store_counters(false);
			MemoryContextSwitchTo(session->message);
		}
		pg::at_point(replayed ? "replayed" : "received");
		if (apply::dispatch(session, message, replayed) == apply::Step::Schema) {
			pg::at_point("schema_received");
			return;
		}
		MemoryContextReset(session->message);
		if (session->catch_up.done)
			reopen_stream(session);
	}
}

void
after_schema(Session *session, bool changed)
{
	apply::drop_snapshot(session->relations->locals);
	apply::forget_mappings(session->relations);
	if (changed)
		session->group.ends = session->beside.look = session->index_look = session->index_turn = true;
	session->remote.rows++;
	session->position.command = nullptr;
	MemoryContextSwitchTo(session->message);
	MemoryContextReset(session->message);
}

/* --- what goes wrong
 * ------------------------------------------------------------------------------------------- */

[[noreturn]] void
end_refused(Session *session, const apply::Refused *refused)
{
	apply::abort_local(session);
	pg::at_point("refusal_aborted");
	begin();
	apply::record_refusal(*session->subscription, *refused);
	pg::at_point("refusal_written");
	commit();
	pg::at_point("refusal_recorded");
	set_state(State::Refused);
	close_stream(session);
	end_worker(Leave::Stay);
}

[[noreturn]] void
end_failed(Session *session, ErrorData *error)
{
	const apply::ErrorPosition *position = &session->position;
	Where where = {};

	MemoryContextSwitchTo(session->error);
	if (position->relation != nullptr)
		where.relation = psprintf("%s.%s", position->schema, position->relation);
	where.command = position->command;
	where.key = position->key == nullptr ? nullptr : pstrdup(position->key);
	where.lsn = position->xid == InvalidTransactionId ? InvalidXLogRecPtr : position->lsn;
	where.xid = position->xid;
	apply::abort_local(session);
	pg::at_point("aborted");
	fail_worker(error, &where);
}

/*
 * An ERROR or refusal in a local transaction that holds more than one transaction of the publisher, or one
 * that asks for another kind of stream: the stream begins again where the last commit left it. returns: false
 * when it is a failure
 */
bool
goes_on(Session *session, const ErrorData *error)
{
	/* the current transaction counts as soon as it is complete */
	bool group = session->group.open && session->group.count > (session->remote.active ? 0 : 1);

	if (error != nullptr && error->sqlerrcode == waits_for_copy && may_wait_for_copies(session)) {
		apply::abort_local(session);
		close_stream(session);
		MemoryContextReset(session->error);
		apply::save_waiting_tables(session->subscription->subid);
		session->beside.look = true;
		wait_for_copies(session);
		return true;
	}
	if (error != nullptr && error->sqlerrcode == ERRCODE_UNSAFE_NEW_ENUM_VALUE_USAGE && apply::has_new_labels()) {
		apply::abort_local(session);
		close_stream(session);
		MemoryContextReset(session->error);
		ErrorData *failed = pg::run_protected(
		    [](void *subscription) { apply::commit_new_labels(*static_cast<const catalog::Subscription *>(subscription)); },
		    const_cast<catalog::Subscription *>(session->subscription));
		if (failed != nullptr)
			fail_worker(failed, nullptr);
		return true;
	}
	if (!group && !session->wants_text)
		return false;
	ereport(LOG, (errmsg("subscription \"%s\" begins its stream again: %s", session->subscription->name,
	                     session->wants_text ? "without binary values"
	                                         : "one transaction of the publisher at a time"),
	              error != nullptr ? errdetail_internal("%s", error->message) : 0));
	if (group)
		session->single_until = session->remote.active ? session->remote.final_lsn : session->group.end_lsn;
	if (session->wants_text) {
		session->wants_text = false;
		session->binary = false;
	}
	apply::abort_local(session);
	close_stream(session);
	MemoryContextReset(session->error);
	return true;
}

// ---- end of leaves ----

/* A publisher that is not the one of before: nothing that is tried again will change that, a person must look. */
bool
explain_identity(const Session *session, const ErrorData *error, apply::Refused *refused)
{
	if (!is_identity_lost(error))
		return false;
	*refused = {};
	refused->reason = info(Reason::IdentityLost).name.data();
	refused->object_type = "publisher";
	refused->object_identity = "the publisher";
	refused->changes = pg::call([&] {
		return error->detail == nullptr ? pstrdup(error->message) : psprintf("%s\n%s", error->message, error->detail);
	});
	refused->hint = pg::call([&] {
		const char *name = quote_literal_cstr(session->subscription->name);
		return psprintf("Where the connection leads to the wrong server, mend it: SELECT schemasync_alter_subscription(%s, conninfo => '...');\n"
		                "Then go on: SELECT schemasync_resume(%s);\n"
		                "Otherwise subscribe anew: SELECT schemasync_drop_subscription(%s);",
		                name, name, name);
	});
	refused->boundary.commit_lsn = pg::call([] { return current_progress(); });
	return true;
}

/* Streams until something goes wrong. */
void
stream(Session *session)
{
	pg::call([&] {
		tend_index_builds(session);
		if (!session->has_origin) {
			(void) start_progress(&session->progress, session->context, session->subscription->origin_name);
			session->has_origin = true;
		}
		/* before anything is confirmed: a table that has to catch up holds the confirming back */
		if (session->beside.look)
			(void) tend_beside(session);
		apply::load_prepared(session->subscription->subid);
		MemoryContextSwitchTo(session->message);
		open_stream(session);
	});
	for (;;) {
		pg::call([&] { pump(session); });
		const apply::RemoteTransaction &remote = session->remote;
		apply::Boundary boundary{remote.final_lsn, remote.commit_time, remote.xid, remote.ordinal,
		                         session->catch_up.active ? apply::Pass::CatchUp : apply::Pass::Stream, remote.prepares};
		MemoryContextSwitchTo(session->error);
		bool changed = apply::on_schema_message(*session->subscription, session->schema_prefix,
		                                        session->schema_content, boundary, session);
		pg::call([&] { after_schema(session, changed); });
		MemoryContextSwitchTo(session->error);
	}
}

void
run(Session *session)
{
	for (;;) {
		ErrorData *error = nullptr;
		apply::Refused refused = {};

		MemoryContextSwitchTo(session->error);
		try {
			stream(session);
		} catch (const pg::Error &raised) {
			error = raised.data;
		} catch (const apply::Refused &raised) {
			refused = raised;
		}
		if (error != nullptr)
			pg::call([&] { apply::explain_wait(error); });
		const apply::RemoteTransaction &remote = session->remote;
		const apply::Boundary boundary{remote.final_lsn, remote.commit_time, remote.xid, remote.ordinal,
		                               session->catch_up.active ? apply::Pass::CatchUp : apply::Pass::Stream};
		if (error != nullptr && (apply::explain_unsettled(*session->subscription, boundary, error, &refused) ||
		                         explain_identity(session, error, &refused)))
			error = nullptr;
		pg::call([&] {
			if (goes_on(session, error))
				return;
			if (error != nullptr)
				end_failed(session, error);
			end_refused(session, &refused);
		});
	}
}

} // namespace

} // namespace schemasync::worker

void
schemasync_apply_main(Datum argument)
{
	using namespace schemasync;

	return pg::entry([&] {
		worker::Session *session = nullptr;
		MemoryContext errors = TopMemoryContext;
		MemoryContextSwitchTo(errors);
		try {
			session = pg::call([&] {
				const catalog::Subscription *subscription = worker::begin_worker(argument);
				worker::set_parameters(subscription);
				subscription = worker::bring_up(subscription);
				return worker::make_session(subscription);
			});
		} catch (const pg::Error &raised) {
			ErrorData *error = raised.data;
			pg::call([&] {
				apply::explain_wait(error);
				worker::fail_worker(error, nullptr);
			});
		}
		worker::begin_beside(session);
		session->index_look = true;
		apply::push_error_context(&session->position);
		worker::run(session);
	});
}
