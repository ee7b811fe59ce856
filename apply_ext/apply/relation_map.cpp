#include "apply_ext/apply/relation_map.hpp"

#include "apply_ext/apply/batch.hpp"
#include "apply_ext/apply/rows.hpp"
#include "apply_ext/apply/session.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/refusal.hpp"
#include "apply_ext/catalog/results.hpp"
#include "apply_ext/worker/beside.hpp"
#include "apply_ext/worker/meeting.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/sysattr.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
}

namespace schemasync::apply {

namespace {

// ---- leaves: may ereport; plain data only ----

const char *
copy_text(MemoryContext context, std::string_view text)
{
	char *copy = static_cast<char *>(MemoryContextAlloc(context, text.size() + 1));

	memcpy(copy, text.data(), text.size());
	copy[text.size()] = '\0';
	return copy;
}

HTAB *
make_table(const char *name, Size key, Size entry, MemoryContext context)
{
	HASHCTL control = {};

	control.keysize = key;
	control.entrysize = entry;
	control.hcxt = context;
	return hash_create(name, 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

[[noreturn]] void
raise_unknown_column(const Session *session, const Target *target, const char *column)
{
	ereport(ERROR,
	        (errcode(ERRCODE_UNDEFINED_COLUMN),
	         errmsg("subscription \"%s\" does not know column \"%s\" of the publisher's table \"%s.%s\"",
	                session->subscription->name, column, target->schema, target->name)));
}

/* Pairs the wire's columns with what the subscription knows of the relation: by name, then by attnum. */
void
pair_columns(Session *session, Target *target, const RelationTarget *known)
{
	for (int i = 0; i < target->ncolumns; i++) {
		Column *column = &target->columns[i];
		int at = 0;
		while (at < known->ncolumns && strcmp(known->names[at], column->name) != 0)
			at++;
		if (at == known->ncolumns)
			raise_unknown_column(session, target, column->name);
		column->paired =
		    bms_is_member(at, known->gone_columns) ? InvalidAttrNumber : known->local_attnums[at];
		if (known->carried)
			column->key = known->keys[at];
	}
}

/*
 * What was dropped here, the table or columns of it: rows wait until it is there again. Not so in a
 * transaction in which a person has answered the table's refusal: the answer may have been to drop it by hand, and
 * the rows before that change in the transaction need it no more.
 */
void
check_gone(const Session *session, Target *target, const RelationTarget *known)
{
	if (!known->apply_all && session->remote.final_lsn < known->sync_lsn)
		return;
	/* until it has caught up nothing else can be done about it: the stream itself will say so */
	if (known->gone && session->catch_up.active)
		return;
	if (catalog::has_answer(session->subscription->subid, session->remote.final_lsn, target->publisher_oid)) {
		target->mapped_for = session->remote.final_lsn;
		ereport(LOG, (errmsg("subscription \"%s\" leaves out what is not here any more of \"%s.%s\"",
		                     session->subscription->name, target->schema, target->name),
		              errdetail("Its refusal in the transaction that commits at %s was answered.",
		                        pg::compat::lsn_text(session->remote.final_lsn))));
		return;
	}
	/* a refresh may be about to find that the publication does not list it any more */
	if (known->gone)
		ereport(
		    ERROR,
		    (errcode(session->beside.worker != nullptr && worker::may_wait_for_copies(session)
		                 ? worker::waits_for_copy
		                 : ERRCODE_UNDEFINED_TABLE),
		     errmsg("the publisher's table \"%s.%s\" does not exist here any more", target->schema,
		            target->name),
		     errdetail("It was dropped on the subscriber. Its rows wait, and with them all that came after."),
		     errhint("Create the table again and call schemasync_resync to fill it, or drop it from the "
		             "publication and call "
		             "schemasync_refresh.")));
	ereport(
	    ERROR,
	    (errcode(ERRCODE_UNDEFINED_COLUMN),
	     errmsg("column \"%s\" of the publisher's table \"%s.%s\" does not exist here any more",
	            known->names[bms_next_member(known->gone_columns, -1)], target->schema, target->name),
	     errdetail(
	         "It was dropped on the subscriber. The table's rows wait, and with them all that came after."),
	     errhint("Add the column again, and copy the table with schemasync_resync if it had values.")));
}

/* Whether the rows of the current transaction came with the table's copy. */
bool
is_copied(Session *session, Target *target)
{
	if (session->remote.final_lsn >= target->sync_lsn)
		return false;
	/* that of a prepared transaction is the position of its PREPARE, and it may have been committed after the copy's snapshot */
	if (!session->subscription->options.two_phase)
		return true;
	if (target->judged == session->remote.xid)
		return target->copied;
	act_as_worker(session->relations->locals);
	need_snapshot(session->relations->locals);
	MemoryContext saved = MemoryContextSwitchTo(session->message);
	catalog::Internal internal = catalog::begin_internal();
	const char *text = nullptr;
	if (catalog::run("SELECT sync_snapshot FROM schemasync.relation WHERE subid = $1 AND publisher_oid = $2",
	                 {catalog::as_int8(session->subscription->subid), catalog::as_oid(target->publisher_oid)}) > 0)
		text = catalog::result_text(0, 1, session->message);
	catalog::end_internal(internal);
	target->copied = true;
	if (text != nullptr) {
		auto *snapshot = static_cast<worker::RemoteSnapshot *>(palloc(sizeof(worker::RemoteSnapshot)));
		worker::read_snapshot(text, snapshot);
		target->copied = worker::is_visible(snapshot, session->remote.xid);
		pfree(snapshot);
	}
	target->judged = session->remote.xid;
	MemoryContextSwitchTo(saved);
	return target->copied;
}

/* What the subscription says of the relation. */
void
map_target(Session *session, Target *target)
{
	act_as_worker(session->relations->locals);
	need_snapshot(session->relations->locals);
	MemoryContext saved = MemoryContextSwitchTo(session->message);
	bool catching_up = session->catch_up.active;
	RelationTarget *known = find_relation(session->subscription->subid, target->publisher_oid,
	                                      catching_up ? Pass::CatchUp : Pass::Stream);

	target->generation = 0;
	target->applied = false;
	target->carried = false;
	target->mapped_for = InvalidXLogRecPtr;
	if (known != nullptr && (known->gone || !bms_is_empty(known->gone_columns)))
		check_gone(session, target, known);
	MemoryContextSwitchTo(saved);
	if (known == nullptr) {
		/* the stream is read once more, and the table was dropped since; or: the extension's own tables may
		 * be part of a FOR ALL TABLES publication */
		if (!catching_up && strcmp(target->schema, "schemasync") != 0)
			ereport(
			    ERROR,
			    (errcode(ERRCODE_UNDEFINED_TABLE),
			     errmsg("subscription \"%s\" does not know the publisher's table \"%s.%s\"",
			            session->subscription->name, target->schema, target->name),
			     errdetail(
			         "The table is not among schemasync_tables, and the stream did not bring its state.")));
	} else if (OidIsValid(known->relid)) {
		target->applied = true;
		target->carried = known->carried;
		if (known->carried)
			target->replica_identity = 'd';
		target->relid = known->relid;
		target->apply_all = known->apply_all;
		target->sync_lsn = known->sync_lsn;
		/* rows from before the table's copy are passed over, and their columns may be named as they were then
		 */
		target->judged = InvalidTransactionId;
		if (!target->apply_all && is_copied(session, target))
			return;
		pair_columns(session, target, known);
	}
	target->mapped = true;
}

void
make_readers(Session *session, Target *target)
{
	TupleDesc desc = target->local->desc;

	target->sent = nullptr;
	target->whole = target->replica_identity == 'f';
	for (int i = 0; i < target->ncolumns; i++) {
		Column *column = &target->columns[i];
		column->local = column->paired;
		if (column->local == 0)
			continue;
		if (column->local > desc->natts || TupleDescAttr(desc, column->local - 1)->attisdropped)
			ereport(
			    ERROR,
			    (errcode(ERRCODE_UNDEFINED_COLUMN),
			     errmsg("the local table \"%s.%s\" has no column any more for the publisher's column \"%s\"",
			            target->local->schema, target->local->name, column->name)));
		Form_pg_attribute attribute = TupleDescAttr(desc, column->local - 1);
		/* computed here, whatever the publisher sends */
		if (attribute->attgenerated != '\0') {
			column->local = 0;
			continue;
		}
		const WireType *name = static_cast<const WireType *>(
		    hash_search(session->relations->types, &column->wire_type, HASH_FIND, nullptr));
		make_reader(&column->reader, attribute, column->wire_type, name);
		if (column->reader.binary == Binary::TextOnly && session->binary) {
			session->wants_text = true;
			ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
			                errmsg("column \"%s\" of \"%s.%s\" can only be read as text: the stream begins "
			                       "again without binary values",
			                       column->name, target->schema, target->name)));
		}
		if (column->key)
			target->sent = bms_add_member(target->sent, column->local);
	}
}

void
make_defaults(Target *target)
{
	TupleDesc desc = target->local->desc;
	Bitmapset *filled = nullptr;

	for (int i = 0; i < target->ncolumns; i++) {
		if (target->columns[i].local != 0)
			filled = bms_add_member(filled, target->columns[i].local);
	}
	target->plain = bms_num_members(filled) == desc->natts;
	target->ndefaults = 0;
	target->defaults =
	    static_cast<Default *>(palloc(sizeof(Default) * static_cast<Size>(Max(desc->natts, 1))));
	for (AttrNumber column = 1; column <= desc->natts; column++) {
		Form_pg_attribute attribute = TupleDescAttr(desc, column - 1);
		if (bms_is_member(column, filled) || attribute->attisdropped || attribute->attgenerated != '\0')
			continue;
		Node *expression = build_column_default(target->local->relation, column);
		if (expression == nullptr)
			continue;
		Default *entry = &target->defaults[target->ndefaults++];
		entry->column = column;
		entry->expression = ExecInitExpr(expression_planner(reinterpret_cast<Expr *>(expression)), nullptr);
	}
}

bool
key_decides_partition(const Target *target)
{
	PartitionKey key = RelationGetPartitionKey(target->local->relation);
	Bitmapset *columns = nullptr;

	for (int i = 0; i < key->partnatts; i++) {
		if (key->partattrs[i] != 0)
			columns = bms_add_member(columns, key->partattrs[i] - FirstLowInvalidHeapAttributeNumber);
	}
	pull_varattnos(reinterpret_cast<Node *>(key->partexprs), 1, &columns);
	for (int column = -1; (column = bms_next_member(columns, column)) >= 0;) {
		if (!bms_is_member(column + FirstLowInvalidHeapAttributeNumber, target->sent))
			return false;
	}
	return true;
}

/* What depends on the local table's definition. */
void
build_mapping(Session *session, Target *target)
{
	MemoryContext saved;

	/* whoever asks for a new mapping has flushed: these changes would be lost without a word */
	if (has_batch(target))
		elog(ERROR, "changes of \"%s.%s\" still wait while its columns are mapped anew", target->schema,
		     target->name);
	/* lookups of the old mapping lie in its context */
	close_lookups(session->relations->locals);
	if (target->mapping == nullptr)
		target->mapping = AllocSetContextCreate(session->relations->context, "schemasync relation mapping",
		                                        ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(target->mapping);
	target->view = nullptr;
	target->views = nullptr;
	target->batch = nullptr;
	saved = MemoryContextSwitchTo(target->mapping);
	make_readers(session, target);
	make_defaults(target);
	if (target->local->kind == RELKIND_PARTITIONED_TABLE) {
		target->views = make_table("schemasync views", sizeof(Oid), sizeof(View), target->mapping);
		target->routes_by_key = key_decides_partition(target);
	}
	MemoryContextSwitchTo(saved);
	target->generation = target->local->generation;
}

/* Attnums by name, between a partition and its root. */
void
map_by_name(View *view, TupleDesc root)
{
	TupleDesc leaf = view->local->desc;
	bool same = leaf->natts == root->natts;

	view->from_root =
	    static_cast<AttrNumber *>(palloc0(sizeof(AttrNumber) * static_cast<Size>(root->natts + 1)));
	view->to_root =
	    static_cast<AttrNumber *>(palloc0(sizeof(AttrNumber) * static_cast<Size>(leaf->natts + 1)));
	for (int i = 0; i < leaf->natts; i++) {
		if (TupleDescAttr(leaf, i)->attisdropped) {
			same = same && TupleDescAttr(root, i)->attisdropped;
			continue;
		}
		for (int j = 0; j < root->natts; j++) {
			int at = (i + j) % root->natts;
			if (TupleDescAttr(root, at)->attisdropped ||
			    strcmp(NameStr(TupleDescAttr(root, at)->attname), NameStr(TupleDescAttr(leaf, i)->attname)) !=
			        0)
				continue;
			view->from_root[at + 1] = static_cast<AttrNumber>(i + 1);
			view->to_root[i + 1] = static_cast<AttrNumber>(at + 1);
			same = same && at == i;
			break;
		}
	}
	if (same)
		view->from_root = view->to_root = nullptr;
}

} // namespace

Relations *
make_relations(MemoryContext context, bool run_as_owner)
{
	Relations *relations = static_cast<Relations *>(MemoryContextAllocZero(context, sizeof(Relations)));

	relations->context = AllocSetContextCreate(context, "schemasync relations", ALLOCSET_DEFAULT_SIZES);
	relations->targets = make_table("schemasync targets", sizeof(Oid), sizeof(Target), relations->context);
	relations->types = make_table("schemasync wire types", sizeof(Oid), sizeof(WireType), relations->context);
	relations->locals = make_local_relations(relations->context, run_as_owner);
	return relations;
}

void
remember_relation(Session *session, const protocol::Relation &message)
{
	Relations *relations = session->relations;
	bool found;

	/* changes that wait in a batch were read with the columns that are about to go */
	flush_rows(session);
	Target *target = static_cast<Target *>(hash_search(relations->targets, &message.oid, HASH_ENTER, &found));

	relations->last = nullptr;
	if (!found) {
		memset(reinterpret_cast<char *>(target) + sizeof(Oid), 0, sizeof(Target) - sizeof(Oid));
		target->remote =
		    AllocSetContextCreate(relations->context, "schemasync remote relation", ALLOCSET_SMALL_SIZES);
	} else {
		MemoryContextReset(target->remote);
	}
	target->schema =
	    copy_text(target->remote, message.schema.empty() ? std::string_view("pg_catalog") : message.schema);
	target->name = copy_text(target->remote, message.name);
	target->replica_identity = message.replica_identity;
	target->ncolumns = static_cast<int>(message.columns.size());
	target->columns = static_cast<Column *>(
	    MemoryContextAllocZero(target->remote, sizeof(Column) * Max(message.columns.size(), std::size_t{1})));
	for (int i = 0; i < target->ncolumns; i++) {
		const protocol::RelationColumn &from = message.columns[static_cast<std::size_t>(i)];
		target->columns[i].name = copy_text(target->remote, from.name);
		target->columns[i].wire_type = from.type;
		target->columns[i].key = from.key;
	}
	target->mapped = false;
}

void
remember_type(Session *session, const protocol::Type &message)
{
	bool found;
	WireType *type =
	    static_cast<WireType *>(hash_search(session->relations->types, &message.oid, HASH_ENTER, &found));

	/* names are cut as the server cuts them; a longer one could not be a type here */
	namestrcpy(&type->schema,
	           copy_text(session->message,
	                     message.schema.empty() ? std::string_view("pg_catalog") : message.schema));
	namestrcpy(&type->name, copy_text(session->message, message.name));
}

void
forget_mappings(Relations *relations)
{
	HASH_SEQ_STATUS scan;
	Target *target;

	relations->last = nullptr;
	hash_seq_init(&scan, relations->targets);
	while ((target = static_cast<Target *>(hash_seq_search(&scan))) != nullptr)
		target->mapped = false;
}

Target *
open_target(Session *session, Oid publisher_oid)
{
	Relations *relations = session->relations;
	Target *target = relations->last;

	if (target == nullptr || target->publisher_oid != publisher_oid) {
		target = static_cast<Target *>(hash_search(relations->targets, &publisher_oid, HASH_FIND, nullptr));
		if (target == nullptr)
			ereport(ERROR,
			        (errcode(ERRCODE_PROTOCOL_VIOLATION),
			         errmsg("the publisher sent a row of the relation with OID %u without describing it",
			                publisher_oid)));
		relations->last = target;
	}
	session->position.schema = target->schema;
	session->position.relation = target->name;
	if (target->mapped_for != InvalidXLogRecPtr && target->mapped_for != session->remote.final_lsn) {
		flush_rows(session);
		target->mapped = false;
	}
	if (!target->mapped)
		map_target(session, target);
	if (!target->applied)
		return nullptr;
	if (!target->apply_all && is_copied(session, target))
		return nullptr;
	if (target->local == nullptr || target->local->relid != target->relid || !target->local->open ||
	    is_stale(target->local)) {
		if (target->local != nullptr && target->local->open)
			flush_rows(session);
		target->local = open_local(relations->locals, target->relid);
	}
	if (target->generation != target->local->generation)
		build_mapping(session, target);
	return target;
}

View *
open_view(Session *session, Target *target, Oid relid, bool with_lookup)
{
	View *view = target->view;
	bool ordinary = relid == target->relid;

	if (!ordinary) {
		bool found;
		view = static_cast<View *>(hash_search(target->views, &relid, HASH_ENTER, &found));
		if (!found) {
			memset(reinterpret_cast<char *>(view) + sizeof(Oid), 0, sizeof(View) - sizeof(Oid));
		}
	} else if (view == nullptr) {
		view = target->view = static_cast<View *>(MemoryContextAllocZero(target->mapping, sizeof(View)));
		view->relid = relid;
	}
	if (view->local == nullptr || !view->local->open || is_stale(view->local)) {
		if (view->local != nullptr && view->local->open)
			flush_rows(session);
		view->local = ordinary ? target->local : open_local(session->relations->locals, relid);
	}
	if (view->generation == view->local->generation && (view->lookup != nullptr || !with_lookup))
		return view;

	MemoryContext saved = MemoryContextSwitchTo(target->mapping);
	if (view->generation != view->local->generation) {
		if (!ordinary)
			map_by_name(view, target->local->desc);
		view->lookup = nullptr;
		view->generation = view->local->generation;
	}
	if (with_lookup) {
		Bitmapset *sent = target->sent;
		if (view->from_root != nullptr) {
			sent = nullptr;
			for (int column = -1; (column = bms_next_member(target->sent, column)) >= 0;)
				sent = bms_add_member(sent, view->from_root[column]);
		}
		if (bms_is_empty(sent))
			ereport(
			    ERROR,
			    (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			     errmsg("the publisher's table \"%s.%s\" sends no replica identity that exists here",
			            target->schema, target->name),
			     errhint(
			         "Give the publisher's table a replica identity of columns that the subscriber has.")));
		view->lookup = make_lookup(view->local, sent, target->whole);
	}
	MemoryContextSwitchTo(saved);
	return view;
}

} // namespace schemasync::apply
