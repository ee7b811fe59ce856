/*
 * The subscriber's side of the initial copy. The order of its transactions is what makes it safe to end at any moment:
 *
 *   1. "a slot may be there" is committed, then the slot is made, with the snapshot;
 *   2. all bases, the local tables and the origin's position are committed together: from here on the slot is the subscription's;
 *   3. each table's rows are committed together with its state 'ready';
 *   4. the subscription's state becomes 'ready'.
 *
 * Interrupted before 2, the copy drops the slot and begins again. Interrupted after it, the slot holds the stream for all tables, and
 * those that are still without rows are copied from a new snapshot (see level_table).
 */
#include "apply_ext/apply/schema.hpp"

#include <cstdint>

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/worker/copy.hpp"
#include "apply_ext/worker/copy_source.hpp"
#include "apply_ext/worker/shared.hpp"
#include "pg/compat.hpp"
#include "pg/guard.hpp"

extern "C" {
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_replication_origin.h"
#include "catalog/pg_type.h"
#include "commands/copy.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_relation.h"
#include "replication/origin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

/* A table that the subscription knows. */
struct Known {
	Oid publisher_oid;
	bool needs_rows, resync;
};

// ---- leaves: may ereport; plain data only ----

void
begin()
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

void
commit()
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

void
set_table_state(const catalog::Subscription &subscription, Oid publisher_oid, const char *state, XLogRecPtr sync_lsn,
                std::int64_t rows)
{
	using namespace catalog;

	Internal internal = begin_internal();
	run("UPDATE schemasync.relation SET state = $3, sync_lsn = coalesce($4, sync_lsn), copied_rows = greatest(copied_rows, $5)"
	    " , resync = resync AND $3 <> 'ready' WHERE subid = $1 AND publisher_oid = $2",
	    {as_int8(subscription.subid), as_oid(publisher_oid), as_text(state), as_lsn(sync_lsn), as_int8(rows)});
	end_internal(internal);
}

/* The tables of this subscription; palloc'd in the current context. */
Known *
load_known(std::int64_t subid, int *count)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	bool isnull = true;
	Internal internal = begin_internal();
	std::uint64_t rows =
		run("SELECT publisher_oid, state IN ('init', 'copying'), resync FROM schemasync.relation WHERE subid = $1", {as_int8(subid)});
	Known *all = static_cast<Known *>(MemoryContextAllocZero(context, sizeof(Known) * (rows + 1)));
	for (std::uint64_t i = 0; i < rows; i++)
		all[i] = {DatumGetObjectId(result(i, 1, &isnull)), DatumGetBool(result(i, 2, &isnull)), DatumGetBool(result(i, 3, &isnull))};
	end_internal(internal);
	*count = static_cast<int>(rows);
	return all;
}

const Known *
find_known(const Known *all, int count, Oid publisher_oid)
{
	for (int i = 0; i < count; i++) {
		if (all[i].publisher_oid == publisher_oid)
			return &all[i];
	}
	return nullptr;
}

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
	return target;
}

/* The origin stands at the snapshot: what was committed before it is in the copy. */
void
set_origin(const catalog::Subscription &subscription, XLogRecPtr position)
{
	if (XLogRecPtrIsInvalid(position))
		return;
	/* against a concurrent drop, as replorigin_advance wants it */
	LockRelationOid(ReplicationOriginRelationId, RowExclusiveLock);
	replorigin_advance(replorigin_by_name(subscription.origin_name, false), position, InvalidXLogRecPtr, true, true);
	UnlockRelationOid(ReplicationOriginRelationId, RowExclusiveLock);
}

void
save_slot_made(std::int64_t subid)
{
	using namespace catalog;

	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET create_slot = false, copy_begun = false WHERE subid = $1", {as_int8(subid)});
	end_internal(internal);
}

/* The bases of tables that are not known yet, and the tables themselves where the schema is copied. Returns how many. */
int
adopt_new(const catalog::Subscription &subscription, const Source &source, const Known *known, int nknown)
{
	const SourceTable **tables =
		static_cast<const SourceTable **>(palloc0(sizeof(SourceTable *) * static_cast<Size>(source.count + 1)));
	int count = 0;

	for (int i = 0; i < source.count; i++) {
		const SourceTable &table = source.tables[i];
		if (find_known(known, nknown, table.oid) == nullptr && (!table.below || subscription.copy_schema))
			tables[count++] = &table;
	}
	if (count == 0)
		return 0;
	States states = describe_tables(source, tables, count);
	apply::adopt_states(subscription, states.types, states.ntypes, states.relations, states.nrelations, subscription.copy_schema,
	                    source.position, subscription.copy_data ? "init" : "ready");
	/* ancestors and partitions that travel through others have no rows to copy */
	for (int i = 0; subscription.copy_data && i < count; i++) {
		if (!tables[i]->published || (tables[i]->relkind == 'p' && !tables[i]->via_root))
			set_table_state(subscription, tables[i]->oid, "ready", InvalidXLogRecPtr, 0);
	}
	return count;
}

