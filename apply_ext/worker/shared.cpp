#include "apply_ext/worker/shared.hpp"

#include "apply_ext/worker/slots.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

Area *area = nullptr;
int max_subscriptions = 64;
int launcher_naptime = 10000;

namespace {

shmem_request_hook_type next_request = nullptr;
shmem_startup_hook_type next_startup = nullptr;
bool preloaded = false;

// ---- leaves: may ereport; plain data only ----

Size
area_size()
{
	return add_size(offsetof(Area, slots), mul_size(static_cast<Size>(max_subscriptions), sizeof(Slot)));
}

void
request_memory()
{
	if (next_request != nullptr)
		next_request();
	RequestAddinShmemSpace(area_size());
	RequestNamedLWLockTranche("schemasync", 1);
}

void
start_memory()
{
	if (next_startup != nullptr)
		next_startup();

	bool found = false;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	area = static_cast<Area *>(ShmemInitStruct("schemasync", area_size(), &found));
	if (!found) {
		memset(area, 0, area_size());
		area->lock = &GetNamedLWLockTranche("schemasync")->lock;
		area->size = max_subscriptions;
		SpinLockInit(&area->mutex);
		for (int i = 0; i < area->size; i++) {
			SpinLockInit(&area->slots[i].mutex);
			pg_atomic_init_u64(&area->slots[i].awaited, 0);
			ConditionVariableInit(&area->slots[i].changed);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

void
register_launcher()
{
	BackgroundWorker launcher = {};

	launcher.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	launcher.bgw_start_time = BgWorkerStart_RecoveryFinished;
	launcher.bgw_restart_time = 1;
	strlcpy(launcher.bgw_library_name, "schemasync", sizeof(launcher.bgw_library_name));
	strlcpy(launcher.bgw_function_name, "schemasync_launcher_main", BGW_MAXLEN);
	strlcpy(launcher.bgw_name, "schemasync launcher", BGW_MAXLEN);
	strlcpy(launcher.bgw_type, "schemasync launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&launcher);
}

} // namespace

const char *
name(State state)
{
	switch (state) {
	case State::Disabled:
		return "disabled";
	case State::Copying:
		return "copying";
	case State::Streaming:
		return "streaming";
	case State::Draining:
		return "draining";
	case State::Drained:
		return "drained";
	case State::WaitingLock:
		return "waiting_lock";
	case State::Refused:
		return "refused";
	case State::Failed:
		return "failed";
	}
	return "failed";
}

void
init_shared()
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	DefineCustomIntVariable("schemasync.max_subscriptions", "The most subscriptions that the server runs, of all databases.",
	                        "Each running one also takes a background worker (max_worker_processes).", &max_subscriptions, 64,
	                        1, 10000, PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
	DefineCustomIntVariable("schemasync.launcher_naptime", "How often the launcher looks for subscriptions by itself.",
	                        "Changes made through the functions wake it at once.", &launcher_naptime, 10000, 100, INT_MAX,
	                        PGC_SIGHUP, GUC_UNIT_MS, nullptr, nullptr, nullptr);

	preloaded = true;
	next_request = shmem_request_hook;
	shmem_request_hook = request_memory;
	next_startup = shmem_startup_hook;
	shmem_startup_hook = start_memory;
	register_launcher();
}

void
require_preload()
{
	if (area == nullptr)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("subscriptions need the library \"schemasync\" to be loaded at server start"),
		                errhint("Add \"schemasync\" to shared_preload_libraries and restart the server.")));
}

} // namespace schemasync::worker
