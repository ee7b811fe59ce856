/*
 * A stand-in, weak, until the initial copy is linked.
 */
#include "apply_ext/worker/copy.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/xact.h"
#include "utils/snapmgr.h"
}

namespace schemasync::worker {

__attribute__((weak)) void
initial_copy(const catalog::Subscription &subscription)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	catalog::save_state(subscription.subid, "ready", nullptr);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

} // namespace schemasync::worker
