/*
 * Stand-ins, weak, until the schema side and the initial copy are linked.
 */
#include "apply_ext/apply/schema.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/worker/copy.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/table.h"
#include "executor/spi.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
}

namespace schemasync::apply {

__attribute__((weak)) bool
on_schema_message(const catalog::Subscription &, std::string_view prefix, std::string_view, const Boundary &)
{
	elog(LOG, "schema message %.*s", static_cast<int>(prefix.size()), prefix.data());
	return true;
}

__attribute__((weak)) void
record_refusal(const catalog::Subscription &, const Refused &)
{
}

__attribute__((weak)) RelationTarget *
find_relation(std::int64_t subid, Oid publisher_oid)
{
	MemoryContext caller = CurrentMemoryContext;
	catalog::Internal internal = catalog::begin_internal();
	SPI_execute(psprintf("SELECT relid FROM schemasync.relation WHERE subid = %lld AND publisher_oid = %u",
	                     static_cast<long long>(subid), publisher_oid), true, 0);
	Oid relid = SPI_processed == 1
	                ? static_cast<Oid>(strtoul(SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1), nullptr, 10))
	                : InvalidOid;
	catalog::end_internal(internal);
	if (!OidIsValid(relid))
		return nullptr;
	MemoryContextSwitchTo(caller);
	Relation relation = table_open(relid, AccessShareLock);
	TupleDesc desc = RelationGetDescr(relation);
	RelationTarget *target = static_cast<RelationTarget *>(palloc0(sizeof(RelationTarget)));
	target->publisher_oid = publisher_oid;
	target->relid = relid;
	target->apply_all = true;
	target->names = static_cast<const char **>(palloc(sizeof(char *) * 2000));
	target->local_attnums = static_cast<AttrNumber *>(palloc(sizeof(AttrNumber) * 2000));
	for (int i = 0; i < desc->natts; i++) {
		if (TupleDescAttr(desc, i)->attisdropped)
			continue;
		target->names[target->ncolumns] = pstrdup(NameStr(TupleDescAttr(desc, i)->attname));
		target->local_attnums[target->ncolumns++] = static_cast<AttrNumber>(i + 1);
	}
	table_close(relation, AccessShareLock);
	return target;
}

} // namespace schemasync::apply

namespace schemasync::worker {

__attribute__((weak)) void
initial_copy(const catalog::Subscription &subscription)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	catalog::save_state(subscription.subid, "ready", nullptr);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

} // namespace schemasync::worker
