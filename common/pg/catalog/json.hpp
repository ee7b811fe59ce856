/*
 * Writes JSON into a StringInfo. A field or element puts the comma before itself where one is needed.
 *
 * Zone: bridge; leaves (a StringInfo may run out of memory).
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/json.h"
}

namespace schemasync::pg::json {

/* A string value ends in a quote, so what the last character is tells where we are. */
inline void
separate(StringInfo out)
{
	if (out->len == 0)
		return;
	char last = out->data[out->len - 1];
	if (last != '{' && last != '[' && last != ':' && last != ',')
		appendStringInfoCharMacro(out, ',');
}

/* Keys are ours and need no escaping. */
inline void
key(StringInfo out, const char *name)
{
	separate(out);
	appendStringInfoCharMacro(out, '"');
	appendStringInfoString(out, name);
	appendStringInfoString(out, "\":");
}

inline void
begin_object(StringInfo out)
{
	separate(out);
	appendStringInfoChar(out, '{');
}

inline void
begin_object(StringInfo out, const char *name)
{
	key(out, name);
	appendStringInfoChar(out, '{');
}

inline void
end_object(StringInfo out)
{
	appendStringInfoChar(out, '}');
}

inline void
begin_array(StringInfo out, const char *name)
{
	key(out, name);
	appendStringInfoChar(out, '[');
}

inline void
end_array(StringInfo out)
{
	appendStringInfoChar(out, ']');
}

/* A null pointer leaves the field out. */
inline void
string(StringInfo out, const char *name, const char *value)
{
	if (value == nullptr)
		return;
	key(out, name);
	escape_json(out, value);
}

/* '\0' leaves the field out. */
inline void
character(StringInfo out, const char *name, char value)
{
	const char text_value[2] = {value, '\0'};

	if (value != '\0')
		string(out, name, text_value);
}

inline void
number(StringInfo out, const char *name, int64 value)
{
	key(out, name);
	appendStringInfo(out, INT64_FORMAT, value);
}

inline void
boolean(StringInfo out, const char *name, bool value)
{
	key(out, name);
	appendStringInfoString(out, value ? "true" : "false");
}

inline void
element(StringInfo out, int64 value)
{
	separate(out);
	appendStringInfo(out, INT64_FORMAT, value);
}

inline void
element(StringInfo out, const char *value)
{
	separate(out);
	escape_json(out, value);
}

/* The elements of a text[], without those for which leave_out(element) is true; no field when none is left. */
inline void
text_array(StringInfo out, const char *name, Datum array, bool (*leave_out)(const char *) = nullptr)
{
	bool begun = false;
	Datum *values = nullptr;
	int count = 0;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &values, nullptr, &count);
	for (int i = 0; i < count; i++) {
		const char *value = TextDatumGetCString(values[i]);
		if (leave_out != nullptr && leave_out(value))
			continue;
		if (!begun)
			begin_array(out, name);
		begun = true;
		element(out, value);
	}
	if (begun)
		end_array(out);
}

} // namespace schemasync::pg::json
