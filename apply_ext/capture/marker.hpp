/*
 * Writes the marker of a command: its content (docs/wire.md, "Marker"), sealed, as a transactional logical
 * message.
 *
 * Zone: server code; leaves (may ereport, plain data only).
 */
#pragma once

#include "apply_ext/capture/collected.hpp"
#include "apply_ext/capture/command.hpp"
#include "pg/postgres.hpp"

namespace schemasync::capture {

/* Appends the content of a command's marker, in the server's encoding. */
void append_content(StringInfo content, const char *tag, const Collected *collected, const Command *command);

/* Writes the marker; writes none when the database has no key, or one that cannot be read without waiting. */
void write_marker(const char *tag, const Collected *collected, const Command *command);

} // namespace schemasync::capture
