#include "decoder/messages.hpp"

#include "decoder/publication.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "nodes/bitmapset.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"
}

namespace schemasync::decoder {

// ---- leaves: may ereport; plain data only ----

namespace {

/* reserved for flags that the protocol may have one day */
constexpr std::uint8_t no_flags = 0;

inline void
put_kind(StringInfo out, wire::Message kind)
{
	pq_sendbyte(out, static_cast<std::uint8_t>(kind));
}

inline void
put_time(StringInfo out, TimestampTz time)
{
	pq_sendint64(out, static_cast<std::uint64_t>(time));
}

inline void
put_stream_xid(StringInfo out, TransactionId xid)
{
	if (TransactionIdIsValid(xid))
		pq_sendint32(out, xid);
}

/* pg_catalog travels as the empty string */
void
put_schema_name(StringInfo out, Oid schema)
{
	if (schema == PG_CATALOG_NAMESPACE) {
		pq_sendbyte(out, 0);
		return;
	}
	const char *name = get_namespace_name(schema);
	if (name == nullptr)
		elog(ERROR, "cache lookup failed for namespace %u", schema);
	pq_sendstring(out, name);
}

void
put_columns(StringInfo out, Relation relation, const RelationEntry *entry)
{
	TupleDesc row_type = RelationGetDescr(relation);
	bool all_are_key = relation->rd_rel->relreplident == REPLICA_IDENTITY_FULL;
	Bitmapset *key = all_are_key ? nullptr : RelationGetIdentityKeyBitmap(relation);
	std::uint16_t count = 0;

	for (int i = 0; i < row_type->natts; i++)
		if (is_column_published(TupleDescAttr(row_type, i), entry))
			count++;
	pq_sendint16(out, count);
	for (int i = 0; i < row_type->natts; i++) {
		const FormData_pg_attribute *attribute = TupleDescAttr(row_type, i);

		if (!is_column_published(attribute, entry))
			continue;
		bool is_key =
		    all_are_key || bms_is_member(attribute->attnum - FirstLowInvalidHeapAttributeNumber, key);
		pq_sendbyte(out, is_key ? wire::column_is_key : no_flags);
		pq_sendstring(out, NameStr(attribute->attname));
		pq_sendint32(out, attribute->atttypid);
		pq_sendint32(out, static_cast<std::uint32_t>(attribute->atttypmod));
	}
	bms_free(key);
}

} // namespace

void
write_begin(StringInfoData *out, const ReorderBufferTXN *txn)
{
	put_kind(out, wire::Message::Begin);
	pq_sendint64(out, txn->final_lsn);
	put_time(out, pg::compat::end_time(txn));
	pq_sendint32(out, txn->xid);
}

void
write_commit(StringInfoData *out, const ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	put_kind(out, wire::Message::Commit);
	pq_sendbyte(out, no_flags);
	pq_sendint64(out, commit_lsn);
	pq_sendint64(out, txn->end_lsn);
	put_time(out, pg::compat::end_time(txn));
}

void
write_origin(StringInfoData *out, const char *name, XLogRecPtr lsn)
{
	put_kind(out, wire::Message::Origin);
	pq_sendint64(out, lsn);
	pq_sendstring(out, name);
}

void
write_begin_prepare(StringInfoData *out, const ReorderBufferTXN *txn)
{
	put_kind(out, wire::Message::BeginPrepare);
	pq_sendint64(out, txn->final_lsn);
	pq_sendint64(out, txn->end_lsn);
	put_time(out, pg::compat::end_time(txn));
	pq_sendint32(out, txn->xid);
	pq_sendstring(out, txn->gid);
}

void
write_prepare(StringInfoData *out, wire::Message kind, const ReorderBufferTXN *txn, XLogRecPtr lsn)
{
	put_kind(out, kind);
	pq_sendbyte(out, no_flags);
	pq_sendint64(out, lsn);
	pq_sendint64(out, txn->end_lsn);
	put_time(out, pg::compat::end_time(txn));
	pq_sendint32(out, txn->xid);
	pq_sendstring(out, txn->gid);
}

void
write_commit_prepared(StringInfoData *out, const ReorderBufferTXN *txn, XLogRecPtr lsn)
{
	write_prepare(out, wire::Message::CommitPrepared, txn, lsn);
}

void
write_rollback_prepared(StringInfoData *out, const ReorderBufferTXN *txn, XLogRecPtr prepare_end_lsn,
                        TimestampTz prepare_time)
{
	put_kind(out, wire::Message::RollbackPrepared);
	pq_sendbyte(out, no_flags);
	pq_sendint64(out, prepare_end_lsn);
	pq_sendint64(out, txn->end_lsn);
	put_time(out, prepare_time);
	put_time(out, pg::compat::end_time(txn));
	pq_sendint32(out, txn->xid);
	pq_sendstring(out, txn->gid);
}

void
write_stream_start(StringInfoData *out, TransactionId xid, bool first_chunk)
{
	put_kind(out, wire::Message::StreamStart);
	pq_sendint32(out, xid);
	pq_sendbyte(out, first_chunk ? 1 : 0);
}

void
write_stream_stop(StringInfoData *out)
{
	put_kind(out, wire::Message::StreamStop);
}

void
write_stream_commit(StringInfoData *out, const ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	put_kind(out, wire::Message::StreamCommit);
	pq_sendint32(out, txn->xid);
	pq_sendbyte(out, no_flags);
	pq_sendint64(out, commit_lsn);
	pq_sendint64(out, txn->end_lsn);
	put_time(out, pg::compat::end_time(txn));
}

void
write_stream_abort(StringInfoData *out, TransactionId top_xid, const ReorderBufferTXN *txn,
                   XLogRecPtr abort_lsn, bool with_position)
{
	put_kind(out, wire::Message::StreamAbort);
	pq_sendint32(out, top_xid);
	pq_sendint32(out, txn->xid);
	if (with_position) {
		pq_sendint64(out, abort_lsn);
		put_time(out, pg::compat::end_time(txn));
	}
}

void
write_row_header(StringInfoData *out, wire::Message kind, TransactionId xid, Oid relid)
{
	put_kind(out, kind);
	put_stream_xid(out, xid);
	pq_sendint32(out, relid);
}

void
write_truncate(StringInfoData *out, TransactionId xid, const Oid *relids, int count, bool cascade,
               bool restart_sequences)
{
	put_kind(out, wire::Message::Truncate);
	put_stream_xid(out, xid);
	pq_sendint32(out, static_cast<std::uint32_t>(count));
	pq_sendbyte(out, static_cast<std::uint8_t>((cascade ? wire::truncate_cascade : 0) |
	                                           (restart_sequences ? wire::truncate_restart_sequences : 0)));
	for (int i = 0; i < count; i++)
		pq_sendint32(out, relids[i]);
}

void
write_logical_message(StringInfoData *out, TransactionId xid, XLogRecPtr lsn, bool transactional,
                      const char *prefix, const char *content, Size size)
{
	put_kind(out, wire::Message::LogicalMessage);
	put_stream_xid(out, xid);
	pq_sendbyte(out, transactional ? wire::message_transactional : no_flags);
	pq_sendint64(out, lsn);
	pq_sendstring(out, prefix);
	pq_sendint32(out, static_cast<std::uint32_t>(size));
	pq_sendbytes(out, content, static_cast<int>(size));
}

void
write_type(StringInfoData *out, TransactionId xid, Oid type)
{
	Oid base = getBaseType(type);

	put_kind(out, wire::Message::Type);
	put_stream_xid(out, xid);
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(base));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", base);
	auto *form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
	pq_sendint32(out, type);
	put_schema_name(out, form->typnamespace);
	pq_sendstring(out, NameStr(form->typname));
	ReleaseSysCache(tuple);
}

void
write_relation(StringInfoData *out, TransactionId xid, Relation relation, const RelationEntry *entry)
{
	put_kind(out, wire::Message::Relation);
	put_stream_xid(out, xid);
	pq_sendint32(out, RelationGetRelid(relation));
	put_schema_name(out, RelationGetNamespace(relation));
	pq_sendstring(out, RelationGetRelationName(relation));
	pq_sendbyte(out, static_cast<std::uint8_t>(relation->rd_rel->relreplident));
	put_columns(out, relation, entry);
}

} // namespace schemasync::decoder
