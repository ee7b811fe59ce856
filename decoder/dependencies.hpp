/*
 * What the server's invalidations tell of states: that one may have changed although nothing of its relation did
 * (a type, a function, a schema's name), and which relations the commands since the last marker touched, named in the
 * marker or not (DROP INDEX names only the index, which is gone).
 *
 * Zone: server code; leaves.
 */
#pragma once

#include <cstdint>

#include "decoder/session.hpp"

namespace schemasync::decoder {

struct Dependencies;

/* Starts listening, in the session's cache_context. */
Dependencies *watch_dependencies(Session *session);

/* Notes a type that states sent depend on. */
void depend_on_type(Dependencies *dependencies, Oid typid);

/* A count that grows whenever a state may have changed for another reason than its relation's own change. */
std::uint64_t dependency_generation(const Dependencies *dependencies);

/*
 * The relations whose definition changed since the last call (some may have changed before).
 *
 * returns: oids; *complete is false when there were too many to remember
 */
List *take_touched_relations(Dependencies *dependencies, bool *complete);

} // namespace schemasync::decoder