/*
 * What the option ddl_classes names: functions and extensions before the tables that may need them, everything when the rows are there. A refresh
 * does so only after the option was changed; its snapshot is ahead of the stream, which brings what cannot be made yet.
 */
void
adopt_objects(const catalog::Subscription &subscription, const Source &source, bool before_tables)
{
	int count = 0;

	if (subscription.options.ddl_classes == nullptr || subscription.objects_adopted)
		return;
	const char **texts = describe_objects(source, subscription, &count);
	apply::adopt_definitions(subscription, texts, count, before_tables, source.position,
	                         !subscription.refreshing);
}

/* Tables that the publications no longer hold are forgotten, so that they are copied anew should they come back. */
void
forget_unpublished(const catalog::Subscription &subscription, const Source &source, const Known *known, int nknown)
{
	using namespace catalog;

	for (int i = 0; i < nknown; i++) {
		bool there = false;
		for (int j = 0; j < source.count && !there; j++)
			there = source.tables[j].oid == known[i].publisher_oid;
		if (there)
			continue;
		Internal internal = begin_internal();
		run("DELETE FROM schemasync.relation WHERE subid = $1 AND publisher_oid = $2",
		    {as_int8(subscription.subid), as_oid(known[i].publisher_oid)});
		end_internal(internal);
	}
}

/* --- one table ------------------------------------------------------------------------------------------------ */

/* The type's binary form means the same on any server: not so where it has oids in it. */
bool
has_portable_binary(Oid type)
{
	switch (type) {
	case REGPROCOID:
	case REGPROCEDUREOID:
	case REGOPEROID:
	case REGOPERATOROID:
	case REGCLASSOID:
	case REGTYPEOID:
	case REGROLEOID:
	case REGNAMESPACEOID:
	case REGCONFIGOID:
	case REGDICTIONARYOID:
	case REGCOLLATIONOID:
	case ACLITEMOID:
		return false;
	default: {
		Oid element = get_element_type(type);
		return type < FirstNormalObjectId && (!OidIsValid(element) || has_portable_binary(element));
	}
	}
}

struct Plan {
	SourceColumn *columns; /* those that the local table takes */
	int count;
	List *names;           /* the local ones, in the same order */
	bool binary;
};

Plan
plan_columns(const catalog::Subscription &subscription, const Source &source, const SourceTable &table,
             const Target &target, Relation relation)
{
	Plan plan = {};
	int count = 0;
	SourceColumn *columns = read_columns(source, table, &count);
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
		plan.binary = plan.binary && attribute->atttypid == columns[i].type && has_portable_binary(columns[i].type);
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
copy_rows(const Source &source, const SourceTable &table, const Plan &plan, Relation relation)
{
	ParseState *parse = make_parsestate(nullptr);
	List *options = NIL;

	(void) addRangeTableEntryForRelation(parse, relation, RowExclusiveLock, nullptr, false, false);
	if (plan.binary)
		options = list_make1(makeDefElem(pstrdup("format"), reinterpret_cast<Node *>(makeString(pstrdup("binary"))), -1));
	start_rows(source, table, plan.columns, plan.count, plan.binary);
	CopyFromState copy = BeginCopyFrom(parse, relation, nullptr, nullptr, false, read_callback, plan.names, options);
	std::int64_t rows = static_cast<std::int64_t>(CopyFrom(copy));
	EndCopyFrom(copy);
	end_rows();
	return rows;
}

/*
 * Brings a table whose copy was interrupted to the shape that it has in the new snapshot, as a change of the stream would. From then on
 * the stream's older states of it are passed over (apply::is_before_copy), and its older rows too.
 */
void
level_table(const catalog::Subscription &subscription, const Source &source, const SourceTable &table)
{
	char *content = describe_table(source, table);
	apply::Refused refused = {};
	bool is_refused = false;

	if (content == nullptr)
		return;
	apply::Boundary boundary = {source.position, GetCurrentTimestamp(), InvalidTransactionId, 0};
	pg::entry([&] {
		try {
			(void) apply::on_schema_message(subscription, "schemasync.state", content, boundary);
		} catch (const apply::Refused &raised) {
			refused = raised;
			is_refused = true;
		}
	});
	if (is_refused)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("table \"%s.%s\" was altered on the publisher while its copy was interrupted, and the change is refused: %s",
		                       table.schema, table.name, refused.reason),
		                refused.changes != nullptr ? errdetail_internal("%s", refused.changes) : 0,
		                refused.hint != nullptr ? errhint("%s", refused.hint) : 0));
}

