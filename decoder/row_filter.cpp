#include "decoder/row_filter.hpp"

#include <cstring>

extern "C" {
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
}

namespace schemasync::decoder {

// ---- leaves: may ereport; plain data only ----

namespace {

/* The clauses (text of node trees) that were found for one action. */
struct Clauses {
	List *texts;
	bool unfiltered; /* some publication sends every row */
};

bool
publishes(const Publication *publication, FilterAction action)
{
	switch (action) {
	case filter_insert:
		return publication->pubactions.pubinsert;
	case filter_update:
		return publication->pubactions.pubupdate;
	default:
		return publication->pubactions.pubdelete;
	}
}

/* The text of the clause a publication has for relid, or null; a publication of its schema or of all tables
 * has none. */
char *
read_clause(const Publication *publication, Oid relid)
{
	bool is_null = true;
	char *result = nullptr;

	if (publication->alltables ||
	    SearchSysCacheExists2(PUBLICATIONNAMESPACEMAP, ObjectIdGetDatum(get_rel_namespace(relid)),
	                          ObjectIdGetDatum(publication->oid)))
		return nullptr;
	HeapTuple membership =
	    SearchSysCache2(PUBLICATIONRELMAP, ObjectIdGetDatum(relid), ObjectIdGetDatum(publication->oid));
	if (!HeapTupleIsValid(membership))
		return nullptr;
	Datum clause = SysCacheGetAttr(PUBLICATIONRELMAP, membership, Anum_pg_publication_rel_prqual, &is_null);
	if (!is_null)
		result = TextDatumGetCString(clause);
	ReleaseSysCache(membership);
	return result;
}

EState *
make_executor(Relation relation)
{
	EState *executor = CreateExecutorState();
	RangeTblEntry *rte = makeNode(RangeTblEntry);

	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(relation);
	rte->relkind = relation->rd_rel->relkind;
	rte->rellockmode = AccessShareLock;
	pg::compat::init_range_table(executor, rte);
	executor->es_output_cid = GetCurrentCommandId(false);
	return executor;
}

ExprState *
prepare_filter(List *texts, Relation relation, EState *executor)
{
	List *clauses = NIL;
	ListCell *cell;

	foreach (cell, texts) {
		auto *clause = static_cast<Node *>(stringToNode(static_cast<char *>(lfirst(cell))));
		clauses = lappend(clauses, pg::compat::expand_generated_columns(clause, relation));
	}
	return ExecPrepareExpr(make_orclause(clauses), executor);
}

/* NULL does not match. */
bool
matches(ExprState *filter, ExprContext *context, TupleTableSlot *slot)
{
	bool is_null;

	context->ecxt_scantuple = slot;
	Datum result = ExecEvalExprSwitchContext(filter, context, &is_null);
	return !is_null && DatumGetBool(result);
}

/*
 * The new row with the replica identity's TOAST values that the update left alone: those are logged with
 * the old row only.
 *
 * returns: null if there are none
 */
TupleTableSlot *
complete_new_row(TupleTableSlot *old_slot, TupleTableSlot *new_slot)
{
	/* a copy that nobody counts references of: slots over it need no release */
	TupleDesc row_type = new_slot->tts_tupleDescriptor;
	TupleTableSlot *complete = nullptr;

	slot_getallattrs(new_slot);
	slot_getallattrs(old_slot);
	for (int i = 0; i < row_type->natts; i++) {
		if (new_slot->tts_isnull[i] || old_slot->tts_isnull[i] || TupleDescAttr(row_type, i)->attlen != -1)
			continue;
		if (!VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(new_slot->tts_values[i])) ||
		    VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(old_slot->tts_values[i])))
			continue;
		if (complete == nullptr) {
			auto columns = static_cast<std::size_t>(row_type->natts);

			complete = MakeSingleTupleTableSlot(row_type, &TTSOpsVirtual);
			memcpy(complete->tts_values, new_slot->tts_values, columns * sizeof(Datum));
			memcpy(complete->tts_isnull, new_slot->tts_isnull, columns * sizeof(bool));
		}
		complete->tts_values[i] = old_slot->tts_values[i];
	}
	if (complete != nullptr)
		ExecStoreVirtualTuple(complete);
	return complete;
}

FilterAction
filter_action_of(ReorderBufferChangeType action)
{
	switch (action) {
	case REORDER_BUFFER_CHANGE_INSERT:
		return filter_insert;
	case REORDER_BUFFER_CHANGE_UPDATE:
		return filter_update;
	default:
		return filter_delete;
	}
}

} // namespace

void
settle_row_filters(List *through, RelationEntry *entry)
{
	Clauses clauses[filter_actions] = {};
	bool any = false;
	ListCell *cell;

	foreach (cell, through) {
		auto *publication = static_cast<Publication *>(lfirst(cell));
		char *text = read_clause(publication, entry->publish_as);

		for (int i = 0; i < filter_actions; i++) {
			if (!publishes(publication, static_cast<FilterAction>(i)))
				continue;
			if (text == nullptr)
				clauses[i].unfiltered = true;
			else
				clauses[i].texts = lappend(clauses[i].texts, text);
		}
	}
	for (const Clauses &c : clauses)
		any |= c.texts != NIL && !c.unfiltered;
	if (!any)
		return;

	Relation target = RelationIdGetRelation(entry->publish_as);
	MemoryContext caller = MemoryContextSwitchTo(entry->context);
	entry->filter_executor = make_executor(target);
	for (int i = 0; i < filter_actions; i++)
		if (clauses[i].texts != NIL && !clauses[i].unfiltered)
			entry->filters[i] = prepare_filter(clauses[i].texts, target, entry->filter_executor);
	MemoryContextSwitchTo(caller);
	RelationClose(target);
}

bool
passes_row_filter(const RelationEntry *entry, TupleTableSlot *old_slot, TupleTableSlot **new_slot,
                  ReorderBufferChangeType *action)
{
	ExprState *filter = entry->filters[filter_action_of(*action)];

	if (filter == nullptr)
		return true;
	ResetPerTupleExprContext(entry->filter_executor);
	ExprContext *context = GetPerTupleExprContext(entry->filter_executor);

	/* one row only: an insert, a delete, or an update that left the replica identity alone */
	if (*new_slot == nullptr || old_slot == nullptr)
		return matches(filter, context, *new_slot != nullptr ? *new_slot : old_slot);

	TupleTableSlot *complete = complete_new_row(old_slot, *new_slot);
	bool old_matches = matches(filter, context, old_slot);
	bool new_matches = matches(filter, context, complete != nullptr ? complete : *new_slot);

	if (!old_matches && new_matches) {
		*action = REORDER_BUFFER_CHANGE_INSERT;
		if (complete != nullptr)
			*new_slot = complete;
	} else if (old_matches && !new_matches)
		*action = REORDER_BUFFER_CHANGE_DELETE;
	return old_matches || new_matches;
}

} // namespace schemasync::decoder
