#include "apply_ext/worker/copy_table.hpp"

#include "apply_ext/apply/schema.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "pg/binary_form.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/copy.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_relation.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
}

namespace schemasync::worker {

namespace {

// ---- leaves: may ereport; plain data only ----

/* Where a table's rows go. */
struct Target {
	Oid relid;         /* InvalidOid: it is kept out */
	int npairs;
	AttrNumber *pairs; /* publisher attnum, local attnum, ... */
};

/* Not apply::find_relation: for the stream a table that is being copied is not there yet. */
Target
load_target(std::int64_t subid, Oid publisher_oid)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	Target target = {};
	bool here = apply::find_again(subid, publisher_oid);
	bool isnull = true;
	Datum *elements = nullptr;
	int count = 0;
	Internal internal = begin_internal();
	if (run("SELECT relid, attmap FROM schemasync.relation WHERE subid = $1 AND publisher_oid = $2",
	        {as_int8(subid), as_oid(publisher_oid)}) == 1) {
		target.relid = DatumGetObjectId(result(0, 1, &isnull));
		deconstruct_array(DatumGetArrayTypeP(result(0, 2, &isnull)), INT2OID, 2, true, TYPALIGN_SHORT, &elements, nullptr, &count);
		target.npairs = count / 2;
		target.pairs = static_cast<AttrNumber *>(MemoryContextAllocZero(context, sizeof(AttrNumber) * static_cast<Size>(count + 1)));
		for (int i = 0; i < count; i++)
			target.pairs[i] = DatumGetInt16(elements[i]);
	}
	end_internal(internal);
	if (!here)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
		                errmsg("the table that the publisher's table with OID %u is copied to does not exist here any more, or lacks columns of it", publisher_oid),
		                errhint("Create the table again, or drop it from the publication and call schemasync_refresh.")));
	return target;
}

/* COPY in binary is all or nothing, and taken for built-in types alone: those are the same on both sides. */
bool
is_copied_in_binary(Oid type)
{
	return type < FirstGenbkiObjectId && pg::has_portable_binary(type);
}

struct Plan {
	SourceColumn *columns; /* those that the local table takes */
	int count;
	List *names;           /* the local ones, in the same order */
	bool binary;
};

Plan
plan_columns(const catalog::Subscription &subscription, const Reader &reader, const SourceTable &table,
             const Target &target, Relation relation)
{
	Plan plan = {};
	int count = 0;
	SourceColumn *columns = read_columns(reader, table, &count);
	TupleDesc descriptor = RelationGetDescr(relation);

	plan.columns = static_cast<SourceColumn *>(palloc0(sizeof(SourceColumn) * static_cast<Size>(count + 1)));
	plan.binary = subscription.options.binary;
	for (int i = 0; i < count; i++) {
		AttrNumber local = 0;
		for (int j = 0; j < target.npairs; j++) {
			if (target.pairs[2 * j] == columns[i].attnum)
				local = target.pairs[2 * j + 1];
		}
		if (local <= 0 || local > descriptor->natts)
			continue;
		Form_pg_attribute attribute = TupleDescAttr(descriptor, local - 1);
		if (attribute->attisdropped || attribute->attgenerated != '\0')
			continue;
		plan.columns[plan.count++] = columns[i];
		plan.names = lappend(plan.names, makeString(pstrdup(NameStr(attribute->attname))));
		plan.binary = plan.binary && attribute->atttypid == columns[i].type && is_copied_in_binary(columns[i].type);
	}
	return plan;
}

/* Becomes the table's owner, whom the subscription's owner must be able to become, as PostgreSQL 16 does for rows. */
void
become_owner(const catalog::Subscription &subscription, Relation relation, catalog::Internal *saved)
{
	Oid owner = subscription.options.run_as_owner ? subscription.owner : relation->rd_rel->relowner;

	GetUserIdAndSecContext(&saved->saved_user, &saved->saved_sec_context);
	if (owner != subscription.owner && !pg::compat::member_can_set_role(subscription.owner, owner))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		                errmsg("role \"%s\" cannot SET ROLE to \"%s\"", GetUserNameFromId(subscription.owner, false),
		                       GetUserNameFromId(owner, false)),
		                errdetail("The rows of table \"%s\" are written as its owner.", RelationGetRelationName(relation))));
	SetUserIdAndSecContext(owner, saved->saved_sec_context | SECURITY_RESTRICTED_OPERATION);

	AclResult allowed = pg_class_aclcheck(RelationGetRelid(relation), owner, ACL_INSERT);
	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, get_relkind_objtype(relation->rd_rel->relkind), RelationGetRelationName(relation));
	if (check_enable_rls(RelationGetRelid(relation), InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
		                errmsg("role \"%s\" cannot replicate into relation with row-level security enabled: \"%s\"",
		                       GetUserNameFromId(owner, true), RelationGetRelationName(relation))));
}

