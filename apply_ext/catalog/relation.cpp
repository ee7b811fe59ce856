#include "apply_ext/catalog/relation.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/results.hpp"

extern "C" {
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
}

namespace schemasync::catalog {

namespace {

// ---- leaves: may ereport; plain data only ----

constexpr char columns_of_row[] =
    "SELECT publisher_oid, publisher_schema, publisher_name, relid, base, attmap, state, sync_lsn, created, options::text"
    "  FROM schemasync.relation WHERE subid = $1";

const AttributePair *
read_pairs(Datum value, int *npairs, MemoryContext context)
{
	Datum *elements;
	int count;

	deconstruct_array(DatumGetArrayTypeP(value), INT2OID, sizeof(int16), true, TYPALIGN_SHORT, &elements,
	                  nullptr, &count);
	auto *pairs =
	    static_cast<AttributePair *>(MemoryContextAlloc(context, sizeof(AttributePair) * (count / 2 + 1)));
	for (int i = 0; i + 1 < count; i += 2)
		pairs[i / 2] = {DatumGetInt16(elements[i]), DatumGetInt16(elements[i + 1])};
	*npairs = count / 2;
	return pairs;
}

Argument
as_pairs(const AttributePair *pairs, int npairs)
{
	auto *elements = static_cast<Datum *>(palloc(sizeof(Datum) * (npairs * 2 + 1)));

	for (int i = 0; i < npairs; i++) {
		elements[2 * i] = Int16GetDatum(pairs[i].publisher);
		elements[2 * i + 1] = Int16GetDatum(pairs[i].local);
	}
	ArrayType *array = construct_array(elements, npairs * 2, INT2OID, sizeof(int16), true, TYPALIGN_SHORT);
	return {INT2ARRAYOID, PointerGetDatum(array), false};
}

void
read_row(std::uint64_t number, RelationRow *row, MemoryContext context)
{
	bool is_null;

	row->publisher_oid = result_oid(number, 1);
	row->publisher_schema = result_text(number, 2, context);
	row->publisher_name = result_text(number, 3, context);
	row->relid = result_oid(number, 4);
	row->base = result_text(number, 5, context);
	row->pairs = read_pairs(result(number, 6, &is_null), &row->npairs, context);
	row->state = result_text(number, 7, context);
	row->sync_lsn = result_lsn(number, 8);
	row->created = result_boolean(number, 9);
	row->options = result_text(number, 10, context);
}

} // namespace

RelationRow *
load_relation(std::int64_t subid, Oid publisher_oid)
{
	MemoryContext caller = CurrentMemoryContext;
	RelationRow *row = nullptr;
	Internal internal = begin_internal();

	char *sql = psprintf("%s AND publisher_oid = $2", columns_of_row);
	if (run(sql, {as_int8(subid), as_oid(publisher_oid)}) > 0) {
		row = static_cast<RelationRow *>(MemoryContextAlloc(caller, sizeof(RelationRow)));
		read_row(0, row, caller);
	}
	end_internal(internal);
	return row;
}

const char *
load_table_options(std::int64_t subid, Oid publisher_oid)
{
	MemoryContext caller = CurrentMemoryContext;
	const char *options = nullptr;
	Internal internal = begin_internal();

	if (run("SELECT options::text FROM schemasync.relation WHERE subid = $1 AND publisher_oid = $2",
	        {as_int8(subid), as_oid(publisher_oid)}) > 0)
		options = result_text(0, 1, caller);
	end_internal(internal);
	return options;
}

RelationRow *
load_relations(std::int64_t subid, int *count)
{
	MemoryContext caller = CurrentMemoryContext;
	Internal internal = begin_internal();

	char *sql = psprintf("%s ORDER BY publisher_oid", columns_of_row);
	std::uint64_t rows = run(sql, {as_int8(subid)});
	auto *result =
	    static_cast<RelationRow *>(MemoryContextAllocHuge(caller, sizeof(RelationRow) * (rows + 1)));
	for (std::uint64_t i = 0; i < rows; i++)
		read_row(i, &result[i], caller);
	*count = static_cast<int>(rows);
	end_internal(internal);
	return result;
}

void
save_relation(std::int64_t subid, const RelationRow *row)
{
	Internal internal = begin_internal();

	run("INSERT INTO schemasync.relation (subid, publisher_oid, publisher_schema, publisher_name, relid, "
	    "base, attmap,"
	    " state, sync_lsn, created, options) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, coalesce((SELECT p.options"
	    "   FROM schemasync.relation p WHERE p.subid = $1 AND $6::json->>'partition_bound' IS NOT NULL"
	    "    AND p.publisher_oid = ($6::json->'parents'->0->>'oid')::oid), '{}'))"
	    " ON CONFLICT (subid, publisher_oid) DO UPDATE SET publisher_schema = excluded.publisher_schema,"
	    " publisher_name = excluded.publisher_name, relid = excluded.relid, base = excluded.base,"
	    " attmap = excluded.attmap",
	    {as_int8(subid), as_oid(row->publisher_oid), as_text(row->publisher_schema),
	     as_text(row->publisher_name), as_oid(row->relid), as_text(row->base),
	     as_pairs(row->pairs, row->npairs), as_text(row->state), as_lsn(row->sync_lsn),
	     as_boolean(row->created)});
	end_internal(internal);
}

void
remap_relation(std::int64_t subid, Oid publisher_oid, Oid relid, const AttributePair *pairs, int npairs)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.relation SET relid = $3, attmap = $4 WHERE subid = $1 AND publisher_oid = $2",
	    {as_int8(subid), as_oid(publisher_oid), as_oid(relid), as_pairs(pairs, npairs)});
	end_internal(internal);
}

