/*
 * What a command on publications changed of what the session's publications hold.
 *
 * Called by command when a marker is told of.
 *
 * Zone: server code; functions with C++ arguments call leaves.
 */
#pragma once

#include "core/marker.hpp"

#include "decoder/announcer.hpp"

namespace schemasync::decoder {

/* Whether the command may have changed which tables are published, so that the client is told all of them. */
bool changes_membership(const Place &place, const marker::Marker &marker);

/*
 * Appends the fields "published" (all covered tables), "above" (those above them that are not covered) and "republished" (those that the command put
 * into one of the session's publications, or gave another filter or column list there).
 */
void append_membership(const Place &place, const marker::Marker &marker, Outgoing *outgoing);

} // namespace schemasync::decoder
