/*
 * What is asked of the publisher before a subscription is made, so that the error comes to the person who can do something about it.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/worker/publisher.hpp"

namespace schemasync::api {

struct Wanted {
	const char *const *publications; /* null-terminated */
	const char *slot_name;
	bool create_slot; /* the slot must not be there yet; else it must be one of ours */
};

/* Raises the first thing that would keep the subscription from working, with what to do. */
void check_publisher(worker::Publisher *publisher, const Wanted &wanted);

/* The publisher's system identifier. */
char *system_identifier(worker::Publisher *publisher);

} // namespace schemasync::api
