/*
 * What is gathered about the DDL command that runs, until its marker is written.
 *
 * A command's events come apart: table_rewrite while it runs, sql_drop and ddl_command_end at its end; and
 * event triggers of others may run further commands between them. So what was gathered must belong to the
 * right command and must go when that command ends, also when it fails. The server keeps just such a state
 * itself, in a memory context that it makes for each command and deletes at its end; ours lives in that
 * context.
 *
 * Owned by the server's context of the command. Called by the event triggers (triggers.cpp).
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
}

namespace schemasync::capture {

struct Command {
	MemoryContext context;   /* where it lives */
	Command *outer;          /* the next one in the list of live commands */
	StringInfoData dropped;  /* elements of the marker's field, each followed by a comma */
	StringInfoData rewrites; /* the same */
	List *dropped_addresses; /* of ObjectAddress *: what was dropped, for the guard and schemasync_check */
	struct Shapes *before;   /* the guard's: what the command names, as it was */
	struct Policies *policies; /* the guard's, with the tables as they were called then */
};

/*
 * The state of the command whose event trigger runs; made when it is not there yet.
 *
 * returns: nullptr when the server's state of the command cannot be found, which no known version causes
 */
Command *current_command();

} // namespace schemasync::capture
