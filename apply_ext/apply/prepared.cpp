#include "apply_ext/apply/prepared.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/results.hpp"
#include "apply_ext/worker/local.hpp"

extern "C" {
#include "access/twophase.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
}

namespace schemasync::apply {

namespace {

/*
 * What nobody else gets until the publisher's transaction is decided: the id of the local transaction, or of a subtransaction of it; or a
 * relation that it locked for itself alone.
 */
struct Held {
	std::int64_t subid; /* of the subscription that prepared it, perhaps one that is no more */
	TransactionId remote;
	bool is_relation;
	std::uint32_t id;
};

/* The timer's handler reads it at any moment: the count is zero while the rest changes. */
Held *held = nullptr;
volatile int count = 0;
int capacity = 0;

std::int64_t own = 0; /* the worker's subscription */

volatile TransactionId waited_for = InvalidTransactionId;
volatile std::int64_t waited_subid = 0;

constexpr int patience = 1000; /* ms between two looks */
TimeoutId timer = MAX_TIMEOUTS;

/* In a signal handler. Only the process itself sets and leaves its wait; the lock it waits for is not freed meanwhile. */
void
look()
{
	const LOCK *lock = MyProc->waitLock;

	if (lock == nullptr)
		return;
	const LOCKTAG &tag = lock->tag;
	bool is_relation = tag.locktag_type == LOCKTAG_RELATION && tag.locktag_field1 == MyDatabaseId;
	if (!is_relation && tag.locktag_type != LOCKTAG_TRANSACTION)
		return;
	std::uint32_t id = is_relation ? tag.locktag_field2 : tag.locktag_field1;
	for (int i = 0; i < count; i++)
		if (held[i].id == id && held[i].is_relation == is_relation) {
			waited_for = held[i].remote;
			waited_subid = held[i].subid;
			QueryCancelPending = true;
			InterruptPending = true;
			SetLatch(MyLatch);
			return;
		}
}

// ---- leaves: may ereport; plain data only ----

void
set_timer(bool on)
{
	if (timer == MAX_TIMEOUTS)
		timer = RegisterTimeout(USER_TIMEOUT, look);
	if (on && !get_timeout_active(timer))
		enable_timeout_every(timer, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), patience), patience);
	else if (!on && get_timeout_active(timer))
		disable_timeout(timer, false);
}

void
add(std::int64_t subid, TransactionId remote, bool is_relation, std::uint32_t id)
{
	int before = count;

	count = 0;
	if (before == capacity) {
		Size size = sizeof(Held) * static_cast<Size>(capacity == 0 ? 64 : capacity * 2);
		held = static_cast<Held *>(held == nullptr ? MemoryContextAlloc(TopMemoryContext, size) : repalloc(held, size));
		capacity = capacity == 0 ? 64 : capacity * 2;
	}
	held[before] = {subid, remote, is_relation, id};
	count = before + 1;
}

} // namespace

char *
prepared_name(std::int64_t subid, TransactionId remote)
{
	return psprintf("schemasync_%lld_%u", static_cast<long long>(subid), remote);
}

