/*
 * Scans a system catalog by an oid column through one of its indexes.
 *
 * Zone: bridge; a leaf.
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/stratnum.h"
#include "nodes/pg_list.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
}

namespace schemasync::pg::catalog {

/*
 * Calls f(HeapTuple, TupleDesc) for each row whose leading index columns (attnum1 and, unless 0, attnum2) have these oids.
 * The snapshot is the catalog's, or the historic one while decoding. f must hold plain data only.
 *
 * The rows are gathered before f sees the first: while a streamed or prepared transaction is decoded no scan may be
 * inside another (the inner one's end makes the server refuse the outer one's next row), and f looks things up.
 */
template <typename F>
void
scan_by_oids(Oid catalog, Oid index, AttrNumber attnum1, Oid value1, AttrNumber attnum2, Oid value2, F f)
{
	ScanKeyData keys[2];
	Relation relation = table_open(catalog, AccessShareLock);

	ScanKeyInit(&keys[0], attnum1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(value1));
	if (attnum2 != 0)
		ScanKeyInit(&keys[1], attnum2, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(value2));

	SysScanDesc scan = systable_beginscan(relation, index, true, nullptr, attnum2 != 0 ? 2 : 1, keys);
	List *rows = NIL;
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		rows = lappend(rows, heap_copytuple(tuple));
	systable_endscan(scan);

	ListCell *cell;
	foreach (cell, rows)
		f(static_cast<HeapTuple>(lfirst(cell)), RelationGetDescr(relation));
	list_free_deep(rows);
	table_close(relation, AccessShareLock);
}

template <typename F>
void
scan_by_oid(Oid catalog, Oid index, AttrNumber attnum, Oid value, F f)
{
	scan_by_oids(catalog, index, attnum, value, 0, InvalidOid, f);
}

} // namespace schemasync::pg::catalog
