/*
 * The guard: with schemasync.guard = warn or error the publisher itself warns of, or rejects, a command that
 * a subscriber would refuse. The only part of the capture that may make a user's command fail.
 *
 * Zone: server code.
 */
#pragma once

#include "apply_ext/capture/collected.hpp"
#include "apply_ext/capture/command.hpp"
#include "apply_ext/capture/touched.hpp"
#include "pg/postgres.hpp"

namespace schemasync::capture {

/* Defines the parameters; called once when the library is loaded. */
void define_guard();

/* Whether the guard is to look at commands. */
bool guard_is_on();

/* Before a command: remembers the states of what it names. A leaf. */
void guard_before(Command *command, const Node *parsetree);

/* At its end: compares, and warns or raises. Throws pg::Error. */
void guard_after(const char *tag, const Collected *collected, const Touched *touched, const Command *command);

} // namespace schemasync::capture
