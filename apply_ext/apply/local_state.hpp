/*
 * The subscriber's side of the merge: finds the local objects and reads their states with the same builder as
 * the publisher's decoder does.
 *
 * Zone: server code; every function throws pg::Error where the server raises.
 */
#pragma once

#include "core/state.hpp"

#include <optional>
#include <string>

#include "pg/postgres.hpp"

namespace schemasync::apply {

/* The oid of a local relation by name, InvalidOid when there is none. An exact look-up: no search path, no
 * permissions. */
Oid find_local_relation(const std::string &schema, const std::string &name);
bool local_relation_exists(Oid relid);
Oid owner_of_relation(Oid relid);

Oid find_local_type(const std::string &schema, const std::string &name);
bool local_type_exists(Oid typid);
Oid owner_of_type(Oid typid);

Oid find_local_schema(const std::string &name);
Oid owner_of_schema(Oid nspid);

/* The role of that name, InvalidOid when there is none. */
Oid find_role(const std::string &name);

/* The state of a local relation or type now; nothing when it is gone or of a kind that has no state. */
std::optional<state::Relation> read_local_relation(Oid relid);
std::optional<state::Type> read_local_type(Oid typid);

/* Whether the relation (with its children) has a row, visible or not. An empty file needs no scan. */
bool may_have_rows(Oid relid);

/* The number of rows for which a condition holds, -1 when it could not be counted. The condition is SQL over
 * the relation's columns; it runs as the relation's owner, security-restricted. */
std::int64_t count_rows_where(Oid relid, const std::string &condition);

std::string quote_name(const std::string &name);
std::string qualified_name(const std::string &schema, const std::string &name);

} // namespace schemasync::apply