/* Empties a table before it is copied afresh; whoever reads it meanwhile sees either the old rows or, with DELETE, waits for nothing. */
void
clear_table(Relation relation)
{
	char *name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)), RelationGetRelationName(relation));
	const char *only = relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? "" : "ONLY ";

	SPI_connect();
	if (SPI_execute(psprintf("DELETE FROM %s%s", only, name), false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not empty table %s", name);
	SPI_finish();
}

/* Step 3 for one table, in a transaction of its own. */
void
copy_table(const catalog::Subscription &subscription, const Source &source, const SourceTable &table, bool resumed, bool clear)
{
	begin();
	set_table_state(subscription, table.oid, "copying", InvalidXLogRecPtr, 0);
	commit();

	begin();
	if (resumed)
		level_table(subscription, source, table);
	Target target = load_target(subscription.subid, table.oid);
	std::int64_t rows = 0;
	if (OidIsValid(target.relid)) {
		Relation relation = table_open(target.relid, RowExclusiveLock);
		Plan plan = plan_columns(subscription, source, table, target, relation);
		catalog::Internal saved = {};
		become_owner(subscription, relation, &saved);
		if (clear)
			clear_table(relation);
		rows = copy_rows(source, table, plan, relation);
		SetUserIdAndSecContext(saved.saved_user, saved.saved_sec_context);
		table_close(relation, NoLock);
		CommandCounterIncrement();
	}
	set_table_state(subscription, table.oid, "ready", source.position, rows);
	apply::finish_created(subscription, table.oid);
	commit();
	count_applied(rows, 0);
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

SlotUse
slot_use(const catalog::Subscription &subscription)
{
	if (subscription.create_slot)
		return SlotUse::Create;
	return subscription.copy_data ? SlotUse::Temporary : SlotUse::None;
}

/* Steps 1 and 2. returns: the open source */
Source *
begin_copy(const catalog::Subscription &subscription)
{
	if (subscription.create_slot && subscription.copy_begun)
		drop_own_slot(subscription);
	if (subscription.create_slot) {
		begin();
		catalog::save_copy_begun(subscription.subid);
		commit();
	}
	Source *source = open_source(subscription, slot_use(subscription));
	begin();
	adopt_objects(subscription, *source, true);
	(void) adopt_new(subscription, *source, nullptr, 0);
	set_origin(subscription, source->position);
	save_slot_made(subscription.subid);
	commit();
	return source;
}

/* Goes on with a copy that was interrupted after step 2, or refreshes: what is new is adopted at the new snapshot. */
Source *
resume_copy(const catalog::Subscription &subscription)
{
	int count = 0;
	Source *source = open_source(subscription, slot_use(subscription));

	begin();
	Known *known = load_known(subscription.subid, &count);
	forget_unpublished(subscription, *source, known, count);
	(void) adopt_new(subscription, *source, known, count);
	commit();
	return source;
}

bool
is_adopted(std::int64_t subid)
{
	using namespace catalog;

	begin();
	Internal internal = begin_internal();
	bool adopted = run("SELECT FROM schemasync.relation WHERE subid = $1 LIMIT 1", {as_int8(subid)}) > 0;
	end_internal(internal);
	commit();
	return adopted;
}

void
copy_pending(const catalog::Subscription &subscription, const Source &source, bool resumed, MemoryContext context)
{
	int count = 0;

	begin();
	MemoryContextSwitchTo(context);
	Known *known = load_known(subscription.subid, &count);
	commit();
	for (int i = 0; i < source.count; i++) {
		const SourceTable &table = source.tables[i];
		const Known *one = find_known(known, count, table.oid);
		MemoryContextSwitchTo(context);
		if (one == nullptr)
			continue;
		if (one->needs_rows && !XLogRecPtrIsInvalid(source.position)) {
			copy_table(subscription, source, table, resumed, one->resync);
			continue;
		}
		begin();
		apply::finish_created(subscription, table.oid);
		commit();
	}
}

} // namespace

void
initial_copy(const catalog::Subscription &subscription)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "schemasync copy", ALLOCSET_DEFAULT_SIZES);
	MemoryContext saved = MemoryContextSwitchTo(context);
	bool resumed = !subscription.create_slot && is_adopted(subscription.subid);

	MemoryContextSwitchTo(context);
	Source *source = resumed ? resume_copy(subscription) : begin_copy(subscription);
	copy_pending(subscription, *source, resumed, context);

	begin();
	adopt_objects(subscription, *source, false);
	commit();
	close_source(source);

	begin();
	catalog::save_copied(subscription.subid);
	catalog::resolve_errors(subscription.subid);
	commit();
	MemoryContextSwitchTo(saved);
	MemoryContextDelete(context);
}

} // namespace schemasync::worker
