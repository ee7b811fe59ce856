/*
 * The differences between PostgreSQL 15 and 19, and the only file that may mention PG_VERSION_NUM.
 * Each entry says what changed and in which major version; the newest form is what callers write.
 *
 * Zone: bridge.
 */
#pragma once

#include <cstdint>
#include <cstring>

#include "pg/postgres.hpp"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "schemasync supports PostgreSQL 15 to 19"
#endif

extern "C" {
#include "utils/wait_event.h"
#include "catalog/pg_database.h"
#include "access/attmap.h"
#include "access/htup.h"
#include "access/htup_details.h"
#include "catalog/partition.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_publication_rel.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "replication/logical.h"
#include "replication/message.h"
#include "replication/origin.h"
#include "replication/output_plugin.h"
#include "replication/reorderbuffer.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/syscache.h"
#if PG_VERSION_NUM >= 160000
#include "commands/subscriptioncmds.h"
#include "parser/parse_relation.h"
#include "varatt.h"
#endif
#if PG_VERSION_NUM >= 180000
#include "rewrite/rewriteHandler.h"
#endif
}

namespace schemasync::pg::compat {

/* Of the server that this was built for; minor versions do not matter. */
constexpr int server_version = PG_VERSION_NUM;

using TreeWalker = bool (*)(Node *, void *);
using TreeMutator = Node *(*)(Node *, void *);

/* 16 gave the callbacks a prototype; before, C++ took them for functions without arguments. */
inline bool
walk_expression(Node *node, TreeWalker walker, void *context)
{
#if PG_VERSION_NUM >= 160000
	return expression_tree_walker_impl(node, walker, context);
#else
	auto untyped = reinterpret_cast<bool (*)()>(reinterpret_cast<void (*)()>(walker));
	return expression_tree_walker(node, untyped, context);
#endif
}

/* The same for what the grammar makes. */
inline bool
walk_raw_expression(Node *node, TreeWalker walker, void *context)
{
#if PG_VERSION_NUM >= 160000
	return raw_expression_tree_walker_impl(node, walker, context);
#else
	auto untyped = reinterpret_cast<bool (*)()>(reinterpret_cast<void (*)()>(walker));
	return raw_expression_tree_walker(node, untyped, context);
#endif
}

inline Node *
mutate_expression(Node *node, TreeMutator mutator, void *context)
{
#if PG_VERSION_NUM >= 160000
	return expression_tree_mutator_impl(node, mutator, context);
#else
	auto untyped = reinterpret_cast<Node *(*)()>(reinterpret_cast<void (*)()>(mutator));
	return expression_tree_mutator(node, untyped, context);
#endif
}

/* The SQL/JSON constructors (16) and query functions (17): their result may depend on settings. */
inline bool
is_sql_json(const Node *node)
{
#if PG_VERSION_NUM >= 160000
	if (IsA(node, JsonConstructorExpr))
		return true;
#endif
#if PG_VERSION_NUM >= 170000
	if (IsA(node, JsonExpr))
		return true;
#endif
	(void) node;
	return false;
}

/* pg_attribute.attstattarget: -1 meant the default before 17, NULL since. */
inline int
attribute_statistics(HeapTuple tuple, TupleDesc descriptor)
{
	bool isnull = true;
	Datum value = heap_getattr(tuple, Anum_pg_attribute_attstattarget, descriptor, &isnull);

	if (isnull)
		return -1;
#if PG_VERSION_NUM >= 170000
	return DatumGetInt16(value);
#else
	return DatumGetInt32(value);
#endif
}

/*
 * The minors of late 2026 keep a version of each attribute, an LSN, in attoptions under a reserved name (in the branches
 * before 19). It is no option, and it differs on any two servers.
 */
inline bool
is_attribute_version(const char *option)
{
#ifdef ATTRIBUTE_VERSION_ATTOPTION
	constexpr char name[] = ATTRIBUTE_VERSION_ATTOPTION "=";
#else
	constexpr char name[] = "pg_attver=";
#endif
	return strncmp(option, name, sizeof(name) - 1) == 0;
}

/* The locale of an ICU (17: also builtin) collation: colliculocale became colllocale in 17. */
inline Datum
collation_locale(HeapTuple tuple, bool *isnull)
{
#if PG_VERSION_NUM >= 170000
	return SysCacheGetAttr(COLLOID, tuple, Anum_pg_collation_colllocale, isnull);
#else
	return SysCacheGetAttr(COLLOID, tuple, Anum_pg_collation_colliculocale, isnull);
#endif
}

/* The locale of a database with ICU (17: also builtin): daticulocale became datlocale in 17. */
inline Datum
database_locale(HeapTuple tuple, bool *isnull)
{
#if PG_VERSION_NUM >= 170000
	return SysCacheGetAttr(DATABASEOID, tuple, Anum_pg_database_datlocale, isnull);
#else
	return SysCacheGetAttr(DATABASEOID, tuple, Anum_pg_database_daticulocale, isnull);
#endif
}

/* pg_constraint.conenforced came with 18. */
inline bool
constraint_enforced(const FormData_pg_constraint *constraint)
{
#if PG_VERSION_NUM >= 180000
	return constraint->conenforced;
#else
	(void) constraint;
	return true;
#endif
}

/* 17 added `flush`: whether to flush the WAL at once; before, it was never done for a transactional message. */
inline XLogRecPtr
log_logical_message(const char *prefix, const char *message, Size size, bool transactional, bool flush)
{
#if PG_VERSION_NUM >= 170000
	return LogLogicalMessage(prefix, message, size, transactional, flush);
#else
	(void) flush;
	return LogLogicalMessage(prefix, message, size, transactional);
#endif
}

/* 16 told the right to SET ROLE from membership; before, a member may. */
inline bool
member_can_set_role(Oid member, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return ::member_can_set_role(member, role);
#else
	return is_member_of_role(member, role);
#endif
}

// ---- output plugin: what pgoutput of each version does ----

/* 16 brought parallel streaming, protocol 4 and the option origin. */
#if PG_VERSION_NUM >= 160000
constexpr std::uint32_t protocol_max = 4;
constexpr bool has_origin_option = true;
constexpr char text_protocol_too_new[] =
    "client sent proto_version=%d but server only supports protocol %d or lower";
constexpr char text_protocol_too_old[] =
    "client sent proto_version=%d but server only supports protocol %d or higher";
#else
constexpr std::uint32_t protocol_max = 3;
constexpr bool has_origin_option = false;
constexpr char text_protocol_too_new[] =
    "client sent proto_version=%d but we only support protocol %d or lower";
constexpr char text_protocol_too_old[] =
    "client sent proto_version=%d but we only support protocol %d or higher";
#endif

/* From 17 a missing proto_version or publication_names is an error of its own. */
constexpr bool requires_options_by_name = PG_VERSION_NUM >= 170000;

/* Up to 15 the plugin reports progress every hundred changes; from 16 the reorder buffer does. */
constexpr bool plugin_reports_progress = PG_VERSION_NUM < 160000;

/* From 16 the rename of a schema makes every cached relation stale. */
constexpr bool namespace_change_invalidates = PG_VERSION_NUM >= 160000;

/* From 18 a change of a publication names the relations that it affects; before, all become stale. */
constexpr bool publication_change_names_relations = PG_VERSION_NUM >= 180000;

/* From 18 a publication that does not exist at this point of the WAL is passed over with a warning. */
constexpr bool missing_publication_is_skipped = PG_VERSION_NUM >= 180000;

/* Which column list counts as "all columns", so that lists of two publications can be compared. */
enum class WholeColumnList {
	every_attribute, /* 15: as many columns as the table ever had */
	live_attributes, /* 16, 17: as many as are neither dropped nor generated */
	spelled_out,     /* 18: no list means the list of what would be published */
};
#if PG_VERSION_NUM >= 180000
constexpr WholeColumnList whole_column_list = WholeColumnList::spelled_out;
#elif PG_VERSION_NUM >= 160000
constexpr WholeColumnList whole_column_list = WholeColumnList::live_attributes;
#else
constexpr WholeColumnList whole_column_list = WholeColumnList::every_attribute;
#endif

/* Option streaming: 'f', 't' or 'p'; before 16 a boolean. */
inline char
read_streaming_mode(DefElem *element)
{
#if PG_VERSION_NUM >= 160000
	return defGetStreamingMode(element);
#else
	return defGetBoolean(element) ? 't' : 'f';
#endif
}

/* publish_generated_columns of a publication: 's' (stored) or 'n' (none); a parameter since 18. */
inline char
generated_columns_of(const Publication *publication)
{
#if PG_VERSION_NUM >= 180000
	return static_cast<char>(publication->pubgencols_type);
#else
	(void) publication;
	return 'n';
#endif
}

/* Whether no row can hold NULL there: from 18 on a NOT NULL may be NOT VALID, and the rows of before may be as they were. */
inline bool
is_not_null(TupleDesc desc, int at)
{
#if PG_VERSION_NUM >= 180000
	return TupleDescCompactAttr(desc, at)->attnullability == ATTNULLABLE_VALID;
#else
	return TupleDescAttr(desc, at)->attnotnull;
#endif
}

/* Whether generated columns can be published at all: with 18 they came under column lists. */
constexpr bool publishes_generated_columns = PG_VERSION_NUM >= 180000;

/* The tuples of a change: HeapTuple since 17, wrapped in a ReorderBufferTupleBuf before. */
inline HeapTuple
old_tuple(const ReorderBufferChange *change)
{
#if PG_VERSION_NUM >= 170000
	return change->data.tp.oldtuple;
#else
	return change->data.tp.oldtuple != nullptr ? &change->data.tp.oldtuple->tuple : nullptr;
#endif
}

inline HeapTuple
new_tuple(const ReorderBufferChange *change)
{
#if PG_VERSION_NUM >= 170000
	return change->data.tp.newtuple;
#else
	return change->data.tp.newtuple != nullptr ? &change->data.tp.newtuple->tuple : nullptr;
#endif
}

/* Commit, prepare and abort time (microseconds since 2000) share one union; it is anonymous since 19. */
inline TimestampTz
end_time(const ReorderBufferTXN *txn)
{
#if PG_VERSION_NUM >= 190000
	return txn->commit_time;
#else
	return txn->xact_time.commit_time;
#endif
}

/* The top-level transaction of a transaction, itself if it is one. */
inline ReorderBufferTXN *
top_transaction(ReorderBufferTXN *txn)
{
	return txn->toptxn != nullptr ? txn->toptxn : txn;
}

/* Whether a top-level transaction is replayed because it was prepared; renamed in 18. */
inline bool
is_prepared(const ReorderBufferTXN *txn)
{
#if PG_VERSION_NUM >= 180000
	return rbtxn_is_prepared(txn);
#else
	return rbtxn_prepared(txn);
#endif
}

/* Stream abort tells when and where only since 16, and only to a parallel applier. */
constexpr bool stream_abort_has_position = PG_VERSION_NUM >= 160000;

#if PG_VERSION_NUM >= 190000
using OriginId = ReplOriginId;
constexpr OriginId invalid_origin = InvalidReplOriginId;
#else
using OriginId = RepOriginId;
constexpr OriginId invalid_origin = InvalidRepOriginId;
#endif

/* Of a change that was applied, not made here, by a process that has no origin of its own: it has no name, and nothing keeps its position. */
constexpr OriginId unnamed_origin = DoNotReplicateId;

/* build_attrmap_by_name_if_req gained missing_ok in 16. */
inline AttrMap *
build_attribute_map_if_required(TupleDesc in, TupleDesc out)
{
#if PG_VERSION_NUM >= 160000
	return build_attrmap_by_name_if_req(in, out, false);
#else
	return build_attrmap_by_name_if_req(in, out);
#endif
}

/* Gives estate a range table of the one entry rte; 16 split off the privileges, 18 added pruning. */
inline void
init_range_table(EState *estate, RangeTblEntry *rte)
{
#if PG_VERSION_NUM >= 160000
	List *permissions = NIL;

	addRTEPermissionInfo(&permissions, rte);
#if PG_VERSION_NUM >= 180000
	ExecInitRangeTable(estate, list_make1(rte), permissions, bms_make_singleton(1));
#else
	ExecInitRangeTable(estate, list_make1(rte), permissions);
#endif
#else
	ExecInitRangeTable(estate, list_make1(rte));
#endif
}

/* Puts the expressions of virtual generated columns (18) into a row filter. */
inline Node *
expand_generated_columns(Node *filter, Relation relation)
{
#if PG_VERSION_NUM >= 180000
	return expand_generated_columns_in_expr(filter, relation, 1);
#else
	(void) relation;
	return filter;
#endif
}

/* The cache id is an enum since 19. */
#if PG_VERSION_NUM >= 190000
using SyscacheId = SysCacheIdentifier;
#else
using SyscacheId = int;
#endif

/* Calls function(arg, relid) when the publication of a relation changed (18). */
inline void
register_publication_change_callback(void (*function)(Datum, Oid))
{
#if PG_VERSION_NUM >= 180000
	CacheRegisterRelSyncCallback(function, static_cast<Datum>(0));
#else
	(void) function;
#endif
}

/* Oids of the publications that name a relation; 19 tells them from those that exclude it. */
inline List *
publications_of(Oid relid)
{
#if PG_VERSION_NUM >= 190000
	return GetRelationIncludedPublications(relid);
#else
	return GetRelationPublications(relid);
#endif
}

/* Whether a publication of all tables leaves out relid, a partition by its root (19). */
inline bool
is_excluded(const Publication *publication, Oid relid, bool is_partition)
{
#if PG_VERSION_NUM >= 190000
	if (is_partition)
		relid = llast_oid(get_partition_ancestors(relid));
	return list_member_oid(GetRelationExcludedPublications(relid), publication->oid);
#else
	(void) publication;
	(void) relid;
	(void) is_partition;
	return false;
#endif
}

/* 17: wait events of extensions have names; before, all of them are "Extension". Remember the result: each call looks the name up. */
inline uint32
wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	(void) name;
	return PG_WAIT_EXTENSION;
#endif
}

