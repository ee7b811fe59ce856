/*
 * The differences between PostgreSQL 15 and 19, and the only file that may mention PG_VERSION_NUM.
 * Each entry says what changed and in which major version; the newest form is what callers write.
 *
 * Zone: bridge.
 */
#pragma once

#include "pg/postgres.hpp"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "schemasync supports PostgreSQL 15 to 19"
#endif

extern "C" {
#include "access/htup_details.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_database.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "replication/message.h"
#include "utils/acl.h"
#include "utils/syscache.h"
#include "utils/wait_event.h"
}

namespace schemasync::pg::compat {

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
