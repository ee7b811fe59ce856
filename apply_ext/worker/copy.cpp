/*
 * The subscriber's side of the initial copy. The order of its transactions is what makes it safe to end at any moment:
 *
 *   1. "a slot may be there" is committed, then the slot is made, with the snapshot;
 *   2. all bases, the local tables and the origin's position are committed together: from here on the slot is the subscription's;
 *   3. each table's rows are committed together with its state 'ready';
 *   4. the subscription's state becomes 'ready'.
 *
 * Interrupted before 2, the copy drops the slot and begins again. Interrupted after it, the slot holds the stream for all tables, and
 * those that are still without rows are copied from a new snapshot (see level_table).
 */
#include "apply_ext/apply/schema.hpp"

#include <cstdint>

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/relation.hpp"
#include "apply_ext/worker/copy.hpp"
#include "apply_ext/worker/copy_crew.hpp"
#include "apply_ext/worker/copy_source.hpp"
#include "apply_ext/worker/local.hpp"
#include "apply_ext/worker/shared.hpp"
#include "pg/guard.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "access/xact.h"
#include "catalog/pg_replication_origin.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "replication/origin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

/* How many tables one local transaction makes. */
constexpr int adopted_at_once = 500;

/* A table that the subscription knows. */
struct Known {
	Oid publisher_oid;
	bool needs_rows, resync;
	bool adopted; /* it has a base and a local table */
	bool removed; /* it was given up */
	bool partial; /* it has rows of a copy that was interrupted */
	bool created; /* indexes and constraints still follow its rows */
};

// ---- leaves: may ereport; plain data only ----

/* The tables of this subscription; palloc'd in the current context. */
Known *
load_known(std::int64_t subid, int *count)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	bool isnull = true;
	Internal internal = begin_internal();
	std::uint64_t rows =
		run("SELECT publisher_oid, state IN ('init', 'copying'), resync, relid <> 0, state = 'removed', partial, created"
		    " FROM schemasync.relation WHERE subid = $1 ORDER BY publisher_oid", {as_int8(subid)});
	Known *all = static_cast<Known *>(MemoryContextAllocZero(context, sizeof(Known) * (rows + 1)));
	for (std::uint64_t i = 0; i < rows; i++)
		all[i] = {DatumGetObjectId(result(i, 1, &isnull)), DatumGetBool(result(i, 2, &isnull)), DatumGetBool(result(i, 3, &isnull)),
		          DatumGetBool(result(i, 4, &isnull)), DatumGetBool(result(i, 5, &isnull)),
		          DatumGetBool(result(i, 6, &isnull)), DatumGetBool(result(i, 7, &isnull))};
	end_internal(internal);
	*count = static_cast<int>(rows);
	return all;
}

const Known *
find_known(const Known *all, int count, Oid publisher_oid)
{
	int low = 0, high = count; /* in the order of their oids */

	while (low < high) {
		int middle = (low + high) / 2;
		if (all[middle].publisher_oid == publisher_oid)
			return &all[middle];
		if (all[middle].publisher_oid < publisher_oid)
			low = middle + 1;
		else
			high = middle;
	}
	return nullptr;
}

/*
 * A transaction that was prepared before the snapshot and committed after it comes with the position of its PREPARE, which says nothing of whether
 * its rows are in the copy.
 */
void
save_snapshot(const catalog::Subscription &subscription, const Source &source)
{
	using namespace catalog;

	Rows rows = query(source.sql, "SELECT pg_catalog.pg_current_snapshot()");
	expect(rows, "v", 1);
	Internal internal = begin_internal();
	run("UPDATE schemasync.relation SET sync_snapshot = $2 WHERE subid = $1 AND state IN ('init', 'copying')",
	    {as_int8(subscription.subid), as_text(rows.values[0][0])});
	end_internal(internal);
}

/* The origin stands at the snapshot: what was committed before it is in the copy. */
void
set_origin(const catalog::Subscription &subscription, XLogRecPtr position)
{
	if (XLogRecPtrIsInvalid(position))
		return;
	/* against a concurrent drop, as replorigin_advance wants it */
	LockRelationOid(ReplicationOriginRelationId, RowExclusiveLock);
	replorigin_advance(replorigin_by_name(subscription.origin_name, false), position, InvalidXLogRecPtr, true, true);
	UnlockRelationOid(ReplicationOriginRelationId, RowExclusiveLock);
}

