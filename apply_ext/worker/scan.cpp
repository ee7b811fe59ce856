/*
 * The scan: a short-lived background worker that finds the subscriptions of all databases by their replication origins, which are
 * shared, and gives them slots of shared memory. It needs some database, because the server reads only a few shared catalogs
 * without one.
 */
#include "apply_ext/worker/local.hpp"
#include "apply_ext/worker/slots.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_replication_origin.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "postmaster/bgworker.h"
#include "replication/origin.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

SCHEMASYNC_EXPORT void schemasync_scan_main(Datum argument);

namespace schemasync::worker {

namespace {

// ---- leaves: may ereport; plain data only ----

/* Takes slots for what it finds. returns: the names of origins whose database is gone */
List *
scan_origins()
{
	List *stale = NIL;
	bool full = false;

	Relation table = table_open(ReplicationOriginRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
		bool isnull = true;
		Oid database = InvalidOid;
		std::int64_t subid = 0;
		Datum value = heap_getattr(tuple, Anum_pg_replication_origin_roname, RelationGetDescr(table), &isnull);
		char *origin = isnull ? nullptr : TextDatumGetCString(value);
		if (origin == nullptr || !parse_origin_name(origin, &database, &subid))
			continue;
		if (!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database)))
			stale = lappend(stale, origin);
		else if (take_slot(database, subid) == nullptr)
			full = true;
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);

	if (full)
		ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED), errmsg("out of slots for subscriptions"),
		                  errhint("Increase schemasync.max_subscriptions (now %d) and restart the server.", area->size)));
	return stale;
}

void
run_scan(Oid database)
{
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	if (area == nullptr)
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);

	begin();
	ListCell *cell;
	foreach (cell, scan_origins()) {
		char *origin = static_cast<char *>(lfirst(cell));
		ereport(LOG, (errmsg("dropping replication origin \"%s\" of a database that is gone", origin)));
		replorigin_drop_by_name(origin, true, true);
	}
	commit();
	wake_launcher();
	proc_exit(0);
}

} // namespace

} // namespace schemasync::worker

void
schemasync_scan_main(Datum argument)
{
	schemasync::worker::run_scan(DatumGetObjectId(argument));
}
