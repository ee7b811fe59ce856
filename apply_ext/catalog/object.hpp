/*
 * schemasync.object: the states last accepted of objects that are not relations (types, schemas).
 *
 * Zone: server code (leaves: may ereport; each needs a transaction).
 */
#pragma once

#include <cstdint>

#include "pg/postgres.hpp"

namespace schemasync::catalog {

/* All pointers palloc'd in the context that was current when the row was read. */
struct ObjectRow {
	const char *class_name; /* pg_type, pg_namespace */
	Oid publisher_oid;
	Oid local_oid; /* InvalidOid: not here */
	const char *base;
};

/* nullptr when the subscription does not know it. */
ObjectRow *load_object(std::int64_t subid, const char *class_name, Oid publisher_oid);
void save_object(std::int64_t subid, const ObjectRow *row);
void delete_object(std::int64_t subid, const char *class_name, Oid publisher_oid);

} // namespace schemasync::catalog
