/*
 * schemasync_create_subscription, schemasync_alter_subscription, schemasync_drop_subscription.
 */
#include "core/definition.hpp"

#include "apply_ext/apply/index_queue.hpp"

#include "apply_ext/api/preflight.hpp"
#include "apply_ext/api/target.hpp"
#include "apply_ext/apply/ddl_execute.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/options.hpp"
#include "apply_ext/worker/control.hpp"
#include "apply_ext/worker/slots.hpp"
#include "pg/compat.hpp"
#include "pg/guard.hpp"

extern "C" {
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "replication/origin.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(schemasync_create_subscription);
PG_FUNCTION_INFO_V1(schemasync_alter_subscription);
PG_FUNCTION_INFO_V1(schemasync_drop_subscription);
}

SCHEMASYNC_EXPORT Datum schemasync_create_subscription(PG_FUNCTION_ARGS);
SCHEMASYNC_EXPORT Datum schemasync_alter_subscription(PG_FUNCTION_ARGS);
SCHEMASYNC_EXPORT Datum schemasync_drop_subscription(PG_FUNCTION_ARGS);

namespace schemasync::api {

namespace {

/* The arguments that create and alter share, in their order; nullptr or absent: NULL. */
struct Given {
	char *name, *conninfo;
	const char **publications;
	char *schema_changes;
	bool has_copy_schema, copy_schema, has_copy_data, copy_data, has_enabled, enabled;
	char *slot_name;
	bool has_create_slot, create_slot;
	char *options;
};

// ---- leaves: may ereport; plain data only ----

const char **
publications_argument(FunctionCallInfo fcinfo, int number)
{
	Datum *elements = nullptr;
	bool *nulls = nullptr;
	int count = 0;

	if (PG_ARGISNULL(number))
		return nullptr;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(number), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
	if (count == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("publications must name at least one publication")));
	const char **names = static_cast<const char **>(palloc0(sizeof(char *) * static_cast<Size>(count + 1)));
	for (int i = 0; i < count; i++) {
		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("publications must not contain null")));
		names[i] = TextDatumGetCString(elements[i]);
		for (int j = 0; j < i; j++) {
			if (strcmp(names[i], names[j]) == 0)
				ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
				                errmsg("publication name \"%s\" used more than once", names[i])));
		}
	}
	return names;
}

bool
boolean_argument(FunctionCallInfo fcinfo, int number, bool *given)
{
	*given = !PG_ARGISNULL(number);
	return *given && PG_GETARG_BOOL(number);
}

void
check_slot_name(const char *name)
{
	bool good = name[0] != '\0' && strlen(name) < NAMEDATALEN;

	for (const char *at = name; *at != '\0' && good; at++)
		good = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || *at == '_';
	if (!good)
		ereport(ERROR, (errcode(ERRCODE_INVALID_NAME), errmsg("invalid replication slot name: \"%s\"", name),
		                errhint("Slot names have 1 to %d lower case letters, digits and underscores.", NAMEDATALEN - 1)));
}

Given
read_arguments(FunctionCallInfo fcinfo)
{
	Given given = {};

	given.name = required_text(fcinfo, 0, "name");
	given.conninfo = text_argument(fcinfo, 1);
	given.publications = publications_argument(fcinfo, 2);
	given.schema_changes = text_argument(fcinfo, 3);
	given.copy_schema = boolean_argument(fcinfo, 4, &given.has_copy_schema);
	given.copy_data = boolean_argument(fcinfo, 5, &given.has_copy_data);
	given.enabled = boolean_argument(fcinfo, 6, &given.has_enabled);
	given.slot_name = text_argument(fcinfo, 7);
	given.create_slot = boolean_argument(fcinfo, 8, &given.has_create_slot);
	if (!PG_ARGISNULL(9)) {
		Jsonb *options = PG_GETARG_JSONB_P(9);
		given.options = JsonbToCString(nullptr, &options->root, VARSIZE(options));
	}
	if (given.schema_changes != nullptr)
		(void) catalog::read_schema_changes(given.schema_changes);
	if (given.slot_name != nullptr)
		check_slot_name(given.slot_name);
	return given;
}

} // namespace

/*
 * As CREATE SUBSCRIPTION of 16: superusers, and the members of pg_create_subscription that may create in the database. Where there is
 * no such role, EXECUTE on the function is granted by a superuser in its place.
 */
