/*
 * Definitions of the opt-in classes as JSON (docs/wire.md, DEFINITION): what the functions in schema/definitions.sql say of
 * an object of this database. The capture reads them for markers, the apply worker its own side.
 *
 * Zone: server code (leaves: may ereport; each needs a transaction). Run as the extension's owner, with pinned settings.
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "catalog/objectaddress.h"
}

namespace schemasync::catalog {

enum class Aspect : unsigned char {
	Itself,     /* the object, if it is of a class */
	Comment,    /* the comment on it */
	Privileges, /* who may do what with it */
	Refreshed,  /* a materialized view that was just refreshed */
	RefreshedConcurrently,
	DefaultPrivileges, /* what a role gives to new objects; not to be asked for by an address */
};

/* In the current context; nullptr when the object is gone, or is nothing that has this aspect. */
const char *read_definition(Aspect aspect, const ObjectAddress *address);

/*
 * The default privileges of a role.
 *
 * schema: InvalidOid for those of all schemas
 * kind:   of objects, as pg_default_acl has it
 */
const char *read_default_privileges(Oid role, Oid schema, char kind);

/*
 * The object with a name as pg_identify_object_as_address gives it.
 *
 * names, args: null-terminated
 * returns:     false when there is none
 */
bool find_object(const char *type, const char *const *names, const char *const *args, ObjectAddress *address);

/* Whether an extension's version can be installed here. */
bool is_version_available(const char *extension, const char *version);

/*
 * The definitions of all objects of all classes that belong to no extension, in an order in which they can be made; without
 * all_classes those of the sequences that no column owns.
 */
struct Definitions {
	const char **texts;
	int count;
};
Definitions read_all_definitions(bool all_classes);

} // namespace schemasync::catalog
