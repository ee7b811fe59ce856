/*
 * Capture: event triggers that mark each DDL command in the WAL, so that the decoder knows when something
 * changed and the little that the catalog cannot say (the statement, USING expressions, which rewrite). What
 * changed, the decoder reads from the catalog; a missing marker only turns a captured change into an inferred
 * one. Hence nothing here may make a user's command fail, and each doubt is resolved by writing no marker.
 *
 * The triggers are created by the extension's script (schema/capture.sql). Here are their functions, and the
 * one that fills the key.
 *
 * Zone: server code.
 */
#include "core/tags.hpp"

#include <cstring>

#include "apply_ext/capture/collected.hpp"
#include "apply_ext/capture/command.hpp"
#include "apply_ext/capture/guard.hpp"
#include "apply_ext/capture/marker.hpp"
#include "apply_ext/capture/observe.hpp"
#include "pg/compat.hpp"
#include "pg/guard.hpp"
#include "pg/marker.hpp"
#include "pg/postgres.hpp"

extern "C" {
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/cmdtag.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(schemasync_capture_start);
PG_FUNCTION_INFO_V1(schemasync_capture_rewrite);
PG_FUNCTION_INFO_V1(schemasync_capture_drop);
PG_FUNCTION_INFO_V1(schemasync_capture_end);
PG_FUNCTION_INFO_V1(schemasync_capture_make_key);
}

namespace schemasync::capture {

namespace {

// ---- leaves: may ereport; plain data only ----

const EventTriggerData *
trigger_data(FunctionCallInfo fcinfo)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
		                errmsg("this function can only be called as an event trigger")));
	return reinterpret_cast<const EventTriggerData *>(fcinfo->context);
}

/* Whether the capture has anything to do with the running command. */
bool
is_active(const EventTriggerData *data)
{
	if (observation != nullptr)
		return true;
	if (RecoveryInProgress() || !(XLogLogicalInfoActive() || guard_is_on()))
		return false;
	/* what a script makes are members, which each side's own script makes, and ours */
	if (creating_extension)
		return false;
	return is_marked(GetCommandTagName(data->tag));
}

/* The last step of a CONCURRENTLY command has no snapshot, and reading an out-of-line value of the catalog
 * needs one. */
bool
push_snapshot_if_none()
{
	if (ActiveSnapshotSet())
		return false;
	PushActiveSnapshot(GetTransactionSnapshot());
	return true;
}

/* What was dropped, kept for the command's end. */
void
keep_dropped(Command *command)
{
	List *addresses = NIL;
	bool wanted = observation != nullptr || guard_is_on();
	ListCell *cell;

	read_dropped(&command->dropped, wanted ? &addresses : nullptr);
	MemoryContext caller = MemoryContextSwitchTo(command->context);
	foreach (cell, addresses) {
		auto *address = static_cast<ObjectAddress *>(palloc(sizeof(ObjectAddress)));
		*address = *static_cast<ObjectAddress *>(lfirst(cell));
		command->dropped_addresses = lappend(command->dropped_addresses, address);
	}
	MemoryContextSwitchTo(caller);
}

/* Tells the observer what the marker would have said. */
void
observe(const char *tag, const Collected *collected, const Touched *touched, const Command *command)
{
	StringInfoData content;
	ListCell *cell;
	MemoryContext caller = MemoryContextSwitchTo(observation->context);

	initStringInfo(&content);
	append_content(&content, tag, collected, command);
	observation->contents = lappend(observation->contents, content.data);
	observation->touched.relations =
	    list_concat_unique_oid(observation->touched.relations, touched->relations);
	observation->touched.types = list_concat_unique_oid(observation->touched.types, touched->types);
	observation->touched.schemas = list_concat_unique_oid(observation->touched.schemas, touched->schemas);
	foreach (cell, command->dropped_addresses) {
		auto *address = static_cast<ObjectAddress *>(palloc(sizeof(ObjectAddress)));
		*address = *static_cast<ObjectAddress *>(lfirst(cell));
		observation->dropped = lappend(observation->dropped, address);
	}
	MemoryContextSwitchTo(caller);
}

/* What ddl_command_end found out, for the guard. */
struct Ended {
	const char *tag;
	Collected collected;
	Touched touched;
	Command *command;
	bool pushed;
};

