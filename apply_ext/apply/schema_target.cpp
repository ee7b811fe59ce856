/*
 * The local relation that a publisher's rows go to, as far as the stored map still fits the local catalog.
 */
#include "apply_ext/apply/schema.hpp"
#include "apply_ext/apply/carried_rows.hpp"

#include <cstring>

#include "apply_ext/catalog/relation.hpp"

extern "C" {
#include "catalog/namespace.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::apply {

namespace {

// ---- leaves: may ereport; plain data only ----

AttrNumber
paired(const catalog::RelationRow *row, AttrNumber publisher)
{
	for (int i = 0; i < row->npairs; i++)
		if (row->pairs[i].publisher == publisher)
			return row->pairs[i].local;
	return InvalidAttrNumber;
}

bool
is_used(const RelationTarget *target, AttrNumber local)
{
	for (int i = 0; i < target->ncolumns; i++)
		if (target->local_attnums[i] == local)
			return true;
	return false;
}

/* A table that was dropped and made again by hand is found by its name. */
Oid
local_relid(const catalog::RelationRow *row)
{
	if (!OidIsValid(row->relid) || SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row->relid)))
		return row->relid;
	Oid nspid = get_namespace_oid(row->publisher_schema, true);
	return OidIsValid(nspid) ? get_relname_relid(row->publisher_name, nspid) : InvalidOid;
}

bool
is_dropped(Oid relid, AttrNumber attnum)
{
	HeapTuple tuple = SearchSysCacheAttNum(relid, attnum);

	if (!HeapTupleIsValid(tuple))
		return true;
	ReleaseSysCache(tuple);
	return false;
}

/*
 * Finds the local columns. A pair whose local column was dropped by hand goes to a column of the same name,
 * when there is one that no other goes to; else it stays as it was, and counts as gone. Returns whether the
 * stored pairs were stale.
 */
bool
map_columns(const catalog::RelationRow *row, const catalog::BaseColumn *columns, RelationTarget *target)
{
	bool by_name = target->relid != row->relid, stale = by_name;

	for (int i = 0; i < target->ncolumns; i++) {
		AttrNumber local = by_name ? InvalidAttrNumber : paired(row, target->publisher_attnums[i]);
		target->local_attnums[i] = local != InvalidAttrNumber && is_dropped(target->relid, local) ? InvalidAttrNumber : local;
	}
	for (int i = 0; i < target->ncolumns; i++) {
		AttrNumber before = paired(row, target->publisher_attnums[i]);
		if (target->local_attnums[i] != InvalidAttrNumber || (!by_name && before == InvalidAttrNumber))
			continue; /* it has its column, or is kept out on purpose */
		AttrNumber local = get_attnum(target->relid, target->names[i]);
		if (local > 0 && !is_used(target, local)) {
			target->local_attnums[i] = local;
			stale = true;
		} else if (before != InvalidAttrNumber) {
			target->local_attnums[i] = by_name ? InvalidAttrNumber : before;
			/* one that the publisher computes is not sent before 18, and need not be here */
			if (!columns[i].generated)
				target->gone_columns = bms_add_member(target->gone_columns, i);
		}
	}
	/* a table that was made anew without some of its columns is not its like */
	return stale && !(by_name && !bms_is_empty(target->gone_columns));
}

void
store_map(std::int64_t subid, const RelationTarget *target)
{
	auto *pairs = static_cast<catalog::AttributePair *>(
	    palloc(sizeof(catalog::AttributePair) * (target->ncolumns + 1)));
	int count = 0;

	for (int i = 0; i < target->ncolumns; i++)
		if (target->local_attnums[i] != InvalidAttrNumber)
			pairs[count++] = {target->publisher_attnums[i], target->local_attnums[i]};
	catalog::remap_relation(subid, target->publisher_oid, target->relid, pairs, count);
}

/* The target of the rewritten relation, for the rows that come under the transient one's oid. */
RelationTarget *
find_carried_relation(std::int64_t subid, const Carried *carried, Pass pass)
{
	RelationTarget *target = find_relation(subid, carried->published_as, pass);
	const CarryTarget *takes = find_carry_target(carried->published_as);

	if (target == nullptr || takes == nullptr || !takes->by_key)
		return target;
	target->carried = true;
	target->keys = static_cast<bool *>(palloc0(sizeof(bool) * static_cast<Size>(target->ncolumns + 1)));
	for (int i = 0; i < target->ncolumns; i++)
		for (int key = 0; key < takes->nkeys; key++)
			if (target->publisher_attnums[i] == takes->keys[key])
				target->keys[i] = true;
	return target;
}

/* Fills in the columns, of which target has the number. */
void
map_known(std::int64_t subid, const catalog::RelationRow *row, const catalog::BaseColumn *columns, RelationTarget *target)
{
	Size count = static_cast<Size>(target->ncolumns + 1);

	target->publisher_attnums = static_cast<AttrNumber *>(palloc(sizeof(AttrNumber) * count));
	target->local_attnums = static_cast<AttrNumber *>(palloc0(sizeof(AttrNumber) * count));
	target->names = static_cast<const char **>(palloc(sizeof(char *) * count));
	for (int i = 0; i < target->ncolumns; i++) {
		target->publisher_attnums[i] = columns[i].attnum;
		target->names[i] = columns[i].name;
	}
	if (OidIsValid(target->relid) && map_columns(row, columns, target))
		store_map(subid, target);
}

} // namespace

RelationTarget *
find_relation(std::int64_t subid, Oid publisher_oid, Pass pass)
{
	if (const Carried *carried = find_carried(publisher_oid); carried != nullptr)
		return find_carried_relation(subid, carried, pass);
	const catalog::RelationRow *row = catalog::load_relation(subid, publisher_oid);

	if (row == nullptr)
		return nullptr;
	auto *target = static_cast<RelationTarget *>(palloc0(sizeof(RelationTarget)));
	const catalog::BaseColumn *columns = catalog::load_base_columns(subid, publisher_oid, &target->ncolumns);
	target->publisher_oid = publisher_oid;
	target->relid = local_relid(row);
	target->gone = OidIsValid(row->relid) && !OidIsValid(target->relid);
	target->apply_all = strcmp(row->state, "ready") == 0 && XLogRecPtrIsInvalid(row->sync_lsn);
	target->sync_lsn = row->sync_lsn;
	/* its rows come with the copy, or not at all; while the stream is read once more, those of the others came before */
	if (strcmp(row->state, pass == Pass::CatchUp ? "catchup" : "ready") != 0) {
		target->relid = InvalidOid;
		target->gone = false;
	}
	map_known(subid, row, columns, target);
	return target;
}

bool
find_again(std::int64_t subid, Oid publisher_oid)
{
	const catalog::RelationRow *row = catalog::load_relation(subid, publisher_oid);

	if (row == nullptr || !OidIsValid(row->relid))
		return true;
	Oid relid = local_relid(row);
	if (!OidIsValid(relid))
		return false;
	RelationTarget target = {};
	const catalog::BaseColumn *columns = catalog::load_base_columns(subid, publisher_oid, &target.ncolumns);
	target.publisher_oid = publisher_oid;
	target.relid = relid;
	map_known(subid, row, columns, &target);
	return bms_is_empty(target.gone_columns);
}

} // namespace schemasync::apply
