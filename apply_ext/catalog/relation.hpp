/*
 * schemasync.relation: what a subscription knows of one relation of its publisher: the state last accepted
 * (base), the local relation it goes to and how their columns pair.
 *
 * Written by the schema side of applying and by the initial copy; read at each change of schema and when rows
 * of a relation come for the first time.
 *
 * Zone: server code (leaves: may ereport; each needs a transaction).
 */
#pragma once

#include <cstdint>

#include "pg/postgres.hpp"

extern "C" {
#include "access/attnum.h"
#include "access/xlogdefs.h"
}

namespace schemasync::catalog {

struct AttributePair {
	AttrNumber publisher, local;
};

/* All pointers palloc'd in the context that was current when the row was read. */
struct RelationRow {
	Oid publisher_oid;
	const char *publisher_schema, *publisher_name;
	Oid relid;        /* InvalidOid: dropped here or kept out by policy */
	const char *base; /* the publisher's state last accepted, JSON of docs/wire.md */
	int npairs;
	const AttributePair *pairs;
	const char *state; /* init, copying, catchup, ready, needs_refresh, removed */
	XLogRecPtr sync_lsn;
	const char *options; /* JSON: policies of this table that override the subscription's; nullptr: not read, or none */
	bool created; /* made by the initial copy and not finished: indexes and constraints follow the rows */
};

/* nullptr when the subscription does not know it. */
RelationRow *load_relation(std::int64_t subid, Oid publisher_oid);

/* All of a subscription in the order of their oids; *count is set. */
RelationRow *load_relations(std::int64_t subid, int *count);

/* Those of a relation, JSON; nullptr when the subscription does not know it. Without its base, for who needs nothing else. */
const char *load_table_options(std::int64_t subid, Oid publisher_oid);

/* Inserts or updates base, names, relid and pairs; state, sync_lsn and created are set only for a new row.
 * A new partition has the policies of its parent. */
void save_relation(std::int64_t subid, const RelationRow *row);

/* The local relation and the pairs alone, when local changes made the stored ones stale. */
void remap_relation(std::int64_t subid, Oid publisher_oid, Oid relid, const AttributePair *pairs, int npairs);

void set_relation_created(std::int64_t subid, Oid publisher_oid, bool created);
void delete_relation(std::int64_t subid, Oid publisher_oid);

void set_relation_state(std::int64_t subid, Oid publisher_oid, const char *state);
/* The table is to be copied afresh (state init) or waits for somebody to ask for that (needs_refresh). */
void set_waiting(std::int64_t subid, Oid publisher_oid, const char *state);

/* Whether a table is to be copied, is being copied, or has to catch up with the stream. */
bool is_any_copying(std::int64_t subid);

/* What is of the opt-in classes and lies on the table is to be made, or found, here with the next copy. */
void mark_adoption(std::int64_t subid, Oid publisher_oid);
/* The tables that are marked so: their publisher's oids, palloc'd. */
Oid *load_adoptions(std::int64_t subid, int *count);
/* A table that is not here and has no rows of its own to come: it waits for nothing. */
void settle_missing(std::int64_t subid, Oid publisher_oid);

void end_adoptions(std::int64_t subid, const Oid *oids, int count);

/* The tables that were made by a copy and lack something yet: their publisher's oids, parents first, palloc'd. */
Oid *load_created(std::int64_t subid, int *count);

/* Whether the subscription knows a relation in the publisher's schema of that name. */
bool schema_is_followed(std::int64_t subid, const char *schema);

/* Whether one of the publisher's tables goes to this local one. */
bool is_target(std::int64_t subid, Oid relid);

/* The columns of a relation's base in their order; palloc'd. */
struct BaseColumn {
	AttrNumber attnum;
	const char *name;
	bool generated;
};
BaseColumn *load_base_columns(std::int64_t subid, Oid publisher_oid, int *count);

} // namespace schemasync::catalog
