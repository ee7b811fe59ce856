#include "decoder/membership.hpp"

#include "decoder/objects.hpp"
#include "decoder/publication.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/scan.hpp"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_publication_namespace.h"
#include "catalog/pg_publication_rel.h"
#include "utils/lsyscache.h"
}

namespace schemasync::decoder {

namespace json = pg::json;

namespace {

// ---- leaves: may ereport; plain data only ----

bool
is_of_session(const Place &place, Oid publication_oid)
{
	ListCell *cell;

	foreach(cell, session_publications(place.session))
		if (static_cast<const Publication *>(lfirst(cell))->oid == publication_oid)
			return true;
	return false;
}

bool
publishes_schemas(const Place &place)
{
	ListCell *cell;

	foreach(cell, session_publications(place.session))
		if (GetPublicationSchemas(static_cast<const Publication *>(lfirst(cell))->oid) != NIL)
			return true;
	return false;
}

/* Gathered first: while a streamed transaction is decoded no scan may be inside another (scan.hpp). */
List *
all_tables()
{
	List *relids = NIL;
	Relation relations = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relations, InvalidOid, false, nullptr, 0, nullptr);
	HeapTuple tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
		auto *form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
		if (form->relkind == RELKIND_RELATION || form->relkind == RELKIND_PARTITIONED_TABLE)
			relids = lappend_oid(relids, form->oid);
	}
	systable_endscan(scan);
	table_close(relations, AccessShareLock);
	return relids;
}

/* Members of extensions are made by their extension, and are not copied either. */
bool
is_followed(List *publications, Oid relid)
{
	return is_covered(publications, relid) && !OidIsValid(getExtensionOfObject(RelationRelationId, relid));
}

List *
followed_tables(List *publications)
{
	List *relids = NIL;
	ListCell *cell;

	foreach(cell, all_tables())
		if (is_followed(publications, lfirst_oid(cell)))
			relids = lappend_oid(relids, lfirst_oid(cell));
	return relids;
}

/* The relation that a row of pg_publication_rel is about, if the row belongs to one of the session's publications. */
Oid
member_relation(const Place &place, Oid row_oid)
{
	Oid relid = InvalidOid;
	Oid publication = InvalidOid;

	pg::catalog::scan_by_oid(PublicationRelRelationId, PublicationRelObjectIndexId, Anum_pg_publication_rel_oid, row_oid,
	                         [&relid, &publication](HeapTuple tuple, TupleDesc) {
		                         auto *form = reinterpret_cast<Form_pg_publication_rel>(GETSTRUCT(tuple));
		                         relid = form->prrelid;
		                         publication = form->prpubid;
	                         });
	return OidIsValid(publication) && is_of_session(place, publication) ? relid : InvalidOid;
}

void
append_table(StringInfo out, Oid relid)
{
	const char *name = get_rel_name(relid);
	const char *schema = get_namespace_name(get_rel_namespace(relid));

	if (name == nullptr || schema == nullptr)
		return;
	json::begin_object(out);
	json::number(out, "oid", relid);
	json::string(out, "schema", schema);
	json::string(out, "name", name);
	json::end_object(out);
}

void
append_published(const Place &place, StringInfo out)
{
	List *publications = session_publications(place.session);
	List *above = NIL;
	ListCell *cell;

	json::begin_array(out, "published");
	foreach(cell, followed_tables(publications)) {
		append_table(out, lfirst_oid(cell));
		above = list_concat_unique_oid(above, parents_of(lfirst_oid(cell)));
	}
	json::end_array(out);
	/* grows as it is read: parents of parents */
	for (int i = 0; i < list_length(above); i++)
		above = list_concat_unique_oid(above, parents_of(list_nth_oid(above, i)));
	json::begin_array(out, "above");
	foreach(cell, above)
		if (!is_followed(publications, lfirst_oid(cell)))
			append_table(out, lfirst_oid(cell));
	json::end_array(out);
}

} // namespace

bool
changes_membership(const Place &place, const marker::Marker &marker)
{
	if (marker.tag == "ALTER PUBLICATION" || marker.tag == "CREATE PUBLICATION" || marker.tag == "DROP PUBLICATION")
		return true;
	/* RENAME and SET SCHEMA are ALTER TABLE without subcommands */
	return marker.tag == "ALTER TABLE" && !marker.has_subcommands && publishes_schemas(place);
}

void
append_membership(const Place &place, const marker::Marker &marker, Outgoing *outgoing)
{
	StringInfo out = &outgoing->json;

	append_published(place, out);
	json::begin_array(out, "republished");
	for (const marker::Object &object : marker.objects) {
		Oid relid = object.classid == PublicationRelRelationId ? member_relation(place, object.objid) : InvalidOid;
		if (!OidIsValid(relid))
			continue;
		json::begin_object(out);
		json::number(out, "oid", relid);
		json::end_object(out);
	}
	json::end_array(out);
}

} // namespace schemasync::decoder
