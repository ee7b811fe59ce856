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
#include "apply_ext/worker/copy_source.hpp"
#include "apply_ext/worker/copy_table.hpp"
#include "apply_ext/worker/local.hpp"
#include "apply_ext/worker/shared.hpp"
#include "pg/guard.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "access/xact.h"
#include "catalog/pg_replication_origin.h"
#include "executor/spi.h"
#include "replication/origin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

/* A table that the subscription knows. */
struct Known {
	Oid publisher_oid;
	bool needs_rows, resync;
	bool adopted; /* it has a base and a local table */
	bool removed; /* it was given up */
};

/* How the copy goes on. */
enum class Mode : unsigned char {
	First,   /* a new subscription */
	Resumed, /* the slot holds the stream for all tables, and it waits */
	Beside,  /* the stream goes on meanwhile */
};

// ---- leaves: may ereport; plain data only ----

void
set_table_state(const catalog::Subscription &subscription, Oid publisher_oid, const char *state, XLogRecPtr sync_lsn,
                std::int64_t rows)
{
	using namespace catalog;

	Internal internal = begin_internal();
	run("UPDATE schemasync.relation SET state = $3, sync_lsn = coalesce($4, sync_lsn), copied_rows = greatest(copied_rows, $5)"
	    " , resync = resync AND $3 <> 'ready' WHERE subid = $1 AND publisher_oid = $2",
	    {as_int8(subscription.subid), as_oid(publisher_oid), as_text(state), as_lsn(sync_lsn), as_int8(rows)});
	end_internal(internal);
}

/* The tables of this subscription; palloc'd in the current context. */
Known *
load_known(std::int64_t subid, int *count)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	bool isnull = true;
	Internal internal = begin_internal();
	std::uint64_t rows =
		run("SELECT publisher_oid, state IN ('init', 'copying'), resync, relid <> 0, state = 'removed'"
		    " FROM schemasync.relation WHERE subid = $1", {as_int8(subid)});
	Known *all = static_cast<Known *>(MemoryContextAllocZero(context, sizeof(Known) * (rows + 1)));
	for (std::uint64_t i = 0; i < rows; i++)
		all[i] = {DatumGetObjectId(result(i, 1, &isnull)), DatumGetBool(result(i, 2, &isnull)), DatumGetBool(result(i, 3, &isnull)),
		          DatumGetBool(result(i, 4, &isnull)), DatumGetBool(result(i, 5, &isnull))};
	end_internal(internal);
	*count = static_cast<int>(rows);
	return all;
}

const Known *
find_known(const Known *all, int count, Oid publisher_oid)
{
	for (int i = 0; i < count; i++) {
		if (all[i].publisher_oid == publisher_oid)
			return &all[i];
	}
	return nullptr;
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

/* Whether a table has rows to copy: ancestors and partitions that travel through others have none of their own. */
bool
has_rows_of_its_own(const SourceTable &table)
{
	return table.published && (table.relkind != 'p' || table.via_root);
}

/* The bases of tables that are not known yet, and the tables themselves where the schema is copied. Returns how many. */
int
adopt_new(const catalog::Subscription &subscription, const Source &source, const Known *known, int nknown, Mode mode)
{
	const SourceTable **tables =
		static_cast<const SourceTable **>(palloc0(sizeof(SourceTable *) * static_cast<Size>(source.count + 1)));
	int count = 0;

	for (int i = 0; i < source.count; i++) {
		const SourceTable &table = source.tables[i];
		const Known *one = find_known(known, nknown, table.oid);
		if (table.wanted && (one == nullptr || !one->adopted) && (!table.below || subscription.copy_schema))
			tables[count++] = &table;
	}
	if (count == 0)
		return 0;
	States states = describe_tables(source, tables, count);
	apply::adopt_states(subscription, states.types, states.ntypes, states.relations, states.nrelations, subscription.copy_schema,
	                    source.position, subscription.copy_data || mode == Mode::Beside ? "init" : "ready");
	for (int i = 0; subscription.copy_data && mode != Mode::Beside && i < count; i++) {
		if (!has_rows_of_its_own(*tables[i]))
			set_table_state(subscription, tables[i]->oid, "ready", InvalidXLogRecPtr, 0);
	}
	return count;
}

/*
 * Sequences of their own and what the option ddl_classes names: they, functions and extensions before the tables that may need them, everything when the rows are there. A refresh
 * does so only after the option was changed; its snapshot is ahead of the stream, which brings what cannot be made yet.
 */
void
adopt_objects(const catalog::Subscription &subscription, const Source &source, bool before_tables)
{
	int count = 0;

	if (subscription.objects_adopted)
		return;
	if (before_tables) {
		const char **types = describe_types(source, subscription, &count);
		apply::adopt_types(subscription, types, count, subscription.copy_schema);
	}
	const char **texts = describe_objects(source, subscription, &count);
	apply::adopt_definitions(subscription, texts, count, before_tables, source.position,
	                         !subscription.refreshing);
}

/* Tables that the publications no longer hold are given up; they are copied anew should they come back. */
void
give_up_unpublished(const catalog::Subscription &subscription, const Source &source, const Known *known, int nknown)
{
	for (int i = 0; i < nknown; i++) {
		bool there = false;
		for (int j = 0; j < source.count && !there; j++)
			there = source.tables[j].oid == known[i].publisher_oid;
		if (there || known[i].removed)
			continue;
		if (known[i].adopted)
			set_table_state(subscription, known[i].publisher_oid, "removed", InvalidXLogRecPtr, 0);
		else
			catalog::delete_relation(subscription.subid, known[i].publisher_oid);
	}
}

/*
 * Brings a table whose copy was interrupted to the shape that it has in the new snapshot, as a change of the stream would. From then on
 * the stream's older states of it are passed over (apply::is_passed_over), and its older rows too.
 */
void
level_table(const catalog::Subscription &subscription, const Source &source, const SourceTable &table, Mode mode, bool emptied)
{
	char *content = describe_table(source, table);
	apply::Refused refused = {};
	bool is_refused = false;

	if (content == nullptr)
		return;
	apply::Pass pass = mode == Mode::Beside ? apply::Pass::Beside : apply::Pass::Copy;
	apply::Boundary boundary = {source.position, GetCurrentTimestamp(), InvalidTransactionId, 0, pass, emptied};
	pg::entry([&] {
		try {
			(void) apply::on_schema_message(subscription, "schemasync.state", content, boundary);
		} catch (const apply::Refused &raised) {
			refused = raised;
			is_refused = true;
		}
	});
	if (is_refused)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("table \"%s.%s\" was altered on the publisher before its copy, and the change is refused: %s",
		                       table.schema, table.name, refused.reason),
		                refused.changes != nullptr ? errdetail_internal("%s", refused.changes) : 0,
		                refused.hint != nullptr ? errhint("%s", refused.hint) : 0));
}

