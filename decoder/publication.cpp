#include "decoder/publication.hpp"

#include <cstring>

#include "decoder/row_filter.hpp"

extern "C" {
#include "access/transam.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
}

namespace schemasync::decoder {

// ---- leaves: may ereport; plain data only ----

namespace {

/* As which relation a publication publishes a relation, and how far up the partition tree that is. */
struct Target {
	bool published;
	Oid relid;
	int level; /* 0: the relation itself */
};

bool
has_row_actions(const PublicationActions &actions)
{
	return actions.pubinsert || actions.pubupdate || actions.pubdelete;
}

void
add_actions(PublicationActions &actions, const PublicationActions &more)
{
	actions.pubinsert |= more.pubinsert;
	actions.pubupdate |= more.pubupdate;
	actions.pubdelete |= more.pubdelete;
	actions.pubtruncate |= more.pubtruncate;
}

/* The top-most partition root a partition is published as, or the relation itself. */
Target
find_target(const Publication *publication, Oid relid, const RelationMembership &membership)
{
	Target target{false, relid, 0};

	if (publication->alltables) {
		target.published = !pg::compat::is_excluded(publication, relid, membership.is_partition);
		if (target.published && publication->pubviaroot && membership.is_partition) {
			List *ancestors = get_partition_ancestors(relid);

			target.relid = llast_oid(ancestors);
			target.level = list_length(ancestors);
		}
		return target;
	}
	if (membership.is_partition) {
		int level;
		Oid ancestor =
		    GetTopMostAncestorInPublication(publication->oid, get_partition_ancestors(relid), &level);

		if (OidIsValid(ancestor)) {
			target.published = true;
			if (publication->pubviaroot) {
				target.relid = ancestor;
				target.level = level;
			}
		}
	}
	if (list_member_oid(membership.publications, publication->oid) ||
	    list_member_oid(membership.schema_publications, publication->oid))
		target.published = true;
	return target;
}

/*
 * Sums up the actions of all publications, and finds the top-most target.
 *
 * returns: the publications that publish the relation as that target (Publication *)
 */
List *
settle_target(Oid relid, const RelationMembership &membership, List *publications, RelationEntry *entry)
{
	List *through = NIL;
	int level = 0;
	ListCell *cell;

	entry->publish_as = relid;
	foreach (cell, publications) {
		auto *publication = static_cast<Publication *>(lfirst(cell));
		Target target = find_target(publication, relid, membership);

		/* a partitioned table has no rows of its own; it counts only where it stands for its partitions */
		if (!target.published ||
		    (membership.relkind == RELKIND_PARTITIONED_TABLE && !publication->pubviaroot))
			continue;
		add_actions(entry->actions, publication->pubactions);
		if (target.level < level)
			continue;
		if (target.level > level) {
			entry->publish_as = target.relid;
			level = target.level;
			through = NIL;
		}
		through = lappend(through, publication);
	}
	return through;
}

/* Slots over copies of the row type, which a relcache rebuild in mid-callback cannot touch. */
void
make_slots(Relation relation, RelationEntry *entry)
{
	TupleDesc row_type = RelationGetDescr(relation);
	MemoryContext caller = MemoryContextSwitchTo(entry->context);

	entry->old_slot = MakeSingleTupleTableSlot(CreateTupleDescCopyConstr(row_type), &TTSOpsHeapTuple);
	entry->new_slot = MakeSingleTupleTableSlot(CreateTupleDescCopyConstr(row_type), &TTSOpsHeapTuple);
	MemoryContextSwitchTo(caller);
}

/*
 * The column list that a publication gives for relid.
 *
 * returns: whether there is one; then *columns is its set of attnums, in context
 */
bool
read_column_list(const Publication *publication, Oid relid, MemoryContext context, Bitmapset **columns)
{
	bool is_null = true;

	if (publication->alltables)
		return false;
	HeapTuple membership =
	    SearchSysCache2(PUBLICATIONRELMAP, ObjectIdGetDatum(relid), ObjectIdGetDatum(publication->oid));
	/* no row: published with its schema, which has no lists */
	if (!HeapTupleIsValid(membership))
		return false;
	Datum list = SysCacheGetAttr(PUBLICATIONRELMAP, membership, Anum_pg_publication_rel_prattrs, &is_null);
	if (!is_null)
		*columns = pub_collist_to_bitmapset(nullptr, list, context);
	ReleaseSysCache(membership);
	return !is_null;
}

int
count_live_attributes(TupleDesc row_type)
{
	int count = 0;

	for (int i = 0; i < row_type->natts; i++) {
		const FormData_pg_attribute *attribute = TupleDescAttr(row_type, i);
		if (!attribute->attisdropped && !attribute->attgenerated)
			count++;
	}
	return count;
}

bool
has_generated_column(TupleDesc row_type)
{
	for (int i = 0; i < row_type->natts; i++)
		if (TupleDescAttr(row_type, i)->attgenerated)
			return true;
	return false;
}

/* Up to 17 a list of all columns is the same as no list. */
bool
lists_all_columns(const Bitmapset *columns, Relation relation)
{
	using Whole = pg::compat::WholeColumnList;

	switch (pg::compat::whole_column_list) {
	case Whole::every_attribute:
		return bms_num_members(columns) == RelationGetNumberOfAttributes(relation);
	case Whole::live_attributes:
		return bms_num_members(columns) == count_live_attributes(RelationGetDescr(relation));
	case Whole::spelled_out:
		return false;
	}
	return false;
}

/* From 18: the columns that are published without a list, as a list; in context. */
Bitmapset *
spell_out_columns(Relation relation, char generated_columns, MemoryContext context)
{
	TupleDesc row_type = RelationGetDescr(relation);
	Bitmapset *columns = nullptr;
	MemoryContext caller = MemoryContextSwitchTo(context);

	for (int i = 0; i < row_type->natts; i++) {
		const FormData_pg_attribute *attribute = TupleDescAttr(row_type, i);
		if (attribute->attisdropped)
			continue;
		if (attribute->attgenerated &&
		    !(attribute->attgenerated == ATTRIBUTE_GENERATED_STORED && generated_columns == 's'))
			continue;
		columns = bms_add_member(columns, attribute->attnum);
	}
	MemoryContextSwitchTo(caller);
	return columns;
}

/* What publish_generated_columns says for the relation; a column list takes precedence over it. */
void
settle_generated_columns(Relation target, List *through, RelationEntry *entry)
{
	bool first = true;
	ListCell *cell;

	entry->generated_columns = 'n';
	if (!pg::compat::publishes_generated_columns || !has_generated_column(RelationGetDescr(target)))
		return;
	foreach (cell, through) {
		auto *publication = static_cast<Publication *>(lfirst(cell));
		Bitmapset *ignored = nullptr;

		if (read_column_list(publication, entry->publish_as, CurrentMemoryContext, &ignored))
			continue;
		char choice = pg::compat::generated_columns_of(publication);
		if (first)
			entry->generated_columns = choice;
		else if (entry->generated_columns != choice)
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			                errmsg("cannot use different values of publish_generated_columns for table "
			                       "\"%s.%s\" in different publications",
			                       get_namespace_name(RelationGetNamespace(target)),
			                       RelationGetRelationName(target))));
		first = false;
	}
}

