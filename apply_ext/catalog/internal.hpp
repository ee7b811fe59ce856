/*
 * Fixed statements on the extension's own tables, run with SPI as the extension's owner with an empty search path.
 *
 * Zone: server code (leaves: may ereport).
 */
#pragma once

#include "pg/postgres.hpp"

namespace schemasync::catalog {

/* While it lives on the C stack between begin_internal and end_internal the current user is the extension's owner in a
 * security-restricted context. Plain data: an ERROR restores the user through the transaction's abort. */
struct Internal {
	Oid saved_user;
	int saved_sec_context;
	int guc_level;
};
Internal begin_internal(); /* connects SPI too */
void end_internal(const Internal &internal);

/* The extension's schema (of its functions and views). */
Oid extension_schema();

} // namespace schemasync::catalog
