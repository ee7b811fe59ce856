#include "apply_ext/apply/local_relation.hpp"

#include "apply_ext/apply/lookup.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

namespace schemasync::apply {

namespace {

/* The one set that invalidation callbacks reach: the server has no way to take a callback back. */
LocalRelations *registered = nullptr;

void
invalidate_all()
{
	HASH_SEQ_STATUS scan;
	LocalRelation *local;

	hash_seq_init(&scan, registered->by_oid);
	while ((local = static_cast<LocalRelation *>(hash_seq_search(&scan))) != nullptr)
		local->valid = false;
}

void
on_relation_change(Datum, Oid relid)
{
	if (relid == InvalidOid) {
		invalidate_all();
		return;
	}
	LocalRelation *local =
	    static_cast<LocalRelation *>(hash_search(registered->by_oid, &relid, HASH_FIND, nullptr));
	if (local != nullptr)
		local->valid = false;
}

/* Functions in defaults and checks, and who may act as whom: rare enough to drop everything. */
void
on_catalog_change(Datum, int, std::uint32_t)
{
	invalidate_all();
}

// ---- leaves: may ereport; plain data only ----

bool
fires(const Trigger *trigger)
{
	return trigger->tgenabled == TRIGGER_FIRES_ALWAYS || trigger->tgenabled == TRIGGER_FIRES_ON_REPLICA;
}

void
look_at_triggers(LocalRelation *local)
{
	TriggerDesc *triggers = local->info->ri_TrigDesc;

	local->insert_triggers = local->update_triggers = local->delete_triggers = false;
	for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++) {
		const Trigger *trigger = &triggers->triggers[i];
		if (registered->silent || !fires(trigger) || !TRIGGER_FOR_ROW(trigger->tgtype))
			continue;
		local->insert_triggers |= TRIGGER_FOR_INSERT(trigger->tgtype);
		local->update_triggers |= TRIGGER_FOR_UPDATE(trigger->tgtype);
		local->delete_triggers |= TRIGGER_FOR_DELETE(trigger->tgtype);
	}
	/* nothing would fire: spare each row the look */
	if (!local->insert_triggers && !local->update_triggers && !local->delete_triggers)
		local->info->ri_TrigDesc = nullptr;
}

void
check_kind(Relation relation)
{
	char kind = relation->rd_rel->relkind;

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
		                errmsg("cannot apply rows to \"%s.%s\": it is not a table",
		                       get_namespace_name(RelationGetNamespace(relation)),
		                       RelationGetRelationName(relation))));
}

RangeTblEntry *
range_entry(Relation relation)
{
	RangeTblEntry *entry = makeNode(RangeTblEntry);

	entry->rtekind = RTE_RELATION;
	entry->relid = RelationGetRelid(relation);
	entry->relkind = relation->rd_rel->relkind;
	entry->rellockmode = RowExclusiveLock;
	return entry;
}