void
check_may_create()
{
	if (superuser())
		return;
	Oid role = get_role_oid("pg_create_subscription", true);
	if (OidIsValid(role) && !has_privs_of_role(GetUserId(), role))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied to create subscription"),
		                errdetail("Only roles with privileges of the \"%s\" role may create subscriptions.",
		                          "pg_create_subscription")));
	if (!pg::compat::may_create_in_database(MyDatabaseId, GetUserId()))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		                errmsg("permission denied for database %s", get_database_name(MyDatabaseId))));
}

namespace {

void
check_name(const char *name)
{
	if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		ereport(ERROR, (errcode(ERRCODE_INVALID_NAME), errmsg("invalid subscription name: \"%s\"", name),
		                errdetail("A name has 1 to %d bytes.", NAMEDATALEN - 1)));
	if (catalog::find_subscription(name) != 0)
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT), errmsg("subscription \"%s\" already exists", name)));
}

void
check_options(const char *options, catalog::Options *read)
{
	catalog::read_options(options, read);
	if (!read->password_required && !superuser())
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("password_required=false is superuser-only")));
}

/* A name that no other server, database or subscription has, so that all may go to one publisher. */
char *
default_slot_name(std::int64_t subid)
{
	return psprintf("schemasync_%u_" INT64_FORMAT "_" UINT64_FORMAT, MyDatabaseId, subid, GetSystemIdentifier());
}

std::int64_t
next_subid()
{
	bool isnull = true;

	catalog::Internal internal = catalog::begin_internal();
	catalog::run("SELECT nextval(pg_get_serial_sequence('schemasync.subscription', 'subid'))");
	std::int64_t subid = DatumGetInt64(catalog::result(0, 1, &isnull));
	catalog::end_internal(internal);
	return subid;
}

void
insert_subscription(std::int64_t subid, const Given &given, const char *slot_name, const char *identifier)
{
	using namespace catalog;

	Oid owner = GetUserId();
	Internal internal = begin_internal();
	run("INSERT INTO schemasync.subscription (subid, name, owner, conninfo, publications, slot_name, create_slot, schema_changes,"
	    " copy_schema, copy_data, options, enabled, system_identifier) OVERRIDING SYSTEM VALUE"
	    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, jsonb_strip_nulls($11), $12, $13)",
	    {as_int8(subid), as_text(given.name), as_oid(owner), as_text(given.conninfo), as_text_array(given.publications),
	     as_text(slot_name), as_boolean(given.create_slot), as_text(given.schema_changes), as_boolean(given.copy_schema),
	     as_boolean(given.copy_data), as_json(given.options), as_boolean(given.enabled), as_text(identifier)});
	end_internal(internal);
}

/* The subscription's origin tells the launcher that there is one. An old one of the name was left by an extension that was dropped. */
void
make_origin(std::int64_t subid)
{
	char *origin = worker::origin_name(MyDatabaseId, subid);

	if (replorigin_by_name(origin, true) != 0) {
		replorigin_drop_by_name(origin, true, false);
		CommandCounterIncrement();
	}
	(void) replorigin_create(origin);
}

void
require_given(bool given, const char *name)
{
	if (!given)
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", name)));
}

void
create_subscription(Given given)
{
	catalog::Options options;

	worker::require_preload();
	check_may_create();
	require_given(given.conninfo != nullptr, "conninfo");
	require_given(given.publications != nullptr, "publications");
	require_given(given.schema_changes != nullptr, "schema_changes");
	require_given(given.has_copy_schema, "copy_schema");
	require_given(given.has_copy_data, "copy_data");
	require_given(given.has_enabled, "enabled");
	require_given(given.has_create_slot, "create_slot");
	require_given(given.options != nullptr, "options");
	check_name(given.name);
	check_options(given.options, &options);
	if (given.slot_name == nullptr && !given.create_slot)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("create_slot => false needs a slot_name")));

	std::int64_t subid = next_subid();
	const char *slot_name = given.slot_name != nullptr ? given.slot_name : default_slot_name(subid);
	worker::Publisher *publisher = worker::connect(given.conninfo, worker::Protocol::Sql, given.name,
	                                               options.password_required && !superuser());
	check_publisher(publisher, {given.publications, slot_name, given.create_slot, options.failover});
	bool makes_extensions = given.copy_schema && options.ddl_classes != nullptr &&
	                        schemasync::merge::names_class(options.ddl_classes, "extensions");
	report_findings(run_checks(publisher, array_text(given.publications), makes_extensions), given.name,
	                {given.create_slot, given.copy_schema, given.copy_data});
	char *identifier = system_identifier(publisher);
	worker::close(publisher);

	worker::lock_subscription(subid);
	insert_subscription(subid, given, slot_name, identifier);
	make_origin(subid);
	worker::start_at_commit(subid);
	if (!given.enabled)
		worker::rest_at_commit(subid);
}

