/*
 * From a value on the wire to a datum of the local column's type.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "core/protocol.hpp"

#include "pg/postgres.hpp"

extern "C" {
#include "catalog/pg_attribute.h"
#include "fmgr.h"
}

namespace schemasync::apply {

/* How a binary value is read. The common types of fixed layout are read here, everything else by the type's
 * own function. */
enum class Binary : std::uint8_t {
	Receive,       /* the local type's receive function */
	ReceiveNested, /* the same, after the publisher's type oids in it were replaced by ours */
	Convert,       /* receive as the publisher's built-in type, then through text */
	TextOnly,      /* the publisher's type is not known here: only text can be read */
	Bool,
	Int16,
	Int32,
	Int64, /* also float8 */
	Timestamp,
	Text,
	Bytea,
	Uuid,
};

struct Reader {
	Binary binary;
	/* the functions below are looked up when first needed: not every type has those for binary values */
	bool text_ready, binary_ready;
	Oid type, base_type; /* local; base_type: below its domains */
	std::int32_t typmod;
	Oid wire_type;
	FmgrInfo input;
	Oid input_parameter;
	FmgrInfo receive;
	Oid receive_parameter;
	FmgrInfo wire_receive, wire_output; /* Convert */
	Oid wire_parameter;
};

/* The name of a publisher's type that is not built in; of a domain: its base type's. */
struct WireType {
	Oid oid; /* hash key */
	NameData schema, name;
};

/*
 * Decides how values of the publisher's type are read for a local column.
 *
 * wire_name: of a type that is not built in; nullptr when the publisher has not named it
 */
void make_reader(Reader *reader, Form_pg_attribute column, Oid wire_type, const WireType *wire_name);

/*
 * Reads one value, which is not NULL and not 'u'; allocates in the current context. May write to the byte
 * behind the value and into it. `context`: where the functions' data may live as long as the reader.
 */
Datum read_value(Reader *reader, const protocol::Value &value, MemoryContext context);

} // namespace schemasync::apply
