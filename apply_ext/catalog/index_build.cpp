#include "apply_ext/catalog/index_build.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/results.hpp"

extern "C" {
#include "executor/spi.h"
}

namespace schemasync::catalog {

namespace {

// ---- leaves: may ereport; plain data only ----

constexpr char columns_of_row[] =
	"SELECT b.publisher_oid, b.index_oid, b.index_name, b.is_unique, b.local_oid, coalesce(r.relid, 0), b.attempts::int8"
	"  FROM schemasync.index_build b LEFT JOIN schemasync.relation r USING (subid, publisher_oid) WHERE b.subid = $1";

void
read_row(std::uint64_t number, IndexBuild *row, MemoryContext context)
{
	row->publisher_oid = result_oid(number, 1);
	row->index_oid = result_oid(number, 2);
	row->index_name = result_text(number, 3, context);
	row->is_unique = result_boolean(number, 4);
	row->local_oid = result_oid(number, 5);
	row->relid = result_oid(number, 6);
	row->attempts = static_cast<int>(result_int8(number, 7));
}

IndexBuild *
read_one(MemoryContext context)
{
	auto *row = static_cast<IndexBuild *>(MemoryContextAlloc(context, sizeof(IndexBuild)));

	read_row(0, row, context);
	return row;
}

/* Between begin_internal and end_internal. */
void
explain_history(std::int64_t subid, const IndexBuild *build, const char *detail)
{
	run("UPDATE schemasync.ddl_history h SET detail = $4, applied_at = clock_timestamp(),"
	    " duration = coalesce(clock_timestamp() - b.begun_at, duration) FROM schemasync.index_build b"
	    " WHERE b.subid = $1 AND b.publisher_oid = $2 AND b.index_oid = $3 AND h.history_id = b.history_id",
	    {as_int8(subid), as_oid(build->publisher_oid), as_oid(build->index_oid), as_text(detail)});
}

void
delete_row(std::int64_t subid, const IndexBuild *build)
{
	run("DELETE FROM schemasync.index_build WHERE subid = $1 AND publisher_oid = $2 AND index_oid = $3",
	    {as_int8(subid), as_oid(build->publisher_oid), as_oid(build->index_oid)});
	run("UPDATE schemasync.error SET resolved_at = clock_timestamp() WHERE subid = $1 AND worker = 'index' AND resolved_at IS NULL"
	    " AND key = $2",
	    {as_int8(subid), as_text(build->index_name)});
}

} // namespace

void
queue_index(std::int64_t subid, const IndexBuild *build, std::int64_t history_id)
{
	Internal internal = begin_internal();

	run("INSERT INTO schemasync.index_build (subid, publisher_oid, index_oid, index_name, is_unique, history_id)"
	    " VALUES ($1, $2, $3, $4, $5, nullif($6, 0)) ON CONFLICT DO NOTHING",
	    {as_int8(subid), as_oid(build->publisher_oid), as_oid(build->index_oid), as_text(build->index_name),
	     as_boolean(build->is_unique), as_int8(history_id)});
	end_internal(internal);
}

IndexBuild *
load_index_builds(std::int64_t subid, Oid publisher_oid, int *count)
{
	MemoryContext caller = CurrentMemoryContext;
	Internal internal = begin_internal();
	char *sql = psprintf("%s AND $2 IN (b.publisher_oid, 0) ORDER BY b.publisher_oid, b.index_oid", columns_of_row);
	std::uint64_t rows = run_latest(sql, {as_int8(subid), as_oid(publisher_oid)});
	auto *found = static_cast<IndexBuild *>(MemoryContextAlloc(caller, sizeof(IndexBuild) * (rows + 1)));

	for (std::uint64_t i = 0; i < rows; i++)
		read_row(i, &found[i], caller);
	*count = static_cast<int>(rows);
	end_internal(internal);
	return found;
}

IndexBuild *
load_index_build(std::int64_t subid, Oid publisher_oid, Oid index_oid)
{
	MemoryContext caller = CurrentMemoryContext;
	IndexBuild *row = nullptr;
	Internal internal = begin_internal();
	char *sql = psprintf("%s AND b.publisher_oid = $2 AND b.index_oid = $3", columns_of_row);

	if (run(sql, {as_int8(subid), as_oid(publisher_oid), as_oid(index_oid)}) > 0)
		row = read_one(caller);
	end_internal(internal);
	return row;
}

IndexBuild *
next_index_build(std::int64_t subid, std::int64_t *wait)
{
	MemoryContext caller = CurrentMemoryContext;
	IndexBuild *row = nullptr;
	Internal internal = begin_internal();

	char *sql = psprintf("%s AND b.next_try <= pg_catalog.clock_timestamp() ORDER BY b.queued_at, b.index_oid LIMIT 1", columns_of_row);
	if (run(sql, {as_int8(subid)}) > 0)
		row = read_one(caller);
	else if (run("SELECT (extract(epoch FROM min(next_try) - clock_timestamp()) * 1000)::int8 FROM schemasync.index_build WHERE subid = $1"
	             " HAVING count(*) > 0",
	             {as_int8(subid)}) > 0)
		*wait = Max(result_int8(0, 1), std::int64_t{1});
	else
		*wait = -1;
	end_internal(internal);
	return row;
}

bool
has_index_builds(std::int64_t subid)
{
	Internal internal = begin_internal();
	bool any = run("SELECT FROM schemasync.index_build WHERE subid = $1 LIMIT 1", {as_int8(subid)}) > 0;

	end_internal(internal);
	return any;
}

void
rekey_index_build(std::int64_t subid, const IndexBuild *build, Oid index_oid, const char *index_name)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.index_build SET index_oid = $4, index_name = $5 WHERE subid = $1 AND publisher_oid = $2 AND index_oid = $3",
	    {as_int8(subid), as_oid(build->publisher_oid), as_oid(build->index_oid), as_oid(index_oid), as_text(index_name)});
	end_internal(internal);
}

