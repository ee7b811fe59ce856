/*
 * The rows of a carried rewrite: how they wait in a file, and how they are put into the local table. No trigger fires
 * for them, as none does where a table is rewritten.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>
#include <string_view>

#include "pg/postgres.hpp"

extern "C" {
#include "access/attnum.h"
#include "storage/buffile.h"
}

namespace schemasync::apply {

struct Session;

/* One rewrite of the publisher's transaction that is being applied. */
struct Carried {
	Carried *next;
	Oid transient;    /* the relation that its rows come as */
	Oid relation;     /* the publisher's table */
	Oid published_as; /* the table, or the partition root that its rows are published as */
	bool take;        /* else its rows are passed over */
	bool in_stream;   /* the form of the messages in the file: with a transaction id */
	std::int64_t rows;
	BufFile *file; /* nullptr: there was no row yet */
};

/* A local table that takes carried rows: all rows of the rewrites of the publisher's tables published as it. */
struct CarryTarget {
	CarryTarget *next;
	Oid published_as;
	Oid relid; /* local */
	bool by_key;
	int nkeys;
	AttrNumber *keys; /* the publisher's */
	std::int64_t rows;
};

/* The lists of the transaction. They are forgotten by forget_carries(), at the next or after an abort. */
Carried *carried_rewrites();
CarryTarget *carry_targets();
Carried *add_carried(Oid transient, Oid relation, Oid published_as, bool take);
CarryTarget *add_carry_target(Oid published_as, Oid relid);
void forget_carry_target(Oid published_as);
/* keys: the publisher's attnums, copied */
void set_carry_keys(CarryTarget *target, const AttrNumber *keys, int count);
void forget_carries();

/* nullptr when no rewrite of that transient relation is going on. */
Carried *find_carried(Oid transient);
CarryTarget *find_carry_target(Oid published_as);

/* Puts the message of a row away. returns: false when the relation is not the transient one of a rewrite */
bool keep_carried_row(Oid transient, std::string_view message, bool in_stream);

/* The rows of a local table with those of its partitions; `remove`: they are deleted. */
std::int64_t count_local_rows(Session *session, Oid relid, bool remove);

/* Whether the local columns are those of a unique index over all rows. */
bool is_local_key(Oid relid, const AttrNumber *columns, int count);

/*
 * Puts the rows in.
 *
 * returns: nullptr, or the key of a row that is not here (palloc'd)
 */
const char *load_carried_rows(Session *session, const CarryTarget *target);

} // namespace schemasync::apply