/* All publications must agree on the columns. */
void
settle_columns(Relation target, List *through, RelationEntry *entry)
{
	constexpr bool spelled_out = pg::compat::whole_column_list == pg::compat::WholeColumnList::spelled_out;
	bool first = true;
	bool any_list = false;
	Bitmapset *all_columns = nullptr;
	ListCell *cell;

	foreach (cell, through) {
		auto *publication = static_cast<Publication *>(lfirst(cell));
		Bitmapset *columns = nullptr;

		if (read_column_list(publication, entry->publish_as, entry->context, &columns)) {
			any_list = true;
			if (lists_all_columns(columns, target))
				columns = nullptr;
		} else if (spelled_out && list_length(through) > 1) {
			if (all_columns == nullptr)
				all_columns = spell_out_columns(target, entry->generated_columns, entry->context);
			columns = all_columns;
		}
		if (first)
			entry->columns = columns;
		else if (!bms_equal(entry->columns, columns))
			ereport(
			    ERROR,
			    (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			     errmsg("cannot use different column lists for table \"%s.%s\" in different publications",
			            get_namespace_name(RelationGetNamespace(target)), RelationGetRelationName(target))));
		first = false;
	}
	if (spelled_out && !any_list)
		entry->columns = nullptr;
}

/* The extension's own tables are not for subscribers that speak its language. */
bool
is_own_schema(Oid nspid)
{
	const char *schema = get_namespace_name(nspid);

	return schema != nullptr && strcmp(schema, "schemasync") == 0;
}

/* An ordinary or partitioned table of a user's that is not temporary. */
bool
is_describable(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		return false;
	auto *form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
	bool describable = (form->relkind == RELKIND_RELATION || form->relkind == RELKIND_PARTITIONED_TABLE) &&
	                   form->relpersistence != RELPERSISTENCE_TEMP && !OidIsValid(form->relrewrite) &&
	                   relid >= FirstNormalObjectId && !is_own_schema(form->relnamespace);
	ReleaseSysCache(tuple);
	return describable;
}

