#include "apply_ext/apply/values.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/uuid.h"
}

namespace schemasync::apply {

namespace {

/* Types below this oid are the same on every server of these versions. */
constexpr Oid first_own_oid = FirstGenbkiObjectId;

// ---- leaves: may ereport; plain data only ----

Binary
direct_reading(Oid type, std::int32_t typmod)
{
	switch (type) {
	case BOOLOID:
		return Binary::Bool;
	case INT2OID:
		return Binary::Int16;
	case INT4OID:
	case FLOAT4OID:
		return Binary::Int32;
	case INT8OID:
	case FLOAT8OID:
		return Binary::Int64;
	case TIMESTAMPOID:
	case TIMESTAMPTZOID:
		return typmod < 0 ? Binary::Timestamp : Binary::Receive;
	case TEXTOID:
		return Binary::Text;
	case VARCHAROID:
		return Binary::Text; /* as long as it fits, see read_text */
	case BYTEAOID:
		return Binary::Bytea;
	case UUIDOID:
		return Binary::Uuid;
	default:
		return Binary::Receive;
	}
}

/* Whether the publisher's type is the local one, going by the names that the publisher gave. */
bool
same_name(const WireType *wire, Oid local)
{
	Oid local_schema = InvalidOid;

	if (wire == nullptr)
		return false;
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(local));
	if (!HeapTupleIsValid(tuple))
		return false;
	Form_pg_type form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
	local_schema = form->typnamespace;
	bool same = strcmp(NameStr(form->typname), NameStr(wire->name)) == 0;
	ReleaseSysCache(tuple);
	if (!same)
		return false;
	char *schema = get_namespace_name(local_schema);
	return schema != nullptr && strcmp(schema, NameStr(wire->schema)) == 0;
}

[[noreturn]] void
raise_bad_binary(const char *what)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
	                errmsg("the publisher sent a malformed binary value: %s", what)));
}

std::uint32_t
get32(const char *data)
{
	std::uint32_t raw;
	memcpy(&raw, data, sizeof(raw));
	return pg_ntoh32(raw);
}

std::uint64_t
get64(const char *data)
{
	std::uint64_t raw;
	memcpy(&raw, data, sizeof(raw));
	return pg_ntoh64(raw);
}

void
put32(char *data, std::uint32_t value)
{
	std::uint32_t raw = pg_hton32(value);
	memcpy(data, &raw, sizeof(raw));
}

/*
 * Arrays and composite values carry the oids of their elements' types, and the publisher's oids of types that
 * are not built in mean nothing here: they are replaced by those of the local type's elements. What does not
 * fit is left for the receive function to refuse.
 */
void
replace_type_oids(char *data, int length, Oid type)
{
	check_stack_depth();
	type = getBaseType(type);
	if (type < first_own_oid)
		return;

	if (get_typtype(type) == TYPTYPE_COMPOSITE) {
		TupleDesc desc = lookup_rowtype_tupdesc(type, -1);
		int at = 4, column = 0;
		for (; column < desc->natts && at + 8 <= length; column++) {
			Form_pg_attribute attribute = TupleDescAttr(desc, column);
			if (attribute->attisdropped)
				continue;
			put32(data + at, attribute->atttypid);
			int size = static_cast<int>(get32(data + at + 4));
			at += 8;
			if (size < 0)
				continue;
			if (size > length - at)
				break;
			replace_type_oids(data + at, size, attribute->atttypid);
			at += size;
		}
		ReleaseTupleDesc(desc);
		return;
	}

	Oid element = get_element_type(type);
	if (!OidIsValid(element) || length < 12)
		return;
	int dimensions = static_cast<int>(get32(data));
	put32(data + 8, element);
	if (getBaseType(element) < first_own_oid || dimensions < 0 || dimensions > MAXDIM)
		return;
	int at = 12 + 8 * dimensions;
	while (at + 4 <= length) {
		int size = static_cast<int>(get32(data + at));
		at += 4;
		if (size < 0)
			continue;
		if (size > length - at)
			return;
		replace_type_oids(data + at, size, element);
		at += size;
	}
}

void
want_input(Reader *reader, MemoryContext context)
{
	Oid function;

	if (reader->text_ready)
		return;
	getTypeInputInfo(reader->type, &function, &reader->input_parameter);
	fmgr_info_cxt(function, &reader->input, context);
	reader->text_ready = true;
}

void
want_receive(Reader *reader, MemoryContext context)
{
	Oid function;
	bool varlena;

	if (reader->binary_ready)
		return;
	if (reader->binary == Binary::Convert) {
		getTypeBinaryInputInfo(reader->wire_type, &function, &reader->wire_parameter);
		fmgr_info_cxt(function, &reader->wire_receive, context);
		getTypeOutputInfo(reader->wire_type, &function, &varlena);
		fmgr_info_cxt(function, &reader->wire_output, context);
	} else {
		getTypeBinaryInputInfo(reader->type, &function, &reader->receive_parameter);
		fmgr_info_cxt(function, &reader->receive, context);
	}
	reader->binary_ready = true;
}

