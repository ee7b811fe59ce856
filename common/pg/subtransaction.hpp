/*
 * Running a piece of server code so that its failure can be survived: in a subtransaction of its own.
 *
 * Zone: bridge.
 */
#pragma once

#include <cstdint>

#include "pg/guard.hpp"

namespace schemasync::pg {

/* What becomes of the subtransaction when all went well. */
enum class Ending : std::uint8_t { Commit, RollBack };

/*
 * Runs body(arg), a leaf, in an internal subtransaction, which ends as asked when it returns and rolls back when it
 * raises.
 *
 * returns: nullptr, or the error that body raised, copied into the memory context that was current at the
 * call; memory context, resource owner, user and parameters are then as they were at the call errors:  only
 * those of starting and ending a subtransaction
 */
ErrorData *run_in_subtransaction(void (*body)(void *), void *arg, Ending ending = Ending::Commit);

template <typename F>
ErrorData *
try_in_subtransaction(F &&f)
{
	return run_in_subtransaction([](void *arg) { (*static_cast<std::remove_reference_t<F> *>(arg))(); }, &f);
}

} // namespace schemasync::pg