void
remove_index_build(std::int64_t subid, const IndexBuild *build, const char *why)
{
	Internal internal = begin_internal();

	explain_history(subid, build, why);
	delete_row(subid, build);
	end_internal(internal);
}

void
begin_index_build(std::int64_t subid, const IndexBuild *build)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.index_build SET state = 'building', begun_at = clock_timestamp() WHERE subid = $1 AND publisher_oid = $2"
	    " AND index_oid = $3",
	    {as_int8(subid), as_oid(build->publisher_oid), as_oid(build->index_oid)});
	end_internal(internal);
}

void
save_begun_index(std::int64_t subid, const IndexBuild *build, Oid local_oid)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.index_build SET local_oid = $4 WHERE subid = $1 AND publisher_oid = $2 AND index_oid = $3",
	    {as_int8(subid), as_oid(build->publisher_oid), as_oid(build->index_oid), as_oid(local_oid)});
	end_internal(internal);
}

void
requeue_index_build(std::int64_t subid, const IndexBuild *build, int delay_ms, bool interrupted)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.index_build SET state = 'queued', begun_at = NULL, interruptions = interruptions + $5, next_try = clock_timestamp() + $4 * interval '1 ms'"
	    " WHERE subid = $1 AND publisher_oid = $2 AND index_oid = $3",
	    {as_int8(subid), as_oid(build->publisher_oid), as_oid(build->index_oid), as_int4(delay_ms), as_int4(interrupted ? 1 : 0)});
	end_internal(internal);
}

void
fail_index_build(std::int64_t subid, const IndexBuild *build, const char *message)
{
	Internal internal = begin_internal();

	/* tried again after 10 s, 20 s, ... 10 min */
	run("UPDATE schemasync.index_build SET state = 'failed', begun_at = NULL, attempts = attempts + 1, last_error = $4,"
	    " next_try = clock_timestamp() + least(10 * 2 ^ least(attempts, 10), 600) * interval '1 s'"
	    " WHERE subid = $1 AND publisher_oid = $2 AND index_oid = $3",
	    {as_int8(subid), as_oid(build->publisher_oid), as_oid(build->index_oid), as_text(message)});
	end_internal(internal);
}

char *
starved_build(std::int64_t subid, int patience)
{
	MemoryContext caller = CurrentMemoryContext;
	char *progress = nullptr;
	Internal internal = begin_internal();

	/* one transaction of the database at most builds for the subscription: what it shows changes as long as it gets on */
	if (run("SELECT pg_catalog.concat_ws(' ', b.index_oid, b.interruptions, p.phase, p.lockers_done, p.blocks_done, p.tuples_done)"
	        " FROM schemasync.index_build b LEFT JOIN schemasync.relation r USING (subid, publisher_oid)"
	        " LEFT JOIN pg_catalog.pg_stat_progress_create_index p ON p.relid = r.relid AND p.datname = pg_catalog.current_database()"
	        " WHERE b.subid = $1 AND b.interruptions - b.stood_at >= $2 AND b.state <> 'failed' AND r.relid <> 0"
	        " ORDER BY b.queued_at LIMIT 1",
	        {as_int8(subid), as_int4(patience)}) > 0)
		progress = result_text(0, 1, caller);
	end_internal(internal);
	return progress;
}

void
give_up_starved_builds(std::int64_t subid, int patience)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.index_build SET stood_at = interruptions WHERE subid = $1 AND interruptions - stood_at >= $2",
	    {as_int8(subid), as_int4(patience)});
	end_internal(internal);
}

void
hasten_index_builds(std::int64_t subid)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.index_build SET next_try = '-infinity' WHERE subid = $1 AND state = 'failed'", {as_int8(subid)});
	end_internal(internal);
}

} // namespace schemasync::catalog