void
build(LocalRelations *relations, LocalRelation *local)
{
	Relation relation = local->relation;

	if (local->context == nullptr)
		local->context =
		    AllocSetContextCreate(relations->context, "schemasync local relation", ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(local->context);
	MemoryContext saved = MemoryContextSwitchTo(local->context);

	local->generation = ++relations->generations;
	local->kind = relation->rd_rel->relkind;
	local->owner = relation->rd_rel->relowner;
	local->schema = get_namespace_name(RelationGetNamespace(relation));
	local->name = pstrdup(RelationGetRelationName(relation));
	local->desc = CreateTupleDescCopyConstr(RelationGetDescr(relation));
	local->granted = 0;
	local->granted_to = InvalidOid;
	local->is_partition = relation->rd_rel->relispartition;

	const TupleConstr *constraints = local->desc->constr;
	local->has_checks = constraints != nullptr && (constraints->has_not_null || constraints->num_check > 0);
	local->has_generated = constraints != nullptr && constraints->has_generated_stored;

	Bitmapset *columns = nullptr;
	for (int i = 0; i < local->desc->natts; i++)
		columns = bms_add_member(columns, i + 1 - FirstLowInvalidHeapAttributeNumber);

	local->estate = CreateExecutorState();
	pg::compat::init_single_relation_range(local->estate, range_entry(relation), columns);
	local->info = makeNode(ResultRelInfo);
	InitResultRelInfo(local->info, relation, 1, nullptr, 0);
	local->estate->es_opened_result_relations = list_make1(local->info);
	look_at_triggers(local);
	if (local->kind == RELKIND_RELATION)
		/* ready to look for conflicting rows before an insert */
		ExecOpenIndices(local->info, true);
	int indexes = local->info->ri_NumIndices;
	local->indexes = static_cast<Oid *>(palloc(sizeof(Oid) * static_cast<Size>(Max(indexes, 1))));
	for (int i = 0; i < indexes; i++)
		local->indexes[i] = RelationGetRelid(local->info->ri_IndexRelationDescs[i]);

	local->search = MakeSingleTupleTableSlot(local->desc, &TTSOpsVirtual);
	local->updated = MakeSingleTupleTableSlot(local->desc, &TTSOpsVirtual);
	local->found = local->kind == RELKIND_RELATION
	                   ? MakeSingleTupleTableSlot(local->desc, table_slot_callbacks(relation))
	                   : nullptr;
	local->buffer = static_cast<TupleTableSlot **>(palloc(sizeof(TupleTableSlot *) * max_buffered_rows));
	local->buffered = local->allocated = 0;
	local->built = local->valid = true;
	MemoryContextSwitchTo(saved);
}

/* Takes the references again that the end of the last transaction gave back. */
void
reopen(LocalRelation *local)
{
	local->info->ri_RelationDesc = local->relation;
	for (int i = 0; i < local->info->ri_NumIndices; i++)
		local->info->ri_IndexRelationDescs[i] = index_open(local->indexes[i], RowExclusiveLock);
}

/* Gives the references back. What an access method has cached for its insertions points into them, so that
 * goes too. */
void
close_local(LocalRelation *local)
{
	ResultRelInfo *info = local->info;

	Assert(local->buffered == 0);
	if (local->found != nullptr)
		ExecClearTuple(local->found);
	ExecClearTuple(local->search);
	ExecClearTuple(local->updated);
	if (local->routing != nullptr) {
		ExecCleanupTupleRouting(local->routing_state, local->routing);
		FreeExecutorState(local->routing_estate);
		local->routing = nullptr;
	}
	if (local->estate->es_tupleTable != NIL) {
		/* made for triggers, and they hold on to the relation cache's descriptor */
		ExecResetTupleTable(local->estate->es_tupleTable, false);
		local->valid = false;
	}
	for (int i = 0; i < info->ri_NumIndices; i++) {
		if (info->ri_IndexRelationInfo[i]->ii_AmCache != nullptr) {
			pg::compat::index_insert_cleanup(info->ri_IndexRelationDescs[i], info->ri_IndexRelationInfo[i]);
			info->ri_IndexRelationInfo[i]->ii_AmCache = nullptr;
			local->valid = false; /* its memory is in our context: built anew now and then */
		}
		index_close(info->ri_IndexRelationDescs[i], NoLock);
	}
	table_close(local->relation, NoLock);
	local->open = false;
}

} // namespace

LocalRelations *
make_local_relations(MemoryContext context, bool run_as_owner)
{
	LocalRelations *relations =
	    static_cast<LocalRelations *>(MemoryContextAllocZero(context, sizeof(LocalRelations)));
	HASHCTL control = {};

	relations->context = context;
	relations->as_owner = !run_as_owner;
	relations->worker_user = relations->acting = GetUserId();
	relations->row = AllocSetContextCreate(context, "schemasync row", ALLOCSET_DEFAULT_SIZES);
	relations->batch = AllocSetContextCreate(context, "schemasync rows to insert", ALLOCSET_DEFAULT_SIZES);
	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(LocalRelation);
	control.hcxt = context;
	relations->by_oid =
	    hash_create("schemasync local relations", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	bool first = registered == nullptr;
	registered = relations;
	if (first) {
		CacheRegisterRelcacheCallback(on_relation_change, 0);
		CacheRegisterSyscacheCallback(PROCOID, on_catalog_change, 0);
		CacheRegisterSyscacheCallback(AUTHOID, on_catalog_change, 0);
		CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, on_catalog_change, 0);
	}
	return relations;
}

LocalRelation *
open_local(LocalRelations *relations, Oid relid)
{
	bool found;
	LocalRelation *local =
	    static_cast<LocalRelation *>(hash_search(relations->by_oid, &relid, HASH_ENTER, &found));

	if (!found)
		memset(reinterpret_cast<char *>(local) + sizeof(Oid), 0, sizeof(LocalRelation) - sizeof(Oid));
	if (local->open && local->valid)
		return local;
	if (local->open) {
		/* its definition was touched within our transaction: the list of open relations keeps it */
		close_lookups(relations);
		close_local(local);
		local->relation = table_open(relid, NoLock);
		build(relations, local);
		local->open = true;
		return local;
	}

	local->relation = try_table_open(relid, RowExclusiveLock);
	if (local->relation == nullptr)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
		                errmsg("the local table with OID %u does not exist any more", relid)));
	check_kind(local->relation);
	if (!local->built || !local->valid)
		build(relations, local);
	else
		reopen(local);
	local->open = true;
	local->next_open = relations->open;
	relations->open = local;
	return local;
}

