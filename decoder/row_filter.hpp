/*
 * Row filters: the WHERE clauses of publications, prepared once a relation, applied to each change.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/relation_cache.hpp"

namespace schemasync::decoder {

/*
 * Prepares the filters of the publications that publish the relation as entry->publish_as: for each action
 * the OR of their clauses, or none if one of them has no clause.
 *
 * in: through, Publication *
 */
void settle_row_filters(List *through, RelationEntry *entry);

/*
 * Decides whether a change is sent, and as what: an update that moves a row into the filter is sent as an
 * insert, one that moves it out as a delete.
 *
 * in:      old_slot and *new_slot in the row type that is published, either may be null
 * returns: false if nothing is to be sent; action and *new_slot changed where needed
 * source:  pgoutput_row_filter() of pgoutput
 */
bool passes_row_filter(const RelationEntry *entry, TupleTableSlot *old_slot, TupleTableSlot **new_slot,
                       ReorderBufferChangeType *action);

} // namespace schemasync::decoder
