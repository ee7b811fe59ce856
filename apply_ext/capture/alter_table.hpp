/*
 * The subcommands of ALTER TABLE as a marker tells them: their names, and the USING expressions, which the
 * catalog does not keep.
 *
 * Zone: server code; leaves (may ereport, plain data only).
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "catalog/objectaddress.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
}

namespace schemasync::capture {

/* "AT_AddColumn", ...: the name in the server's enum; "AT_Unknown" for a number that is not in it. */
const char *alter_table_type_name(AlterTableType type);

/* Whether the subcommand names a partition in its PartitionCmd. */
bool names_partition(AlterTableType type);

/*
 * Appends the hint of one subcommand, followed by a comma, when it changes a column's type.
 *
 * in: column, the address that the server collected with the subcommand
 */
void append_using_hint(StringInfo elements, const AlterTableCmd *subcommand, const ObjectAddress *column);

} // namespace schemasync::capture