void
set_relation_created(std::int64_t subid, Oid publisher_oid, bool created)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.relation SET created = $3 WHERE subid = $1 AND publisher_oid = $2",
	    {as_int8(subid), as_oid(publisher_oid), as_boolean(created)});
	end_internal(internal);
}

void
delete_relation(std::int64_t subid, Oid publisher_oid)
{
	Internal internal = begin_internal();

	run("DELETE FROM schemasync.relation WHERE subid = $1 AND publisher_oid = $2",
	    {as_int8(subid), as_oid(publisher_oid)});
	end_internal(internal);
}

void
set_relation_state(std::int64_t subid, Oid publisher_oid, const char *state)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.relation SET state = $3 WHERE subid = $1 AND publisher_oid = $2",
	    {as_int8(subid), as_oid(publisher_oid), as_text(state)});
	end_internal(internal);
}

void
set_waiting(std::int64_t subid, Oid publisher_oid, const char *state)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.relation SET state = $3, resync = relid <> 0 WHERE subid = $1 AND publisher_oid = $2",
	    {as_int8(subid), as_oid(publisher_oid), as_text(state)});
	end_internal(internal);
}

void
mark_adoption(std::int64_t subid, Oid publisher_oid)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.relation SET adopt = true, adopting = true WHERE subid = $1 AND publisher_oid = $2", {as_int8(subid), as_oid(publisher_oid)});
	end_internal(internal);
}

Oid *
load_adoptions(std::int64_t subid, int *count)
{
	MemoryContext caller = CurrentMemoryContext;
	Internal internal = begin_internal();
	std::uint64_t rows = run("SELECT publisher_oid FROM schemasync.relation WHERE subid = $1 AND adopt AND relid <> 0 AND state <> 'removed'",
	                         {as_int8(subid)});
	auto *oids = static_cast<Oid *>(MemoryContextAlloc(caller, sizeof(Oid) * (rows + 1)));

	for (std::uint64_t i = 0; i < rows; i++)
		oids[i] = result_oid(i, 1);
	*count = static_cast<int>(rows);
	end_internal(internal);
	return oids;
}

void
settle_missing(std::int64_t subid, Oid publisher_oid)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.relation SET state = 'ready' WHERE subid = $1 AND publisher_oid = $2 AND relid = 0 AND state = 'init'",
	    {as_int8(subid), as_oid(publisher_oid)});
	end_internal(internal);
}

void
end_adoptions(std::int64_t subid, const Oid *oids, int count)
{
	Internal internal = begin_internal();

	for (int i = 0; i < count; i++)
		run("UPDATE schemasync.relation SET adopt = false, adopting = false WHERE subid = $1 AND publisher_oid = $2", {as_int8(subid), as_oid(oids[i])});
	end_internal(internal);
}

Oid *
load_created(std::int64_t subid, int *count)
{
	MemoryContext caller = CurrentMemoryContext;
	Internal internal = begin_internal();
	std::uint64_t rows = run("SELECT r.publisher_oid FROM schemasync.relation r LEFT JOIN pg_catalog.pg_class c ON c.oid = r.relid"
	                         " WHERE r.subid = $1 AND r.created AND r.state IN ('ready', 'catchup')"
	                         " ORDER BY c.relispartition, c.relkind <> 'p', r.publisher_oid", {as_int8(subid)});
	auto *oids = static_cast<Oid *>(MemoryContextAlloc(caller, sizeof(Oid) * (rows + 1)));

	for (std::uint64_t i = 0; i < rows; i++)
		oids[i] = result_oid(i, 1);
	*count = static_cast<int>(rows);
	end_internal(internal);
	return oids;
}

bool
is_any_copying(std::int64_t subid)
{
	Internal internal = begin_internal();
	bool any = run_latest("SELECT FROM schemasync.relation WHERE subid = $1 AND state IN ('init', 'copying', 'catchup') LIMIT 1",
	                      {as_int8(subid)}) > 0;

	end_internal(internal);
	return any;
}

bool
schema_is_followed(std::int64_t subid, const char *schema)
{
	Internal internal = begin_internal();
	bool followed =
	    run("SELECT 1 FROM schemasync.relation WHERE subid = $1 AND publisher_schema = $2 LIMIT 1",
	        {as_int8(subid), as_text(schema)}) > 0;

	end_internal(internal);
	return followed;
}

bool
is_target(std::int64_t subid, Oid relid)
{
	Internal internal = begin_internal();
	bool found = run("SELECT 1 FROM schemasync.relation WHERE subid = $1 AND relid = $2 LIMIT 1",
	                 {as_int8(subid), as_oid(relid)}) > 0;

	end_internal(internal);
	return found;
}

BaseColumn *
load_base_columns(std::int64_t subid, Oid publisher_oid, int *count)
{
	MemoryContext caller = CurrentMemoryContext;
	Internal internal = begin_internal();
	std::uint64_t rows =
	    run("SELECT (c->>'attnum')::pg_catalog.int8, c->>'name', coalesce(c->>'generated', '') <> '' FROM schemasync.relation,"
	        " pg_catalog.json_array_elements(base::pg_catalog.json->'columns') WITH ORDINALITY AS l (c, n)"
	        " WHERE subid = $1 AND publisher_oid = $2 ORDER BY n",
	        {as_int8(subid), as_oid(publisher_oid)});
	auto *columns = static_cast<BaseColumn *>(MemoryContextAlloc(caller, sizeof(BaseColumn) * (rows + 1)));

	for (std::uint64_t i = 0; i < rows; i++)
		columns[i] = {static_cast<AttrNumber>(result_int8(i, 1)), result_text(i, 2, caller), result_boolean(i, 3)};
	*count = static_cast<int>(rows);
	end_internal(internal);
	return columns;
}

} // namespace schemasync::catalog
