#include "apply_ext/apply/conflicts.hpp"

#include "apply_ext/apply/change.hpp"
#include "apply_ext/apply/relation_map.hpp"
#include "apply_ext/apply/session.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"
}

namespace schemasync::apply {

namespace {

struct Kind {
	Conflict conflict;
	const char *name, *command;
	int sqlstate;
	const char *complaint; /* between the table's name and the end of the message */
};

constexpr Kind kinds[] = {
    {Conflict::InsertExists, "insert_exists", "INSERT", ERRCODE_UNIQUE_VIOLATION,
     "has a row with the key of the row to be inserted"},
    {Conflict::UpdateMissing, "update_missing", "UPDATE", ERRCODE_NO_DATA_FOUND,
     "does not have the row to be updated"},
    {Conflict::DeleteMissing, "delete_missing", "DELETE", ERRCODE_NO_DATA_FOUND,
     "does not have the row to be deleted"},
    /* an INSERT or an UPDATE */
    {Conflict::UniqueViolation, "unique_violation", nullptr, ERRCODE_UNIQUE_VIOLATION,
     "has another row with a unique value of the row to be written"},
};

const Kind *
kind_of(Conflict conflict)
{
	for (const Kind &kind : kinds) {
		if (kind.conflict == conflict)
			return &kind;
	}
	elog(ERROR, "unknown conflict");
}

// ---- leaves: may ereport; plain data only ----

void
record(Session *session, const LocalRelation *local, const Kind *kind, const char *resolution,
       const char *const *texts)
{
	constexpr int count = 11;
	Oid types[count] = {INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID,
	                    TEXTOID, TEXTOID, TEXTOID, LSNOID,  INT8OID};
	char nulls[count + 1];
	Datum values[count];
	auto text = [&](int at, const char *value) {
		nulls[at] = value == nullptr ? 'n' : ' ';
		values[at] = value == nullptr ? Datum{0} : CStringGetTextDatum(value);
	};

	memset(nulls, ' ', count);
	nulls[count] = '\0';
	values[0] = Int64GetDatum(session->subscription->subid);
	text(1, session->subscription->name);
	text(2, quote_qualified_identifier(local->schema, local->name));
	text(3, kind->command != nullptr ? kind->command : session->position.command);
	text(4, kind->name);
	text(5, resolution);
	for (int i = 0; i < 3; i++)
		text(6 + i, texts[i]);
	values[9] = LSNGetDatum(session->remote.final_lsn);
	values[10] = Int64GetDatum(static_cast<std::int64_t>(session->remote.xid));

	act_as_worker(session->relations->locals);
	catalog::Internal internal = catalog::begin_internal();
	int result = SPI_execute_with_args(
	    "INSERT INTO schemasync.conflict (subid, subscription, relation, command, conflict, resolution, key, "
	    "local_row, "
	    "remote_row, publisher_lsn, publisher_xid) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
	    count, types, values, nulls, false, 0);
	if (result != SPI_OK_INSERT)
		elog(ERROR, "could not record a conflict: %s", SPI_result_code_string(result));
	catalog::end_internal(internal);
}

} // namespace

void
report_conflict(Session *session, const LocalRelation *local, Conflict conflict, const char *key,
                const char *local_row, const char *remote_row)
{
	const Kind *kind = kind_of(conflict);

	session->position.key = key;
	if (session->subscription->options.conflicts == catalog::Conflicts::Error)
		ereport(ERROR,
		        (errcode(kind->sqlstate),
		         errmsg("table \"%s.%s\" %s", local->schema, local->name, kind->complaint),
		         key != nullptr ? errdetail("Key %s.", key) : 0,
		         errhint("Repair the row here, or skip the publisher's transaction with SELECT "
		                 "schemasync_skip('%s', '%s').",
		                 session->subscription->name, pg::compat::lsn_text(session->remote.final_lsn))));

	const char *resolution = session->subscription->options.conflicts == catalog::Conflicts::ApplyRemote
	                             ? "apply_remote"
	                             : "keep_local";
	const char *texts[] = {key, local_row, remote_row};
	record(session, local, kind, resolution, texts);
	ereport(LOG,
	        (errmsg("conflict %s in table \"%s.%s\": %s", kind->name, local->schema, local->name, resolution),
	         key != nullptr ? errdetail_log("Key %s.", key) : 0));
	session->position.key = nullptr;
}

Bitmapset *
key_columns(const LocalRelation *local, int index)
{
	Form_pg_index form = local->info->ri_IndexRelationDescs[index]->rd_index;
	Bitmapset *columns = nullptr;

	for (int key = 0; key < form->indnkeyatts; key++) {
		if (form->indkey.values[key] > 0)
			columns = bms_add_member(columns, form->indkey.values[key]);
	}
	return columns;
}

bool
find_unique(LocalRelations *relations, LocalRelation *local, int index, TupleTableSlot *slot, const ItemPointerData *own)
{
	Form_pg_index form = local->info->ri_IndexRelationDescs[index]->rd_index;
	ItemPointerData tid;

	if (!form->indisunique || !form->indimmediate)
		return false;
	need_snapshot(relations);
	/* a unique value is in one row: when that is our own, there is no other */
	return !pg::compat::check_index_constraints(local->info, slot, local->estate, &tid, list_make1_oid(form->indexrelid)) &&
	       (own == nullptr || !ItemPointerEquals(&tid, const_cast<ItemPointer>(own))) &&
	       table_tuple_fetch_row_version(local->relation, &tid, SnapshotAny, local->found);
}

bool
settle_unique(Session *session, LocalRelation *local, TupleTableSlot *slot, const ItemPointerData *own)
{
	LocalRelations *locals = session->relations->locals;
	bool moved = false;

	if (session->subscription->options.conflicts == catalog::Conflicts::Error)
		return false;
	for (int i = 0; i < local->info->ri_NumIndices; i++) {
		while (find_unique(locals, local, i, slot, own)) {
			/* its values may lie in the page of the found row, which another takes the place of */
			ExecMaterializeSlot(slot);
			moved = true;
			report_conflict(session, local, Conflict::UniqueViolation, describe_row(local, slot, key_columns(local, i)),
			                describe_row(local, local->found, nullptr), describe_row(local, slot, nullptr));
			if (session->subscription->options.conflicts == catalog::Conflicts::KeepLocal)
				return true;
			act_for(locals, local, ACL_DELETE);
			ItemPointerData other = local->found->tts_tid;
			/* when somebody else was quicker, the loop finds what is there now; but a trigger may keep the row */
			if (delete_row(locals, local) && find_unique(locals, local, i, slot, own) &&
			    ItemPointerEquals(&other, &local->found->tts_tid))
				ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION),
				                errmsg("a trigger of table \"%s.%s\" keeps a row that a conflict is to delete", local->schema,
				                       local->name),
				                errdetail("conflicts = apply_remote deletes the row here that has a unique value of the publisher's row.")));
		}
	}
	if (moved && own != nullptr &&
	    !table_tuple_fetch_row_version(local->relation, const_cast<ItemPointer>(own), SnapshotAny, local->found))
		elog(ERROR, "could not fetch the row that was found before");
	return false;
}

} // namespace schemasync::apply