void
load_prepared(std::int64_t subid)
{
	count = 0;
	own = subid;
	waited_for = InvalidTransactionId;
	if (max_prepared_xacts == 0)
		return;
	worker::begin();
	catalog::Internal internal = catalog::begin_internal();
	/* with the locks on the ids of their subtransactions, which are their holder's too */
	std::uint64_t rows = catalog::run(
	    "SELECT pg_catalog.split_part(p.gid, '_', 2)::pg_catalog.int8, pg_catalog.split_part(p.gid, '_', 3)::pg_catalog.int8,"
	    "  s.locktype = 'relation', coalesce(s.relation::pg_catalog.int8, s.transactionid::pg_catalog.text::pg_catalog.int8)"
	    " FROM pg_catalog.pg_prepared_xacts p JOIN pg_catalog.pg_locks t ON t.locktype = 'transactionid' AND t.pid IS NULL"
	    "  AND t.transactionid = p.transaction"
	    " JOIN pg_catalog.pg_locks s ON s.pid IS NULL AND s.virtualtransaction = t.virtualtransaction"
	    "  AND (s.locktype = 'transactionid' OR s.locktype = 'relation' AND s.mode = 'AccessExclusiveLock')"
	    " LEFT JOIN schemasync.subscription u ON u.subid::pg_catalog.text = pg_catalog.split_part(p.gid, '_', 2)"
	    " WHERE p.gid ~ '^schemasync_[0-9]{1,18}_[0-9]{1,10}$' AND p.database = pg_catalog.current_database()"
	    "  AND (u.subid IS NULL OR u.subid = $1 AND p.owner = pg_catalog.pg_get_userbyid(u.owner))",
	    {catalog::as_int8(subid)});
	for (std::uint64_t i = 0; i < rows; i++)
		add(catalog::result_int8(i, 1), static_cast<TransactionId>(catalog::result_int8(i, 2)), catalog::result_boolean(i, 3),
		    static_cast<std::uint32_t>(catalog::result_int8(i, 4)));
	catalog::end_internal(internal);
	worker::commit();
	set_timer(count > 0);
}

void
note_prepared(TransactionId remote, bool may_lock)
{
	TransactionId *children;
	int nchildren = xactGetCommittedChildren(&children);

	add(own, remote, false, GetTopTransactionId());
	for (int i = 0; i < nchildren; i++)
		add(own, remote, false, children[i]);
	set_timer(true);
	if (!may_lock)
		return;
	PushActiveSnapshot(GetTransactionSnapshot());
	catalog::Internal internal = catalog::begin_internal();
	std::uint64_t rows = catalog::run("SELECT relation::pg_catalog.int8 FROM pg_catalog.pg_locks WHERE pid = pg_catalog.pg_backend_pid()"
	                                  " AND locktype = 'relation' AND mode = 'AccessExclusiveLock' AND granted");
	for (std::uint64_t i = 0; i < rows; i++)
		add(own, remote, true, static_cast<std::uint32_t>(catalog::result_int8(i, 1)));
	catalog::end_internal(internal);
	PopActiveSnapshot();
}

void
forget_prepared(TransactionId remote)
{
	int before = count, kept = 0;

	count = 0;
	for (int i = 0; i < before; i++)
		if (held[i].remote != remote || held[i].subid != own)
			held[kept++] = held[i];
	count = kept;
	if (waited_for == remote && waited_subid == own)
		waited_for = InvalidTransactionId;
	if (before > 0)
		set_timer(kept > 0);
}

bool
is_prepared_here(TransactionId remote)
{
	for (int i = 0; i < count; i++)
		if (held[i].remote == remote && held[i].subid == own)
			return true;
	return false;
}

void
explain_wait(ErrorData *error)
{
	TransactionId remote = waited_for;

	waited_for = InvalidTransactionId;
	if (error->sqlerrcode != ERRCODE_QUERY_CANCELED || remote == InvalidTransactionId)
		return;
	char *name = prepared_name(waited_subid, remote);
	error->sqlerrcode = ERRCODE_OBJECT_IN_USE;
	if (waited_subid != own) {
		error->message = psprintf("the change waits for transaction \"%s\", which a subscription had prepared that was dropped", name);
		error->detail = pstrdup("No stream comes to its end any more. Until somebody ends it, what it changed here is locked.");
		error->hint = psprintf("ROLLBACK PREPARED '%s', if its rows are copied again now, and COMMIT PREPARED '%s', if they are not and the publisher has "
		                       "committed it. It is then tried again.", name, name);
		return;
	}
	error->message = psprintf("the change waits for transaction \"%s\", which this subscription has prepared", name);
	error->detail = psprintf("The publisher's transaction %u comes to its end later in the stream. Until then what it changed here is locked, and "
	                         "this change needs it, though on the publisher the two did not meet.", remote);
	error->hint = psprintf("End it by hand, as the publisher has ended it or will: COMMIT PREPARED '%s' or ROLLBACK PREPARED '%s'. The stream then goes on; "
	                       "pass over the error at its COMMIT PREPARED with schemasync_skip.", name, name);
}

} // namespace schemasync::apply
