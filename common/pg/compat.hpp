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
#include "replication/message.h"
#include "utils/acl.h"
}

namespace schemasync::pg::compat {

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

} // namespace schemasync::pg::compat
