/*
 * Looking on while a command runs, instead of marking it: for schemasync_check.
 *
 * While an observation is set, the event triggers put what they see into it and write nothing to the WAL.
 *
 * Zone: server code.
 */
#pragma once

#include "apply_ext/capture/touched.hpp"
#include "pg/postgres.hpp"

namespace schemasync::capture {

struct Observation {
	MemoryContext context; /* where the rest is allocated */
	List *contents = NIL;  /* of char *: contents of markers, the outermost command's last */
	List *dropped = NIL;   /* of ObjectAddress * */
	Touched touched;
};

extern Observation *observation; /* nullptr: none */

/* Sets the observation for as long as it lives. */
class ObservationScope {
public:
	explicit ObservationScope(Observation *wanted) { observation = wanted; }
	~ObservationScope() { observation = nullptr; }
	ObservationScope(const ObservationScope &) = delete;
	ObservationScope &operator=(const ObservationScope &) = delete;
};

} // namespace schemasync::capture
