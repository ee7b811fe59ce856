#include "apply_ext/apply/lookup.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
}

namespace schemasync::apply {

namespace {

// ---- leaves: may ereport; plain data only ----

Comparison
make_comparison(Form_pg_attribute attribute)
{
	Comparison comparison = {};
	TypeCacheEntry *type =
	    lookup_type_cache(attribute->atttypid, TYPECACHE_EQ_OPR_FINFO | TYPECACHE_HASH_PROC_FINFO);

	comparison.attnum = attribute->attnum;
	comparison.collation = attribute->attcollation;
	comparison.by_value = attribute->attbyval;
	comparison.length = attribute->attlen;
	/* the type cache lives as long as the process */
	if (OidIsValid(type->eq_opr_finfo.fn_oid)) {
		comparison.equal = &type->eq_opr_finfo;
		if (OidIsValid(type->hash_proc_finfo.fn_oid))
			comparison.hash = &type->hash_proc_finfo;
	}
	return comparison;
}

bool
same_value(const Comparison *comparison, Datum left, Datum right)
{
	if (comparison->equal == nullptr)
		return datum_image_eq(left, right, comparison->by_value, comparison->length);
	return DatumGetBool(FunctionCall2Coll(comparison->equal, comparison->collation, left, right));
}

enum class Fit { None, Narrows, Unique, Key, Identity };

/* How good an index is: the number of leading columns that are sent goes to *prefix. */
Fit
judge_index(Relation index, const Bitmapset *sent, int *prefix)
{
	Form_pg_index form = index->rd_index;
	int keys = IndexRelationGetNumberOfKeyAttributes(index);

	*prefix = 0;
	if (index->rd_rel->relam != BTREE_AM_OID || !form->indisvalid ||
	    !heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr))
		return Fit::None;
	while (*prefix < keys) {
		AttrNumber column = form->indkey.values[*prefix];
		if (column <= 0 || !bms_is_member(column, sent))
			break;
		(*prefix)++;
	}
	if (*prefix == 0)
		return Fit::None;
	if (*prefix < keys || !form->indisunique || !form->indimmediate)
		return Fit::Narrows;
	if (form->indisreplident)
		return Fit::Identity;
	return form->indisprimary ? Fit::Key : Fit::Unique;
}

bool
all_not_null(TupleDesc desc, Relation index)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++) {
		if (!pg::compat::is_not_null(desc, index->rd_index->indkey.values[i] - 1))
			return false;
	}
	return true;
}

void
make_keys(Lookup *lookup, Relation index, int nkeys)
{
	lookup->nkeys = nkeys;
	lookup->keys = static_cast<ScanKeyData *>(palloc0(sizeof(ScanKeyData) * static_cast<Size>(nkeys)));
	lookup->key_columns = static_cast<AttrNumber *>(palloc(sizeof(AttrNumber) * static_cast<Size>(nkeys)));
	for (int i = 0; i < nkeys; i++) {
		AttrNumber column = index->rd_index->indkey.values[i];
		Oid operator_ = get_opfamily_member(index->rd_opfamily[i], index->rd_opcintype[i],
		                                    index->rd_opcintype[i], BTEqualStrategyNumber);
		if (!OidIsValid(operator_))
			elog(ERROR, "missing equality operator in the operator family of index \"%s\"",
			     RelationGetRelationName(index));
		lookup->key_columns[i] = column;
		ScanKeyEntryInitialize(&lookup->keys[i], 0, static_cast<AttrNumber>(i + 1), BTEqualStrategyNumber,
		                       InvalidOid, index->rd_indcollation[i], get_opcode(operator_), 0);
	}
}