/* Raises when something is to be changed that the finished copy has settled. */
void
check_alterable(const catalog::Subscription &subscription, const Given &given)
{
	bool copied = strcmp(subscription.state, "init") != 0;
	const char *settled = given.has_copy_schema && given.copy_schema != subscription.copy_schema ? "copy_schema"
	                      : given.has_copy_data && given.copy_data != subscription.copy_data     ? "copy_data"
	                      : given.has_create_slot                                                ? "create_slot"
	                                                                                             : nullptr;

	if (copied && settled != nullptr)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("%s of subscription \"%s\" cannot be changed after the initial copy", settled, subscription.name)));
	if (given.slot_name != nullptr && subscription.enabled && strcmp(given.slot_name, subscription.slot_name) != 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("slot_name of an enabled subscription cannot be changed"),
		                errhint("Stop it first: SELECT schemasync_stop(%s);", quote_literal_cstr(subscription.name))));
}

/* A new place to connect to must be one that works, and be the same publisher. */
void
check_new_source(const catalog::Subscription &subscription, const Given &given, const catalog::Options &options)
{
	const char *conninfo = given.conninfo != nullptr ? given.conninfo : subscription.conninfo;
	const char *const *publications = given.publications != nullptr ? given.publications : subscription.publications;
	const char *slot_name = given.slot_name != nullptr ? given.slot_name : subscription.slot_name;
	bool create_slot = given.has_create_slot ? given.create_slot : subscription.create_slot;
	worker::Publisher *publisher =
		worker::connect(conninfo, worker::Protocol::Sql, subscription.name,
	                    options.password_required && !superuser_arg(subscription.owner));

	check_publisher(publisher, {publications, slot_name, create_slot, options.failover});
	char *identifier = system_identifier(publisher);
	worker::close(publisher);
	if (subscription.system_identifier != nullptr && strcmp(identifier, subscription.system_identifier) != 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("the connection string of subscription \"%s\" leads to another publisher", subscription.name),
		                errdetail("Its system identifier is %s, the subscription was made with %s.", identifier,
		                          subscription.system_identifier),
		                errhint("Objects are known by the publisher's identifiers: make a new subscription for another server.")));
}

/* The stored options with those given over them; a null takes one out. */
char *
merge_options(const char *stored, const char *given)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	Internal internal = begin_internal();
	run("SELECT jsonb_strip_nulls($1 || $2)::text", {as_json(stored), as_json(given)});
	char *merged = result_text(0, 1, context);
	end_internal(internal);
	return merged;
}

void
alter_subscription(Given given)
{
	using namespace catalog;

	Subscription *subscription = locked_target(given.name);
	check_alterable(*subscription, given);

	Options options, merged_options;
	const char *merged = subscription->options_text;
	if (given.options != nullptr) {
		check_options(given.options, &options); /* names, values and the caller's rights, before the merge hides them */
		merged = merge_options(subscription->options_text, given.options);
	}
	read_options(merged, &merged_options);
	if (given.conninfo != nullptr || given.publications != nullptr || given.slot_name != nullptr ||
	    (merged_options.failover && !subscription->options.failover))
		check_new_source(*subscription, given, merged_options);

	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET conninfo = coalesce($2, conninfo), publications = coalesce($3, publications),"
	    " schema_changes = coalesce($4, schema_changes), copy_schema = coalesce($5, copy_schema),"
	    " copy_data = coalesce($6, copy_data), enabled = coalesce($7, enabled), slot_name = coalesce($8, slot_name),"
	    " create_slot = coalesce($9, create_slot), options = $10,"
	    " objects_adopted = objects_adopted AND (options->'ddl_classes' IS NOT DISTINCT FROM ($10)->'ddl_classes'),"
	    " state_since = CASE WHEN $7 <> enabled THEN clock_timestamp() ELSE state_since END WHERE subid = $1",
	    {as_int8(subscription->subid), as_text(given.conninfo),
	     given.publications != nullptr ? as_text_array(given.publications) : Argument{TEXTARRAYOID, 0, true},
	     as_text(given.schema_changes), Argument{BOOLOID, BoolGetDatum(given.copy_schema), !given.has_copy_schema},
	     Argument{BOOLOID, BoolGetDatum(given.copy_data), !given.has_copy_data},
	     Argument{BOOLOID, BoolGetDatum(given.enabled), !given.has_enabled}, as_text(given.slot_name),
	     Argument{BOOLOID, BoolGetDatum(given.create_slot), !given.has_create_slot}, as_json(merged)});
	end_internal(internal);
	worker::restart_at_commit(subscription->subid);
}