void
save_slot_made(std::int64_t subid)
{
	using namespace catalog;

	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET create_slot = false, copy_begun = false WHERE subid = $1", {as_int8(subid)});
	end_internal(internal);
}

/* The bases of tables that are not known yet, and the tables themselves where the schema is copied: of those from *at on, so many at once. */
void
adopt_some(const catalog::Subscription &subscription, const Source &source, Mode mode, int *at)
{
	const char **states = static_cast<const char **>(palloc(sizeof(char *) * adopted_at_once));
	const char **types = static_cast<const char **>(palloc0(sizeof(char *) * static_cast<Size>(list_length(source.types) + 1)));
	bool *may_miss = static_cast<bool *>(palloc(sizeof(bool) * adopted_at_once));
	int first = *at, count = 0, ntypes = 0;

	for (; *at < source.count && count < adopted_at_once; (*at)++) {
		if (source.tables[*at].wish == Wish::Later)
			apply::follow_later(subscription, source.tables[*at].oid, source.tables[*at].schema, source.tables[*at].name);
		if (source.tables[*at].state == nullptr)
			continue;
		may_miss[count] = source.tables[*at].below;
		states[count++] = source.tables[*at].state;
	}
	if (count == 0)
		return;
	ListCell *cell;
	foreach (cell, source.types)
		types[ntypes++] = static_cast<const char *>(lfirst(cell));
	apply::adopt_states(subscription, types, first == 0 ? ntypes : 0, states, may_miss, count, subscription.copy_schema, source.position,
	                    subscription.copy_data || mode == Mode::Beside ? "init" : "ready");
	for (int i = first; mode != Mode::First && i < *at; i++) {
		if (source.tables[i].state != nullptr)
			catalog::mark_adoption(subscription.subid, source.tables[i].oid);
	}
	for (int i = first; mode == Mode::Beside && i < *at; i++) {
		if (source.tables[i].state != nullptr && source.tables[i].below && !has_rows_of_its_own(source.tables[i]))
			catalog::settle_missing(subscription.subid, source.tables[i].oid);
	}
	for (int i = first; subscription.copy_data && mode != Mode::Beside && i < *at; i++) {
		if (source.tables[i].state != nullptr && !has_rows_of_its_own(source.tables[i]))
			set_table_state(subscription, source.tables[i].oid, "ready", InvalidXLogRecPtr, 0);
	}
}

/*
 * The same for all; in several transactions when they are many, since a local transaction keeps the locks of all tables that it makes. The
 * first one is open. What a table needs for a moment goes with its transaction.
 */
void
adopt_all(const catalog::Subscription &subscription, const Source &source, Mode mode)
{
	MemoryContext context = CurrentMemoryContext;
	int at = 0;

	for (;;) {
		MemoryContextSwitchTo(CurTransactionContext);
		adopt_some(subscription, source, mode, &at);
		MemoryContextSwitchTo(context);
		if (at >= source.count)
			return;
		commit();
		CHECK_FOR_INTERRUPTS();
		begin();
	}
}

bool
has_new_tables(const Source &source)
{
	for (int i = 0; i < source.count; i++) {
		if (source.tables[i].state != nullptr)
			return true;
	}
	return false;
}

/*
 * Sequences of their own and what the option ddl_classes names: they, functions and extensions before the tables that may need them, everything when the rows are there. A refresh
 * does so only after the option was changed; its snapshot is ahead of the stream, which brings what cannot be made yet. Later copies see to what lies on
 * tables that they take in, or that got a ddl_classes of their own, and to what nothing is known of.
 */
