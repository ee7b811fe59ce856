/*
 * Which definitions of the opt-in classes a command's marker has to have in it, and their reading at its end.
 *
 * They are read here and not by the decoder, because the server's functions that write views, rules and triggers as text
 * use SPI and lock what the object refers to: under the historic snapshot of a streamed transaction the first is an error,
 * and the second could make the walsender wait for the very transaction that waits for it (docs/architecture.md).
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "catalog/objectaddress.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
}

namespace schemasync::capture {

/* An object that a command of this tag collected: itself, if it is of a class; its comment or privileges, if that is what the
 * command, or a part of it, was about. */
void want_definitions(List **wanted, const ObjectAddress *address, const char *tag);

void want_privileges(List **wanted, const ObjectAddress *address);

/* ENABLE and DISABLE TRIGGER or RULE: the table's triggers or rules, which the server does not name. */
void want_enabled(List **wanted, const AlterTableCmd *subcommand, Oid relid);

/* REFRESH MATERIALIZED VIEW */
void want_refreshed(List **wanted, const ObjectAddress *address, const RefreshMatViewStmt *statement);

/* The default privileges of a role (schema InvalidOid: in all schemas) for one kind of objects, as pg_default_acl has it. */
void want_default_privileges(List **wanted, Oid role, Oid schema, char kind);

/*
 * Appends the definitions, each followed by a comma. One that cannot be read is left out with a message in the log: it must
 * not make the user's command fail.
 */
void append_definitions(StringInfo elements, const List *wanted);

} // namespace schemasync::capture