void
begin_scan(LocalRelations *relations, Lookup *lookup)
{
	if (lookup->scan != nullptr)
		return;
	InitDirtySnapshot(lookup->dirty);
	MemoryContext saved = MemoryContextSwitchTo(TopTransactionContext);
	lookup->scan = pg::compat::index_beginscan(lookup->local->relation,
	                                           lookup->local->info->ri_IndexRelationDescs[lookup->index],
	                                           &lookup->dirty, lookup->nkeys);
	MemoryContextSwitchTo(saved);
	lookup->next_open = relations->open_lookups;
	relations->open_lookups = lookup;
}

void
set_keys(Lookup *lookup)
{
	TupleTableSlot *search = lookup->local->search;

	for (int i = 0; i < lookup->nkeys; i++) {
		ScanKey key = &lookup->keys[i];
		int column = lookup->key_columns[i] - 1;
		key->sk_argument = search->tts_values[column];
		key->sk_flags = search->tts_isnull[column] ? SK_ISNULL | SK_SEARCHNULL : 0;
	}
}

/* A transaction that is changing the row just seen: waits for its end. returns: whether there was one */
bool
waited_for(const SnapshotData *dirty)
{
	TransactionId other = TransactionIdIsValid(dirty->xmin) ? dirty->xmin : dirty->xmax;

	if (!TransactionIdIsValid(other))
		return false;
	XactLockTableWait(other, nullptr, nullptr, XLTW_None);
	return true;
}

[[noreturn]] void
raise_ambiguous(const LocalRelation *local)
{
	ereport(ERROR, (errcode(ERRCODE_CARDINALITY_VIOLATION),
	                errmsg("several rows of \"%s.%s\" fit the row that the publisher changed", local->schema,
	                       local->name),
	                errdetail("The replica identity that the publisher sends is not unique here."),
	                errhint("Give the publisher's table REPLICA IDENTITY FULL, or this table a unique index "
	                        "on the columns of the "
	                        "publisher's replica identity.")));
}

/* What the scan allocates on its way must live as long as the scan. */
bool
next_of_scan(Lookup *lookup)
{
	MemoryContext saved = MemoryContextSwitchTo(TopTransactionContext);
	bool found = index_getnext_slot(lookup->scan, ForwardScanDirection, lookup->local->found);
	MemoryContextSwitchTo(saved);
	return found;
}

bool
find_by_index(LocalRelations *relations, Lookup *lookup)
{
	LocalRelation *local = lookup->local;

	begin_scan(relations, lookup);
	set_keys(lookup);
	for (;;) {
		bool again = false;

		index_rescan(lookup->scan, lookup->keys, lookup->nkeys, nullptr, 0);
		while (next_of_scan(lookup)) {
			if (!lookup->exact && !same_row(lookup, local->search, local->found))
				continue;
			if (waited_for(&lookup->dirty)) {
				again = true;
				break;
			}
			if (!lookup->ambiguous_is_error)
				return true;

			/* a second one must not be there */
			ItemPointerData first = local->found->tts_tid;
			while (next_of_scan(lookup)) {
				if (same_row(lookup, local->search, local->found))
					raise_ambiguous(local);
			}
			if (!table_tuple_fetch_row_version(local->relation, &first, SnapshotAny, local->found))
				elog(ERROR, "could not fetch the row that was just found");
			return true;
		}
		if (!again)
			return false;
	}
}

bool
find_by_reading(Lookup *lookup)
{
	LocalRelation *local = lookup->local;
	ItemPointerData first;
	bool found = false, again;

	do {
		SnapshotData dirty;
		InitDirtySnapshot(dirty);
		TableScanDesc scan = pg::compat::table_beginscan(local->relation, &dirty);
		again = false;
		while (table_scan_getnextslot(scan, ForwardScanDirection, local->found)) {
			if (!same_row(lookup, local->search, local->found))
				continue;
			if (waited_for(&dirty)) {
				again = true;
				break;
			}
			if (found)
				raise_ambiguous(local);
			found = true;
			first = local->found->tts_tid;
			if (!lookup->ambiguous_is_error)
				break;
		}
		table_endscan(scan);
		if (again)
			found = false;
	} while (again);

	if (!found) {
		ExecClearTuple(local->found);
		return false;
	}
	if (!table_tuple_fetch_row_version(local->relation, &first, SnapshotAny, local->found))
		elog(ERROR, "could not fetch the row that was just found");
	return true;
}

} // namespace