void
adopt_objects(const catalog::Subscription &subscription, const Source &source, Mode mode, bool before_tables)
{
	bool all = !subscription.objects_adopted && (mode != Mode::Beside || subscription.refresh);
	apply::Adopted which = {all, nullptr, 0};
	int count = 0;

	if (!all) {
		which.tables = catalog::load_adoptions(subscription.subid, &which.count);
		if (before_tables ? !has_new_tables(source) : which.count == 0)
			return;
	}
	if (before_tables && all) {
		if (subscription.copy_schema) {
			const char **schemas = describe_schemas(source, subscription, &count);
			apply::adopt_schemas(subscription, schemas, count);
		}
		const char **types = describe_types(source, subscription, &count);
		apply::adopt_types(subscription, types, count, subscription.copy_schema);
	}
	const char **texts = describe_objects(source, subscription, &count);
	apply::adopt_definitions(subscription, texts, count, before_tables, source.position,
	                         all && mode != Mode::Beside && !subscription.refreshing, which);
	if (!before_tables && all)
		which.tables = catalog::load_adoptions(subscription.subid, &which.count);
	if (!before_tables)
		catalog::end_adoptions(subscription.subid, which.tables, which.count);
}

int
compare_oids(const void *left, const void *right)
{
	Oid a = *static_cast<const Oid *>(left), b = *static_cast<const Oid *>(right);

	return a == b ? 0 : a < b ? -1 : 1;
}

