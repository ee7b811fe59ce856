/*
 * The processes that copy: the copy worker, of which one run copies what is due (beside.hpp), and the helpers of whoever copies
 * (copy_crew.hpp). What goes wrong is recorded and ends them; the apply worker starts another copy worker after a pause.
 */
#include "apply_ext/catalog/subscription.hpp"
#include "apply_ext/worker/copy.hpp"
#include "apply_ext/worker/copy_crew.hpp"
#include "apply_ext/worker/local.hpp"
#include "apply_ext/worker/shared.hpp"

#include "pg/compat.hpp"
#include "pg/guard.hpp"

extern "C" {
#include "access/xact.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
}

SCHEMASYNC_EXPORT void schemasync_copy_main(Datum argument);
SCHEMASYNC_EXPORT void schemasync_copy_helper_main(Datum argument);

namespace schemasync::worker {

namespace {

// ---- leaves: may ereport; plain data only ----

std::int64_t
begin_copy_worker(Datum argument)
{
	Oid owner = InvalidOid;
	std::int64_t subid = 0;

	memcpy(&owner, MyBgworkerEntry->bgw_extra, sizeof(owner));
	memcpy(&subid, MyBgworkerEntry->bgw_extra + sizeof(owner), sizeof(subid));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(argument), owner, 0);
	pgstat_report_appname(MyBgworkerEntry->bgw_name);
	return subid;
}

void
lead(const catalog::Subscription &subscription)
{
	copy_beside(subscription);
}

void
help(const catalog::Subscription &subscription)
{
	std::uint32_t segment = 0;

	memcpy(&segment, MyBgworkerEntry->bgw_extra + sizeof(Oid) + sizeof(std::int64_t), sizeof(segment));
	help_crew(subscription, segment);
}

void
copy(std::int64_t subid, void (*work)(const catalog::Subscription &))
{
	const catalog::Subscription *subscription = load(subid);

	if (subscription == nullptr || !subscription->enabled)
		return;
	set_parameters(subscription);
	work(*subscription);
}

[[noreturn]] void
end_failed(std::int64_t subid, ErrorData *error)
{
	AbortOutOfAnyTransaction();
	log_error(error);
	if (subid != 0 && error->sqlerrcode != ERRCODE_ADMIN_SHUTDOWN) {
		catalog::ErrorContextInfo info = {};
		info.worker = "copy";
		info.command = "COPY";
		begin();
		(void) catalog::note_error(subid, error, &info);
		commit();
	}
	proc_exit(1);
}

// ---- end of leaves ----

/* A whole process. */
void
run_copy_worker(Datum argument, void (*work)(const catalog::Subscription &))
{
	std::int64_t subid = 0;

	MemoryContextSwitchTo(TopMemoryContext);
	try {
		subid = pg::call([&] { return begin_copy_worker(argument); });
		pg::call([&] { copy(subid, work); });
	} catch (const pg::Error &raised) {
		ErrorData *error = raised.data;
		pg::call([&] { end_failed(subid, error); });
	}
}

} // namespace

} // namespace schemasync::worker

void
schemasync_copy_main(Datum argument)
{
	return schemasync::pg::entry([&] { schemasync::worker::run_copy_worker(argument, schemasync::worker::lead); });
}

void
schemasync_copy_helper_main(Datum argument)
{
	return schemasync::pg::entry([&] { schemasync::worker::run_copy_worker(argument, schemasync::worker::help); });
}
