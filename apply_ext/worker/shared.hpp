/*
 * What workers, the launcher and the SQL functions share: one slot of shared memory for each subscription that runs.
 *
 * Owned by the launcher (it gives slots out); written by the apply worker; read by the views and by those who wait.
 *
 * Zone: server code.
 */
#pragma once

#include <cstdint>

#include "pg/postgres.hpp"

extern "C" {
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "storage/latch.h"
}

namespace schemasync::worker {

/* As in schemasync_subscriptions.state; DESIGN 7. */
enum class State : std::uint8_t { Disabled, Copying, Streaming, Draining, Drained, WaitingLock, Refused, Failed };

const char *name(State state);

/* Called by _PG_init under shared_preload_libraries: shared memory request, startup hook, the launcher's registration, parameters. */
void init_shared();

/* --- the worker's own slot (attach() was called) ---------------------------------------------------------- */

/* Takes the slot that the launcher prepared; slot is the worker's main argument. Registers its release at exit. Raises when it is gone. */
void attach(int slot);
Oid own_database();
std::int64_t own_subscription();

void set_state(State state);
/* Positions on the publisher. Each wakes those who wait in schemasync_wait. */
void report_received(XLogRecPtr lsn, TimestampTz sent_at);
void report_applied(XLogRecPtr lsn, TimestampTz committed_at);
void report_confirmed(XLogRecPtr lsn);
void count_applied(std::int64_t rows, std::int64_t transactions);

/* Whether somebody asked the worker to read its configuration again; resets the request. */
bool reload_requested();

} // namespace schemasync::worker
