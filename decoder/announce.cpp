#include "decoder/announce.hpp"

namespace schemasync::decoder {

// ---- leaves: may ereport; plain data only ----

void
start_announcer(LogicalDecodingContext *, Session *)
{
}

void
announce_relation(LogicalDecodingContext *, ReorderBufferTXN *, ReorderBufferChange *, Relation,
                  RelationEntry *entry, bool)
{
	entry->state_due = false;
}

void
receive_marker(LogicalDecodingContext *, ReorderBufferTXN *, XLogRecPtr, bool, const char *, Size,
               const char *)
{
}

void
receive_rewritten_row(LogicalDecodingContext *, ReorderBufferTXN *, Relation, ReorderBufferChange *)
{
}

void
end_announced_transaction(LogicalDecodingContext *, ReorderBufferTXN *, TransactionId, bool)
{
}

} // namespace schemasync::decoder
