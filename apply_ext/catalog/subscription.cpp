#include "apply_ext/catalog/subscription.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/notify.hpp"
#include "apply_ext/catalog/options.hpp"
#include "apply_ext/worker/slots.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
}

namespace schemasync::catalog {

namespace {

// ---- leaves: may ereport; plain data only ----

constexpr char load_sql[] =
	"SELECT name, owner, conninfo, publications, slot_name, create_slot, copy_schema, coalesce(refresh_copy, copy_data), enabled, drain, drain_lsn,"
	" skip_lsn, CASE WHEN copied OR state = 'refused' THEN state ELSE 'init' END, system_identifier, schema_changes,"
	" options::text, copy_begun, refresh, coalesce(refresh_copy, true), objects_adopted, refresh_copy IS NOT NULL,"
	" EXISTS (SELECT FROM schemasync.relation r WHERE r.subid = subscription.subid AND r.options->>'rewrites' = 'carry'),"
	" options->'ddl_classes' IS NOT NULL OR EXISTS (SELECT FROM schemasync.relation r WHERE r.subid = subscription.subid AND r.options ? 'ddl_classes')"
	" FROM schemasync.subscription WHERE subid = $1";

bool
flag(int column)
{
	bool isnull = true;
	Datum value = result(0, column, &isnull);
	return !isnull && DatumGetBool(value);
}

XLogRecPtr
position(int column)
{
	bool isnull = true;
	Datum value = result(0, column, &isnull);
	return isnull ? InvalidXLogRecPtr : DatumGetLSN(value);
}

const char **
strings(int column, MemoryContext context)
{
	bool isnull = true;
	Datum *elements = nullptr;
	int count = 0;

	Datum value = result(0, column, &isnull);
	deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT, &elements, nullptr, &count);
	const char **list = static_cast<const char **>(
		MemoryContextAllocZero(context, sizeof(char *) * static_cast<Size>(count + 1)));
	for (int i = 0; i < count; i++)
		list[i] = MemoryContextStrdup(context, TextDatumGetCString(elements[i]));
	return list;
}

void
fill(Subscription *subscription, MemoryContext context)
{
	bool isnull = true;

	subscription->name = result_text(0, 1, context);
	subscription->owner = DatumGetObjectId(result(0, 2, &isnull));
	subscription->conninfo = result_text(0, 3, context);
	subscription->publications = strings(4, context);
	subscription->slot_name = result_text(0, 5, context);
	subscription->create_slot = flag(6);
	subscription->copy_schema = flag(7);
	subscription->copy_data = flag(8);
	subscription->enabled = flag(9);
	subscription->drain = flag(10);
	subscription->drain_lsn = position(11);
	subscription->skip_lsn = position(12);
	subscription->state = result_text(0, 13, context);
	subscription->system_identifier = result_text(0, 14, context);
	subscription->schema_changes = result_text(0, 15, context);
	subscription->options_text = result_text(0, 16, context);
	subscription->copy_begun = flag(17);
	subscription->refresh = flag(18);
	subscription->refresh_copies = flag(19);
	subscription->objects_adopted = flag(20);
	subscription->refreshing = flag(21);
	subscription->table_carries = flag(22);
	subscription->has_classes = flag(23);
}

/* Whether the extension is in this database, so that its tables may be named. */
bool
is_installed()
{
	if (!OidIsValid(get_extension_oid("schemasync", true)))
		return false;
	Oid schema = get_namespace_oid("schemasync", true);
	return OidIsValid(schema) && OidIsValid(get_relname_relid("subscription", schema));
}

} // namespace

Subscription *
load_subscription(std::int64_t subid)
{
	MemoryContext context = CurrentMemoryContext;
	Subscription *subscription = nullptr;

	if (!is_installed())
		return nullptr;
	Internal internal = begin_internal();
	if (run(load_sql, {as_int8(subid)}) == 1) {
		subscription = static_cast<Subscription *>(MemoryContextAllocZero(context, sizeof(Subscription)));
		subscription->options = Options();
		subscription->subid = subid;
		fill(subscription, context);
	}
	end_internal(internal);
	if (subscription == nullptr)
		return nullptr;

	MemoryContext saved = MemoryContextSwitchTo(context);
	subscription->origin_name = worker::origin_name(MyDatabaseId, subid);
	read_options(subscription->options_text, &subscription->options);
	subscription->owner_is_superuser = superuser_arg(subscription->owner);
	subscription->options.policy.schema_changes = read_schema_changes(subscription->schema_changes);
	MemoryContextSwitchTo(saved);
	return subscription;
}

std::int64_t
find_subscription(const char *name)
{
	std::int64_t subid = 0;
	bool isnull = true;

	Internal internal = begin_internal();
	if (run("SELECT subid FROM schemasync.subscription WHERE name = $1", {as_text(name)}) == 1)
		subid = DatumGetInt64(result(0, 1, &isnull));
	end_internal(internal);
	return subid;
}

bool
needs_password(const Subscription &subscription)
{
	return subscription.options.password_required && !subscription.owner_is_superuser;
}

void
save_state(std::int64_t subid, const char *state, const char *last_error)
{
	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET state = $2, last_error = $3,"
	    " state_since = CASE WHEN state = $2 THEN state_since ELSE clock_timestamp() END WHERE subid = $1",
	    {as_int8(subid), as_text(state), as_text(last_error)});
	end_internal(internal);
}