/* What the drop does when the transaction commits: the slot cannot be brought back, so everything before must have gone well. */
struct Dropping {
	worker::Publisher *publisher; /* nullptr: the slot stays */
	char *slot_name, *origin_name;
	Dropping *next;
	int level;
};

Dropping *dropping = nullptr; /* in TopTransactionContext */

void
drop_slot(Dropping *one)
{
	const char *message = nullptr;
	worker::Rows rows = {};
	char *sql = psprintf("SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots WHERE slot_name = %s",
	                     worker::quote_text(one->slot_name));

	/* the walsender sees the end of its connection only when it next looks */
	for (int attempt = 0;; attempt++) {
		const char *state = worker::try_query(one->publisher, sql, &rows, &message);
		if (state == nullptr)
			return;
		bool in_use = strcmp(state, "55006") == 0;
		if (!in_use || attempt >= 1200)
			ereport(ERROR, (errcode(in_use ? ERRCODE_OBJECT_IN_USE : ERRCODE_CONNECTION_FAILURE),
			                errmsg("could not drop replication slot \"%s\" on the publisher: %s", one->slot_name, message),
			                errhint("Drop the subscription with drop_slot => false, and the slot by hand.")));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 50,
		                 pg::compat::wait_event("SchemasyncDropSlot"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

void
before_commit(XactEvent event, void *)
{
	switch (event) {
	case XACT_EVENT_PRE_COMMIT:
		for (Dropping *one = dropping; one != nullptr; one = one->next) {
			if (one->publisher != nullptr)
				drop_slot(one);
			replorigin_drop_by_name(one->origin_name, true, false);
		}
		break;
	case XACT_EVENT_PRE_PREPARE:
		if (dropping != nullptr)
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			                errmsg("cannot PREPARE a transaction that has dropped a subscription")));
		break;
	case XACT_EVENT_COMMIT:
	case XACT_EVENT_ABORT:
		dropping = nullptr;
		break;
	default:
		break;
	}
}

void
forget_rolled_back(SubXactEvent event, SubTransactionId, SubTransactionId, void *)
{
	int level = GetCurrentTransactionNestLevel();

	for (Dropping **at = &dropping; *at != nullptr;) {
		if ((*at)->level < level)
			at = &(*at)->next;
		else if (event == SUBXACT_EVENT_ABORT_SUB)
			*at = (*at)->next;
		else {
			if (event == SUBXACT_EVENT_COMMIT_SUB)
				(*at)->level = level - 1;
			at = &(*at)->next;
		}
	}
}

void
drop_at_commit(const catalog::Subscription &subscription, bool with_slot)
{
	static bool registered = false;

	if (!registered) {
		RegisterXactCallback(before_commit, nullptr);
		RegisterSubXactCallback(forget_rolled_back, nullptr);
		registered = true;
	}
	MemoryContext saved = MemoryContextSwitchTo(TopTransactionContext);
	Dropping *one = static_cast<Dropping *>(palloc0(sizeof(Dropping)));
	one->slot_name = pstrdup(subscription.slot_name);
	one->origin_name = pstrdup(subscription.origin_name);
	one->level = GetCurrentTransactionNestLevel();
	if (with_slot)
		one->publisher = connect_publisher(subscription);
	one->next = dropping;
	dropping = one;
	MemoryContextSwitchTo(saved);
}

/* Connects before anything is undone, and says what to do when that fails. */
void
probe_publisher(const catalog::Subscription &subscription)
{
	ErrorData *error = pg::run_protected(
		[](void *arg) { worker::close(connect_publisher(*static_cast<const catalog::Subscription *>(arg))); },
		const_cast<catalog::Subscription *>(&subscription));

	if (error == nullptr)
		return;
	ereport(ERROR, (errcode(error->sqlerrcode),
	                errmsg("could not drop replication slot \"%s\" on the publisher", subscription.slot_name),
	                errdetail("%s.", error->message),
	                errhint("Drop the subscription without it: SELECT schemasync_drop_subscription(%s, drop_slot => false);"
	                        " later, on the publisher: SELECT pg_drop_replication_slot(%s);",
	                        quote_literal_cstr(subscription.name), quote_literal_cstr(subscription.slot_name))));
}

/* What the index worker was at when it was ended is of no use to anybody. One that cannot be dropped now is told of. */
void
drop_left_indexes(std::int64_t subid)
{
	int count = 0;
	catalog::IndexBuild *builds = catalog::load_index_builds(subid, InvalidOid, &count);

	for (int i = 0; i < count; i++) {
		const char *sql = apply::drop_left_sql(builds[i].local_oid, builds[i].relid, false);
		if (sql == nullptr)
			continue;
		const apply::Execution execution{.sql = sql,
		                                 .run_as = apply::table_owner(builds[i].relid),
		                                 .checked = true,
		                                 .restricted = true,
		                                 .search_path = "",
		                                 .waits_for = InvalidOid,
		                                 .settings = nullptr,
		                                 .nsettings = 0,
		                                 .lock_timeout = 5000,
		                                 .lock_retries = 0};
		apply::Executed executed = apply::execute_ddl(execution);
		if (executed.outcome != apply::Outcome::Done)
			ereport(WARNING, (errmsg("an index that was not finished is left: %s", executed.error->message),
			                  errhint("%s;", sql)));
	}
}

/* They lock what they changed, and no stream ends them any more. */
void
warn_of_prepared(const catalog::Subscription &subscription)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	Internal internal = begin_internal();
	run("SELECT pg_catalog.string_agg(gid, ', ' ORDER BY prepared) FROM pg_catalog.pg_prepared_xacts WHERE gid ~ $1"
	    " AND database = pg_catalog.current_database() AND owner = pg_catalog.pg_get_userbyid($2)",
	    {as_text(psprintf("^schemasync_%lld_[0-9]{1,10}$", static_cast<long long>(subscription.subid))), as_oid(subscription.owner)});
	const char *names = result_text(0, 1, context);
	end_internal(internal);
	if (names != nullptr)
		ereport(WARNING, (errmsg("transactions that the subscription has prepared are left: %s", names),
		                  errhint("End each by hand, as the publisher has ended it or will: COMMIT PREPARED or ROLLBACK PREPARED.")));
}

