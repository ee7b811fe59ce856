/*
 * Which types have a binary form that another server can read. The decoder asks it for the columns of the stream, the initial
 * copy for those of COPY, so that both decide alike.
 *
 * Zone: bridge; leaves.
 */
#pragma once

#include "pg/postgres.hpp"

namespace schemasync::pg {

/*
 * Whether the type's binary form exists and means the same on any server, at any depth: of a domain, array, composite or range
 * every type in it counts. It does not for
 * - a type without a send function, such as aclitem: its array has array_send, which then fails for each value;
 * - a reg* type: its binary form is the oid, which is another object's, or none's, on another server;
 * - a range whose bounds carry oids of types that are not built in, because they stand where the receiver does not look for them.
 *
 * in:      typid, any type
 * errors:  of catalog lookups
 */
bool has_portable_binary(Oid typid);

} // namespace schemasync::pg