/* Tables that the publications no longer hold are given up; they are copied anew should they come back. */
void
give_up_unpublished(const catalog::Subscription &subscription, const Source &source, const Known *known, int nknown)
{
	Oid *published = static_cast<Oid *>(palloc(sizeof(Oid) * static_cast<Size>(source.count + 1)));

	for (int i = 0; i < source.count; i++)
		published[i] = source.tables[i].oid;
	qsort(published, static_cast<Size>(source.count), sizeof(Oid), compare_oids);
	for (int i = 0; i < nknown; i++) {
		if (known[i].removed ||
		    bsearch(&known[i].publisher_oid, published, static_cast<Size>(source.count), sizeof(Oid), compare_oids) != nullptr)
			continue;
		if (known[i].adopted)
			set_table_state(subscription, known[i].publisher_oid, "removed", InvalidXLogRecPtr, 0);
		else
			catalog::delete_relation(subscription.subid, known[i].publisher_oid);
	}
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

SlotUse
slot_use(const catalog::Subscription &subscription)
{
	if (subscription.create_slot)
		return SlotUse::Create;
	return subscription.copy_data ? SlotUse::Temporary : SlotUse::None;
}

/* Of which tables a copy asks the states, and which rows it takes. */
struct Choice {
	const Known *known;
	int count;
	bool beside, refresh;
};

/* What the copy beside the stream takes: what waits for its rows; of a refresh, what is not known; and unpublished tables above. */
bool
is_chosen_beside(const SourceTable &table, const Choice *choice, const Known *known)
{
	if (known != nullptr)
		return known->needs_rows || (choice->refresh && known->removed);
	return choice->refresh || (!table.published && !table.below);
}

Wish
choose(const SourceTable &table, const void *argument)
{
	const Choice *choice = static_cast<const Choice *>(argument);
	const Known *known = find_known(choice->known, choice->count, table.oid);

	if (choice->beside && !is_chosen_beside(table, choice, known))
		return Wish::None;
	if (known != nullptr && known->adopted)
		return Wish::Rows;
	return Wish::Adopt;
}

/* Steps 1 and 2. returns: the open source */
Source *
begin_copy(const catalog::Subscription &subscription)
{
	const Choice choice = {nullptr, 0, false, false};
	MemoryContext context = CurrentMemoryContext;

	if (subscription.create_slot && subscription.copy_begun)
		drop_own_slot(subscription);
	if (subscription.create_slot) {
		begin();
		catalog::save_copy_begun(subscription.subid);
		commit();
	}
	MemoryContextSwitchTo(context);
	Source *source = open_source(subscription, slot_use(subscription), choose, &choice);
	pg::at_point("copy_slot_made");
	begin();
	MemoryContextSwitchTo(context);
	adopt_objects(subscription, *source, Mode::First, true);
	set_origin(subscription, source->position);
	save_slot_made(subscription.subid);
	adopt_all(subscription, *source, Mode::First);
	pg::at_point("copy_before_adopted");
	commit();
	pg::at_point("copy_adopted");
	return source;
}

/* Goes on with a copy that was interrupted after step 2, or refreshes: what is new is adopted at the new snapshot. */
Source *
resume_copy(const catalog::Subscription &subscription)
{
	MemoryContext context = CurrentMemoryContext;
	Choice choice = {nullptr, 0, false, false};

	begin();
	MemoryContextSwitchTo(context);
	choice.known = load_known(subscription.subid, &choice.count);
	commit();
	MemoryContextSwitchTo(context);
	Source *source = open_source(subscription, slot_use(subscription), choose, &choice);
	begin();
	MemoryContextSwitchTo(context);
	give_up_unpublished(subscription, *source, choice.known, choice.count);
	if (subscription.objects_adopted)
		adopt_objects(subscription, *source, Mode::Resumed, true);
	adopt_all(subscription, *source, Mode::Resumed);
	if (subscription.options.two_phase)
		save_snapshot(subscription, *source);
	commit();
	return source;
}

bool
is_adopted(std::int64_t subid)
{
	using namespace catalog;

	begin();
	Internal internal = begin_internal();
	bool adopted = run("SELECT FROM schemasync.relation WHERE subid = $1 LIMIT 1", {as_int8(subid)}) > 0;
	end_internal(internal);
	commit();
	return adopted;
}

/* What schemasync_progress measures the copy by. */
void
save_totals(const catalog::Subscription &subscription, const Job *jobs, int count)
{
	using namespace catalog;

	StringInfoData totals;
	initStringInfo(&totals);
	for (int i = 0; i < count; i++)
		appendStringInfo(&totals, "%s[%u," INT64_FORMAT "]", i == 0 ? "[" : ",", jobs[i].table->oid, jobs[i].table->rows);
	appendStringInfoString(&totals, count == 0 ? "[]" : "]");
	begin();
	Internal internal = begin_internal();
	run("UPDATE schemasync.relation r SET total_rows = (t->>1)::pg_catalog.int8, copied_rows = 0 FROM pg_catalog.jsonb_array_elements($2) t"
	    " WHERE r.subid = $1 AND r.publisher_oid = (t->>0)::pg_catalog.oid",
	    {as_int8(subscription.subid), as_json(totals.data)});
	run("UPDATE schemasync.subscription SET copy_begun_at = clock_timestamp() WHERE subid = $1", {as_int8(subscription.subid)});
	end_internal(internal);
	commit();
}

/* Step 3: rows, then what follows them. returns: how many tables are left without rows */
int
copy_pending(const catalog::Subscription &subscription, Source *source, Mode mode, MemoryContext context)
{
	int nknown = 0, count = 0;

	begin();
	MemoryContextSwitchTo(context);
	Known *known = load_known(subscription.subid, &nknown);
	commit();
	MemoryContextSwitchTo(context);
	Job *jobs = static_cast<Job *>(palloc(sizeof(Job) * static_cast<Size>(source->count + 1)));
	if (!XLogRecPtrIsInvalid(source->position))
		measure_tables(source);
	for (int i = 0; i < source->count; i++) {
		const SourceTable &table = source->tables[i];
		const Known *one = find_known(known, nknown, table.oid);
		if (one == nullptr || table.wish == Wish::None || !one->needs_rows || !one->adopted || XLogRecPtrIsInvalid(source->position))
			continue;
		/* a refresh without rows still takes up what is new, from the snapshot on */
		bool with_rows = mode != Mode::Beside || (has_rows_of_its_own(table) && (subscription.refresh_copies || one->resync));
		jobs[count++] = {&table, with_rows, table.wish == Wish::Rows && mode != Mode::First, one->resync, one->partial};
	}
	if (count > 0)
		save_totals(subscription, jobs, count);
	MemoryContextSwitchTo(context);
	CrewResult crew = run_crew(subscription, *source, mode, jobs, count);
	count_applied(crew.rows, 0);
	finish_rest(subscription);
	MemoryContextSwitchTo(context);
	for (int i = 0; i < source->count; i++)
		crew.left += source->tables[i].wish == Wish::Later ? 1 : 0;
	return crew.left;
}

/* Bases and tables of what is new, and the end of what is no longer published. */
void
adopt_beside(const catalog::Subscription &subscription, const Source &source, const Choice &choice)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	begin();
	MemoryContextSwitchTo(context);
	if (subscription.refresh)
		give_up_unpublished(subscription, source, choice.known, choice.count);
	for (int i = 0; subscription.refresh && i < source.count; i++) {
		const Known *one = find_known(choice.known, choice.count, source.tables[i].oid);
		if (one == nullptr || !one->removed)
			continue;
		set_waiting(subscription.subid, one->publisher_oid, "init");
		mark_adoption(subscription.subid, one->publisher_oid);
	}
	adopt_objects(subscription, source, Mode::Beside, true);
	adopt_all(subscription, source, Mode::Beside);
	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET refresh = false, refresh_copy = NULL WHERE subid = $1 AND refresh", {as_int8(subscription.subid)});
	end_internal(internal);
	commit();
	MemoryContextSwitchTo(context);
}

} // namespace

