/*
 * What is published of a relation, decided as pgoutput of the same version decides it: which publications
 * hold it, as which relation its changes go out, row filters, column lists, generated columns.
 *
 * Called by relation_cache when an entry is (re)built, under the historic snapshot.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/relation_cache.hpp"

namespace schemasync::decoder {

/* The catalog's view of a relation's place in publications, before the session's publications are looked at.
 */
struct RelationMembership {
	List *publications;        /* oids of publications that name the relation */
	List *schema_publications; /* oids of publications that name its schema */
	bool is_partition;
	char relkind;
};

RelationMembership read_membership(Relation relation);

/*
 * Reads the session's publications.
 *
 * in:      names (char *)
 * returns: Publication *, in the current context
 * errors:  publication does not exist (up to 17; from 18 a warning, and it is left out)
 */
List *load_publications(List *names);

/*
 * Fills an empty entry: actions, publish_as, columns, filters, slots.
 *
 * errors: "cannot use different column lists ...", "cannot use different values of publish_generated_columns
 * ..." source: get_rel_sync_entry() of pgoutput
 */
void settle_publication(Session *session, Relation relation, const RelationMembership &membership,
                        List *publications, RelationEntry *entry);

/* Whether all publications (names, char *) are there at the decoded position, so that load_publications() will do: always from 18. */
bool do_publications_exist(List *names);

/* Whether one of the publications (Publication *) publishes everything. */
bool publish_all_tables(List *publications);

/*
 * Whether a relation is in one of the publications, as a partitioned table even where its partitions are published
 * in its place. What schemasync describes, in other words; temporary tables, catalogs, other kinds of relations and
 * the extension's own tables never are.
 */
bool is_covered(List *publications, Oid relid);

/* Whether one of the publications publishes a schema as a whole. */
bool is_schema_covered(List *publications, Oid nspid);

/* Whether a column travels: what pgoutput calls a published column, of all versions. */
bool is_column_published(const FormData_pg_attribute *attribute, const RelationEntry *entry);

} // namespace schemasync::decoder
