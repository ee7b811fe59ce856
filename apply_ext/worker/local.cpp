#include "apply_ext/worker/local.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/xact.h"
#include "postmaster/bgworker.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

bool is_unnamed = false;

} // namespace

void
begin()
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

void
set_unnamed(bool unnamed)
{
	is_unnamed = unnamed;
}

void
commit()
{
	/* else the commit would be told as of the time of the one before, which is all that the server notes without a name */
	if (is_unnamed)
		pg::compat::set_origin_position(InvalidXLogRecPtr, GetCurrentTimestamp());
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
