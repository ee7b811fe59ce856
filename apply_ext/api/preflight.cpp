#include "apply_ext/api/preflight.hpp"

#include <initializer_list>

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/worker/control.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(schemasync_preflight);
}

SCHEMASYNC_EXPORT Datum schemasync_preflight(PG_FUNCTION_ARGS);

namespace schemasync::api {

namespace {

using worker::query;
using worker::Rows;

// ---- leaves: may ereport; plain data only ----

void
check_server(worker::Publisher *publisher)
{
	Rows rows = query(publisher, "SELECT pg_catalog.current_setting('server_version_num'),"
	                             " pg_catalog.current_setting('server_version'), pg_catalog.current_setting('wal_level'),"
	                             " rolsuper OR rolreplication, rolname,"
	                             " EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'schemasync'),"
	                             " pg_catalog.current_database()"
	                             " FROM pg_catalog.pg_roles WHERE rolname = current_user");
	worker::expect(rows, "vvvvvvv", 1);
	char **row = rows.values[0];
	int version = atoi(row[0]);

	if (version < 150000)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("the publisher runs PostgreSQL %s", row[1]),
		                errdetail("schemasync needs PostgreSQL 15 or later on both sides.")));
	/* from 19 the first logical slot switches logical decoding on by itself when wal_level is replica */
	if (strcmp(row[2], "logical") != 0 && !(version >= 190000 && strcmp(row[2], "replica") == 0))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("wal_level on the publisher is \"%s\"", row[2]),
		                errhint("On the publisher, set wal_level = logical and restart the server.")));
	if (row[3][0] != 't')
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		                errmsg("role \"%s\" may not replicate on the publisher", row[4]),
		                errhint("On the publisher: ALTER ROLE %s REPLICATION;", quote_identifier(row[4]))));
	if (row[5][0] != 't')
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
		                errmsg("extension \"schemasync\" is not installed in the publisher's database \"%s\"", row[6]),
		                errdetail("The extension's event triggers record there what each DDL command changes."),
		                errhint("In that database: CREATE EXTENSION schemasync;")));
}

/* The server of 2026 and later only loads output plugins that are listed. */
void
check_plugin(worker::Publisher *publisher)
{
	Rows rows = query(publisher, "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'output_plugin_libraries'");

	worker::expect(rows, "n");
	if (rows.count == 0)
		return;
	List *libraries = NIL;
	char *setting = pstrdup(rows.values[0][0] != nullptr ? rows.values[0][0] : "");
	if (!SplitGUCList(setting, ',', &libraries))
		return;
	StringInfoData all;
	ListCell *cell;
	initStringInfo(&all);
	foreach (cell, libraries) {
		const char *library = static_cast<const char *>(lfirst(cell));
		if (strcmp(library, "schemasync_decoder") == 0)
			return;
		appendStringInfo(&all, "%s, ", worker::quote_text(library));
	}
	appendStringInfoString(&all, "'schemasync_decoder'");
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
	                errmsg("the publisher does not allow the output plugin \"schemasync_decoder\""),
	                errdetail("Its parameter output_plugin_libraries does not list it: \"%s\".",
	                          rows.values[0][0] != nullptr ? rows.values[0][0] : ""),
	                errhint("On the publisher, as a superuser: ALTER SYSTEM SET output_plugin_libraries = %s; SELECT pg_reload_conf();",
	                        all.data)));
}

void
check_publications(worker::Publisher *publisher, const char *const *publications)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT p FROM pg_catalog.unnest(ARRAY[");
	for (int i = 0; publications[i] != nullptr; i++)
		appendStringInfo(&sql, "%s%s", i > 0 ? ", " : "", worker::quote_text(publications[i]));
	appendStringInfoString(&sql, "]::text[]) p WHERE NOT EXISTS"
	                             " (SELECT FROM pg_catalog.pg_publication WHERE pubname = p)");
	Rows rows = query(publisher, sql.data);
	worker::expect(rows, "v");
	if (rows.count == 0)
		return;

	StringInfoData missing;
	initStringInfo(&missing);
	for (int i = 0; i < rows.count; i++)
		appendStringInfo(&missing, "%s\"%s\"", i > 0 ? ", " : "", rows.values[i][0]);
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
	                errmsg_plural("publication %s does not exist on the publisher", "publications %s do not exist on the publisher",
	                              static_cast<unsigned long>(rows.count), missing.data)));
}

