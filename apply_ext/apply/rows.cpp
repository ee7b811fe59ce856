#include "apply_ext/apply/rows.hpp"

#include "apply_ext/apply/batch.hpp"
#include "apply_ext/apply/change.hpp"
#include "apply_ext/apply/conflicts.hpp"
#include "apply_ext/apply/row_reader.hpp"
#include "apply_ext/apply/session.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
}

namespace schemasync::apply {

namespace {

// ---- leaves: may ereport; plain data only ----

/* A slot for a row that waits in the table's buffer. */
TupleTableSlot *
buffer_slot(LocalRelation *local)
{
	if (local->buffered == local->allocated) {
		MemoryContext saved = MemoryContextSwitchTo(local->context);
		local->buffer[local->allocated++] = MakeSingleTupleTableSlot(local->desc, &TTSOpsVirtual);
		MemoryContextSwitchTo(saved);
	}
	return local->buffer[local->buffered];
}

bool
may_buffer(const Session *session, const LocalRelation *local)
{
	return !local->insert_triggers && session->subscription->options.conflicts == catalog::Conflicts::Error;
}

/* The row in the buffer's next slot is there to stay. */
void
keep_buffered(Session *session, LocalRelation *local, bool routed)
{
	LocalRelations *locals = session->relations->locals;

	act_for(locals, local, ACL_INSERT);
	if (local->has_checks || local->has_generated || (local->is_partition && !routed)) {
		need_snapshot(locals);
		complete_row(local, local->buffer[local->buffered], CMD_INSERT, routed);
	}
	local->buffered++;
	locals->buffered++;
	if (local->buffered == max_buffered_rows ||
	    MemoryContextMemAllocated(locals->batch, false) > max_buffered_bytes)
		flush_rows(session);
}

/* Whether a row with an index' values is the row meant: by the key that the table is known by; where it has none, by any. */
bool
identifies(const LocalRelation *local, int index)
{
	for (int i = 0; i < local->info->ri_NumIndices; i++) {
		Form_pg_index form = local->info->ri_IndexRelationDescs[i]->rd_index;
		if (form->indisprimary || form->indisreplident) {
			form = local->info->ri_IndexRelationDescs[index]->rd_index;
			return form->indisprimary || form->indisreplident;
		}
	}
	return true;
}

/*
 * With conflicts = apply_remote or keep_local: settles a row that is there already, and others that have a unique value of this one.
 * returns: whether the insert is dealt with
 */
bool
settle_existing(Session *session, LocalRelation *local, TupleTableSlot *slot)
{
	LocalRelations *locals = session->relations->locals;

	if (session->subscription->options.conflicts == catalog::Conflicts::Error)
		return false;
	for (int i = 0; i < local->info->ri_NumIndices; i++) {
		while (identifies(local, i) && find_unique(locals, local, i, slot, nullptr)) {
			ItemPointerData own = local->found->tts_tid;
			report_conflict(session, local, Conflict::InsertExists, describe_row(local, slot, key_columns(local, i)),
			                describe_row(local, local->found, nullptr), describe_row(local, slot, nullptr));
			if (session->subscription->options.conflicts == catalog::Conflicts::KeepLocal)
				return true;
			(void) settle_unique(session, local, slot, &own);
			act_for(locals, local, ACL_UPDATE);
			if (update_row(locals, local, slot))
				return true;
		}
	}
	return settle_unique(session, local, slot, nullptr);
}

void
insert_at_once(Session *session, LocalRelation *local, TupleTableSlot *slot)
{
	LocalRelations *locals = session->relations->locals;

	if (locals->buffered > 0) {
		/* the row's values may lie where those of the waiting rows do */
		ExecMaterializeSlot(slot);
		flush_rows(session);
	}
	act_for(locals, local, ACL_INSERT);
	if (!settle_existing(session, local, slot)) {
		act_for(locals, local, ACL_INSERT);
		insert_row(locals, local, slot);
	}
}

/* Inserts a row of the layout of a partitioned target. */
void
insert_routed(Session *session, Target *target, TupleTableSlot *slot)
{
	LocalRelations *locals = session->relations->locals;
	Oid leaf = find_partition(locals, target->local, slot);
	View *view = open_view(session, target, leaf, false);
	LocalRelation *local = view->local;

	if (may_buffer(session, local)) {
		convert_row(slot, view->to_root, buffer_slot(local));
		keep_buffered(session, local, true);
	} else {
		convert_row(slot, view->to_root, local->search);
		insert_at_once(session, local, local->search);
	}
}

/* Looks for the search row in every partition. returns: the view that has it, with its row in found */
View *
find_in_partitions(Session *session, Target *target)
{
	LocalRelations *locals = session->relations->locals;
	List *children = find_all_inheritors(target->relid, RowExclusiveLock, nullptr);
	ListCell *cell;

	foreach (cell, children) {
		Oid child = lfirst_oid(cell);
		if (get_rel_relkind(child) != RELKIND_RELATION)
			continue;
		View *view = open_view(session, target, child, true);
		act_for(locals, view->local, ACL_SELECT);
		convert_row(target->local->search, view->to_root, view->local->search);
		if (find_row(locals, view->lookup))
			return view;
	}
	return nullptr;
}

/*
 * Finds the row with the values in the target's search slot. returns: the view of the table that has it, its
 * row in local->found; nullptr: there is none.
 */
View *
find_target_row(Session *session, Target *target)
{
	LocalRelations *locals = session->relations->locals;
	View *view;

	need_snapshot(locals);
	if (target->views == nullptr) {
		view = open_view(session, target, target->relid, true);
		act_for(locals, view->local, ACL_SELECT);
		return find_row(locals, view->lookup) ? view : nullptr;
	}
	if (!target->routes_by_key)
		return find_in_partitions(session, target);
	view = open_view(session, target, find_partition(locals, target->local, target->local->search), true);
	act_for(locals, view->local, ACL_SELECT);
	convert_row(target->local->search, view->to_root, view->local->search);
	return find_row(locals, view->lookup) ? view : nullptr;
}

/*
 * How many rows this transaction has rewritten that it had written itself: the old versions cannot be pruned
 * before it ends, and a row that many publisher transactions update would drag them along. The group ends
 * early then.
 */
void
watch_rewrites(Session *session, const LocalRelation *local)
{
	constexpr int bearable = 20;

	if (session->group.count == 0 || !TTS_IS_BUFFERTUPLE(local->found))
		return;
	HeapTuple tuple = ExecFetchSlotHeapTuple(local->found, false, nullptr);
	if (HeapTupleHeaderGetRawXmin(tuple->t_data) != GetTopTransactionIdIfAny())
		return;
	if (++session->group.rewritten >= bearable)
		session->group.ends = true;
}

/* The changed row: the found one with the values sent. */
void
read_changed_row(Session *session, Target *target, const View *view, Row row)
{
	LocalRelation *local = view->local;
	TupleTableSlot *slot = local->updated;
	Size columns = static_cast<Size>(local->desc->natts);

	slot_getallattrs(local->found);
	ExecClearTuple(slot);
	memcpy(slot->tts_values, local->found->tts_values, columns * sizeof(Datum));
	memcpy(slot->tts_isnull, local->found->tts_isnull, columns * sizeof(bool));
	for (int i = 0; i < target->ncolumns; i++) {
		Column *column = &target->columns[i];
		const protocol::Value &value = row[static_cast<std::size_t>(i)];
		if (column->local == 0 || value.is_unchanged())
			continue;
		int at = (view->from_root == nullptr ? column->local : view->from_root[column->local]) - 1;
		slot->tts_isnull[at] = value.is_null();
		slot->tts_values[at] = value.is_null() ? Datum{0} : read_column(session, target, column, value);
	}
	ExecStoreVirtualTuple(slot);
}

/* With conflicts = keep_local a row that has no place in its new partition stays in the old one. returns: whether that is so, and told */
bool
has_no_place(Session *session, Target *target, View *view)
{
	LocalRelations *locals = session->relations->locals;

	if (session->subscription->options.conflicts != catalog::Conflicts::KeepLocal)
		return false;
	flush_rows(session);
	convert_row(view->local->updated, view->from_root, target->local->updated);
	View *to = open_view(session, target, find_partition(locals, target->local, target->local->updated), false);
	convert_row(target->local->updated, to->to_root, to->local->search);
	return settle_existing(session, to->local, to->local->search);
}

/* A row that leaves its partition. returns: false when somebody else changed it first */
bool
move_row(Session *session, Target *target, View *view)
{
	LocalRelations *locals = session->relations->locals;

	/* the new row's values may lie in the old one's page */
	ExecMaterializeSlot(view->local->updated);
	if (has_no_place(session, target, view))
		return true;
	act_for(locals, view->local, ACL_DELETE);
	if (!delete_row(locals, view->local))
		return false;
	convert_row(view->local->updated, view->from_root, target->local->updated);
	flush_rows(session);
	insert_routed(session, target, target->local->updated);
	flush_rows(session);
	return true;
}

/* settles: other rows that have a unique value of the new one are a conflict, and no error. returns: false when somebody else was quicker */
bool
change_found_row(Session *session, Target *target, View *view, Row row, bool settles)
{
	LocalRelations *locals = session->relations->locals;
	LocalRelation *local = view->local;

	watch_rewrites(session, local);
	read_changed_row(session, target, view, row);
	act_for(locals, local, ACL_UPDATE);
	if (target->views != nullptr && !ExecPartitionCheck(local->info, local->updated, local->estate, false))
		return move_row(session, target, view);
	if (settles) {
		ItemPointerData own = local->found->tts_tid;
		if (settle_unique(session, local, local->updated, &own))
			return true;
		act_for(locals, local, ACL_UPDATE);
	}
	return update_row(locals, local, local->updated);
}

bool
is_complete(Row row)
{
	for (const protocol::Value &value : row) {
		if (value.is_unchanged())
			return false;
	}
	return true;
}

/* The row to be updated is not there. */
void
settle_missing_update(Session *session, Target *target, Row row)
{
	LocalRelation *local = target->local;

	report_conflict(session, local, Conflict::UpdateMissing, describe_row(local, local->search, target->sent),
	                nullptr, nullptr);
	if (session->subscription->options.conflicts != catalog::Conflicts::ApplyRemote || !is_complete(row))
		return;
	read_new_row(session, target, row, local->updated);
	if (target->views != nullptr)
		insert_routed(session, target, local->updated);
	else
		insert_at_once(session, local, local->updated);
}

/* Rows that wait must be there before one of the same table is looked for. */
void
flush_for(Session *session, const Target *target)
{
	if (session->relations->locals->buffered > 0 && (target->views != nullptr || target->local->buffered > 0))
		flush_rows(session);
}

/* Changes of a table without any usable index are found many at a time. */
bool
goes_to_batch(Session *session, Target *target)
{
	if (!target->whole || target->views != nullptr ||
	    session->subscription->options.conflicts != catalog::Conflicts::Error)
		return false;
	View *view = open_view(session, target, target->relid, true);
	return view->lookup->index < 0 && !view->local->update_triggers && !view->local->delete_triggers;
}

} // namespace

void
apply_insert(Session *session, const protocol::Insert &message)
{
	Target *target = open_target(session, message.relation);
	LocalRelations *locals = session->relations->locals;

	if (target == nullptr)
		return;
	check_width(target, message.row);
	flush_batch(session, target);
	if (target->views == nullptr && may_buffer(session, target->local)) {
		MemoryContext saved = MemoryContextSwitchTo(locals->batch);
		read_new_row(session, target, message.row, buffer_slot(target->local));
		keep_buffered(session, target->local, false);
		MemoryContextSwitchTo(saved);
		return;
	}
	MemoryContext saved = MemoryContextSwitchTo(locals->batch);
	read_new_row(session, target, message.row, target->local->search);
	if (target->views != nullptr)
		insert_routed(session, target, target->local->search);
	else
		insert_at_once(session, target->local, target->local->search);
	MemoryContextSwitchTo(saved);
	ResetPerTupleExprContext(target->local->estate);
}

void
apply_update(Session *session, const protocol::Update &message)
{
	Target *target = open_target(session, message.relation);
	LocalRelations *locals = session->relations->locals;
	View *view;

	if (target == nullptr)
		return;
	check_width(target, message.new_row);
	if (message.old_kind != 0)
		check_width(target, message.old_row);
	flush_for(session, target);
	if (message.old_kind == 'O' && goes_to_batch(session, target)) {
		add_to_batch(session, target, message.old_row, message.new_row);
		return;
	}
	flush_batch(session, target);
	MemoryContext saved = MemoryContextSwitchTo(locals->row);
	read_search_row(session, target, message.old_kind != 0 ? message.old_row : message.new_row,
	                target->local->search);
	do {
		view = find_target_row(session, target);
		if (view == nullptr)
			settle_missing_update(session, target, message.new_row);
	} while (view != nullptr && !change_found_row(session, target, view, message.new_row, true));
	if (view != nullptr)
		ExecClearTuple(view->local->found);
	MemoryContextSwitchTo(saved);
	MemoryContextReset(locals->row);
}

const char *
update_by_key(Session *session, const protocol::Insert &message)
{
	Target *target = open_target(session, message.relation);
	LocalRelations *locals = session->relations->locals;
	const char *missing = nullptr;
	View *view;

	if (target == nullptr)
		return nullptr;
	check_width(target, message.row);
	flush_for(session, target);
	MemoryContext saved = MemoryContextSwitchTo(locals->row);
	read_search_row(session, target, message.row, target->local->search);
	do
		view = find_target_row(session, target);
	while (view != nullptr && !change_found_row(session, target, view, message.row, false));
	if (view != nullptr)
		ExecClearTuple(view->local->found);
	MemoryContextSwitchTo(saved);
	if (view == nullptr)
		missing = describe_row(target->local, target->local->search, target->sent);
	MemoryContextReset(locals->row);
	return missing;
}

void
apply_delete(Session *session, const protocol::Delete &message)
{
	Target *target = open_target(session, message.relation);
	LocalRelations *locals = session->relations->locals;

	if (target == nullptr)
		return;
	check_width(target, message.old_row);
	flush_for(session, target);
	if (goes_to_batch(session, target)) {
		add_to_batch(session, target, message.old_row, {});
		return;
	}
	flush_batch(session, target);
	MemoryContext saved = MemoryContextSwitchTo(locals->row);
	read_search_row(session, target, message.old_row, target->local->search);
	for (;;) {
		View *view = find_target_row(session, target);
		if (view == nullptr) {
			report_conflict(session, target->local, Conflict::DeleteMissing,
			                describe_row(target->local, target->local->search, target->sent), nullptr,
			                nullptr);
			break;
		}
		watch_rewrites(session, view->local);
		act_for(locals, view->local, ACL_DELETE);
		if (delete_row(locals, view->local)) {
			ExecClearTuple(view->local->found);
			break;
		}
	}
	MemoryContextSwitchTo(saved);
	MemoryContextReset(locals->row);
}

void
flush_rows(Session *session)
{
	LocalRelations *locals = session->relations->locals;
	ErrorPosition position = session->position;

	flush_batches(session);
	if (locals->buffered == 0)
		return;
	for (LocalRelation *local = locals->open; local != nullptr; local = local->next_open) {
		if (local->buffered == 0)
			continue;
		session->position.command = "INSERT";
		session->position.schema = local->schema;
		session->position.relation = local->name;
		insert_buffered(locals, local);
	}
	session->position = position;
	MemoryContextReset(locals->batch);
}

} // namespace schemasync::apply
