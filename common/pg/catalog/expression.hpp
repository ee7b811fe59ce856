/*
 * Parsed expressions: their text without opening a table, the worst volatility in them, and what they refer to.
 *
 * Zone: bridge; leaves.
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "lib/stringinfo.h"
#include "nodes/bitmapset.h"
#include "nodes/nodes.h"
}

namespace schemasync::pg::catalog {

/*
 * Deparses an expression whose Vars are columns of relid. The server's deparser would open the relation, with a lock,
 * to learn its columns' names; this one never does.
 */
char *deparse(Node *expression, Oid relid);

/* Whether the expression has a column of the relation that is not in `visible` (nullptr: none is hidden). */
bool mentions_hidden(Node *expression, const Bitmapset *visible);

/* Appends the field `name` with EXPR as its value. */
void append_expression_field(StringInfo out, const char *name, Node *expression, Oid relid);

/* The sixteen hex digits of the hash that fingerprints and digests are made with. */
char *hash_digits(const char *text, int length);

} // namespace schemasync::pg::catalog