Lookup *
make_lookup(LocalRelation *local, const Bitmapset *sent, bool whole)
{
	Lookup *lookup = static_cast<Lookup *>(palloc0(sizeof(Lookup)));
	Fit best = Fit::None;
	int best_prefix = 0;

	lookup->local = local;
	lookup->generation = local->generation;
	lookup->index = -1;
	for (int i = 0; i < local->info->ri_NumIndices; i++) {
		int prefix;
		Relation index = local->info->ri_IndexRelationDescs[i];
		Fit fit = judge_index(index, sent, &prefix);
		/* rows with NULLs in a unique index are not unique: then it only narrows */
		if (fit >= Fit::Unique && !all_not_null(local->desc, index))
			fit = Fit::Narrows;
		if (fit > best || (fit == best && fit == Fit::Narrows && prefix > best_prefix)) {
			best = fit;
			best_prefix = prefix;
			lookup->index = i;
		}
	}
	if (lookup->index >= 0)
		make_keys(lookup, local->info->ri_IndexRelationDescs[lookup->index], best_prefix);
	lookup->exact = best >= Fit::Unique;
	lookup->ambiguous_is_error = !lookup->exact && !whole;

	lookup->comparisons = static_cast<Comparison *>(
	    palloc(sizeof(Comparison) * static_cast<Size>(Max(bms_num_members(sent), 1))));
	for (int column = -1; (column = bms_next_member(sent, column)) >= 0;)
		lookup->comparisons[lookup->ncomparisons++] = make_comparison(TupleDescAttr(local->desc, column - 1));
	return lookup;
}

bool
find_row(LocalRelations *relations, Lookup *lookup)
{
	return lookup->index >= 0 ? find_by_index(relations, lookup) : find_by_reading(lookup);
}

std::uint32_t
hash_row(const Lookup *lookup, TupleTableSlot *slot)
{
	std::uint32_t hash = 0;

	for (int i = 0; i < lookup->ncomparisons; i++) {
		const Comparison *comparison = &lookup->comparisons[i];
		bool is_null;
		Datum value = slot_getattr(slot, comparison->attnum, &is_null);
		std::uint32_t one = 0;
		if (!is_null && comparison->hash != nullptr)
			one = DatumGetUInt32(FunctionCall1Coll(comparison->hash, comparison->collation, value));
		else if (is_null)
			one = 0x9e3779b9;
		hash = hash_combine(hash, one);
	}
	return hash;
}

bool
same_row(const Lookup *lookup, TupleTableSlot *left, TupleTableSlot *right)
{
	for (int i = 0; i < lookup->ncomparisons; i++) {
		const Comparison *comparison = &lookup->comparisons[i];
		bool left_null, right_null;
		Datum left_value = slot_getattr(left, comparison->attnum, &left_null);
		Datum right_value = slot_getattr(right, comparison->attnum, &right_null);
		if (left_null != right_null)
			return false;
		if (!left_null && !same_value(comparison, left_value, right_value))
			return false;
	}
	return true;
}

void
close_lookups(LocalRelations *relations)
{
	for (Lookup *lookup = relations->open_lookups; lookup != nullptr; lookup = lookup->next_open) {
		index_endscan(lookup->scan);
		lookup->scan = nullptr;
	}
	relations->open_lookups = nullptr;
}

void
forget_lookups(LocalRelations *relations)
{
	for (Lookup *lookup = relations->open_lookups; lookup != nullptr; lookup = lookup->next_open)
		lookup->scan = nullptr;
	relations->open_lookups = nullptr;
}

} // namespace schemasync::apply
