/*
 * The names of the catalogs whose objects the merge asks about.
 *
 * Zone: server code; plain.
 */
#pragma once

#include <string_view>

#include "pg/postgres.hpp"

namespace schemasync::capture {

/* "pg_class", ...; empty for a catalog that the merge does not ask about. */
std::string_view class_name(Oid class_id);

} // namespace schemasync::capture
