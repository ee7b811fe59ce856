#include "apply_ext/apply/schema.hpp"

#include "core/definition.hpp"
#include "core/state_json.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "apply_ext/apply/schema_carry.hpp"
#include "apply_ext/apply/schema_work.hpp"
#include "apply_ext/apply/session.hpp"
#include "apply_ext/apply/sql_fragment.hpp"
#include "apply_ext/apply/sql_reference.hpp"
#include "apply_ext/catalog/notify.hpp"
#include "apply_ext/catalog/relation.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "utils/memutils.h"
}

namespace schemasync::apply {

namespace {

/* Counts the messages of one transaction that had an effect. Plain data: one transaction is applied at a
 * time. */
struct {
	XLogRecPtr commit_lsn;
	TransactionId xid;
	int seen; /* the caller's ordinal of the last message; it starts again when the transaction is tried again
	           */
	int counted;
} current_transaction;

/*
 * The number of a boundary must be the same at each attempt, while the stream repeats a relation's state in
 * each session: only messages that change something count.
 */
int
next_ordinal(const Boundary &boundary, bool counts)
{
	if (current_transaction.commit_lsn != boundary.commit_lsn || current_transaction.xid != boundary.xid ||
	    current_transaction.seen >= boundary.ordinal) {
		current_transaction = {boundary.commit_lsn, boundary.xid, 0, 0};
	}
	current_transaction.seen = boundary.ordinal;
	return counts ? ++current_transaction.counted : current_transaction.counted;
}

template <typename T>
T
parsed(state::Parsed<T> result, std::string_view prefix)
{
	if (auto *error = std::get_if<state::ParseError>(&result))
		pg::call([&] {
			ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
			                errmsg("message %.*s of the publisher cannot be read",
			                       static_cast<int>(prefix.size()), prefix.data()),
			                errdetail("%s: %s", error->where.c_str(), error->what.c_str())));
		});
	return std::get<T>(std::move(result));
}

bool
on_state(SchemaWork &work)
{
	auto message = parsed(state::parse_state_message(work.content), "schemasync.state");
	bool current = is_current(work, message.relation.value);

	for (const auto &type : message.types)
		current = current && is_current(work, type.value);
	if (current) {
		next_ordinal(work.boundary, false);
		return false;
	}
	check_fragments(message.relation.value, work.unknown_syntax);
	for (auto &type : message.types)
		check_fragments(type.value, work.unknown_syntax);
	begin_boundary(work);
	for (const auto &type : message.types)
		apply_type(work, type);
	apply_relation(work, message.relation);
	end_boundary(work);
	return work.changed;
}

/*
 * Does the parts of a message in order. One that fails because of another of them (a foreign key still points
 * to what is dropped, a table to refer to is not there yet) is tried again after the rest, as long as that
 * helps.
 */
void
do_all(SchemaWork &work, std::vector<std::function<bool()>> parts)
{
	work.may_defer = parts.size() > 1;
	while (!parts.empty()) {
		std::vector<std::function<bool()>> later;
		for (auto &part : parts)
			if (!part())
				later.push_back(std::move(part));
		work.may_defer = later.size() < parts.size();
		parts = std::move(later);
	}
	work.may_defer = false;
}

void
check_message(state::DdlMessage &message, UnknownSyntax &unknown)
{
	for (auto &relation : message.relations)
		check_fragments(relation.value, unknown);
	for (auto &type : message.types)
		check_fragments(type.value, unknown);
	for (const auto &definition : message.definitions)
		check_fragments(definition.value, unknown);
	for (merge::UsingHint &hint : message.command.using_hints)
		if (hint.expr && check_expression(unknown, "a USING clause", hint.expr->sql))
			check_references("a USING clause", *hint.expr);
}

