/*
 * From a row on the wire to a slot in the layout of the target's table. Values are allocated in the current
 * context.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <span>

#include "apply_ext/apply/relation_map.hpp"

namespace schemasync::apply {

using Row = std::span<const protocol::Value>;

/* Raises where the row has not as many values as the relation columns. */
void check_width(const Target *target, Row row);

/* One value that is there, for the column's local type. */
Datum read_column(Session *session, Target *target, Column *column, const protocol::Value &value);

/* A new row, with defaults for what the publisher does not have. */
void read_new_row(Session *session, Target *target, Row row, TupleTableSlot *slot);

/* The values of the replica identity; every other column is NULL. */
void read_search_row(Session *session, Target *target, Row row, TupleTableSlot *slot);

/* The same row in another layout; shares the values. attnum_of: for each column of `to` that of `from`;
 * nullptr: the same */
void convert_row(TupleTableSlot *from, const AttrNumber *attnum_of, TupleTableSlot *to);

} // namespace schemasync::apply
