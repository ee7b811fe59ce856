/*
 * Capture: event triggers that mark each DDL command in the WAL, so that the decoder knows when something
 * changed and the little that the catalog cannot say (the statement, USING expressions, which rewrite). What
 * changed, the decoder reads from the catalog; a missing marker only turns a captured change into an inferred
 * one. Hence nothing here may make a user's command fail, and each doubt is resolved by writing no marker.
 *
 * The triggers are created by the extension's script (schema/capture.sql).
 *
 * Zone: server code.
 */
#pragma once

#include "pg/postgres.hpp"

namespace schemasync::capture {

/* Turns the capture of this process off: for workers that apply what another server's capture marked. */
void disable_in_this_process();

} // namespace schemasync::capture
