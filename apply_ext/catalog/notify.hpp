/*
 * What is told to whoever listens: NOTIFY schemasync with a JSON object, {"event": ..., "subscription": ..., ...}. It is sent when the
 * transaction commits.
 *
 * Zone: server code (leaves: may ereport; needs a transaction).
 */
#pragma once

#include <initializer_list>

#include "pg/postgres.hpp"

namespace schemasync::catalog {

struct Field {
	const char *name;
	const char *value; /* nullptr: left out; long ones are cut */
};

void notify(const char *event, const char *subscription, std::initializer_list<Field> fields);

} // namespace schemasync::catalog
