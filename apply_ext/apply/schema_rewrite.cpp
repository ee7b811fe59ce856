/*
 * Rewrites: the rows of a rewritten table went by in the stream; which command did it is said by its marker,
 * which comes after them. One that no marker explains (the event triggers were disabled) must not be passed
 * over.
 */
#include "apply_ext/apply/schema_work.hpp"

#include <cstring>
#include <limits>
#include <stdexcept>

#include "apply_ext/apply/schema_sides.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "utils/memutils.h"
}

namespace schemasync::apply {

namespace {

/* The rewrites of the current transaction that no marker has explained so far; in TopMemoryContext. */
struct {
	TransactionId xid;
	int count, size;
	Oid *relations;
} pending;

// ---- leaves: may ereport; plain data only ----

void
remember(TransactionId xid, Oid relation)
{
	if (pending.xid != xid)
		pending.count = 0;
	pending.xid = xid;
	for (int i = 0; i < pending.count; i++)
		if (pending.relations[i] == relation)
			return;
	if (pending.count == pending.size) {
		int size = pending.size == 0 ? 8 : pending.size * 2;
		auto *bigger = static_cast<Oid *>(MemoryContextAlloc(TopMemoryContext, sizeof(Oid) * size));
		if (pending.count > 0)
			memcpy(bigger, pending.relations, sizeof(Oid) * pending.count);
		if (pending.relations != nullptr)
			pfree(pending.relations);
		pending.relations = bigger;
		pending.size = size;
	}
	pending.relations[pending.count++] = relation;
}

} // namespace

void
forget_rewrite(TransactionId xid, Oid relation)
{
	if (pending.xid != xid)
		return;
	for (int i = 0; i < pending.count; i++)
		if (pending.relations[i] == relation)
			pending.relations[i--] = pending.relations[--pending.count];
}

bool
on_rewrite(SchemaWork &step)
{
	auto parsed = state::parse_rewrite_message(step.content);
	if (auto *error = std::get_if<state::ParseError>(&parsed))
		throw std::runtime_error("message schemasync.rewrite of the publisher cannot be read: " +
		                         error->where + ": " + error->what);
	const auto &message = std::get<state::RewriteMessage>(parsed);

	if (!is_before_copy(step, message.relation))
		pg::call([&] { remember(step.boundary.xid, message.relation); });
	return false;
}

void
before_commit(const catalog::Subscription &subscription, const Boundary &boundary)
{
	if (pending.xid != boundary.xid || pending.count == 0)
		return;
	Oid oid = pending.relations[0];
	pending.count = 0;
	SchemaWork step(subscription, boundary, {});
	step.boundary.ordinal = std::numeric_limits<int>::max(); /* after all messages */
	begin_boundary(step);
	Sides sides = load_sides(step, oid, nullptr);
	if (!sides.base)
		return; /* not a relation of this subscription */
	const char *resolution = step.decision != nullptr ? step.decision->resolution : nullptr;
	if (resolution == nullptr) {
		merge::Operation operation =
		    merge::unexplained_rewrite(*sides.base, merge::RewriteHint{.relation = oid});
		step.changes.push_back(operation.change);
		refuse(step, operation, place_of(step, sides, &*sides.base));
	}
	end_boundary(step); /* a person has looked at the rows */
}

} // namespace schemasync::apply
