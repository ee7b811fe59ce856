/*
 * Rewrites: the rows of a rewritten table went by in the stream; which command did it is said by its marker,
 * which comes after them. One that no marker explains (the event triggers were disabled) must not be passed
 * over.
 */
#include "apply_ext/apply/schema_work.hpp"

#include <cstring>
#include <limits>
#include <stdexcept>

#include "apply_ext/apply/schema_carry.hpp"
#include "apply_ext/apply/schema_sides.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "utils/memutils.h"
}

namespace schemasync::apply {

namespace {

/* After all numbers that messages get: the end of the transaction. */
constexpr int last_ordinal = std::numeric_limits<int>::max();

constexpr int unexplained = MAKE_SQLSTATE('S', 'S', '0', '0', '5'); /* rewrite_unproven */

/* One rewrite that no marker has explained so far, in a list in TopMemoryContext. */
struct Rewrite {
	Rewrite *next;
	Oid relation;
	const char *message; /* content of the message, a JSON object */
};

struct {
	TransactionId xid;
	Rewrite *first;
} pending;

// ---- leaves: may ereport; plain data only ----

void
forget(Rewrite **link)
{
	Rewrite *gone = *link;

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
remember(TransactionId xid, Oid relation, const char *content, Size length)
{
	if (pending.xid != xid)
		forget_all();
	pending.xid = xid;
	for (Rewrite *rewrite = pending.first; rewrite != nullptr; rewrite = rewrite->next)
		if (rewrite->relation == relation)
			return;
	auto *rewrite = static_cast<Rewrite *>(MemoryContextAlloc(TopMemoryContext, sizeof(Rewrite)));
	auto *copy = static_cast<char *>(MemoryContextAlloc(TopMemoryContext, length + 1));
	memcpy(copy, content, length);
	copy[length] = '\0';
	*rewrite = {pending.first, relation, copy};
	pending.first = rewrite;
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

} // namespace

void
forget_rewrite(TransactionId xid, Oid relation)
{
	if (pending.xid != xid)
		return;
	for (Rewrite **link = &pending.first; *link != nullptr;)
		if ((*link)->relation == relation)
			forget(link);
		else
			link = &(*link)->next;
}

bool
on_rewrite(SchemaWork &work)
{
	const state::RewriteMessage message = parse(work.content);
	const catalog::Decision *decision = pg::call([&] {
		return catalog::load_decision(work.subscription.subid, work.boundary.commit_lsn, last_ordinal);
	});
	auto known = [&](Oid oid) {
		return pg::call([&] { return catalog::load_relation(work.subscription.subid, oid); }) != nullptr;
	};
	/* a person has looked at the rows; or they were copied later than this; or they are not applied here */
	bool passed_over = (decision != nullptr && decision->resolution != nullptr) ||
	                   is_passed_over(work, message.relation) || !known(message.relation);

	if (message.carried)
		begin_carry(message, !passed_over && known(message.published_as));
	if (!passed_over)
		pg::call([&] { remember(work.boundary.xid, message.relation, work.content.data(), work.content.size()); });
	return false;
}

void
check_rewrites(TransactionId xid)
{
	if (pending.xid == xid && pending.first != nullptr)
		ereport(ERROR, (errcode(unexplained),
		                errmsg("a table was rewritten and no command said why")));
	forget_all();
}

bool
explain_rewrite(const catalog::Subscription &subscription, const Boundary &boundary, const ErrorData *error,
                     Refused *refused)
{
	if (error->sqlerrcode != unexplained || pending.xid != boundary.xid || pending.first == nullptr)
		return false;
	SchemaWork work(subscription, boundary, pending.first->message);
	work.boundary.ordinal = last_ordinal;
	const state::RewriteMessage message = parse(work.content);
	const state::Relation &relation = message.state.value;
	const merge::Operation operation =
	    merge::unexplained_rewrite(relation, merge::RewriteHint{.relation = message.relation});
	work.changes.push_back(operation.change);
	try {
		Place place;
		place.publisher_oid = message.relation;
		refuse(work, operation, place);
	} catch (const Refused &made) {
		*refused = made;
	}
	pg::call([] { forget_all(); });
	return true;
}

} // namespace schemasync::apply
