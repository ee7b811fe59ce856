/*
 * Names of catalog objects, qualified and quoted, for use in SQL text and digests.
 *
 * Zone: bridge; leaves. The functions that give names return palloc'd text, or nullptr when the object is gone.
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "nodes/pg_list.h"
}

namespace schemasync::pg::catalog {

/*
 * An object is built in when initdb's bootstrap made it: then it is the same on both sides. What initdb makes later
 * (information_schema, the collations of the operating system) is not.
 */
bool is_built_in(Oid oid);

/* The type at the bottom: of an array its element, otherwise itself. */
Oid strip_array(Oid typid);

/* format_type under the pinned search_path. */
char *type_sql(Oid typid, int32 typmod);
char *collation_name(Oid collation);
char *relation_name(Oid relid);
char *operator_name(Oid opno);
char *operator_class_name(Oid opclass);
char *schema_name(Oid nspid);
char *role_name(Oid roleid);
/*
 * The operator class that an index of a type has where none is named; InvalidOid when there is none. What
 * GetDefaultOpClass() finds, but without a catalog scan inside a scan, which a streamed transaction cannot have.
 */
Oid default_operator_class(Oid typid, Oid method);
/* The extension that the object is a member of, bare. */
char *extension_name_of(Oid classid, Oid oid);

} // namespace schemasync::pg::catalog
