/*
 * Reads what the server collected about the running DDL command and writes it as the fields of a marker
 * (docs/wire.md, "Marker").
 *
 * Zone: server code; leaves (may ereport, plain data only).
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
}

namespace schemasync::capture {

struct Touched;

/* The parts of a marker that come from the collected commands: each text holds elements, each followed by a
 * comma. */
struct Collected {
	StringInfoData objects;
	StringInfoData subcommands;
	StringInfoData using_hints;
	StringInfoData defaults;
	StringInfoData definitions;
	List *wanted;     /* what definitions are read of (capture/definitions.hpp) */
	int count;        /* objects that are not temporary */
	Touched *touched; /* where they are noted too, or nullptr */
};

/*
 * In ddl_command_end: what the command touched. Objects that are temporary, or gone again, are left out.
 *
 * touched: nullptr, or where to note the relations, types and schemas that they are or belong to
 */
void read_collected(Collected *collected, Touched *touched);

/*
 * In sql_drop: appends what the command dropped, but for temporary objects and TOAST tables.
 *
 * addresses: nullptr, or the list to which their addresses (ObjectAddress *) are appended, in the current
 * context
 */
void read_dropped(StringInfo elements, List **addresses);

/* In table_rewrite: appends the table about to be rewritten, unless it is temporary. */
void read_rewrite(StringInfo elements);

/* `"name":"value"`, or `"name":null`. */
void append_text_field(StringInfo json, const char *name, const char *value);

} // namespace schemasync::capture