void
drop_subscription(const char *name, bool with_slot)
{
	using namespace catalog;

	Subscription *subscription = locked_target(name);
	/* a slot that was still to be made may have been made by somebody else since */
	with_slot = with_slot && (!subscription->create_slot || subscription->copy_begun);
	if (with_slot)
		probe_publisher(*subscription);
	worker::stop_worker(subscription->subid);
	drop_left_indexes(subscription->subid);
	warn_of_prepared(*subscription);
	drop_at_commit(*subscription, with_slot);

	Internal internal = begin_internal();
	/* not left to the foreign keys: under session_replication_role = replica they do nothing */
	for (const char *table : {"relation", "object", "refusal", "ddl_history", "error", "conflict", "index_build", "subscription"})
		run(psprintf("DELETE FROM schemasync.%s WHERE subid = $1", table), {as_int8(subscription->subid)});
	end_internal(internal);
	worker::forget_at_commit(subscription->subid);
}

} // namespace

} // namespace schemasync::api

Datum
schemasync_create_subscription(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	create_subscription(read_arguments(fcinfo));
	PG_RETURN_VOID();
}

Datum
schemasync_alter_subscription(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	alter_subscription(read_arguments(fcinfo));
	PG_RETURN_VOID();
}

Datum
schemasync_drop_subscription(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	drop_subscription(required_text(fcinfo, 0, "name"), PG_ARGISNULL(1) || PG_GETARG_BOOL(1));
	PG_RETURN_VOID();
}