/* The state that was set when the copy began must still be there: else the table was dropped or given up meanwhile. */
void
set_caught(const catalog::Subscription &subscription, const SourceTable &table, XLogRecPtr position, std::int64_t rows)
{
	using namespace catalog;

	Internal internal = begin_internal();
	std::uint64_t found = run("UPDATE schemasync.relation SET state = 'catchup', sync_lsn = $3, copied_rows = greatest(copied_rows, $4),"
	                          " resync = false WHERE subid = $1 AND publisher_oid = $2 AND state = 'copying'",
	                          {as_int8(subscription.subid), as_oid(table.oid), as_lsn(position), as_int8(rows)});
	end_internal(internal);
	if (found == 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("table \"%s.%s\" is not to be copied any more", table.schema, table.name)));
}

/* Step 3 for one table, in a transaction of its own. */
void
copy_table(const catalog::Subscription &subscription, const Source &source, const SourceTable &table, Mode mode, const Known &known)
{
	/* a refresh without rows still takes up what is new, from the snapshot on */
	bool with_rows = mode != Mode::Beside || (has_rows_of_its_own(table) && (subscription.refresh_copies || known.resync));

	begin();
	set_table_state(subscription, table.oid, "copying", InvalidXLogRecPtr, 0);
	commit();
	pg::at_point(mode == Mode::Beside ? "beside_table_begun" : "copy_table_begun");

	begin();
	bool emptied = with_rows && known.resync && empty_target(subscription, table.oid);
	if (emptied)
		pg::at_point("resync_emptied");
	if (mode == Mode::Resumed || (mode == Mode::Beside && known.adopted))
		level_table(subscription, source, table, mode, emptied);
	std::int64_t rows = with_rows ? fill_table(subscription, source, table) : 0;
	pg::at_point(emptied ? "resync_filled" : mode == Mode::Beside ? "beside_rows" : "copy_rows");
	if (mode == Mode::Beside)
		set_caught(subscription, table, source.position, rows);
	else
		set_table_state(subscription, table.oid, "ready", source.position, rows);
	apply::finish_created(subscription, table.oid);
	commit();
	pg::at_point(emptied ? "resync_done" : mode == Mode::Beside ? "beside_table_done" : "copy_table_done");
	count_applied(rows, 0);
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

SlotUse
slot_use(const catalog::Subscription &subscription)
{
	if (subscription.create_slot)
		return SlotUse::Create;
	return subscription.copy_data ? SlotUse::Temporary : SlotUse::None;
}

/* Steps 1 and 2. returns: the open source */
Source *
begin_copy(const catalog::Subscription &subscription)
{
	if (subscription.create_slot && subscription.copy_begun)
		drop_own_slot(subscription);
	if (subscription.create_slot) {
		begin();
		catalog::save_copy_begun(subscription.subid);
		commit();
	}
	Source *source = open_source(subscription, slot_use(subscription));
	pg::at_point("copy_slot_made");
	begin();
	adopt_objects(subscription, *source, true);
	(void) adopt_new(subscription, *source, nullptr, 0, Mode::First);
	set_origin(subscription, source->position);
	save_slot_made(subscription.subid);
	pg::at_point("copy_before_adopted");
	commit();
	pg::at_point("copy_adopted");
	return source;
}

/* Goes on with a copy that was interrupted after step 2, or refreshes: what is new is adopted at the new snapshot. */
Source *
resume_copy(const catalog::Subscription &subscription)
{
	int count = 0;
	Source *source = open_source(subscription, slot_use(subscription));

	begin();
	Known *known = load_known(subscription.subid, &count);
	give_up_unpublished(subscription, *source, known, count);
	(void) adopt_new(subscription, *source, known, count, Mode::Resumed);
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

void
copy_pending(const catalog::Subscription &subscription, const Source &source, Mode mode, MemoryContext context)
{
	int count = 0;

	begin();
	MemoryContextSwitchTo(context);
	Known *known = load_known(subscription.subid, &count);
	commit();
	for (int i = 0; i < source.count; i++) {
		const SourceTable &table = source.tables[i];
		const Known *one = find_known(known, count, table.oid);
		MemoryContextSwitchTo(context);
		if (one == nullptr || !table.wanted)
			continue;
		if (one->needs_rows && one->adopted && !XLogRecPtrIsInvalid(source.position)) {
			copy_table(subscription, source, table, mode, *one);
			continue;
		}
		if (mode == Mode::Beside)
			continue;
		begin();
		apply::finish_created(subscription, table.oid);
		commit();
	}
}

/* What the copy beside the stream takes: what waits for its rows; of a refresh, what is not known; and unpublished tables above. */
struct Choice {
	const Known *known;
	int count;
	bool refresh;
};

bool
is_chosen(const SourceTable &table, const void *argument)
{
	const Choice *choice = static_cast<const Choice *>(argument);
	const Known *one = find_known(choice->known, choice->count, table.oid);

	if (one != nullptr)
		return one->needs_rows || (choice->refresh && one->removed);
	return choice->refresh || (!table.published && !table.below);
}

/* Bases and tables of what is new, and the end of what is no longer published. */
void
adopt_beside(const catalog::Subscription &subscription, const Source &source, const Choice &choice)
{
	using namespace catalog;

	begin();
	if (subscription.refresh)
		give_up_unpublished(subscription, source, choice.known, choice.count);
	for (int i = 0; subscription.refresh && i < source.count; i++) {
		const Known *one = find_known(choice.known, choice.count, source.tables[i].oid);
		if (one != nullptr && one->removed)
			set_waiting(subscription.subid, one->publisher_oid, "init");
	}
	if (subscription.refresh)
		adopt_objects(subscription, source, true);
	(void) adopt_new(subscription, source, choice.known, choice.count, Mode::Beside);
	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET refresh = false, refresh_copy = NULL WHERE subid = $1 AND refresh", {as_int8(subscription.subid)});
	end_internal(internal);
	commit();
}

} // namespace

void
copy_beside(const catalog::Subscription &subscription)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "schemasync copy", ALLOCSET_DEFAULT_SIZES);
	MemoryContext saved = MemoryContextSwitchTo(context);
	Choice choice = {nullptr, 0, subscription.refresh};

	begin();
	MemoryContextSwitchTo(context);
	choice.known = load_known(subscription.subid, &choice.count);
	commit();
	MemoryContextSwitchTo(context);
	Source *source = open_source(subscription, SlotUse::Temporary, is_chosen, &choice);
	pg::at_point("beside_snapshot");
	adopt_beside(subscription, *source, choice);
	pg::at_point("beside_adopted");
	copy_pending(subscription, *source, Mode::Beside, context);
	if (subscription.refresh && !subscription.objects_adopted) {
		begin();
		adopt_objects(subscription, *source, false);
		catalog::save_objects_adopted(subscription.subid);
		commit();
	}
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

	MemoryContextSwitchTo(context);
	Source *source = resumed ? resume_copy(subscription) : begin_copy(subscription);
	copy_pending(subscription, *source, resumed ? Mode::Resumed : Mode::First, context);

	begin();
	adopt_objects(subscription, *source, false);
	commit();
	close_source(source);
	pg::at_point("copy_end");

	begin();
	catalog::save_copied(subscription.subid);
	catalog::resolve_errors(subscription.subid);
	commit();
	MemoryContextSwitchTo(saved);
	MemoryContextDelete(context);
}

} // namespace schemasync::worker
