#include "apply_ext/api/preflight.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/varlena.h"
}

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
	check_plugin(publisher);
	check_publications(publisher, wanted.publications);
	check_slot(publisher, wanted);
}

char *
system_identifier(worker::Publisher *publisher)
{
	return query(publisher, "SELECT system_identifier FROM pg_catalog.pg_control_system()").values[0][0];
}

} // namespace schemasync::api
