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
#include "utils/wait_event.h"
}

namespace schemasync::pg::compat {

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

} // namespace schemasync::pg::compat

extern "C" {
#include "catalog/pg_database.h"
#include "utils/acl.h"
}

namespace schemasync::pg::compat {

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

} // namespace schemasync::pg::compat
