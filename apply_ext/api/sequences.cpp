/*
 * schemasync_sync_sequences: sequences to the publisher's values, for the moment when the subscriber becomes the one that is written to.
 * The stream carries no sequence values.
 */
#include "apply_ext/api/target.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/worker/control.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "executor/spi.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(schemasync_sync_sequences);
}

SCHEMASYNC_EXPORT Datum schemasync_sync_sequences(PG_FUNCTION_ARGS);

namespace schemasync::api {

namespace {

/* Values that the publisher may still hand out between the asking and the end of its writes. */
constexpr int margin = 1000;

// ---- leaves: may ereport; plain data only ----

/* The publisher's relations of the subscription as '{1,2,...}'. */
char *
relation_oids(std::int64_t subid)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	Internal internal = begin_internal();
	run("SELECT coalesce(array_agg(publisher_oid), '{}')::text FROM schemasync.relation WHERE subid = $1", {as_int8(subid)});
	char *oids = result_text(0, 1, context);
	end_internal(internal);
	return oids;
}

/*
 * Those that belong to columns of the subscription's tables, and those that belong to nothing in the schemas of these tables.
 * One that was never called has no value to hand over.
 */
worker::Rows
publisher_sequences(worker::Publisher *publisher, const char *oids)
{
	const char *parameters[] = {oids};

	return worker::query(
		publisher,
		"SELECT n.nspname, c.relname, pg_catalog.pg_sequence_last_value(q.seqrelid), q.seqincrement, d.refobjid, d.refobjsubid"
		" FROM pg_catalog.pg_sequence q JOIN pg_catalog.pg_class c ON c.oid = q.seqrelid"
		" JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
		" LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid"
		"  AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.deptype IN ('a', 'i')"
		" WHERE pg_catalog.pg_sequence_last_value(q.seqrelid) IS NOT NULL AND (d.refobjid = ANY ($1::pg_catalog.oid[])"
		"  OR (d.refobjid IS NULL AND c.relnamespace IN (SELECT relnamespace FROM pg_catalog.pg_class"
		"   WHERE oid = ANY ($1::pg_catalog.oid[]))))"
		" ORDER BY 1, 2",
		1, parameters);
}

/* The local sequence of one of the publisher's: of the column that its column goes to, else of its name. InvalidOid: none. */
Oid
local_sequence(std::int64_t subid, char *const *row)
{
	using namespace catalog;

	bool isnull = true;
	Oid found = InvalidOid;
	Internal internal = begin_internal();
	if (row[4] != nullptr)
		run("SELECT d.objid FROM schemasync.relation r, generate_subscripts(r.attmap, 1) i, pg_depend d"
		    " WHERE r.subid = $1 AND r.publisher_oid = $2::oid AND i % 2 = 1 AND r.attmap[i] = $3::int2"
		    " AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = r.relid"
		    " AND d.refobjsubid = r.attmap[i + 1] AND d.deptype IN ('a', 'i')"
		    " AND EXISTS (SELECT FROM pg_sequence q WHERE q.seqrelid = d.objid) LIMIT 1",
		    {as_int8(subid), as_text(row[4]), as_text(row[5])});
	else
		run("SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2"
		    " AND c.relkind = 'S'",
		    {as_text(row[0]), as_text(row[1])});
	if (SPI_processed == 1)
		found = DatumGetObjectId(result(0, 1, &isnull));
	end_internal(internal);
	return found;
}

/*
 * Moves a local sequence, with the caller's own rights, never backwards and never beyond its end.
 *
 * values: sequence, publisher's value, local value after it
 */
void
move_sequence(Oid sequence, char *const *row, Datum *values, bool *nulls, MemoryContext context)
{
	using namespace catalog;

	SPI_connect();
	run("WITH s AS (SELECT q.seqrelid, q.seqincrement AS step, q.seqmin, q.seqmax, pg_catalog.pg_sequence_last_value(q.seqrelid) AS here"
	    "  FROM pg_catalog.pg_sequence q WHERE q.seqrelid = $1),"
	    " w AS (SELECT s.*, greatest(least($2::pg_catalog.numeric + $3::pg_catalog.numeric * $4, s.seqmax), s.seqmin)::pg_catalog.int8 AS wanted FROM s)"
	    " SELECT pg_catalog.format('%I.%I', n.nspname, c.relname), CASE WHEN here IS NULL OR (step > 0 AND wanted > here) OR (step < 0 AND wanted < here)"
	    "  THEN pg_catalog.setval(w.seqrelid::pg_catalog.regclass, wanted) ELSE here END"
	    " FROM w JOIN pg_catalog.pg_class c ON c.oid = w.seqrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace",
	    {as_oid(sequence), as_text(row[2]), as_text(row[3]), as_int4(margin)});
	char *identity = result_text(0, 1, context);
	char *now = result_text(0, 2, context);
	SPI_finish();
	values[0] = CStringGetTextDatum(identity);
	values[1] = DirectFunctionCall1(int8in, CStringGetDatum(row[2]));
	values[2] = DirectFunctionCall1(int8in, CStringGetDatum(now));
	nulls[0] = nulls[1] = nulls[2] = false;
}

void
sync_sequences(const char *name, ReturnSetInfo *set)
{
	catalog::Subscription *subscription = own_target(name);
	worker::Publisher *publisher = connect_publisher(*subscription);
	worker::Rows rows = publisher_sequences(publisher, relation_oids(subscription->subid));

	worker::expect(rows, "vvvvnn");
	worker::close(publisher);
	for (int i = 0; i < rows.count; i++) {
		Datum values[3];
		bool nulls[3];
		Oid sequence = local_sequence(subscription->subid, rows.values[i]);
		if (!OidIsValid(sequence))
			continue;
		move_sequence(sequence, rows.values[i], values, nulls, CurrentMemoryContext);
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
}

} // namespace

} // namespace schemasync::api

Datum
schemasync_sync_sequences(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	char *name = required_text(fcinfo, 0, "name");
	InitMaterializedSRF(fcinfo, 0);
	sync_sequences(name, reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo));
	return Datum{0};
}
