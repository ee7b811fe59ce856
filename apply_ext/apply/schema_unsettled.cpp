/*
 * What a transaction of the publisher must have settled by its end, or is refused there.
 *
 * Rewrites: the rows of a rewritten table went by in the stream; which command did it is said by its marker,
 * which comes after them. One that no marker explains (the event triggers were disabled) must not be passed
 * over.
 *
 * Replica identities: a table that lost its own may be about to get another one.
 *
 * All that lacks the same is one refusal with one decision, and the decision's SQL runs once, behind the transaction's last change.
 */
#include "apply_ext/apply/schema_work.hpp"

#include <cstring>
#include <limits>
#include <stdexcept>

#include "apply_ext/apply/schema_carry.hpp"
#include "apply_ext/apply/schema_sides.hpp"
#include "apply_ext/catalog/history.hpp"

#include "core/sql.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "utils/memutils.h"
#include "utils/timestamp.h"
}

namespace schemasync::apply {

namespace {

enum class Lack : std::uint8_t { Explanation, Identity };

constexpr int unsettled = MAKE_SQLSTATE('S', 'S', '0', '0', '5'); /* rewrite_unproven; never shown */

/* What one relation lacks so far, in a list in TopMemoryContext. */
struct Unsettled {
	Unsettled *next;
	Oid relation;
	Lack lack;
	char *table;   /* its name for show */
	char *message; /* Explanation: content of the message schemasync.rewrite, a JSON object */
};

struct {
	TransactionId xid;
	Unsettled *first;
	Lack refused;      /* what the transaction could not end with */
	Outcome outcome;   /* of the decision's SQL */
	char *failure;     /* what the server said of it, in TopMemoryContext */
} pending;

/* The numbers of the refusals, after all that messages get: the end of the transaction (schemasync_resync knows the lowest). What a copy
 * catches up with has its own. */
constexpr int
ordinal_of(Lack lack, Pass pass)
{
	return std::numeric_limits<int>::max() - (lack == Lack::Explanation ? 0 : 1) - (pass == Pass::CatchUp ? 2 : 0);
}

// ---- leaves: may ereport; plain data only ----

void
forget(Unsettled **link)
{
	Unsettled *gone = *link;

	*link = gone->next;
	if (gone->message != nullptr)
		pfree(gone->message);
	pfree(gone->table);
	pfree(gone);
}

void
forget_all()
{
	while (pending.first != nullptr)
		forget(&pending.first);
	if (pending.failure != nullptr)
		pfree(pending.failure);
	pending.failure = nullptr;
}

/* content: null, or `length` bytes */
void
remember(TransactionId xid, Oid relation, Lack lack, const char *table, const char *content, Size length)
{
	if (pending.xid != xid)
		forget_all();
	pending.xid = xid;
	for (Unsettled *one = pending.first; one != nullptr; one = one->next)
		if (one->relation == relation && one->lack == lack)
			return;
	auto *one = static_cast<Unsettled *>(MemoryContextAlloc(TopMemoryContext, sizeof(Unsettled)));
	*one = {pending.first, relation, lack, MemoryContextStrdup(TopMemoryContext, table), nullptr};
	pending.first = one;
	if (content == nullptr)
		return;
	one->message = static_cast<char *>(MemoryContextAlloc(TopMemoryContext, length + 1));
	memcpy(one->message, content, length);
	one->message[length] = '\0';
}

const Unsettled *
first_of(Lack lack)
{
	for (const Unsettled *one = pending.first; one != nullptr; one = one->next)
		if (one->lack == lack)
			return one;
	return nullptr;
}

/* Whether there was one. */
bool
settle_lack(TransactionId xid, Oid relation, Lack lack)
{
	bool found = false;

	if (pending.xid != xid)
		return false;
	for (Unsettled **link = &pending.first; *link != nullptr;)
		if ((*link)->relation == relation && (*link)->lack == lack) {
			forget(link);
			found = true;
		} else
			link = &(*link)->next;
	return found;
}

[[noreturn]] void
raise_unsettled(Lack lack)
{
	pending.refused = lack;
	ereport(ERROR, (errcode(unsettled), errmsg("a transaction of the publisher left something unsettled")));
}

void
record_decision(const catalog::Subscription &subscription, const Boundary &boundary, const Unsettled &one, const char *resolution,
                const char *sql, std::int64_t duration)
{
	const catalog::HistoryRow row{.publisher_lsn = boundary.commit_lsn,
	                              .commit_time = boundary.commit_time,
	                              .ordinal = ordinal_of(one.lack, boundary.pass),
	                              .operation = "resolve",
	                              .object_type = "table",
	                              .object_identity = one.table,
	                              .verdict = sql == nullptr ? "ignore" : "forward",
	                              .reason = nullptr,
	                              .applied_sql = sql,
	                              .statement = nullptr,
	                              .publisher_user = nullptr,
	                              .detail = psprintf("resolution: %s", resolution),
	                              .duration = duration};

	(void) catalog::add_history(subscription.subid, subscription.name, &row);
}

/* Runs what a person decided, as apply/schema_work.cpp does for the other boundaries: as the subscription's owner. */
void
run_decision(const catalog::Subscription &subscription, const Boundary &boundary, const Unsettled &one, const char *resolution,
             const char *sql)
{
	const Execution execution{.sql = sql,
	                          .run_as = subscription.owner,
	                          .checked = false,
	                          .restricted = false,
	                          .search_path = "\"$user\", public",
	                          .waits_for = InvalidOid,
	                          .settings = nullptr,
	                          .nsettings = 0,
	                          .lock_timeout = subscription.options.ddl_lock_timeout,
	                          .lock_retries = subscription.options.ddl_lock_retries};
	TimestampTz start = GetCurrentTimestamp();
	Executed executed = execute_ddl(execution);

	if (executed.outcome != Outcome::Done) {
		pending.outcome = executed.outcome;
		pending.failure = MemoryContextStrdup(TopMemoryContext, executed.error->message);
		raise_unsettled(one.lack);
	}
	record_decision(subscription, boundary, one, resolution, sql, GetCurrentTimestamp() - start);
}

/* Goes by what a person decided about all that lacks the same, or raises. Whether SQL was run. */
bool
decide(const catalog::Subscription &subscription, const Boundary &boundary, const Unsettled &one)
{
	const catalog::Decision *decision =
	    catalog::load_decision(subscription.subid, boundary.commit_lsn, ordinal_of(one.lack, boundary.pass));

	/* satisfied: one of the tables was copied afresh, which is no answer for the others */
	if (decision == nullptr || decision->resolution == nullptr || strcmp(decision->resolution, "satisfied") == 0)
		raise_unsettled(one.lack);
	if (strcmp(decision->resolution, "skip") == 0)
		record_decision(subscription, boundary, one, decision->resolution, nullptr, 0);
	if (strcmp(decision->resolution, "execute") != 0)
		return false;
	if (decision->resolution_sql == nullptr)
		raise_unsettled(one.lack);
	run_decision(subscription, boundary, one, decision->resolution, decision->resolution_sql);
	return true;
}

// ---- C++ ----

state::RewriteMessage
parse(std::string_view content)
{
	auto parsed = state::parse_rewrite_message(content);

	if (auto *error = std::get_if<state::ParseError>(&parsed))
		throw std::runtime_error("message schemasync.rewrite of the publisher cannot be read: " +
		                         error->where + ": " + error->what);
	return std::get<state::RewriteMessage>(std::move(parsed));
}

/* The operation that is refused for it. */
merge::Operation
explain(const Unsettled &one)
{
	if (one.lack == Lack::Identity)
		return merge::lost_identity(one.table);
	const state::RewriteMessage message = parse(one.message);
	return merge::unexplained_rewrite(message.state.value, merge::RewriteHint{.relation = message.relation});
}

} // namespace

bool
forget_rewrite(TransactionId xid, Oid relation)
{
	return settle_lack(xid, relation, Lack::Explanation);
}

bool
on_rewrite(SchemaWork &work)
{
	const state::RewriteMessage message = parse(work.content);
	auto known = [&](Oid oid) {
		return pg::call([&] { return catalog::load_relation(work.subscription.subid, oid); }) != nullptr;
	};
	/* the rows were copied later than this; or they are not applied here */
	bool passed_over = is_passed_over(work, message.relation) || !known(message.relation);

	if (message.carried)
		begin_carry(message, !passed_over && known(message.published_as));
	const std::string table = sql::shown(message.state.value.name.schema, message.state.value.name.name);
	if (!passed_over)
		pg::call([&] {
			remember(work.boundary.xid, message.relation, Lack::Explanation, table.c_str(), work.content.data(),
			         work.content.size());
		});
	return false;
}

void
note_identity(const SchemaWork &work, Oid publisher_oid, const state::Relation *theirs, bool lost)
{
	if (theirs == nullptr || merge::has_identity(*theirs))
		return (void)settle_lack(work.boundary.xid, publisher_oid, Lack::Identity);
	/* what a copy catches up with cannot be refused by itself */
	if (!lost || work.boundary.pass != Pass::Stream)
		return;
	const std::string table = sql::shown(theirs->name.schema, theirs->name.name);
	pg::call([&] { remember(work.boundary.xid, publisher_oid, Lack::Identity, table.c_str(), nullptr, 0); });
}

void
forget_unsettled()
{
	forget_all();
}

bool
has_unsettled(TransactionId xid)
{
	return pending.xid == xid && pending.first != nullptr;
}

bool
check_settled(const catalog::Subscription &subscription, const Boundary &boundary)
{
	bool ran = false;

	if (has_unsettled(boundary.xid))
		for (Lack lack : {Lack::Explanation, Lack::Identity})
			if (const Unsettled *one = first_of(lack))
				ran = decide(subscription, boundary, *one) || ran;
	forget_all();
	return ran;
}

bool
explain_unsettled(const catalog::Subscription &subscription, const Boundary &boundary, const ErrorData *error,
                  Refused *refused)
{
	const Unsettled *first = first_of(pending.refused);

	if (error->sqlerrcode != unsettled || pending.xid != boundary.xid || first == nullptr)
		return false;
	SchemaWork work(subscription, boundary, first->message != nullptr ? first->message : "");
	work.boundary.ordinal = ordinal_of(first->lack, boundary.pass);
	merge::Operation operation = explain(*first);
	if (pending.failure != nullptr) {
		operation.reason = pending.outcome == Outcome::LockTimeout ? Reason::LockTimeout : Reason::ApplyFailed;
		operation.detail = std::string("the SQL of the resolution failed: ") + pending.failure;
	}
	/* one decision is on all of the kind: each is told */
	for (const Unsettled *one = pending.first; one != nullptr; one = one->next)
		if (one->lack == first->lack)
			work.changes.push_back(explain(*one).change);
	try {
		Place place;
		place.publisher_oid = first->relation;
		refuse(work, operation, place);
	} catch (const Refused &made) {
		*refused = made;
	}
	pg::call([] { forget_all(); });
	return true;
}

} // namespace schemasync::apply