/* 16: one object_aclcheck in place of pg_database_aclcheck and its kin. */
inline bool
may_create_in_database(Oid database, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(DatabaseRelationId, database, role, ACL_CREATE) == ACLCHECK_OK;
#else
	return pg_database_aclcheck(database, role, ACL_CREATE) == ACLCHECK_OK;
#endif
}

/* LSN_FORMAT_ARGS checks its argument with a C builtin that C++ does not have. palloc'd. */
inline char *
lsn_text(XLogRecPtr lsn)
{
	return psprintf("%X/%X", static_cast<uint32>(lsn >> 32), static_cast<uint32>(lsn));
}

} // namespace schemasync::pg::compat

extern "C" {
#include "access/genam.h"
#include "access/tableam.h"
#include "commands/tablecmds.h"
#include "executor/executor.h"
#if PG_VERSION_NUM >= 160000
#include "parser/parse_relation.h"
#endif
#include "replication/origin.h"
#include "utils/acl.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
}

/* --- replication origins -------------------------------------------------------------------------------- */

namespace schemasync::pg::compat {

#if PG_VERSION_NUM >= 190000
using RepOriginId = ::ReplOriginId;
#endif

/* 16: + acquired_by, 0 for a process that shares the origin with none */
inline void
replorigin_session_setup(RepOriginId origin)
{
#if PG_VERSION_NUM >= 160000
	::replorigin_session_setup(origin, 0);
#else
	::replorigin_session_setup(origin);
#endif
}

/* 19: three variables became one structure */
inline void
set_session_origin(RepOriginId origin)
{
#if PG_VERSION_NUM >= 190000
	replorigin_xact_state.origin = origin;
#else
	replorigin_session_origin = origin;
#endif
}

inline void
set_origin_position(XLogRecPtr position, TimestampTz timestamp)
{
#if PG_VERSION_NUM >= 190000
	replorigin_xact_state.origin_lsn = position;
	replorigin_xact_state.origin_timestamp = timestamp;
#else
	replorigin_session_origin_lsn = position;
	replorigin_session_origin_timestamp = timestamp;
#endif
}

/* --- executor ------------------------------------------------------------------------------------------- */

/* 16: permissions moved out of the range table entry; 18: + the unpruned relations. columns: those that updates set */
inline void
init_single_relation_range(EState *estate, RangeTblEntry *entry, Bitmapset *columns)
{
#if PG_VERSION_NUM >= 160000
	List *permissions = NIL;
	RTEPermissionInfo *info = addRTEPermissionInfo(&permissions, entry);
	info->updatedCols = columns;
#if PG_VERSION_NUM >= 180000
	ExecInitRangeTable(estate, list_make1(entry), permissions, bms_make_singleton(1));
#else
	ExecInitRangeTable(estate, list_make1(entry), permissions);
#endif
#else
	entry->updatedCols = columns;
	ExecInitRangeTable(estate, list_make1(entry));
#endif
}

/* How the indexes are to follow an update. 16: summarizing indexes follow even a HOT update */
enum class IndexUpdate { None, All, Summarizing };

/* 16: the flag became three-valued; 19: + options */
inline TM_Result
table_tuple_update(Relation relation, ItemPointer tid, TupleTableSlot *slot, CommandId command, TM_FailureData *failure,
                   LockTupleMode *lock_mode, IndexUpdate *indexes)
{
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes update = TU_None;
#if PG_VERSION_NUM >= 190000
	TM_Result result = ::table_tuple_update(relation, tid, slot, command, 0, InvalidSnapshot, InvalidSnapshot, true, failure,
	                                        lock_mode, &update);
#else
	TM_Result result =
	    ::table_tuple_update(relation, tid, slot, command, InvalidSnapshot, InvalidSnapshot, true, failure, lock_mode, &update);
#endif
	*indexes = update == TU_All ? IndexUpdate::All : update == TU_Summarizing ? IndexUpdate::Summarizing : IndexUpdate::None;
#else
	bool update = false;
	TM_Result result =
	    ::table_tuple_update(relation, tid, slot, command, InvalidSnapshot, InvalidSnapshot, true, failure, lock_mode, &update);
	*indexes = update ? IndexUpdate::All : IndexUpdate::None;
#endif
	return result;
}

/* 19: options before the snapshots; changing_partition is one of them */
inline TM_Result
table_tuple_delete(Relation relation, ItemPointer tid, CommandId command, TM_FailureData *failure)
{
#if PG_VERSION_NUM >= 190000
	return ::table_tuple_delete(relation, tid, command, 0, InvalidSnapshot, InvalidSnapshot, true, failure);
#else
	return ::table_tuple_delete(relation, tid, command, InvalidSnapshot, InvalidSnapshot, true, failure, false);
#endif
}

/* 16: + only_summarizing; 19: flags. Without duplicate handling. */
inline List *
insert_index_tuples(ResultRelInfo *relation, TupleTableSlot *slot, EState *estate, bool update, bool only_summarizing)
{
#if PG_VERSION_NUM >= 190000
	std::uint32_t flags = (update ? EIIT_IS_UPDATE : 0) | (only_summarizing ? EIIT_ONLY_SUMMARIZING : 0);
	return ExecInsertIndexTuples(relation, estate, flags, slot, NIL, nullptr);
#elif PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(relation, slot, estate, update, false, nullptr, NIL, only_summarizing);
#else
	(void) only_summarizing;
	return ExecInsertIndexTuples(relation, slot, estate, update, false, nullptr, NIL);
#endif
}

/* 18: + the tuple that may conflict with itself */
inline bool
check_index_constraints(ResultRelInfo *relation, TupleTableSlot *slot, EState *estate, ItemPointer conflict, List *indexes)
{
#if PG_VERSION_NUM >= 180000
	ItemPointerData none;
	ItemPointerSetInvalid(&none);
	return ExecCheckIndexConstraints(relation, slot, estate, conflict, &none, indexes);
#else
	return ExecCheckIndexConstraints(relation, slot, estate, conflict, indexes);
#endif
}

/* 16: + the relations that take part (then through EvalPlanQualInit) */
inline void
init_plan_qual(EPQState *state, EState *estate)
{
#if PG_VERSION_NUM >= 160000
	EvalPlanQualInit(state, estate, nullptr, NIL, -1, NIL);
#else
	EvalPlanQualInit(state, estate, nullptr, NIL, -1);
#endif
}

/* 18: + instrumentation; 19: + flags */
inline IndexScanDesc
index_beginscan(Relation heap, Relation index, Snapshot snapshot, int keys)
{
#if PG_VERSION_NUM >= 190000
	return ::index_beginscan(heap, index, snapshot, nullptr, keys, 0, 0);
#elif PG_VERSION_NUM >= 180000
	return ::index_beginscan(heap, index, snapshot, nullptr, keys, 0);
#else
	return ::index_beginscan(heap, index, snapshot, keys, 0);
#endif
}

/* 19: + flags */
inline TableScanDesc
table_beginscan(Relation relation, Snapshot snapshot)
{
#if PG_VERSION_NUM >= 190000
	return ::table_beginscan(relation, snapshot, 0, nullptr, 0);
#else
	return ::table_beginscan(relation, snapshot, 0, nullptr);
#endif
}

/* 16: + run_as_table_owner */
inline void
execute_truncate(List *relations, List *oids, List *logged_oids, DropBehavior behavior, bool restart_sequences,
                 bool run_as_table_owner)
{
#if PG_VERSION_NUM >= 160000
	ExecuteTruncateGuts(relations, oids, logged_oids, behavior, restart_sequences, run_as_table_owner);
#else
	(void) run_as_table_owner;
	ExecuteTruncateGuts(relations, oids, logged_oids, behavior, restart_sequences);
#endif
}

/* 17: an index access method may keep something between insertions that must be closed */
inline void
index_insert_cleanup(Relation index, IndexInfo *info)
{
#if PG_VERSION_NUM >= 170000
	::index_insert_cleanup(index, info);
#else
	(void) index;
	(void) info;
#endif
}

} // namespace schemasync::pg::compat
