/*
 * A DDL command that a marker tells of, as far as the session may know of it: what becomes a `schemasync.ddl` message.
 *
 * The marker names objects; what they are like is read from the catalog. An object that no publication of the session
 * covers is not described, and neither it nor a column that a column list hides is named.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "core/marker.hpp"

#include "decoder/announcer.hpp"

namespace schemasync::decoder {

/* Sends the ddl message of a marker, unless nothing in it concerns the session. */
void send_command(const Place &place, const marker::Marker &marker);

} // namespace schemasync::decoder
