#include "apply_ext/worker/local.hpp"

extern "C" {
#include "access/xact.h"
#include "postmaster/bgworker.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
}

namespace schemasync::worker {

void
begin()
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

void
commit()
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

catalog::Subscription *
load(std::int64_t subid)
{
	begin();
	MemoryContext saved = MemoryContextSwitchTo(TopMemoryContext);
	catalog::Subscription *subscription = catalog::load_subscription(subid);
	MemoryContextSwitchTo(saved);
	commit();
	return subscription;
}

void
log_error(const ErrorData *error)
{
	ereport(LOG, (errcode(error->sqlerrcode), errmsg_internal("%s: %s", MyBgworkerEntry->bgw_name, error->message),
	              error->detail != nullptr ? errdetail_internal("%s", error->detail) : 0,
	              error->hint != nullptr ? errhint("%s", error->hint) : 0,
	              error->context != nullptr ? errcontext_msg("%s", error->context) : 0));
}

} // namespace schemasync::worker
