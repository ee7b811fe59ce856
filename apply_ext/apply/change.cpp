#include "apply_ext/apply/change.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
}

namespace schemasync::apply {

namespace {

// ---- leaves: may ereport; plain data only ----

/* Around the executor's own row functions, which fire triggers. */
void
begin_triggers(LocalRelation *local)
{
	local->estate->es_snapshot = GetActiveSnapshot();
	local->estate->es_output_cid = GetCurrentCommandId(true);
	AfterTriggerBeginQuery();
}

void
end_triggers(LocalRelation *local)
{
	AfterTriggerEndQuery(local->estate);
	/* the tables that triggers named; not through the executor, which would close our own's indexes with them
	 * (18) */
	ListCell *cell;
	foreach (cell, local->estate->es_trig_target_relations)
		table_close(static_cast<ResultRelInfo *>(lfirst(cell))->ri_RelationDesc, NoLock);
	local->estate->es_trig_target_relations = NIL;
	ResetPerTupleExprContext(local->estate);
	CommandCounterIncrement();
}

/* Triggers want the row locked before they see it. returns: false when it was changed in the meantime */
bool
lock_row(LocalRelation *local)
{
	TM_FailureData failure;
	TM_Result result =
	    table_tuple_lock(local->relation, &local->found->tts_tid, GetActiveSnapshot(), local->found,
	                     GetCurrentCommandId(false), LockTupleExclusive, LockWaitBlock, 0, &failure);

	if (result != TM_Ok && result != TM_Updated && result != TM_Deleted)
		elog(ERROR, "unexpected table_tuple_lock status: %u", result);
	return result == TM_Ok;
}

bool
update_with_triggers(LocalRelation *local, TupleTableSlot *slot)
{
	EPQState epq;

	/* slot may point into found's page, which locking reads again */
	ExecMaterializeSlot(slot);
	PushActiveSnapshot(GetLatestSnapshot());
	bool locked = lock_row(local);
	PopActiveSnapshot();
	if (!locked)
		return false;
	begin_triggers(local);
	pg::compat::init_plan_qual(&epq, local->estate);
	EvalPlanQualSetSlot(&epq, slot);
	ExecSimpleRelationUpdate(local->info, local->estate, &epq, local->found, slot);
	EvalPlanQualEnd(&epq);
	end_triggers(local);
	return true;
}

bool
delete_with_triggers(LocalRelation *local)
{
	EPQState epq;

	PushActiveSnapshot(GetLatestSnapshot());
	bool locked = lock_row(local);
	PopActiveSnapshot();
	if (!locked)
		return false;
	begin_triggers(local);
	pg::compat::init_plan_qual(&epq, local->estate);
	EvalPlanQualSetSlot(&epq, local->found);
	ExecSimpleRelationDelete(local->info, local->estate, &epq, local->found);
	EvalPlanQualEnd(&epq);
	end_triggers(local);
	return true;
}

/* returns: whether the change is done; false: somebody else was first */
bool
is_done(TM_Result result)
{
	if (result == TM_Updated || result == TM_Deleted)
		return false;
	if (result != TM_Ok)
		elog(ERROR, "unexpected status of a changed row: %u", result);
	return true;
}

} // namespace

void
complete_row(LocalRelation *local, TupleTableSlot *slot, CmdType command, bool routed)
{
	if (local->has_generated)
		ExecComputeStoredGenerated(local->info, local->estate, slot, command);
	if (local->has_checks)
		ExecConstraints(local->info, slot, local->estate);
	if (local->is_partition && !routed)
		ExecPartitionCheck(local->info, slot, local->estate, true);
}

void
insert_row(LocalRelations *relations, LocalRelation *local, TupleTableSlot *slot)
{
	need_snapshot(relations);
	begin_triggers(local);
	ExecSimpleRelationInsert(local->info, local->estate, slot);
	end_triggers(local);
}

void
insert_buffered(LocalRelations *relations, LocalRelation *local)
{
	ResultRelInfo *info = local->info;

	act_for(relations, local, ACL_INSERT);
	need_snapshot(relations);
	MemoryContext saved = MemoryContextSwitchTo(relations->batch);
	table_multi_insert(local->relation, local->buffer, local->buffered, GetCurrentCommandId(true), 0,
	                   nullptr);
	if (info->ri_NumIndices > 0) {
		for (int i = 0; i < local->buffered; i++) {
			/* deferred uniqueness is checked by a trigger, which does not fire for replicated rows */
			pg::compat::insert_index_tuples(info, local->buffer[i], local->estate, false, false);
			ResetPerTupleExprContext(local->estate);
		}
	}
	for (int i = 0; i < local->buffered; i++)
		ExecClearTuple(local->buffer[i]);
	MemoryContextSwitchTo(saved);
	relations->buffered -= local->buffered;
	local->buffered = 0;
	CommandCounterIncrement();
}

bool
update_row(LocalRelations *relations, LocalRelation *local, TupleTableSlot *slot)
{
	TM_FailureData failure;
	LockTupleMode lock_mode;
	pg::compat::IndexUpdate indexes;

	need_snapshot(relations);
	if (local->update_triggers)
		return update_with_triggers(local, slot);
	complete_row(local, slot, CMD_UPDATE, false);
	ItemPointerData tid = local->found->tts_tid;
	if (!is_done(pg::compat::table_tuple_update(local->relation, &tid, slot, GetCurrentCommandId(true),
	                                            &failure, &lock_mode, &indexes)))
		return false;
	if (local->info->ri_NumIndices > 0 && indexes != pg::compat::IndexUpdate::None)
		pg::compat::insert_index_tuples(local->info, slot, local->estate, true,
		                                indexes == pg::compat::IndexUpdate::Summarizing);
	ResetPerTupleExprContext(local->estate);
	CommandCounterIncrement();
	return true;
}

bool
delete_row(LocalRelations *relations, LocalRelation *local)
{
	TM_FailureData failure;

	need_snapshot(relations);
	if (local->delete_triggers)
		return delete_with_triggers(local);
	ItemPointerData tid = local->found->tts_tid;
	if (!is_done(pg::compat::table_tuple_delete(local->relation, &tid, GetCurrentCommandId(true), &failure)))
		return false;
	CommandCounterIncrement();
	return true;
}

char *
describe_row(const LocalRelation *local, TupleTableSlot *slot, const Bitmapset *columns)
{
	constexpr int longest = 64;
	StringInfoData names, values;
	bool first = true;

	initStringInfo(&names);
	initStringInfo(&values);
	for (int i = 0; i < local->desc->natts; i++) {
		Form_pg_attribute attribute = TupleDescAttr(local->desc, i);
		bool is_null;
		if (attribute->attisdropped || (columns != nullptr && !bms_is_member(i + 1, columns)))
			continue;
		Datum value = slot_getattr(slot, i + 1, &is_null);
		appendStringInfo(&names, "%s%s", first ? "" : ", ", NameStr(attribute->attname));
		appendStringInfoString(&values, first ? "" : ", ");
		first = false;
		if (is_null) {
			appendStringInfoString(&values, "null");
			continue;
		}
		Oid output;
		bool varlena;
		getTypeOutputInfo(attribute->atttypid, &output, &varlena);
		char *text = OidOutputFunctionCall(output, value);
		int length = static_cast<int>(strlen(text));
		if (length > longest) {
			appendBinaryStringInfo(&values, text, pg_mbcliplen(text, length, longest));
			appendStringInfoString(&values, "...");
		} else {
			appendBinaryStringInfo(&values, text, length);
		}
	}
	return psprintf("(%s)=(%s)", names.data, values.data);
}

} // namespace schemasync::apply
