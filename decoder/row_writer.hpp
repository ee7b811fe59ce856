/*
 * Rows as pgoutput writes them. How each column of a relation is written is found once (RowFormat); per row
 * there is no catalog lookup, and the common types are written without calling their output functions.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/relation_cache.hpp"

struct StringInfoData;

namespace schemasync::decoder {

/*
 * The format in which rows of relation are published, that of its root where entry says so; made if there is
 * none that is still good. Valid until the next call for the same entry.
 */
const RowFormat *row_format_of(Session *session, RelationEntry *entry, Relation relation);

/* relreplident of the relation that the rows are published as. */
char replica_identity_of(const RowFormat *format);

enum class RowVersion { old_row, new_row };

/* A row of the relation in the row type it is published in: slot itself, or a slot of the format. */
TupleTableSlot *convert_to_root(const RowFormat *format, TupleTableSlot *slot, RowVersion version);

/* Appends one row (TupleData of the protocol) in the format of its row type. */
void write_row(StringInfoData *out, const RowFormat *format, TupleTableSlot *slot);

} // namespace schemasync::decoder