void
save_copy_begun(std::int64_t subid)
{
	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET copy_begun = true WHERE subid = $1", {as_int8(subid)});
	end_internal(internal);
}

void
save_objects_adopted(std::int64_t subid)
{
	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET objects_adopted = true WHERE subid = $1", {as_int8(subid)});
	end_internal(internal);
}

void
save_copied(std::int64_t subid)
{
	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET copied = true, objects_adopted = true, create_slot = false, copy_begun = false, refresh_copy = NULL, state = 'ready',"
	    " state_since = clock_timestamp(), last_error = NULL WHERE subid = $1",
	    {as_int8(subid)});
	run("UPDATE schemasync.relation SET adopt = false WHERE subid = $1 AND adopt", {as_int8(subid)});
	end_internal(internal);
}

namespace {

/* Between begin_internal and end_internal. */
void
tell(const char *event, std::int64_t subid, std::initializer_list<Field> fields)
{
	if (run("SELECT name FROM schemasync.subscription WHERE subid = $1", {as_int8(subid)}) == 1)
		notify(event, result_text(0, 1, CurrentMemoryContext), fields);
}

} // namespace

void
load_counters(std::int64_t subid, std::int64_t *rows, std::int64_t *transactions)
{
	bool isnull = true;
	Internal internal = begin_internal();

	if (run("SELECT applied_rows, applied_transactions FROM schemasync.subscription WHERE subid = $1", {as_int8(subid)}) == 1) {
		*rows = DatumGetInt64(result(0, 1, &isnull));
		*transactions = DatumGetInt64(result(0, 2, &isnull));
	}
	end_internal(internal);
}

void
save_counters(std::int64_t subid, std::int64_t rows, std::int64_t transactions)
{
	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET applied_rows = $2, applied_transactions = $3 WHERE subid = $1",
	    {as_int8(subid), as_int8(rows), as_int8(transactions)});
	end_internal(internal);
}

bool
note_error(std::int64_t subid, const ErrorData *error, const ErrorContextInfo *where)
{
	const char *message = error->message != nullptr ? error->message : "missing error text";
	Internal internal = begin_internal();

	/* the same error again counts up; another one is a new row */
	std::uint64_t repeated =
		run("UPDATE schemasync.error SET last_seen = clock_timestamp(), attempts = attempts + 1, detail = $5, hint = $6,"
	        " context = $7, key = $10, publisher_xid = $12 WHERE subid = $1 AND resolved_at IS NULL AND worker = $2"
	        " AND sqlstate = $3 AND message = $4 AND relation IS NOT DISTINCT FROM $8 AND command IS NOT DISTINCT FROM $9"
	        " AND publisher_lsn IS NOT DISTINCT FROM $11",
	        {as_int8(subid), as_text(where->worker), as_text(unpack_sql_state(error->sqlerrcode)), as_text(message), as_text(error->detail),
	         as_text(error->hint), as_text(error->context), as_text(where->relation), as_text(where->command), as_text(where->key),
	         as_lsn(where->lsn), as_int8(where->xid)});
	if (repeated == 0)
		run("INSERT INTO schemasync.error (subid, subscription, worker, sqlstate, message, detail, hint, context, relation,"
		    " command, key, publisher_lsn, publisher_xid) SELECT $1, name, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
		    " nullif($12, 0) FROM schemasync.subscription WHERE subid = $1",
		    {as_int8(subid), as_text(where->worker), as_text(unpack_sql_state(error->sqlerrcode)), as_text(message), as_text(error->detail),
		     as_text(error->hint), as_text(error->context), as_text(where->relation), as_text(where->command), as_text(where->key),
		     as_lsn(where->lsn), as_int8(where->xid)});
	end_internal(internal);
	return repeated == 0;
}

void
record_error(std::int64_t subid, const ErrorData *error, const ErrorContextInfo *where)
{
	const char *message = error->message != nullptr ? error->message : "missing error text";

	bool news = note_error(subid, error, where);
	Internal internal = begin_internal();
	if (news)
		tell("failed", subid, {{"message", message}, {"relation", where->relation}, {"command", where->command}});
	run("UPDATE schemasync.subscription SET last_error = $2, state = 'failed',"
	    " state_since = CASE WHEN state = 'failed' THEN state_since ELSE clock_timestamp() END WHERE subid = $1",
	    {as_int8(subid), as_text(message)});
	end_internal(internal);
}

void
resolve_errors(std::int64_t subid)
{
	Internal internal = begin_internal();
	if (run("UPDATE schemasync.error SET resolved_at = clock_timestamp() WHERE subid = $1 AND worker NOT IN ('copy', 'index') AND resolved_at IS NULL",
	        {as_int8(subid)}) > 0)
		tell("recovered", subid, {});
	end_internal(internal);
}

void
resolve_copy_errors(std::int64_t subid)
{
	Internal internal = begin_internal();
	run("UPDATE schemasync.error SET resolved_at = clock_timestamp() WHERE subid = $1 AND worker = 'copy' AND resolved_at IS NULL",
	    {as_int8(subid)});
	end_internal(internal);
}

} // namespace schemasync::catalog
