/*
 * The options of a subscription (DESIGN 7): what each is called, which values it takes, and from jsonb to plain data.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/catalog/subscription.hpp"

namespace schemasync::catalog {

/*
 * Checks options and reads them.
 *
 * json:    text of a JSON object; values may be strings, booleans or numbers; null means the default
 * options: filled over its defaults; strings are palloc'd in the current context
 * errors:  invalid_parameter_value; for an unknown name or value the DETAIL lists the known ones
 */
void read_options(const char *json, Options *options);

/*
 * Checks what is to be set for one table: the options that a table may have of its own, with values as for a subscription; null takes one back.
 * ddl_classes may name only classes of objects that belong to a table.
 *
 * errors: as read_options
 */
void check_table_policy(const char *json);

/* forward, refuse or ignore, else an error that lists them. */
SchemaChanges read_schema_changes(const char *value);

} // namespace schemasync::catalog
