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
}

namespace schemasync::capture {

/* The parts of a marker that come from the collected commands: each text holds elements, each followed by a
 * comma. */
struct Collected {
	StringInfoData objects;
	StringInfoData subcommands;
	StringInfoData using_hints;
	int count; /* objects that are not temporary */
};

/* In ddl_command_end: what the command touched. Objects that are temporary, or gone again, are left out. */
void read_collected(Collected *collected);

/* In sql_drop: appends what the command dropped, but for temporary objects and TOAST tables. */
void read_dropped(StringInfo elements);

/* In table_rewrite: appends the table about to be rewritten, unless it is temporary. */
void read_rewrite(StringInfo elements);

/* `"name":"value"`, or `"name":null`. */
void append_text_field(StringInfo json, const char *name, const char *value);

} // namespace schemasync::capture
