#include "apply_ext/capture/shapes.hpp"

#include <cstring>

#include "pg/catalog/catalog.hpp"
#include "pg/compat.hpp"
#include "pg/postgres.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "mb/pg_wchar.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
}

namespace schemasync::capture {

namespace {

// ---- leaves: may ereport; plain data only ----

bool
is_published(Oid relid)
{
	if (GetAllTablesPublications() != NIL || GetRelationPublications(relid) != NIL ||
	    GetSchemaPublications(get_rel_namespace(relid)) != NIL)
		return true;
	return false;
}

bool
publishes_changes(const List *publications)
{
	const ListCell *cell;

	foreach (cell, publications) {
		const PublicationActions actions = GetPublication(lfirst_oid(cell))->pubactions;
		if (actions.pubupdate || actions.pubdelete)
			return true;
	}
	return false;
}

/* Whether updates or deletes of it are published, for which the server asks for a replica identity. */
bool
needs_identity(Oid relid)
{
	List *relids = list_make1_oid(relid);
	const ListCell *cell;

	if (publishes_changes(GetAllTablesPublications()))
		return true;
	if (get_rel_relispartition(relid))
		relids = list_concat(relids, get_partition_ancestors(relid));
	foreach (cell, relids)
		if (publishes_changes(GetRelationPublications(lfirst_oid(cell))) ||
		    publishes_changes(GetSchemaPublications(get_rel_namespace(lfirst_oid(cell)))))
			return true;
	return false;
}

/* A publication of a partitioned table covers its partitions. */
bool
is_covered(Oid relid)
{
	ListCell *cell;

	if (is_published(relid))
		return true;
	if (!get_rel_relispartition(relid))
		return false;
	foreach (cell, get_partition_ancestors(relid)) {
		if (is_published(lfirst_oid(cell)))
			return true;
	}
	return false;
}

/* Whether the table has a page at all: a row that was deleted is still a reason for care. */
bool
may_have_rows(Oid relid)
{
	ListCell *cell;
	List *tables = has_subclass(relid) ? find_all_inheritors(relid, NoLock, nullptr) : list_make1_oid(relid);

	foreach (cell, tables) {
		Relation table = try_relation_open(lfirst_oid(cell), AccessShareLock);
		if (table == nullptr)
			continue;
		bool empty = !RELKIND_HAS_STORAGE(table->rd_rel->relkind) || RelationGetNumberOfBlocks(table) == 0;
		relation_close(table, AccessShareLock);
		if (!empty)
			return true;
	}
	return false;
}

double
estimated_rows(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		return 0;
	double rows = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->reltuples;
	ReleaseSysCache(tuple);
	return rows < 0 ? 0 : rows;
}

/* The merge reads UTF-8. */
const char *
in_utf8(const char *text)
{
	return text == nullptr ? nullptr : pg_server_to_any(text, static_cast<int>(strlen(text)), PG_UTF8);
}

const char *
qualified_name(Oid schema, const char *name)
{
	return name == nullptr ? nullptr : quote_qualified_identifier(get_namespace_name(schema), name);
}

void
read_relation(Shape *shape, StringInfo json)
{
	if (!pg::catalog::append_relation(json, shape->oid, nullptr))
		return;
	shape->json = in_utf8(json->data);
	shape->name = in_utf8(qualified_name(get_rel_namespace(shape->oid), get_rel_name(shape->oid)));
	shape->temporary = get_rel_persistence(shape->oid) == RELPERSISTENCE_TEMP;
	shape->published = !shape->temporary && is_covered(shape->oid);
	shape->inserts_only = shape->published && !needs_identity(shape->oid);
	shape->has_rows = may_have_rows(shape->oid);
	shape->row_count = estimated_rows(shape->oid);
	if (get_rel_relispartition(shape->oid))
		shape->ancestors = get_partition_ancestors(shape->oid);
}

void
read_shape(Shape *shape, ShapeKind kind, Oid oid)
{
	StringInfoData json;

	initStringInfo(&json);
	shape->kind = kind;
	shape->oid = oid;
	switch (kind) {
	case ShapeKind::Relation:
		read_relation(shape, &json);
		break;
	case ShapeKind::Type:
		if (pg::catalog::append_type(&json, oid)) {
			shape->json = in_utf8(json.data);
			shape->name = in_utf8(format_type_be_qualified(oid));
		}
		break;
	case ShapeKind::Schema:
		if (pg::catalog::append_schema(&json, oid)) {
			shape->json = in_utf8(json.data);
			shape->name = in_utf8(quote_identifier(get_namespace_name(oid)));
		}
		break;
	}
}

} // namespace

Shapes *
read_shapes(const Touched *touched, MemoryContext context)
{
	MemoryContext caller = MemoryContextSwitchTo(context);
	auto *shapes = static_cast<Shapes *>(palloc0(sizeof(Shapes)));
	int count = list_length(touched->relations) + list_length(touched->types) + list_length(touched->schemas);
	ListCell *cell;

	shapes->items = static_cast<Shape *>(palloc0(sizeof(Shape) * static_cast<Size>(count + 1)));
	int nest_level = pg::catalog::begin_pinned_settings();
	foreach (cell, touched->schemas)
		read_shape(&shapes->items[shapes->count++], ShapeKind::Schema, lfirst_oid(cell));
	foreach (cell, touched->types)
		read_shape(&shapes->items[shapes->count++], ShapeKind::Type, lfirst_oid(cell));
	foreach (cell, touched->relations)
		read_shape(&shapes->items[shapes->count++], ShapeKind::Relation, lfirst_oid(cell));
	pg::catalog::end_pinned_settings(nest_level);
	MemoryContextSwitchTo(caller);
	return shapes;
}

const Shape *
find_shape(const Shapes *shapes, ShapeKind kind, Oid oid)
{
	for (int i = 0; shapes != nullptr && i < shapes->count; i++) {
		if (shapes->items[i].kind == kind && shapes->items[i].oid == oid)
			return &shapes->items[i];
	}
	return nullptr;
}

} // namespace schemasync::capture
