/*
 * Running a piece of server code so that its failure can be survived: in a subtransaction of its own.
 *
 * Zone: bridge.
 */
#pragma once

#include "pg/guard.hpp"

namespace schemasync::pg {

/*
 * Runs body(arg), a leaf, in an internal subtransaction, which commits when it returns and rolls back when it
 * raises.
 *
 * returns: nullptr, or the error that body raised, copied into the memory context that was current at the
 * call; memory context, resource owner, user and parameters are then as they were at the call errors:  only
 * those of starting and ending a subtransaction
 */
ErrorData *run_in_subtransaction(void (*body)(void *), void *arg);

template <typename F>
ErrorData *
try_in_subtransaction(F &&f)
{
	return run_in_subtransaction([](void *arg) { (*static_cast<std::remove_reference_t<F> *>(arg))(); }, &f);
}

} // namespace schemasync::pg