/*
 * Whether a publication that is not of all tables names the relation, or its schema. Asked of the row itself: the caches that GetRelationPublications()
 * makes, a list for each relation, are searched one after the other before 18.
 */
bool
names_relation(const Publication *publication, Oid relid)
{
	return SearchSysCacheExists2(PUBLICATIONRELMAP, ObjectIdGetDatum(relid), ObjectIdGetDatum(publication->oid)) ||
	       SearchSysCacheExists2(PUBLICATIONNAMESPACEMAP, ObjectIdGetDatum(get_rel_namespace(relid)), ObjectIdGetDatum(publication->oid));
}

} // namespace

RelationMembership
read_membership(Relation relation)
{
	Oid relid = RelationGetRelid(relation);

	return RelationMembership{
		.publications = pg::compat::publications_of(relid),
		.schema_publications = GetSchemaPublications(get_rel_namespace(relid)),
		.is_partition = get_rel_relispartition(relid),
		.relkind = get_rel_relkind(relid),
	};
}

List *
load_publications(List *names)
{
	constexpr bool missing_ok = pg::compat::missing_publication_is_skipped;
	List *publications = NIL;
	ListCell *cell;

	foreach (cell, names) {
		auto *name = static_cast<char *>(lfirst(cell));
		Publication *publication = GetPublicationByName(name, missing_ok);

		if (publication != nullptr)
			publications = lappend(publications, publication);
		else
			ereport(WARNING, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			                  errmsg("skipped loading publication \"%s\"", name),
			                  errdetail("The publication does not exist at this point in the WAL."),
			                  errhint("Create the publication if it does not exist.")));
	}
	return publications;
}

void
settle_publication(Session *session, Relation relation, const RelationMembership &membership,
                   List *publications, RelationEntry *entry)
{
	if (session->options.schemasync && is_own_schema(RelationGetNamespace(relation)))
		return;
	List *through = settle_target(RelationGetRelid(relation), membership, publications, entry);
	if (!has_row_actions(entry->actions))
		return;
	make_slots(relation, entry);
	settle_row_filters(through, entry);
	Relation target = RelationIdGetRelation(entry->publish_as);
	settle_generated_columns(target, through, entry);
	settle_columns(target, through, entry);
	RelationClose(target);
}

bool
do_publications_exist(List *names)
{
	/* (what is missing publishes nothing, and a command on it says so) */
	if (pg::compat::missing_publication_is_skipped)
		return true;
	ListCell *cell;

	foreach(cell, names)
		if (!OidIsValid(get_publication_oid(static_cast<const char *>(lfirst(cell)), true)))
			return false;
	return true;
}

bool
publish_all_tables(List *publications)
{
	ListCell *cell;

	foreach(cell, publications)
		if (static_cast<const Publication *>(lfirst(cell))->alltables)
			return true;
	return false;
}

bool
is_covered(List *publications, Oid relid)
{
	ListCell *cell;
	ListCell *above;

	if (!is_describable(relid))
		return false;
	bool is_partition = get_rel_relispartition(relid);
	List *ancestors = is_partition ? get_partition_ancestors(relid) : NIL;
	foreach(cell, publications) {
		auto *publication = static_cast<const Publication *>(lfirst(cell));
		if (publication->alltables) {
			if (!pg::compat::is_excluded(publication, relid, is_partition))
				return true;
			continue;
		}
		if (names_relation(publication, relid))
			return true;
		foreach(above, ancestors)
			if (names_relation(publication, lfirst_oid(above)))
				return true;
	}
	return false;
}

bool
is_schema_covered(List *publications, Oid nspid)
{
	List *covering = GetSchemaPublications(nspid);
	ListCell *cell;

	foreach(cell, publications)
		if (list_member_oid(covering, static_cast<const Publication *>(lfirst(cell))->oid))
			return true;
	return false;
}

bool
is_column_published(const FormData_pg_attribute *attribute, const RelationEntry *entry)
{
	if (attribute->attisdropped)
		return false;
	/* up to 17 a generated column is never published, listed or not */
	if (attribute->attgenerated && !pg::compat::publishes_generated_columns)
		return false;
	if (entry->columns != nullptr)
		return bms_is_member(attribute->attnum, entry->columns);
	if (!attribute->attgenerated)
		return true;
	return attribute->attgenerated == ATTRIBUTE_GENERATED_STORED && entry->generated_columns == 's';
}

} // namespace schemasync::decoder