void
check_failover(worker::Publisher *publisher)
{
	Rows rows = query(publisher, "SELECT pg_catalog.current_setting('server_version_num')::int >= 170000,"
	                             " pg_catalog.current_setting('server_version'), pg_catalog.pg_is_in_recovery()");

	worker::expect(rows, "vvv", 1);
	char **row = rows.values[0];
	if (row[0][0] != 't')
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("the publisher has no failover slots"),
		                errdetail("It runs PostgreSQL %s; 17 and later have them.", row[1]), errhint("Leave the option failover out.")));
	if (row[2][0] == 't')
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("the publisher is a standby and has no failover slots"),
		                errdetail("Slots that are made on the primary are kept in step on its standbys, not others."),
		                errhint("Subscribe to the primary, or leave the option failover out.")));
}

void
check_slot(worker::Publisher *publisher, const Wanted &wanted)
{
	const char *parameters[] = {wanted.slot_name};
	Rows rows = query(publisher,
	                  "SELECT plugin, database = pg_catalog.current_database(), active FROM pg_catalog.pg_replication_slots"
	                  " WHERE slot_name = $1",
	                  1, parameters);

	if (wanted.create_slot) {
		if (rows.count > 0)
			ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
			                errmsg("replication slot \"%s\" already exists on the publisher", wanted.slot_name),
			                errhint("Give another slot_name, drop that slot, or use it with create_slot => false.")));
		rows = query(publisher, "SELECT pg_catalog.count(*) < pg_catalog.current_setting('max_replication_slots')::int,"
		                        " pg_catalog.current_setting('max_replication_slots') FROM pg_catalog.pg_replication_slots");
		worker::expect(rows, "vv", 1);
		if (rows.values[0][0][0] != 't')
			ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			                errmsg("all replication slots of the publisher are in use"),
			                errhint("On the publisher, drop slots that nobody uses, or increase max_replication_slots (now %s) and"
			                        " restart the server.",
			                        rows.values[0][1])));
		return;
	}
	if (rows.count == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
		                errmsg("replication slot \"%s\" does not exist on the publisher", wanted.slot_name),
		                errhint("Create it there with pg_create_logical_replication_slot(%s, 'schemasync_decoder'), or use create_slot => true.",
		                        worker::quote_text(wanted.slot_name))));
	worker::expect(rows, "nnv");
	char **row = rows.values[0];
	if (row[0] == nullptr || strcmp(row[0], "schemasync_decoder") != 0 || row[1] == nullptr || row[1][0] != 't')
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
		                errmsg("replication slot \"%s\" is not a slot of schemasync in the publisher's database", wanted.slot_name),
		                errdetail("It must be a logical slot of that database with the output plugin \"schemasync_decoder\".")));
}

} // namespace

void
check_publisher(worker::Publisher *publisher, const Wanted &wanted)
{
	check_server(publisher);
	if (wanted.failover)
		check_failover(publisher);
	check_plugin(publisher);
	check_publications(publisher, wanted.publications);
	check_slot(publisher, wanted);
}

/* --- all checks --------------------------------------------------------------------------------------------------- */

namespace {

List *
add_finding(List *findings, const char *side, const char *severity, const Check &check, const char *detail, const char *hint)
{
	Finding *finding = static_cast<Finding *>(palloc(sizeof(Finding)));

	*finding = {side, severity, check.name, detail, hint};
	return lappend(findings, finding);
}

List *
check_publisher_side(List *findings, worker::Publisher *publisher, const Check &check, const char *publications)
{
	const char *parameters[] = {publications};
	bool takes = strstr(check.publisher_sql, "$1") != nullptr;
	Rows rows = query(publisher, check.publisher_sql, takes ? 1 : 0, parameters);

	worker::expect(rows, "vnn");
	for (int i = 0; i < rows.count; i++)
		findings = add_finding(findings, "publisher", rows.values[i][0], check, rows.values[i][1], rows.values[i][2]);
	return rows.count > 0 ? findings : add_finding(findings, "publisher", "ok", check, nullptr, nullptr);
}

List *
check_subscriber_side(List *findings, worker::Publisher *publisher, const Check &check, const char *publications)
{
	using namespace catalog;

	const char *parameters[] = {publications};
	const char *theirs = nullptr;
	char *asking = caller();
	MemoryContext context = CurrentMemoryContext;

	if (check.publisher_sql != nullptr) {
		bool takes = strstr(check.publisher_sql, "$1") != nullptr;
		Rows rows = query(publisher, check.publisher_sql, takes ? 1 : 0, parameters);
		worker::expect(rows, "n");
		theirs = rows.count > 0 ? rows.values[0][0] : nullptr;
	}
	Internal internal = begin_internal();
	std::uint64_t count = run(check.local_sql, {as_json(theirs), as_text(asking)});
	MemoryContext spi = MemoryContextSwitchTo(context);
	for (std::uint64_t i = 0; i < count; i++)
		findings = add_finding(findings, "subscriber", result_text(i, 1, context), check, result_text(i, 2, context), result_text(i, 3, context));
	MemoryContextSwitchTo(spi);
	end_internal(internal);
	return count > 0 ? findings : add_finding(findings, "subscriber", "ok", check, nullptr, nullptr);
}

} // namespace