void
capture_end(const EventTriggerData *data, Ended *ended)
{
	bool noting = observation != nullptr || guard_is_on();

	ended->tag = GetCommandTagName(data->tag);
	ended->command = current_command();
	if (ended->command == nullptr)
		return;
	ended->pushed = push_snapshot_if_none();
	read_collected(&ended->collected, noting ? &ended->touched : nullptr);
	if (observation != nullptr) {
		observe(ended->tag, &ended->collected, &ended->touched, ended->command);
		return;
	}
	if (XLogLogicalInfoActive() &&
	    (ended->collected.count > 0 || ended->command->dropped.len > 0 || ended->command->rewrites.len > 0))
		write_marker(ended->tag, &ended->collected, ended->command);
}

/*
 * Puts a fresh key into schemasync.capture_key. The row is written so that logical decoding passes over it: a
 * publication of all tables must not carry the key away.
 */
void
make_key()
{
	unsigned char bytes[pg::marker_key_bytes];
	bool isnull[1] = {false};
	Datum values[1];
	Oid relid = get_relname_relid("capture_key", get_namespace_oid("schemasync", false));

	if (!superuser())
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		                errmsg("must be superuser to make a key for schemasync's markers")));
	if (!pg_strong_random(bytes, sizeof(bytes)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate a random key")));

	auto *value = static_cast<bytea *>(palloc(VARHDRSZ + sizeof(bytes)));
	SET_VARSIZE(value, VARHDRSZ + sizeof(bytes));
	memcpy(VARDATA(value), bytes, sizeof(bytes));
	values[0] = PointerGetDatum(value);

	Relation table = table_open(relid, RowExclusiveLock);
	HeapTuple tuple = heap_form_tuple(RelationGetDescr(table), values, isnull);
	heap_insert(table, tuple, GetCurrentCommandId(true), HEAP_INSERT_NO_LOGICAL, nullptr);
	table_close(table, RowExclusiveLock);
}

} // namespace

Observation *observation = nullptr;

} // namespace schemasync::capture

using namespace schemasync::capture;

/* table_rewrite: remembers which table, and why, for the marker. */
SCHEMASYNC_EXPORT Datum
schemasync_capture_rewrite(PG_FUNCTION_ARGS)
{
	if (is_active(trigger_data(fcinfo))) {
		Command *command = current_command();
		if (command != nullptr)
			read_rewrite(&command->rewrites);
	}
	PG_RETURN_NULL();
}

/* sql_drop: remembers what was dropped; the server tells it in this event only. */
SCHEMASYNC_EXPORT Datum
schemasync_capture_drop(PG_FUNCTION_ARGS)
{
	if (is_active(trigger_data(fcinfo))) {
		Command *command = current_command();
		if (command != nullptr)
			keep_dropped(command);
	}
	PG_RETURN_NULL();
}

/* ddl_command_start: for the guard only, which needs to know how things were. */
SCHEMASYNC_EXPORT Datum
schemasync_capture_start(PG_FUNCTION_ARGS)
{
	const EventTriggerData *data = trigger_data(fcinfo);

	if (guard_is_on() && observation == nullptr && is_active(data)) {
		Command *command = current_command();
		if (command != nullptr)
			guard_before(command, data->parsetree);
	}
	PG_RETURN_NULL();
}

/* ddl_command_end: writes the marker. */
SCHEMASYNC_EXPORT Datum
schemasync_capture_end(PG_FUNCTION_ARGS)
{
	return schemasync::pg::entry([&]() -> Datum {
		Ended ended{};
		schemasync::pg::call([&] {
			const EventTriggerData *data = trigger_data(fcinfo);
			if (is_active(data))
				capture_end(data, &ended);
		});
		if (ended.command != nullptr && observation == nullptr && guard_is_on())
			guard_after(ended.tag, &ended.collected, &ended.touched, ended.command);
		if (ended.pushed)
			schemasync::pg::call([] { PopActiveSnapshot(); });
		fcinfo->isnull = true;
		return Datum{0};
	});
}

/* Called once by the extension's script. */
SCHEMASYNC_EXPORT Datum
schemasync_capture_make_key(PG_FUNCTION_ARGS)
{
	make_key();
	PG_RETURN_VOID();
}