Datum
receive(FmgrInfo *function, Oid parameter, std::int32_t typmod, char *data, int length)
{
	StringInfoData buffer;

	buffer.data = data;
	buffer.len = length;
	buffer.maxlen = length + 1;
	buffer.cursor = 0;
	Datum result = ReceiveFunctionCall(function, &buffer, parameter, typmod);
	if (buffer.cursor != buffer.len)
		raise_bad_binary("bytes are left over");
	return result;
}

Datum
make_varlena(const char *data, int length)
{
	char *result = static_cast<char *>(palloc(static_cast<Size>(length) + VARHDRSZ));

	SET_VARSIZE(result, length + VARHDRSZ);
	memcpy(result + VARHDRSZ, data, static_cast<Size>(length));
	return PointerGetDatum(result);
}

void
want_length(int length, int expected)
{
	if (length != expected)
		raise_bad_binary("its length does not fit the type");
}

Datum
read_text(Reader *reader, char *data, int length, MemoryContext context)
{
	/* varchar(n): what has no more bytes than n characters fits */
	if (reader->typmod >= static_cast<std::int32_t>(VARHDRSZ) &&
	    length > reader->typmod - static_cast<std::int32_t>(VARHDRSZ)) {
		want_receive(reader, context);
		return receive(&reader->receive, reader->receive_parameter, reader->typmod, data, length);
	}
	pg_verifymbstr(data, length, false);
	return make_varlena(data, length);
}

Datum
read_binary(Reader *reader, char *data, int length, MemoryContext context)
{
	switch (reader->binary) {
	case Binary::Bool:
		want_length(length, 1);
		return BoolGetDatum(data[0] != 0);
	case Binary::Int16: {
		std::uint16_t raw;
		want_length(length, 2);
		memcpy(&raw, data, sizeof(raw));
		return Int16GetDatum(static_cast<std::int16_t>(pg_ntoh16(raw)));
	}
	case Binary::Int32:
		want_length(length, 4);
		return Int32GetDatum(static_cast<std::int32_t>(get32(data)));
	case Binary::Int64:
		want_length(length, 8);
		return Int64GetDatum(static_cast<std::int64_t>(get64(data)));
	case Binary::Timestamp: {
		want_length(length, 8);
		Timestamp timestamp = static_cast<Timestamp>(get64(data));
		if (!TIMESTAMP_NOT_FINITE(timestamp) && !IS_VALID_TIMESTAMP(timestamp))
			ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE), errmsg("timestamp out of range")));
		return TimestampGetDatum(timestamp);
	}
	case Binary::Text:
		return read_text(reader, data, length, context);
	case Binary::Bytea:
		return make_varlena(data, length);
	case Binary::Uuid: {
		want_length(length, UUID_LEN);
		char *uuid = static_cast<char *>(palloc(UUID_LEN));
		memcpy(uuid, data, UUID_LEN);
		return PointerGetDatum(uuid);
	}
	case Binary::Convert: {
		want_receive(reader, context);
		want_input(reader, context);
		Datum remote = receive(&reader->wire_receive, reader->wire_parameter, -1, data, length);
		char *text = OutputFunctionCall(&reader->wire_output, remote);
		return InputFunctionCall(&reader->input, text, reader->input_parameter, reader->typmod);
	}
	case Binary::ReceiveNested:
		replace_type_oids(data, length, reader->type);
		[[fallthrough]];
	case Binary::Receive:
		want_receive(reader, context);
		return receive(&reader->receive, reader->receive_parameter, reader->typmod, data, length);
	case Binary::TextOnly:
		break;
	}
	raise_bad_binary("its type is not known here");
}

} // namespace

void
make_reader(Reader *reader, Form_pg_attribute column, Oid wire_type, const WireType *wire_name)
{
	Oid base = getBaseType(column->atttypid);

	memset(reader, 0, sizeof(*reader));
	reader->type = column->atttypid;
	reader->base_type = base;
	reader->typmod = column->atttypmod;
	reader->wire_type = wire_type;
	if (wire_type < first_own_oid) {
		/* a domain's own checks are made by its receive function */
		if (wire_type == column->atttypid)
			reader->binary = direct_reading(base, column->atttypmod);
		else if (wire_type == base)
			reader->binary = Binary::Receive;
		else
			reader->binary = Binary::Convert;
	} else if (same_name(wire_name, base)) {
		bool nested = base >= first_own_oid &&
		              (OidIsValid(get_element_type(base)) || get_typtype(base) == TYPTYPE_COMPOSITE);
		reader->binary = nested ? Binary::ReceiveNested : Binary::Receive;
	} else {
		reader->binary = Binary::TextOnly;
	}
}

Datum
read_value(Reader *reader, const protocol::Value &value, MemoryContext context)
{
	char *data = const_cast<char *>(value.data);

	if (value.kind == 'b')
		return read_binary(reader, data, value.length, context);

	/* the byte behind belongs to the message and was read already */
	data[value.length] = '\0';
	want_input(reader, context);
	pg_verifymbstr(data, value.length, false);
	return InputFunctionCall(&reader->input, data, reader->input_parameter, reader->typmod);
}

} // namespace schemasync::apply
