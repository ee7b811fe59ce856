#include "decoder/row_writer.hpp"

#include <cstring>

#include "decoder/publication.hpp"
#include "pg/binary_form.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/tupconvert.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/uuid.h"
}

namespace schemasync::decoder {

/* How a value becomes bytes. All but the two call_ ones give what the type's own function gives. */
enum class Encoding : unsigned char {
	text_int2,
	text_int4,
	text_int8,
	text_bool,
	text_string, /* text and its kin: the bytes, in the client's encoding */
	call_output,
	binary_1, /* fixed width, most significant byte first */
	binary_2,
	binary_4,
	binary_8,
	binary_uuid,
	binary_string,
	binary_bytes,
	call_send,
};

struct ColumnFormat {
	int index; /* into the slot's values */
	bool is_varlena;
	Encoding encoding;
	FmgrInfo function; /* for call_output and call_send */
};

/*
 * Lives in a context of its own, child of the entry's, together with what the functions keep. It is made
 * anew after every change of the catalog that is told to the process, because the entry hears only of its
 * own relation: not of the root's row type, nor of types and their functions.
 */
struct RowFormat {
	MemoryContext context;
	std::uint64_t generation;
	char replica_identity;
	int column_count;
	ColumnFormat *columns;
	AttrMap *root_map; /* from the relation's row type to the root's; null if they are alike */
	TupleTableSlot *root_old_slot;
	TupleTableSlot *root_new_slot;
};

// ---- leaves: may ereport; plain data only ----

namespace {

/* The widest text of a fixed-width column with its kind and length: enough room for any such column. */
constexpr int fixed_room = 1 + 4 + MAXINT8LEN + 1;

Encoding
encoding_of_output(Oid function)
{
	switch (function) {
	case F_INT2OUT:
		return Encoding::text_int2;
	case F_INT4OUT:
		return Encoding::text_int4;
	case F_INT8OUT:
		return Encoding::text_int8;
	case F_BOOLOUT:
		return Encoding::text_bool;
	case F_TEXTOUT:
	case F_VARCHAROUT:
	case F_BPCHAROUT:
		return Encoding::text_string;
	default:
		return Encoding::call_output;
	}
}

Encoding
encoding_of_send(Oid function)
{
	switch (function) {
	case F_BOOLSEND:
		return Encoding::binary_1;
	case F_INT2SEND:
		return Encoding::binary_2;
	case F_INT4SEND:
	case F_FLOAT4SEND:
	case F_DATE_SEND:
	case F_OIDSEND:
		return Encoding::binary_4;
	case F_INT8SEND:
	case F_FLOAT8SEND:
	case F_TIMESTAMP_SEND:
	case F_TIMESTAMPTZ_SEND:
		return Encoding::binary_8;
	case F_UUID_SEND:
		return Encoding::binary_uuid;
	case F_TEXTSEND:
	case F_VARCHARSEND:
	case F_BPCHARSEND:
		return Encoding::binary_string;
	case F_BYTEASEND:
		return Encoding::binary_bytes;
	default:
		return Encoding::call_send;
	}
}

/*
 * Whether a value of the type goes out in binary. A receiver of states is sent as text what it could not read in binary, or what has
 * no such form; pgoutput sends all that has a send function of its own. Only once a relation, and only for what is not plain.
 */
bool
is_sent_in_binary(const Options &options, Form_pg_type type)
{
	if (!options.binary || !OidIsValid(type->typsend))
		return false;
	return !options.schemasync || encoding_of_send(type->typsend) != Encoding::call_send || pg::has_portable_binary(type->oid);
}

void
describe_column(ColumnFormat *column, const FormData_pg_attribute *attribute, const Options &options,
                MemoryContext context)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(attribute->atttypid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", attribute->atttypid);
	auto *type = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
	bool send = is_sent_in_binary(options, type);

	column->index = attribute->attnum - 1;
	column->is_varlena = attribute->attlen == -1;
	column->encoding = send ? encoding_of_send(type->typsend) : encoding_of_output(type->typoutput);
	if (column->encoding == Encoding::call_send)
		fmgr_info_cxt(type->typsend, &column->function, context);
	else if (column->encoding == Encoding::call_output)
		fmgr_info_cxt(type->typoutput, &column->function, context);
	ReleaseSysCache(tuple);
}

/* How rows of relation become rows of root. */
void
describe_conversion(RowFormat *format, Relation relation, Relation root)
{
	TupleDesc root_type = RelationGetDescr(root);
	MemoryContext caller = MemoryContextSwitchTo(format->context);

	format->root_map = pg::compat::build_attribute_map_if_required(RelationGetDescr(relation), root_type);
	if (format->root_map != nullptr) {
		format->root_old_slot = MakeSingleTupleTableSlot(CreateTupleDescCopy(root_type), &TTSOpsVirtual);
		format->root_new_slot = MakeSingleTupleTableSlot(CreateTupleDescCopy(root_type), &TTSOpsVirtual);
	}
	MemoryContextSwitchTo(caller);
}

RowFormat *
make_row_format(Session *session, const RelationEntry *entry, Relation target)
{
	TupleDesc row_type = RelationGetDescr(target);
	/* taken first: what changes while we read makes the format stale */
	std::uint64_t generation = catalog_generation();
	MemoryContext context =
	    AllocSetContextCreate(entry->context, "schemasync decoder row format", ALLOCSET_SMALL_SIZES);
	auto *format = static_cast<RowFormat *>(MemoryContextAllocZero(context, sizeof(RowFormat)));

	format->context = context;
	format->generation = generation;
	format->replica_identity = target->rd_rel->relreplident;
	format->columns = static_cast<ColumnFormat *>(
	    MemoryContextAllocZero(context, sizeof(ColumnFormat) * static_cast<Size>(row_type->natts + 1)));
	for (int i = 0; i < row_type->natts; i++) {
		const FormData_pg_attribute *attribute = TupleDescAttr(row_type, i);

		if (is_column_published(attribute, entry))
			describe_column(&format->columns[format->column_count++], attribute, session->options, context);
	}
	return format;
}

/* Room for more bytes at the end of out, which is where the result points. */
inline char *
reserve(StringInfo out, int size)
{
	enlargeStringInfo(out, size);
	return out->data + out->len;
}

inline void
put_int32(char *at, int value)
{
	std::uint32_t bytes = pg_hton32(static_cast<std::uint32_t>(value));
	memcpy(at, &bytes, sizeof(bytes));
}

void
append_sized(StringInfo out, wire::Column kind, const char *data, int size)
{
	char *at = reserve(out, 1 + 4 + size);

	*at = static_cast<char>(kind);
	put_int32(at + 1, size);
	memcpy(at + 5, data, static_cast<std::size_t>(size));
	out->len += 1 + 4 + size;
}

void
append_text(StringInfo out, wire::Column kind, const char *data, int size)
{
	char *converted = pg_server_to_client(data, size);

	if (converted == data) {
		append_sized(out, kind, data, size);
		return;
	}
	append_sized(out, kind, converted, static_cast<int>(strlen(converted)));
	pfree(converted);
}

void
append_varlena(StringInfo out, wire::Column kind, Datum value, bool is_text)
{
	auto *stored = reinterpret_cast<struct varlena *>(DatumGetPointer(value));
	struct varlena *plain = pg_detoast_datum_packed(stored);
	auto size = static_cast<int>(VARSIZE_ANY_EXHDR(plain));

	if (is_text)
		append_text(out, kind, VARDATA_ANY(plain), size);
	else
		append_sized(out, kind, VARDATA_ANY(plain), size);
	if (plain != stored)
		pfree(plain);
}

void
append_output(StringInfo out, FmgrInfo *function, Datum value)
{
	char *text = OutputFunctionCall(function, value);

	append_text(out, wire::Column::Text, text, static_cast<int>(strlen(text)));
	pfree(text);
}

void
append_send(StringInfo out, FmgrInfo *function, Datum value)
{
	bytea *bytes = SendFunctionCall(function, value);

	append_sized(out, wire::Column::Binary, VARDATA(bytes), static_cast<int>(VARSIZE(bytes) - VARHDRSZ));
	pfree(bytes);
}

/* at: where the value begins, after kind and length; returns its length */
inline int
put_fixed(char *at, Encoding encoding, Datum value)
{
	switch (encoding) {
	case Encoding::text_int2:
		return pg_itoa(DatumGetInt16(value), at);
	case Encoding::text_int4:
		return pg_ltoa(DatumGetInt32(value), at);
	case Encoding::text_int8:
		return pg_lltoa(DatumGetInt64(value), at);
	case Encoding::text_bool:
		*at = DatumGetBool(value) ? 't' : 'f';
		return 1;
	case Encoding::binary_1:
		*at = DatumGetBool(value) ? 1 : 0;
		return 1;
	case Encoding::binary_2: {
		std::uint16_t bytes = pg_hton16(DatumGetUInt16(value));
		memcpy(at, &bytes, sizeof(bytes));
		return sizeof(bytes);
	}
	case Encoding::binary_4: {
		std::uint32_t bytes = pg_hton32(DatumGetUInt32(value));
		memcpy(at, &bytes, sizeof(bytes));
		return sizeof(bytes);
	}
	case Encoding::binary_8: {
		std::uint64_t bytes = pg_hton64(DatumGetUInt64(value));
		memcpy(at, &bytes, sizeof(bytes));
		return sizeof(bytes);
	}
	default: /* binary_uuid */
		memcpy(at, DatumGetUUIDP(value)->data, UUID_LEN);
		return UUID_LEN;
	}
}

inline bool
is_text_encoding(Encoding encoding)
{
	return encoding < Encoding::binary_1;
}

void
append_value(StringInfo out, ColumnFormat *column, Datum value)
{
	switch (column->encoding) {
	case Encoding::text_string:
		append_varlena(out, wire::Column::Text, value, true);
		return;
	case Encoding::binary_string:
		append_varlena(out, wire::Column::Binary, value, true);
		return;
	case Encoding::binary_bytes:
		append_varlena(out, wire::Column::Binary, value, false);
		return;
	case Encoding::call_output:
		append_output(out, &column->function, value);
		return;
	case Encoding::call_send:
		append_send(out, &column->function, value);
		return;
	default:
		break;
	}
	char *at = reserve(out, fixed_room);
	int size = put_fixed(at + 5, column->encoding, value);

	*at = static_cast<char>(is_text_encoding(column->encoding) ? wire::Column::Text : wire::Column::Binary);
	put_int32(at + 1, size);
	out->len += 1 + 4 + size;
}

inline void
append_kind(StringInfo out, wire::Column kind)
{
	*reserve(out, 1) = static_cast<char>(kind);
	out->len++;
}

} // namespace

const RowFormat *
row_format_of(Session *session, RelationEntry *entry, Relation relation)
{
	RowFormat *format = entry->row_format;

	if (format != nullptr && format->generation == catalog_generation())
		return format;
	entry->row_format = nullptr;
	if (format != nullptr)
		MemoryContextDelete(format->context);
	if (entry->publish_as == RelationGetRelid(relation)) {
		entry->row_format = make_row_format(session, entry, relation);
		return entry->row_format;
	}
	Relation root = RelationIdGetRelation(entry->publish_as);
	format = make_row_format(session, entry, root);
	describe_conversion(format, relation, root);
	RelationClose(root);
	entry->row_format = format;
	return format;
}

char
replica_identity_of(const RowFormat *format)
{
	return format->replica_identity;
}

TupleTableSlot *
convert_to_root(const RowFormat *format, TupleTableSlot *slot, RowVersion version)
{
	if (format->root_map == nullptr)
		return slot;
	return execute_attr_map_slot(format->root_map, slot,
	                             version == RowVersion::old_row ? format->root_old_slot
	                                                            : format->root_new_slot);
}

void
write_row(StringInfoData *out, const RowFormat *format, TupleTableSlot *slot)
{
	std::uint16_t count = pg_hton16(static_cast<std::uint16_t>(format->column_count));

	memcpy(reserve(out, sizeof(count)), &count, sizeof(count));
	out->len += static_cast<int>(sizeof(count));
	slot_getallattrs(slot);
	for (int i = 0; i < format->column_count; i++) {
		ColumnFormat *column = &format->columns[i];
		Datum value = slot->tts_values[column->index];

		if (slot->tts_isnull[column->index])
			append_kind(out, wire::Column::Null);
		else if (column->is_varlena && VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value)))
			append_kind(out, wire::Column::Unchanged);
		else
			append_value(out, column, value);
	}
}

} // namespace schemasync::decoder
