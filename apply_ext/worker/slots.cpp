#include "apply_ext/worker/slots.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "storage/latch.h"
}

namespace schemasync::worker {

namespace {

Slot *
find_locked(Oid database, std::int64_t subid)
{
	for (int i = 0; i < area->size; i++) {
		Slot *slot = &area->slots[i];
		if (slot->used && slot->database == database && slot->subid == subid)
			return slot;
	}
	return nullptr;
}

void
reset(Slot *slot, Oid database, std::int64_t subid)
{
	SpinLockAcquire(&slot->mutex);
	slot->used = true;
	slot->database = database;
	slot->subid = subid;
	slot->owner = InvalidOid;
	snprintf(slot->name, sizeof(slot->name), "%u/" INT64_FORMAT, database, subid);
	slot->wanted = true;
	slot->gone = slot->starting = slot->cancel = slot->restart = slot->streamed = slot->reload = false;
	slot->reported = slot->draining = false;
	slot->started_at = slot->next_start = slot->state_since = 0;
	slot->failures = slot->pid = 0;
	slot->latch = nullptr;
	slot->received = slot->applied = slot->confirmed = InvalidXLogRecPtr;
	slot->sent_at = slot->received_at = slot->committed_at = 0;
	slot->rows = slot->transactions = 0;
	slot->counted = false;
	slot->meeting = DSM_HANDLE_INVALID;
	slot->verifier = 0;
	slot->index_pid = 0;
	slot->index_latch = nullptr;
	slot->index_starting = slot->index_yield = false;
	slot->index_relid = InvalidOid;
	SpinLockRelease(&slot->mutex);
	pg_atomic_write_u64(&slot->awaited, 0);
}

} // namespace

Slot *
find_slot(Oid database, std::int64_t subid)
{
	if (area == nullptr)
		return nullptr;
	LWLockAcquire(area->lock, LW_SHARED);
	Slot *slot = find_locked(database, subid);
	LWLockRelease(area->lock);
	return slot;
}

Slot *
take_slot(Oid database, std::int64_t subid)
{
	LWLockAcquire(area->lock, LW_EXCLUSIVE);
	Slot *slot = find_locked(database, subid);
	for (int i = 0; i < area->size && slot == nullptr; i++) {
		if (!area->slots[i].used) {
			slot = &area->slots[i];
			reset(slot, database, subid);
		}
	}
	LWLockRelease(area->lock);
	return slot;
}

void
mark_gone(Oid database, std::int64_t subid)
{
	Slot *slot = find_slot(database, subid);

	if (slot == nullptr)
		return;
	SpinLockAcquire(&slot->mutex);
	slot->gone = true;
	slot->wanted = false;
	SpinLockRelease(&slot->mutex);
}

void
collect_slot(Slot *slot)
{
	LWLockAcquire(area->lock, LW_EXCLUSIVE);
	SpinLockAcquire(&slot->mutex);
	if (slot->used && slot->gone && slot->pid == 0 && !slot->starting && slot->index_pid == 0)
		slot->used = false;
	SpinLockRelease(&slot->mutex);
	LWLockRelease(area->lock);
}

void
wake_launcher()
{
	if (area == nullptr)
		return;

	/* the latch is that of a PGPROC, which stays valid memory whoever has it now: at worst a process wakes for nothing */
	SpinLockAcquire(&area->mutex);
	Latch *latch = area->launcher_latch;
	SpinLockRelease(&area->mutex);
	if (latch != nullptr)
		SetLatch(latch);
}

void
request_scan()
{
	SpinLockAcquire(&area->mutex);
	area->scan = true;
	SpinLockRelease(&area->mutex);
}

char *
origin_name(Oid database, std::int64_t subid)
{
	return psprintf("schemasync_%u_" INT64_FORMAT, database, subid);
}

bool
parse_origin_name(const char *name, Oid *database, std::int64_t *subid)
{
	constexpr char prefix[] = "schemasync_";

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return false;
	const char *at = name + sizeof(prefix) - 1;
	char *end = nullptr;
	errno = 0;
	unsigned long long first = strtoull(at, &end, 10);
	if (end == at || *end != '_' || first == 0 || first > OID_MAX)
		return false;
	at = end + 1;
	unsigned long long second = strtoull(at, &end, 10);
	if (end == at || *end != '\0' || errno != 0 || second > static_cast<unsigned long long>(PG_INT64_MAX))
		return false;
	*database = static_cast<Oid>(first);
	*subid = static_cast<std::int64_t>(second);

	/* only the exact form is ours: no leading zeros, blanks or signs */
	char exact[NAMEDATALEN];
	snprintf(exact, sizeof(exact), "schemasync_%u_" INT64_FORMAT, *database, *subid);
	return strcmp(exact, name) == 0;
}

} // namespace schemasync::worker