bool
on_ddl(SchemaWork &work)
{
	auto message = parsed(state::parse_ddl_message(work.content), "schemasync.ddl");

	check_message(message, work.unknown_syntax);
	begin_boundary(work);
	work.command = std::move(message.command);
	work.relations = &message.relations;
	work.republished.insert(message.republished.begin(), message.republished.end());
	/* what became of a table is decided with its state; one that is not told of stays unexplained */
	for (const auto &relation : message.relations) {
		/* what the message counts may be less than what went by, but never none of it: "empty" would be a proof */
		if (forget_rewrite(work.boundary.xid, relation.value.name.oid))
			for (merge::RewriteHint &hint : work.command.rewrites)
				if (hint.relation == relation.value.name.oid)
					hint.rows = std::max<std::int64_t>(hint.rows, 1);
		note_identity(work, relation.value.name.oid, &relation.value, false);
	}
	std::vector<std::function<bool()>> parts;
	const bool whole = work.boundary.pass == Pass::Stream;
	if (whole)
		for (const auto &schema : message.schemas)
			parts.emplace_back([&] { return apply_schema(work, schema); });
	if (whole)
		for (const auto &type : message.types)
			parts.emplace_back([&] { return apply_type(work, type); });
	apply_membership(work, message);
	/* views and what else a cascade reached go before what they stand on */
	for (const merge::DroppedObject &dropped : work.command.dropped)
		if (whole && dropped.subid == 0 && merge::may_be_of_class(dropped))
			parts.emplace_back([&work, &dropped] { return apply_dropped_definition(work, dropped); });
	for (const auto &relation : message.relations)
		parts.emplace_back([&] { return apply_relation(work, relation); });
	for (const merge::DroppedObject &dropped : work.command.dropped) {
		if (dropped.class_name == "pg_class" && dropped.subid == 0) {
			if (whole || !is_passed_over(work, dropped.oid))
				parts.emplace_back([&work, oid = dropped.oid] { return apply_dropped_relation(work, oid); });
		} else if (!whole)
			continue;
		else if (dropped.class_name == "pg_type")
			parts.emplace_back([&work, oid = dropped.oid] { return apply_dropped_type(work, oid); });
		else if (dropped.class_name == "pg_namespace") {
			/* asked before the tables in it are dropped and forgotten */
			bool followed = pg::call(
			    [&] { return catalog::schema_is_followed(work.subscription.subid, dropped.name.c_str()); });
			parts.emplace_back(
			    [&work, &dropped, followed] { return apply_dropped_schema(work, dropped, followed); });
		}
	}
	for (const auto &definition : message.definitions)
		if (whole)
			parts.emplace_back([&] { return apply_definition(work, definition); });
	do_all(work, std::move(parts));
	finish_carry(work);
	if (whole)
		record_ignored(work);
	end_boundary(work);
	return work.changed;
}

// ---- leaves: may ereport; plain data only ----

void
close_leaf(const catalog::Subscription &subscription, std::int64_t refusal_id)
{
	catalog::close_refusal(refusal_id);
	catalog::notify("resolved", subscription.name, {{"refusal_id", psprintf(INT64_FORMAT, refusal_id)}});
}

} // namespace

void
begin_boundary(SchemaWork &work)
{
	/* the stream may have been refused at the same place before: the second reading has numbers of its own */
	constexpr int catch_up_ordinals = 1000000;
	work.boundary.ordinal =
	    next_ordinal(work.boundary, true) + (work.boundary.pass == Pass::CatchUp ? catch_up_ordinals : 0);
	work.decision = pg::call([&] {
		return catalog::load_decision(work.subscription.subid, work.boundary.commit_lsn,
		                              work.boundary.ordinal);
	});
}

void
end_boundary(const SchemaWork &work)
{
	if (work.decision != nullptr && (work.decision->open || work.decision->resolution == nullptr))
		pg::call([&] { close_leaf(work.subscription, work.decision->refusal_id); });
}

/*
 * What the work leaves behind is given back at its end. An error keeps the context: what is thrown lies in
 * it, and it is a child of the caller's.
 */
bool
on_schema_message(const catalog::Subscription &subscription, std::string_view prefix, std::string_view content,
                  const Boundary &boundary, Session *session)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = pg::call([] {
		return AllocSetContextCreate(CurrentMemoryContext, "schemasync schema message",
		                             ALLOCSET_DEFAULT_SIZES);
	});
	bool changed = false;

	MemoryContextSwitchTo(context);
	{
		SchemaWork work(subscription, boundary, content);
		work.session = session;
		if (prefix == "schemasync.state")
			changed = on_state(work);
		else if (prefix == "schemasync.ddl")
			changed = on_ddl(work);
		else if (prefix == "schemasync.rewrite")
			changed = on_rewrite(work);
		/* else a prefix of a later version: what must be understood is announced by the states' version */
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	return changed;
}

} // namespace schemasync::apply