void
close_locals(LocalRelations *relations)
{
	act_as_worker(relations);
	close_lookups(relations);
	for (LocalRelation *local = relations->open; local != nullptr; local = local->next_open)
		close_local(local);
	relations->open = nullptr;
	drop_snapshot(relations);
}

void
forget_locals(LocalRelations *relations)
{
	for (LocalRelation *local = relations->open; local != nullptr; local = local->next_open) {
		local->open = false;
		/* slots may hold pins that the abort has dropped, and the state may be half built */
		local->built = false;
		local->valid = false;
		local->routing = nullptr;
		local->buffered = 0;
	}
	relations->open = nullptr;
	forget_lookups(relations);
	if (relations->silent)
		silence_triggers(relations, false);
	relations->buffered = 0;
	relations->snapshot_pushed = false;
	relations->acting = relations->worker_user;
}

void
act_for(LocalRelations *relations, LocalRelation *local, AclMode mode)
{
	Oid user = relations->as_owner ? local->owner : relations->worker_user;

	if (user != relations->acting) {
		act_as_worker(relations);
		if (user != relations->worker_user) {
			int context;
			if (!pg::compat::member_can_set_role(relations->worker_user, user))
				ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				                errmsg("role \"%s\" cannot SET ROLE to \"%s\"",
				                       GetUserNameFromId(relations->worker_user, false),
				                       GetUserNameFromId(user, false)),
				                errdetail("Rows are applied as the owner of the table \"%s.%s\".",
				                          local->schema, local->name)));
			GetUserIdAndSecContext(&relations->worker_user, &relations->saved_sec_context);
			context = relations->saved_sec_context | SECURITY_LOCAL_USERID_CHANGE;
			/* an owner who could not become the subscription's owner anyway must not get there through a
			 * trigger */
			if (!pg::compat::member_can_set_role(user, relations->worker_user))
				context |= SECURITY_RESTRICTED_OPERATION;
			relations->guc_level = NewGUCNestLevel();
			SetUserIdAndSecContext(user, context);
		}
		relations->acting = user;
	}
	if (local->granted_to == user && (local->granted & mode) == mode)
		return;

	AclResult result = pg_class_aclcheck(local->relid, user, mode);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(local->kind), local->name);
	if (check_enable_rls(local->relid, InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR,
		        (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
		         errmsg("user \"%s\" cannot replicate into relation with row-level security enabled: \"%s\"",
		                GetUserNameFromId(user, true), local->name)));
	local->granted = local->granted_to == user ? local->granted | mode : mode;
	local->granted_to = user;
}

void
act_as_worker(LocalRelations *relations)
{
	if (relations->acting == relations->worker_user)
		return;
	AtEOXact_GUC(false, relations->guc_level);
	SetUserIdAndSecContext(relations->worker_user, relations->saved_sec_context);
	relations->acting = relations->worker_user;
}

void
silence_triggers(LocalRelations *relations, bool silent)
{
	relations->silent = silent;
	/* which triggers there are to fire is found when a relation is built */
	invalidate_all();
}

void
need_snapshot(LocalRelations *relations)
{
	if (relations->snapshot_pushed)
		return;
	PushActiveSnapshot(GetTransactionSnapshot());
	relations->snapshot_pushed = true;
}

void
drop_snapshot(LocalRelations *relations)
{
	if (!relations->snapshot_pushed)
		return;
	PopActiveSnapshot();
	relations->snapshot_pushed = false;
}

Oid
find_partition(LocalRelations *relations, LocalRelation *root, TupleTableSlot *slot)
{
	if (root->routing == nullptr) {
		MemoryContext saved = MemoryContextSwitchTo(CurTransactionContext);
		EState *estate = CreateExecutorState();
		MemoryContextSwitchTo(estate->es_query_cxt);
		pg::compat::init_single_relation_range(estate, range_entry(root->relation), nullptr);
		ResultRelInfo *info = makeNode(ResultRelInfo);
		InitResultRelInfo(info, root->relation, 1, nullptr, 0);
		ModifyTableState *state = makeNode(ModifyTableState);
		state->ps.state = estate;
		state->operation = CMD_INSERT;
		state->resultRelInfo = info;
		root->routing_estate = estate;
		root->routing_info = info;
		root->routing_state = state;
		root->routing = ExecSetupPartitionTupleRouting(estate, root->relation);
		MemoryContextSwitchTo(saved);
	}
	/* the tree's changes reach the routing only when it is made anew */
	ResetPerTupleExprContext(root->routing_estate);
	need_snapshot(relations);
	MemoryContext saved = MemoryContextSwitchTo(relations->row);
	ResultRelInfo *leaf =
	    ExecFindPartition(root->routing_state, root->routing_info, root->routing, slot, root->routing_estate);
	MemoryContextSwitchTo(saved);
	return RelationGetRelid(leaf->ri_RelationDesc);
}

} // namespace schemasync::apply
