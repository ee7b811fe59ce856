#include "apply_ext/apply/rows.hpp"
#include "apply_ext/apply/session.hpp"
#include "apply_ext/worker/index_builds.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/pg_inherits.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
}

namespace schemasync::apply {

namespace {

struct Tables {
	List *relations, *oids, *logged;
};

// ---- leaves: may ereport; plain data only ----

/* One table of the message, or a partition of one. Its lock is there. */
void
add_table(Session *session, Tables *tables, Oid relid)
{
	if (list_member_oid(tables->oids, relid))
		return;
	Relation relation = table_open(relid, NoLock);
	if (RELATION_IS_OTHER_TEMP(relation)) {
		table_close(relation, NoLock);
		return;
	}
	Oid user = session->relations->locals->as_owner ? relation->rd_rel->relowner : GetUserId();
	AclResult result = pg_class_aclcheck(relid, user, ACL_TRUNCATE);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLE, RelationGetRelationName(relation));
	if (user != GetUserId() && !pg::compat::member_can_set_role(GetUserId(), user))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		                errmsg("role \"%s\" cannot SET ROLE to \"%s\"", GetUserNameFromId(GetUserId(), false),
		                       GetUserNameFromId(user, false))));
	tables->relations = lappend(tables->relations, relation);
	tables->oids = lappend_oid(tables->oids, relid);
	if (RelationIsLogicallyLogged(relation))
		tables->logged = lappend_oid(tables->logged, relid);
}

/* returns: the local table of a publisher's relation, locked as TRUNCATE needs it; InvalidOid when it is not
 * to be applied */
Oid
lock_target(Session *session, Oid publisher_oid)
{
	Target *target = open_target(session, publisher_oid);

	if (target == nullptr)
		return InvalidOid;
	Oid relid = target->relid;
	/* the executor's references would make TRUNCATE believe that the table is in use */
	close_locals(session->relations->locals);
	/* one that is being built waits for this transaction and would not let the table go */
	List *tree = find_all_inheritors(relid, NoLock, nullptr);
	ListCell *cell;
	foreach (cell, tree)
		worker::hold_index_build(lfirst_oid(cell));
	LockRelationOid(relid, AccessExclusiveLock);
	return relid;
}

} // namespace

void
apply_truncate(Session *session, const protocol::Truncate &message)
{
	Tables tables = {NIL, NIL, NIL};
	ListCell *cell;

	flush_rows(session);
	for (std::uint32_t i = 0; i < message.count; i++) {
		Oid relid = lock_target(session, message.relation(i));
		if (!OidIsValid(relid))
			continue;
		List *tree = get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE
		                 ? find_all_inheritors(relid, AccessExclusiveLock, nullptr)
		                 : list_make1_oid(relid);
		foreach (cell, tree)
			add_table(session, &tables, lfirst_oid(cell));
	}
	close_locals(session->relations->locals);
	if (tables.relations == NIL)
		return;

	need_snapshot(session->relations->locals);
	/* CASCADE as the publisher ran it: what refers to these tables here goes with them, or the foreign keys
	 * would stand in the way */
	pg::compat::execute_truncate(tables.relations, tables.oids, tables.logged,
	                             message.cascade ? DROP_CASCADE : DROP_RESTRICT, message.restart_identity,
	                             session->relations->locals->as_owner);
	drop_snapshot(session->relations->locals);
	foreach (cell, tables.relations)
		table_close(static_cast<Relation>(lfirst(cell)), NoLock);
	CommandCounterIncrement();
	session->group.ends = true;
}

} // namespace schemasync::apply