int
read_callback(void *buffer, int least, int most)
{
	return read_rows(buffer, least, most);
}

std::int64_t
copy_rows(const Reader &reader, const SourceTable &table, const Part &part, const Plan &plan, Relation relation)
{
	ParseState *parse = make_parsestate(nullptr);
	List *options = NIL;

	(void) addRangeTableEntryForRelation(parse, relation, RowExclusiveLock, nullptr, false, false);
	if (plan.binary)
		options = list_make1(makeDefElem(pstrdup("format"), reinterpret_cast<Node *>(makeString(pstrdup("binary"))), -1));
	start_rows(reader, table, part, plan.columns, plan.count, plan.binary);
	CopyFromState copy = BeginCopyFrom(parse, relation, nullptr, nullptr, false, read_callback, plan.names, options);
	std::int64_t rows = static_cast<std::int64_t>(CopyFrom(copy));
	EndCopyFrom(copy);
	end_rows();
	return rows;
}

void
execute_on(Oid relid, const char *command, const char *tail)
{
	char *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
	const char *only = get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? "" : "ONLY ";

	SPI_connect();
	if (SPI_execute(psprintf("%s %s%s%s", command, only, name, tail), false, 1) < 0)
		elog(ERROR, "could not run a statement on table %s", name);
}

} // namespace

bool
empty_target(const catalog::Subscription &subscription, Oid publisher_oid, Emptying emptying)
{
	Target target = load_target(subscription.subid, publisher_oid);
	bool truncate = emptying == Emptying::Truncate;

	if (!OidIsValid(target.relid))
		return false;
	Relation relation = table_open(target.relid, truncate ? AccessExclusiveLock : RowExclusiveLock);
	catalog::Internal saved = {};
	become_owner(subscription, relation, &saved);
	truncate = truncate && heap_truncate_find_FKs(list_make1_oid(target.relid)) == NIL;
	/* TRUNCATE wants the table for itself, in this session too; the lock stays */
	table_close(relation, NoLock);
	execute_on(target.relid, truncate ? "TRUNCATE TABLE" : "DELETE FROM", "");
	SPI_finish();
	SetUserIdAndSecContext(saved.saved_user, saved.saved_sec_context);
	CommandCounterIncrement();
	return true;
}

bool
may_fill_in_parts(const catalog::Subscription &subscription, Oid publisher_oid)
{
	Target target = load_target(subscription.subid, publisher_oid);

	if (!OidIsValid(target.relid))
		return false;
	Relation relation = table_open(target.relid, AccessShareLock);
	catalog::Internal saved = {};
	become_owner(subscription, relation, &saved);
	bool empty = !relation->rd_rel->relhasindex;
	if (empty) {
		execute_on(target.relid, "SELECT FROM", " LIMIT 1");
		empty = SPI_processed == 0;
		SPI_finish();
	}
	SetUserIdAndSecContext(saved.saved_user, saved.saved_sec_context);
	table_close(relation, NoLock);
	return empty;
}

std::int64_t
fill_table(const catalog::Subscription &subscription, const Reader &reader, const SourceTable &table, const Part &part)
{
	Target target = load_target(subscription.subid, table.oid);
	std::int64_t rows = 0;

	if (!OidIsValid(target.relid))
		return 0;
	Relation relation = table_open(target.relid, RowExclusiveLock);
	Plan plan = plan_columns(subscription, reader, table, target, relation);
	catalog::Internal saved = {};
	become_owner(subscription, relation, &saved);
	rows = copy_rows(reader, table, part, plan, relation);
	SetUserIdAndSecContext(saved.saved_user, saved.saved_sec_context);
	table_close(relation, NoLock);
	CommandCounterIncrement();
	return rows;
}

} // namespace schemasync::worker