/* "table: why" */
static const char *
last_copy_error(std::int64_t subid, MemoryContext context)
{
	using namespace catalog;

	begin();
	Internal internal = begin_internal();
	bool found = run("SELECT pg_catalog.concat(relation || ': ', message) FROM schemasync.error WHERE subid = $1 AND worker = 'copy' AND resolved_at IS NULL"
	                 " ORDER BY last_seen DESC LIMIT 1",
	                 {as_int8(subid)}) > 0;
	const char *text = found ? result_text(0, 1, context) : nullptr;
	end_internal(internal);
	commit();
	MemoryContextSwitchTo(context);
	return text != nullptr ? text : "why is not known any more";
}

void
finish_rest(const catalog::Subscription &subscription)
{
	MemoryContext context = CurrentMemoryContext;
	int count = 0;

	begin();
	MemoryContextSwitchTo(context);
	Oid *oids = catalog::load_created(subscription.subid, &count);
	commit();
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < count; i++) {
			CHECK_FOR_INTERRUPTS();
			begin();
			if (pass == 0)
				apply::finish_created(subscription, oids[i]);
			else
				apply::finish_foreign_keys(subscription, oids[i]);
			commit();
		}
	MemoryContextSwitchTo(context);
	pfree(oids);
}

void
copy_beside(const catalog::Subscription &subscription)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "schemasync copy", ALLOCSET_DEFAULT_SIZES);
	MemoryContext saved = MemoryContextSwitchTo(context);
	Choice choice = {nullptr, 0, true, subscription.refresh};

	await_former_helpers(subscription.subid);
	begin();
	MemoryContextSwitchTo(context);
	choice.known = load_known(subscription.subid, &choice.count);
	commit();
	MemoryContextSwitchTo(context);
	Source *source = open_source(subscription, SlotUse::Temporary, choose, &choice);
	pg::at_point("beside_snapshot");
	adopt_beside(subscription, *source, choice);
	pg::at_point("beside_adopted");
	(void) copy_pending(subscription, source, Mode::Beside, context);
	begin();
	adopt_objects(subscription, *source, Mode::Beside, false);
	if (subscription.refresh && !subscription.objects_adopted)
		catalog::save_objects_adopted(subscription.subid);
	commit();
	close_source(source);
	MemoryContextSwitchTo(saved);
	MemoryContextDelete(context);
}

void
initial_copy(const catalog::Subscription &subscription)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "schemasync copy", ALLOCSET_DEFAULT_SIZES);
	MemoryContext saved = MemoryContextSwitchTo(context);
	bool resumed = !subscription.create_slot && is_adopted(subscription.subid);

	await_former_helpers(subscription.subid);
	MemoryContextSwitchTo(context);
	Source *source = resumed ? resume_copy(subscription) : begin_copy(subscription);
	int left = copy_pending(subscription, source, resumed ? Mode::Resumed : Mode::First, context);
	/* what is left is copied beside the stream, and does not keep the others waiting */
	if (left > 0 && subscription.options.two_phase)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("%d of the tables of subscription \"%s\" could not be copied; %s", left, subscription.name,
		                       last_copy_error(subscription.subid, context)),
		                errhint("schemasync_errors says why. With two_phase the stream begins when all tables are copied.")));

	begin();
	MemoryContextSwitchTo(context);
	adopt_objects(subscription, *source, resumed ? Mode::Resumed : Mode::First, false);
	commit();
	close_source(source);
	pg::at_point("copy_end");

	begin();
	catalog::save_copied(subscription.subid);
	catalog::resolve_errors(subscription.subid);
	if (left == 0)
		catalog::resolve_copy_errors(subscription.subid);
	commit();
	MemoryContextSwitchTo(saved);
	MemoryContextDelete(context);
}

} // namespace schemasync::worker
