/*
 * The differences between PostgreSQL 15 and 19, and the only file that may mention PG_VERSION_NUM.
 * Each entry says what changed and in which major version; the newest form is what callers write.
 *
 * Zone: bridge.
 */
#pragma once

#include "pg/postgres.hpp"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "schemasync supports PostgreSQL 15 to 19"
#endif
