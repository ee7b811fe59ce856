#include "apply_ext/apply/spool.hpp"

#include "pg/compat.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "storage/buffile.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
}

namespace schemasync::apply {

namespace {

struct Subtransaction {
	TransactionId xid;
	std::int64_t offset; /* of its first change, bytes */
};

struct Spool {
	TransactionId xid; /* hash key */
	BufFile *file;
	std::int64_t length; /* bytes that count; the file may be longer */
	int count, capacity;
	Subtransaction *subtransactions; /* in the order of their first changes */
};

} // namespace

struct Spools {
	MemoryContext context;
	HTAB *by_xid;
	Spool *current; /* of the stream block */

	Spool *replaying;
	std::int64_t offset;
	char *buffer;
	Size buffer_size;
};

namespace {

// ---- leaves: may ereport; plain data only ----

Spool *
find_spool(Spools *spools, TransactionId xid)
{
	return static_cast<Spool *>(hash_search(spools->by_xid, &xid, HASH_FIND, nullptr));
}

void
seek(Spool *spool, std::int64_t offset)
{
	if (BufFileSeek(spool->file, 0, offset, SEEK_SET) != 0)
		ereport(ERROR,
		        (errcode_for_file_access(), errmsg("could not seek in the file of a streamed transaction")));
}

void
read_exactly(Spool *spool, void *to, Size size)
{
	if (BufFileRead(spool->file, to, size) != size)
		ereport(ERROR, (errcode_for_file_access(),
		                errmsg("could not read from the file of a streamed transaction")));
}

void
drop_spool(Spools *spools, Spool *spool)
{
	TransactionId xid = spool->xid;

	BufFileClose(spool->file);
	if (spool->subtransactions != nullptr)
		pfree(spool->subtransactions);
	hash_search(spools->by_xid, &xid, HASH_REMOVE, nullptr);
}

void
note_subtransaction(Spools *spools, Spool *spool, TransactionId xid)
{
	for (int i = spool->count - 1; i >= 0; i--) {
		if (spool->subtransactions[i].xid == xid)
			return;
	}
	if (spool->count == spool->capacity) {
		spool->capacity = spool->capacity == 0 ? 16 : spool->capacity * 2;
		Size bytes = sizeof(Subtransaction) * static_cast<Size>(spool->capacity);
		spool->subtransactions = static_cast<Subtransaction *>(
		    spool->subtransactions == nullptr ? MemoryContextAlloc(spools->context, bytes)
		                                      : repalloc(spool->subtransactions, bytes));
	}
	spool->subtransactions[spool->count++] = {xid, spool->length};
}

} // namespace

Spools *
make_spools(MemoryContext context)
{
	Spools *spools = static_cast<Spools *>(MemoryContextAllocZero(context, sizeof(Spools)));
	HASHCTL control = {};

	spools->context =
	    AllocSetContextCreate(context, "schemasync streamed transactions", ALLOCSET_DEFAULT_SIZES);
	control.keysize = sizeof(TransactionId);
	control.entrysize = sizeof(Spool);
	control.hcxt = spools->context;
	spools->by_xid =
	    hash_create("schemasync streamed transactions", 16, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return spools;
}

void
begin_stream_block(Spools *spools, TransactionId xid, bool first_segment)
{
	bool found;

	pg::at_point("stream_block");
	if (spools->current != nullptr)
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
		                errmsg("the publisher began a stream block within another")));
	Spool *spool = static_cast<Spool *>(hash_search(spools->by_xid, &xid, HASH_ENTER, &found));
	if (!found) {
		memset(reinterpret_cast<char *>(spool) + sizeof(TransactionId), 0,
		       sizeof(Spool) - sizeof(TransactionId));
		MemoryContext saved = MemoryContextSwitchTo(spools->context);
		spool->file = BufFileCreateTemp(true);
		MemoryContextSwitchTo(saved);
		if (!first_segment)
			ereport(
			    ERROR,
			    (errcode(ERRCODE_PROTOCOL_VIOLATION),
			     errmsg("the publisher went on with streamed transaction %u, which it had not begun", xid)));
	}
	seek(spool, spool->length);
	spools->current = spool;
}

void
end_stream_block(Spools *spools)
{
	if (spools->current == nullptr)
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
		                errmsg("the publisher ended a stream block that it had not begun")));
	spools->current = nullptr;
}

bool
in_stream_block(const Spools *spools)
{
	return spools->current != nullptr;
}

void
spool_message(Spools *spools, TransactionId xid, std::string_view message)
{
	Spool *spool = spools->current;
	std::uint32_t size = static_cast<std::uint32_t>(message.size());

	if (xid != spool->xid)
		note_subtransaction(spools, spool, xid);
	BufFileWrite(spool->file, &size, sizeof(size));
	BufFileWrite(spool->file, const_cast<char *>(message.data()), message.size());
	spool->length += static_cast<std::int64_t>(sizeof(size) + message.size());
}

void
abort_spooled(Spools *spools, TransactionId xid, TransactionId subxid)
{
	Spool *spool = find_spool(spools, xid);

	if (spool == nullptr)
		return; /* nothing of it was sent */
	if (xid == subxid) {
		drop_spool(spools, spool);
		return;
	}
	for (int i = spool->count - 1; i >= 0; i--) {
		if (spool->subtransactions[i].xid == subxid) {
			/* what began later lies within it */
			spool->length = spool->subtransactions[i].offset;
			spool->count = i;
			return;
		}
	}
}

void
start_replay(Spools *spools, TransactionId xid)
{
	Spool *spool = find_spool(spools, xid);

	if (spool == nullptr || spools->replaying != nullptr)
		ereport(ERROR,
		        (errcode(ERRCODE_PROTOCOL_VIOLATION),
		         errmsg("the publisher committed streamed transaction %u, which it had not sent", xid)));
	seek(spool, 0);
	spools->replaying = spool;
	spools->offset = 0;
}

bool
is_replaying(const Spools *spools)
{
	return spools->replaying != nullptr;
}

bool
next_spooled(Spools *spools, std::string_view *message)
{
	Spool *spool = spools->replaying;
	std::uint32_t size;

	if (spools->offset >= spool->length) {
		spools->replaying = nullptr;
		drop_spool(spools, spool);
		return false;
	}
	read_exactly(spool, &size, sizeof(size));
	if (size + Size{1} > spools->buffer_size) {
		if (spools->buffer != nullptr)
			pfree(spools->buffer);
		spools->buffer_size = Max(Size{size} + 1, Size{8192});
		spools->buffer = static_cast<char *>(MemoryContextAllocHuge(spools->context, spools->buffer_size));
	}
	read_exactly(spool, spools->buffer, size);
	spools->buffer[size] = '\0';
	spools->offset += static_cast<std::int64_t>(sizeof(size) + size);
	*message = {spools->buffer, size};
	return true;
}

void
drop_spools(Spools *spools)
{
	HASH_SEQ_STATUS scan;
	Spool *spool;

	spools->current = spools->replaying = nullptr;
	hash_seq_init(&scan, spools->by_xid);
	while ((spool = static_cast<Spool *>(hash_seq_search(&scan))) != nullptr)
		drop_spool(spools, spool);
}

} // namespace schemasync::apply