List *
run_checks(worker::Publisher *publisher, const char *publications, bool makes_extensions)
{
	List *findings = NIL;

	for (const Check *check = publisher_checks; check->name != nullptr; check++) {
		findings = check_publisher_side(findings, publisher, *check, publications);
		/* what follows uses catalogs that an older server has not */
		const Finding *last = static_cast<const Finding *>(llast(findings));
		if (check == publisher_checks && strcmp(last->severity, "error") == 0)
			return findings;
	}
	for (const Check *check = subscriber_checks; check->name != nullptr; check++)
		if (!makes_extensions || strcmp(check->name, "extensions") != 0)
			findings = check_subscriber_side(findings, publisher, *check, publications);
	return findings;
}

namespace {

bool
is_one_of(const char *check, std::initializer_list<const char *> names)
{
	for (const char *name : names)
		if (strcmp(check, name) == 0)
			return true;
	return false;
}

/* The checks think of a subscription that makes a slot and copies schema and rows. */
bool
concerns(const Finding *finding, const Plan &plan)
{
	/* a copy makes a slot too, for its snapshot */
	if (!plan.create_slot && !plan.copy_data && is_one_of(finding->check, {"replication_slots"}))
		return false;
	if (!plan.copy_schema && is_one_of(finding->check, {"privileges", "extensions", "collations"}))
		return false;
	return plan.copy_data || !is_one_of(finding->check, {"row_security", "tables"});
}

} // namespace

void
report_findings(const List *findings, const char *name, const Plan &plan)
{
	StringInfoData errors, warnings, hints;
	const ListCell *cell;

	initStringInfo(&errors);
	initStringInfo(&warnings);
	initStringInfo(&hints);
	foreach (cell, findings) {
		const Finding *finding = static_cast<const Finding *>(lfirst(cell));
		bool error = strcmp(finding->severity, "error") == 0;
		if ((!error && strcmp(finding->severity, "warn") != 0) || !concerns(finding, plan))
			continue;
		StringInfo lines = error ? &errors : &warnings;
		appendStringInfo(lines, "%s%s: %s", lines->len > 0 ? "\n" : "", finding->side, finding->detail);
		if (error && finding->hint != nullptr)
			appendStringInfo(&hints, "%sOn the %s: %s", hints.len > 0 ? "\n" : "", finding->side, finding->hint);
	}
	if (errors.len > 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("subscription \"%s\" could not work", name),
		                errdetail("%s", errors.data), errhint("%s", hints.data)));
	if (warnings.len > 0)
		ereport(WARNING, (errmsg("subscription \"%s\" may meet with surprises", name), errdetail("%s", warnings.data),
		                  errhint("schemasync_preflight shows each with what to do.")));
}

char *
array_text(const char *const *names)
{
	int count = 0;

	while (names[count] != nullptr)
		count++;
	Datum *values = static_cast<Datum *>(palloc(sizeof(Datum) * static_cast<Size>(count + 1)));
	for (int i = 0; i < count; i++)
		values[i] = CStringGetTextDatum(names[i]);
	return OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(construct_array(values, count, TEXTOID, -1, false, TYPALIGN_INT)));
}

char *
system_identifier(worker::Publisher *publisher)
{
	Rows rows = query(publisher, "SELECT system_identifier FROM pg_catalog.pg_control_system()");

	worker::expect(rows, "v", 1);
	return rows.values[0][0];
}

} // namespace schemasync::api

/* Anybody may ask who may make a subscription: it connects with what the caller gives. */
Datum
schemasync_preflight(PG_FUNCTION_ARGS)
{
	using namespace schemasync;

	char *conninfo = api::required_text(fcinfo, 0, "conninfo");
	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("publications must not be null")));
	api::check_may_create();
	InitMaterializedSRF(fcinfo, 0);
	ReturnSetInfo *set = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	worker::Publisher *publisher = worker::connect(conninfo, worker::Protocol::Sql, "schemasync_preflight", !superuser());
	List *findings = api::run_checks(publisher, OidOutputFunctionCall(F_ARRAY_OUT, PG_GETARG_DATUM(1)), false);
	ListCell *cell;

	worker::close(publisher);
	foreach (cell, findings) {
		const api::Finding *finding = static_cast<const api::Finding *>(lfirst(cell));
		const char *texts[] = {finding->side, finding->severity, finding->check, finding->detail, finding->hint};
		Datum values[5] = {};
		bool nulls[5];
		for (int i = 0; i < 5; i++) {
			nulls[i] = texts[i] == nullptr;
			if (!nulls[i])
				values[i] = CStringGetTextDatum(texts[i]);
		}
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	return Datum{0};
}
