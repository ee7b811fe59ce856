#include "apply_ext/apply/batch.hpp"

#include "apply_ext/apply/change.hpp"
#include "apply_ext/apply/conflicts.hpp"
#include "apply_ext/apply/session.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
}

namespace schemasync::apply {

namespace {

constexpr int capacity = 1000;
constexpr Size max_bytes = 8 * 1024 * 1024;
constexpr std::uint32_t buckets = 2048;

struct Change {
	TupleTableSlot *old_row;
	Datum *values; /* of the new row, in the table's layout; nullptr: a delete */
	bool *is_null;
	bool *is_sent;
	std::uint32_t hash;
	int next; /* in its bucket, from 0; -1: the last */
	bool found;
	ItemPointerData tid;
};

} // namespace

struct Batch {
	MemoryContext values;
	int count, allocated, missing;
	Change changes[capacity];
	int heads[buckets];
	/* hashes of the rows that come out of it: a change of one of those must wait until it is there */
	std::uint64_t produced[2 * buckets];
};

namespace {

// ---- leaves: may ereport; plain data only ----

Batch *
batch_of(Session *session, Target *target)
{
	if (target->batch == nullptr) {
		Batch *batch = static_cast<Batch *>(MemoryContextAllocZero(target->mapping, sizeof(Batch)));
		batch->values = AllocSetContextCreate(target->mapping, "schemasync batch", ALLOCSET_DEFAULT_SIZES);
		target->batch = batch;
	}
	if (target->batch->count == 0) {
		memset(target->batch->heads, 0xff, sizeof(target->batch->heads));
		memset(target->batch->produced, 0, sizeof(target->batch->produced));
		target->next_batched = session->relations->batched;
		session->relations->batched = target;
	}
	return target->batch;
}

/* The place of a hash among those of produced rows: where it is or where it would go. */
std::uint64_t *
produced_place(Batch *batch, std::uint32_t hash)
{
	constexpr std::uint32_t places = 2 * buckets;
	std::uint64_t wanted = (std::uint64_t{1} << 32) | hash;
	std::uint32_t at = hash % places;

	while (batch->produced[at] != 0 && batch->produced[at] != wanted)
		at = (at + 1) % places;
	return &batch->produced[at];
}

void
read_new_values(Session *session, Target *target, Change *change, Row row)
{
	Size columns = static_cast<Size>(target->local->desc->natts);

	change->values = static_cast<Datum *>(palloc0(columns * sizeof(Datum)));
	change->is_null = static_cast<bool *>(palloc0(columns));
	change->is_sent = static_cast<bool *>(palloc0(columns));
	for (int i = 0; i < target->ncolumns; i++) {
		Column *column = &target->columns[i];
		const protocol::Value &value = row[static_cast<std::size_t>(i)];
		if (column->local == 0 || value.is_unchanged())
			continue;
		int at = column->local - 1;
		change->is_sent[at] = true;
		change->is_null[at] = value.is_null();
		if (!value.is_null())
			change->values[at] = read_column(session, target, column, value);
	}
}

/* The found row with the new values, into the table's updated slot. */
TupleTableSlot *
changed_row(LocalRelation *local, TupleTableSlot *from, const Change *change)
{
	TupleTableSlot *slot = local->updated;

	slot_getallattrs(from);
	ExecClearTuple(slot);
	for (int i = 0; i < local->desc->natts; i++) {
		bool sent = change->is_sent[i];
		slot->tts_values[i] = sent ? change->values[i] : from->tts_values[i];
		slot->tts_isnull[i] = sent ? change->is_null[i] : from->tts_isnull[i];
	}
	ExecStoreVirtualTuple(slot);
	return slot;
}

/* The first change that waits for a row like the one in found. */
Change *
waiting_for(Batch *batch, const Lookup *lookup, TupleTableSlot *found)
{
	std::uint32_t hash = hash_row(lookup, found);

	for (int at = batch->heads[hash % buckets]; at >= 0; at = batch->changes[at].next) {
		Change *change = &batch->changes[at];
		if (!change->found && change->hash == hash && same_row(lookup, change->old_row, found))
			return change;
	}
	return nullptr;
}

/* Reads the table once. returns: false when it had to wait for another transaction and must be read again */
bool
find_once(Session *session, const View *view, Batch *batch)
{
	LocalRelation *local = view->local;
	SnapshotData dirty;
	TransactionId other = InvalidTransactionId;

	InitDirtySnapshot(dirty);
	TableScanDesc scan = pg::compat::table_beginscan(local->relation, &dirty);
	MemoryContext saved = MemoryContextSwitchTo(session->relations->locals->row);
	while (batch->missing > 0 && table_scan_getnextslot(scan, ForwardScanDirection, local->found)) {
		Change *change = waiting_for(batch, view->lookup, local->found);
		TransactionId holder = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
		if (change != nullptr && TransactionIdIsValid(holder)) {
			other = holder;
			break;
		}
		if (change != nullptr) {
			change->found = true;
			change->tid = local->found->tts_tid;
			batch->missing--;
		}
		MemoryContextReset(session->relations->locals->row);
	}
	MemoryContextSwitchTo(saved);
	ExecClearTuple(local->found);
	table_endscan(scan);
	if (!TransactionIdIsValid(other))
		return true;

	XactLockTableWait(other, nullptr, nullptr, XLTW_None);
	for (int i = 0; i < batch->count; i++)
		batch->changes[i].found = false;
	batch->missing = batch->count;
	return false;
}

[[noreturn]] void
raise_missing(Session *session, Target *target, const Change *change)
{
	report_conflict(session, target->local,
	                change->values == nullptr ? Conflict::DeleteMissing : Conflict::UpdateMissing,
	                describe_row(target->local, change->old_row, target->sent), nullptr, nullptr);
	elog(ERROR, "a batch was collected although conflicts are to be settled one by one");
}

/* One change, whose row was found where change->tid says; looks again when somebody else has changed it
 * since. */
void
change_row(Session *session, Target *target, const View *view, Change *change)
{
	LocalRelations *locals = session->relations->locals;
	LocalRelation *local = view->local;
	bool there = table_tuple_fetch_row_version(local->relation, &change->tid, SnapshotAny, local->found);

	for (;;) {
		if (!there)
			raise_missing(session, target, change);
		bool done = change->values == nullptr
		                ? delete_row(locals, local)
		                : update_row(locals, local, changed_row(local, local->found, change));
		if (done)
			break;
		convert_row(change->old_row, nullptr, local->search);
		there = find_row(locals, view->lookup);
	}
	ExecClearTuple(local->found);
	MemoryContextReset(locals->row);
}

} // namespace

void
add_to_batch(Session *session, Target *target, Row old_row, Row new_row)
{
	LocalRelations *locals = session->relations->locals;
	LocalRelation *local = target->local;
	const Lookup *lookup = target->view->lookup;
	Batch *batch = batch_of(session, target);

	if (batch->count == capacity || MemoryContextMemAllocated(batch->values, false) > max_bytes) {
		flush_batch(session, target);
		batch = batch_of(session, target);
	}
	if (batch->count == batch->allocated) {
		MemoryContext saved = MemoryContextSwitchTo(target->mapping);
		batch->changes[batch->allocated++].old_row = MakeSingleTupleTableSlot(local->desc, &TTSOpsVirtual);
		MemoryContextSwitchTo(saved);
	}

	MemoryContext saved = MemoryContextSwitchTo(batch->values);
	Change *change = &batch->changes[batch->count];
	act_for(locals, local, ACL_SELECT);
	read_search_row(session, target, old_row, change->old_row);
	change->hash = hash_row(lookup, change->old_row);
	if (*produced_place(batch, change->hash) != 0) {
		/* the row may be one that a change before it makes: that must happen first */
		MemoryContextSwitchTo(saved);
		flush_batch(session, target);
		add_to_batch(session, target, old_row, new_row);
		return;
	}
	change->values = nullptr;
	if (!new_row.empty()) {
		read_new_values(session, target, change, new_row);
		std::uint32_t hash = hash_row(lookup, changed_row(local, change->old_row, change));
		*produced_place(batch, hash) = (std::uint64_t{1} << 32) | hash;
		ExecClearTuple(local->updated);
	}
	change->found = false;
	change->next = -1;
	/* in order: of equal rows the first change takes the first */
	int *link = &batch->heads[change->hash % buckets];
	while (*link >= 0)
		link = &batch->changes[*link].next;
	*link = batch->count++;
	MemoryContextSwitchTo(saved);
}

void
flush_batch(Session *session, Target *target)
{
	Batch *batch = target->batch;
	LocalRelations *locals = session->relations->locals;
	ErrorPosition position = session->position;

	if (batch == nullptr || batch->count == 0)
		return;
	/* off the list first: what follows may come here again */
	for (Target **link = &session->relations->batched; *link != nullptr; link = &(*link)->next_batched) {
		if (*link == target) {
			*link = target->next_batched;
			break;
		}
	}
	const View *view = target->view;
	session->position.schema = target->schema;
	session->position.relation = target->name;
	act_for(locals, view->local, ACL_SELECT | ACL_UPDATE | ACL_DELETE);
	need_snapshot(locals);
	batch->missing = batch->count;
	while (!find_once(session, view, batch)) {
	}
	MemoryContext saved = MemoryContextSwitchTo(locals->row);
	for (int i = 0; i < batch->count; i++) {
		Change *change = &batch->changes[i];
		session->position.command = change->values == nullptr ? "DELETE" : "UPDATE";
		if (!change->found)
			raise_missing(session, target, change);
		change_row(session, target, view, change);
		ExecClearTuple(change->old_row);
	}
	MemoryContextSwitchTo(saved);
	batch->count = 0;
	MemoryContextReset(batch->values);
	session->position = position;
}

void
flush_batches(Session *session)
{
	while (session->relations->batched != nullptr)
		flush_batch(session, session->relations->batched);
}

void
forget_batches(Session *session)
{
	HASH_SEQ_STATUS scan;
	Target *target;

	/* not by the list: the batch whose changes were being made when the ERROR came is off it already */
	hash_seq_init(&scan, session->relations->targets);
	while ((target = static_cast<Target *>(hash_seq_search(&scan))) != nullptr) {
		if (!has_batch(target))
			continue;
		target->batch->count = 0;
		MemoryContextReset(target->batch->values);
	}
	session->relations->batched = nullptr;
}

bool
has_batch(const Target *target)
{
	return target->batch != nullptr && target->batch->count > 0;
}

} // namespace schemasync::apply
