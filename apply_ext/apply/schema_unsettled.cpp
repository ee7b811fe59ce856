/*
 * What a transaction of the publisher must have settled by its end, or is refused there.
 *
 * Rewrites: the rows of a rewritten table went by in the stream; which command did it is said by its marker,
 * which comes after them. One that no marker explains (the event triggers were disabled) must not be passed
 * over.
 *
 * Replica identities: a table that lost its own may be about to get another one.
 */
#include "apply_ext/apply/schema_work.hpp"

#include <cstring>
#include <limits>
#include <stdexcept>

#include "apply_ext/apply/schema_carry.hpp"
#include "apply_ext/apply/schema_sides.hpp"

#include "core/sql.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "utils/memutils.h"
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
	const char *message; /* Explanation: content of the message schemasync.rewrite, a JSON object; Identity: the table's name for show */
};

struct {
	TransactionId xid;
	Unsettled *first;
} pending;

/* The numbers of the refusals, after all that messages get: the end of the transaction. */
constexpr int
ordinal_of(Lack lack)
{
	return lack == Lack::Explanation ? std::numeric_limits<int>::max() : std::numeric_limits<int>::max() - 1;
}

// ---- leaves: may ereport; plain data only ----

void
forget(Unsettled **link)
{
	Unsettled *gone = *link;

	*link = gone->next;
	pfree(const_cast<char *>(gone->message));
	pfree(gone);
}

void
forget_all()
{
	while (pending.first != nullptr)
		forget(&pending.first);
}

void
remember(TransactionId xid, Oid relation, Lack lack, const char *content, Size length)
{
	if (pending.xid != xid)
		forget_all();
	pending.xid = xid;
	for (Unsettled *one = pending.first; one != nullptr; one = one->next)
		if (one->relation == relation && one->lack == lack)
			return;
	auto *one = static_cast<Unsettled *>(MemoryContextAlloc(TopMemoryContext, sizeof(Unsettled)));
	auto *copy = static_cast<char *>(MemoryContextAlloc(TopMemoryContext, length + 1));
	memcpy(copy, content, length);
	copy[length] = '\0';
	*one = {pending.first, relation, lack, copy};
	pending.first = one;
}

void
settle_lack(TransactionId xid, Oid relation, Lack lack)
{
	if (pending.xid != xid)
		return;
	for (Unsettled **link = &pending.first; *link != nullptr;)
		if ((*link)->relation == relation && (*link)->lack == lack)
			forget(link);
		else
			link = &(*link)->next;
}

// ---- C++ ----

/* A person has looked at it. */
bool
is_decided(const SchemaWork &work, Lack lack)
{
	const catalog::Decision *decision = pg::call(
	    [&] { return catalog::load_decision(work.subscription.subid, work.boundary.commit_lsn, ordinal_of(lack)); });
	return decision != nullptr && decision->resolution != nullptr;
}

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
		return merge::lost_identity(one.message);
	const state::RewriteMessage message = parse(one.message);
	return merge::unexplained_rewrite(message.state.value, merge::RewriteHint{.relation = message.relation});
}

} // namespace

void
forget_rewrite(TransactionId xid, Oid relation)
{
	settle_lack(xid, relation, Lack::Explanation);
}

bool
on_rewrite(SchemaWork &work)
{
	const state::RewriteMessage message = parse(work.content);
	auto known = [&](Oid oid) {
		return pg::call([&] { return catalog::load_relation(work.subscription.subid, oid); }) != nullptr;
	};
	/* the rows were copied later than this; or they are not applied here */
	bool passed_over = is_decided(work, Lack::Explanation) || is_passed_over(work, message.relation) || !known(message.relation);

	if (message.carried)
		begin_carry(message, !passed_over && known(message.published_as));
	if (!passed_over)
		pg::call([&] {
			remember(work.boundary.xid, message.relation, Lack::Explanation, work.content.data(), work.content.size());
		});
	return false;
}

void
note_identity(const SchemaWork &work, Oid publisher_oid, const state::Relation *theirs, bool lost)
{
	if (!lost) {
		if (theirs == nullptr || merge::has_identity(*theirs))
			settle_lack(work.boundary.xid, publisher_oid, Lack::Identity);
		return;
	}
	/* what a copy catches up with cannot be refused by itself */
	if (work.boundary.pass != Pass::Stream || is_decided(work, Lack::Identity))
		return;
	const std::string table = sql::shown(theirs->name.schema, theirs->name.name);
	pg::call([&] { remember(work.boundary.xid, publisher_oid, Lack::Identity, table.data(), table.size()); });
}

void
forget_unsettled()
{
	forget_all();
}

void
check_settled(TransactionId xid)
{
	if (pending.xid == xid && pending.first != nullptr)
		ereport(ERROR, (errcode(unsettled), errmsg("a transaction of the publisher left something unsettled")));
	forget_all();
}

bool
explain_unsettled(const catalog::Subscription &subscription, const Boundary &boundary, const ErrorData *error,
                  Refused *refused)
{
	if (error->sqlerrcode != unsettled || pending.xid != boundary.xid || pending.first == nullptr)
		return false;
	SchemaWork work(subscription, boundary, pending.first->lack == Lack::Explanation ? pending.first->message : "");
	work.boundary.ordinal = ordinal_of(pending.first->lack);
	const merge::Operation operation = explain(*pending.first);
	/* one decision is on all of the kind: each is told */
	for (const Unsettled *one = pending.first; one != nullptr; one = one->next)
		if (one->lack == pending.first->lack)
			work.changes.push_back(explain(*one).change);
	try {
		Place place;
		place.publisher_oid = pending.first->relation;
		refuse(work, operation, place);
	} catch (const Refused &made) {
		*refused = made;
	}
	pg::call([] { forget_all(); });
	return true;
}

} // namespace schemasync::apply
