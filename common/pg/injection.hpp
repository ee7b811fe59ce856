/*
 * Places at which the crash tests stop, break or kill the process. In an ordinary build a point is nothing at all; tests/meson.build
 * builds the extension a second time with them (SCHEMASYNC_INJECTION), for tests/crash alone.
 *
 * A server without support of its own for this is served by a file in the data directory, `schemasync_injection`, with one
 * line "POINT ACTION". The first process that comes to the point takes the file (renames it to `schemasync_injection.hit`, where its
 * process id is written) and does what the action says:
 *
 *   error  raises an ERROR (SQLSTATE SS0ZZ)
 *   kill   ends the process by SIGKILL
 *   wait   waits until the file .hit is gone; an interrupt or the end of the postmaster ends it too
 *
 * Zone: bridge. at_point() belongs into leaves: it may ereport.
 */
#pragma once

namespace schemasync::pg {

#ifdef SCHEMASYNC_INJECTION
void at_point(const char *name);
#else
inline void
at_point(const char *)
{
}
#endif

} // namespace schemasync::pg
