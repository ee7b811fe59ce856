#include "core/protocol.hpp"

#include "apply_ext/apply/carried_rows.hpp"

#include "apply_ext/apply/rows.hpp"
#include "apply_ext/apply/session.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
}

namespace schemasync::apply {

namespace {

/* The rewrites of one transaction and what belongs to them. */
MemoryContext context = nullptr;
Carried *rewrites = nullptr;
CarryTarget *targets = nullptr;

// ---- leaves: may ereport; plain data only ----

MemoryContext
carry_context()
{
	if (context == nullptr)
		context = AllocSetContextCreate(TopMemoryContext, "schemasync carried rewrites", ALLOCSET_DEFAULT_SIZES);
	return context;
}

void
read_exactly(const Carried *carried, void *to, Size size)
{
	if (BufFileRead(carried->file, to, size) != size)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not read from the file of a table's rewritten rows")));
}

/* One table of the tree. Nobody else has it: it is locked. */
std::int64_t
count_table(Session *session, Oid relid, bool remove)
{
	LocalRelations *locals = session->relations->locals;
	std::int64_t count = 0;

	LocalRelation *local = open_local(locals, relid);
	act_for(locals, local, remove ? ACL_SELECT | ACL_DELETE : ACL_SELECT);
	PushActiveSnapshot(GetLatestSnapshot());
	TableScanDesc scan = pg::compat::table_beginscan(local->relation, GetActiveSnapshot());
	while (table_scan_getnextslot(scan, ForwardScanDirection, local->found)) {
		CHECK_FOR_INTERRUPTS();
		count++;
		if (!remove)
			continue;
		TM_FailureData failure;
		ItemPointerData tid = local->found->tts_tid;
		if (pg::compat::table_tuple_delete(local->relation, &tid, GetCurrentCommandId(true), &failure) != TM_Ok)
			elog(ERROR, "a row of a locked table was changed by somebody else");
	}
	ExecClearTuple(local->found);
	table_endscan(scan);
	PopActiveSnapshot();
	CommandCounterIncrement();
	return count;
}

/* The next message of the file, in the buffer, which grows. */
std::string_view
next_message(const Carried *carried, char **buffer, Size *size)
{
	std::uint32_t length;

	read_exactly(carried, &length, sizeof(length));
	if (length + Size{1} > *size) {
		if (*buffer != nullptr)
			pfree(*buffer);
		*size = Max(Size{length} + 1, Size{8192});
		*buffer = static_cast<char *>(MemoryContextAllocHuge(carry_context(), *size));
	}
	read_exactly(carried, *buffer, length);
	(*buffer)[length] = '\0';
	return {*buffer, length};
}

const char *
load_rewrite(Session *session, const Carried *carried, bool by_key, char **buffer, Size *size)
{
	protocol::Message message;
	protocol::WireError error;

	if (BufFileSeek(carried->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not seek in the file of a table's rewritten rows")));
	for (std::int64_t row = 0; row < carried->rows; row++) {
		CHECK_FOR_INTERRUPTS();
		std::string_view text = next_message(carried, buffer, size);
		if (!protocol::parse(text, carried->in_stream, *session->scratch, message, error))
			elog(ERROR, "a message that was kept cannot be read: %s", error.what);
		const auto *insert = std::get_if<protocol::Insert>(&message.body);
		if (insert == nullptr)
			elog(ERROR, "a message that was kept is no row");
		if (!by_key) {
			apply_insert(session, *insert);
		} else if (const char *missing = update_by_key(session, *insert)) {
			return missing;
		}
	}
	return nullptr;
}

} // namespace

Carried *
carried_rewrites()
{
	return rewrites;
}

CarryTarget *
carry_targets()
{
	return targets;
}

Carried *
add_carried(Oid transient, Oid relation, Oid published_as, bool take)
{
	auto *carried = static_cast<Carried *>(MemoryContextAllocZero(carry_context(), sizeof(Carried)));

	*carried = {rewrites, transient, relation, published_as, take, false, 0, nullptr};
	rewrites = carried;
	return carried;
}

CarryTarget *
add_carry_target(Oid published_as, Oid relid)
{
	auto *target = static_cast<CarryTarget *>(MemoryContextAllocZero(carry_context(), sizeof(CarryTarget)));

	target->next = targets;
	target->published_as = published_as;
	target->relid = relid;
	for (const Carried *carried = rewrites; carried != nullptr; carried = carried->next)
		if (carried->published_as == published_as)
			target->rows += carried->rows;
	targets = target;
	return target;
}

void
set_carry_keys(CarryTarget *target, const AttrNumber *keys, int count)
{
	Size bytes = sizeof(AttrNumber) * static_cast<Size>(count);

	target->by_key = true;
	target->nkeys = count;
	target->keys = static_cast<AttrNumber *>(MemoryContextAlloc(carry_context(), bytes));
	memcpy(target->keys, keys, bytes);
}

void
forget_carry_target(Oid published_as)
{
	for (CarryTarget **link = &targets; *link != nullptr; link = &(*link)->next)
		if ((*link)->published_as == published_as) {
			*link = (*link)->next;
			return;
		}
}

void
forget_carries()
{
	if (rewrites == nullptr && targets == nullptr)
		return;
	for (const Carried *carried = rewrites; carried != nullptr; carried = carried->next)
		if (carried->file != nullptr)
			BufFileClose(carried->file);
	rewrites = nullptr;
	targets = nullptr;
	MemoryContextReset(context);
}

Carried *
find_carried(Oid transient)
{
	for (Carried *carried = rewrites; carried != nullptr; carried = carried->next)
		if (carried->transient == transient)
			return carried;
	return nullptr;
}

CarryTarget *
find_carry_target(Oid published_as)
{
	for (CarryTarget *target = targets; target != nullptr; target = target->next)
		if (target->published_as == published_as)
			return target;
	return nullptr;
}

bool
keep_carried_row(Oid transient, std::string_view message, bool in_stream)
{
	if (rewrites == nullptr)
		return false;
	Carried *carried = find_carried(transient);
	auto size = static_cast<std::uint32_t>(message.size());

	if (carried == nullptr)
		return false;
	if (!carried->take)
		return true;
	if (carried->file == nullptr) {
		MemoryContext saved = MemoryContextSwitchTo(carry_context());
		/* not the resource owner's, which may be a subtransaction's: forget_carries() closes it */
		carried->file = BufFileCreateTemp(true);
		MemoryContextSwitchTo(saved);
		carried->in_stream = in_stream;
	}
	BufFileWrite(carried->file, &size, sizeof(size));
	BufFileWrite(carried->file, const_cast<char *>(message.data()), message.size());
	carried->rows++;
	return true;
}

std::int64_t
count_local_rows(Session *session, Oid relid, bool remove)
{
	std::int64_t count = 0;
	ListCell *cell;

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE) {
		count = count_table(session, relid, remove);
	} else {
		foreach (cell, find_all_inheritors(relid, NoLock, nullptr))
			if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_RELATION)
				count += count_table(session, lfirst_oid(cell), remove);
	}
	close_locals(session->relations->locals);
	need_snapshot(session->relations->locals); /* the schema work has one */
	return count;
}

bool
is_local_key(Oid relid, const AttrNumber *columns, int count)
{
	Relation relation = table_open(relid, AccessShareLock);
	bool found = false;
	ListCell *cell;

	foreach (cell, RelationGetIndexList(relation)) {
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);
		Form_pg_index form = index->rd_index;
		bool same = form->indisunique && form->indisvalid && form->indnkeyatts == count &&
		            RelationGetIndexPredicate(index) == NIL;
		for (int i = 0; same && i < form->indnkeyatts; i++) {
			bool among = false;
			for (int key = 0; key < count; key++)
				among = among || columns[key] == form->indkey.values[i];
			same = among;
		}
		found = found || same;
		index_close(index, AccessShareLock);
	}
	table_close(relation, AccessShareLock);
	return found;
}

const char *
load_carried_rows(Session *session, const CarryTarget *target)
{
	const char *missing = nullptr;
	char *buffer = nullptr;
	Size size = 0;

	forget_mappings(session->relations);
	silence_triggers(session->relations->locals, true);
	for (const Carried *carried = rewrites; carried != nullptr && missing == nullptr; carried = carried->next)
		if (carried->published_as == target->published_as && carried->file != nullptr)
			missing = load_rewrite(session, carried, target->by_key, &buffer, &size);
	if (missing == nullptr)
		flush_rows(session);
	close_locals(session->relations->locals);
	silence_triggers(session->relations->locals, false);
	need_snapshot(session->relations->locals);
	session->position.schema = session->position.relation = nullptr;
	session->group.rows += target->rows;
	return missing;
}

} // namespace schemasync::apply
