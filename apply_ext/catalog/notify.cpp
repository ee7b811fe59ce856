#include "apply_ext/catalog/notify.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "commands/async.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/json.h"
}

namespace schemasync::catalog {

namespace {

/* A payload has less than 8000 bytes, and escapes make a text up to six times as long. */
constexpr int longest_value = 400;

// ---- leaves: may ereport; plain data only ----

void
append_field(StringInfo json, const char *name, const char *value)
{
	int length = static_cast<int>(strlen(value));

	appendStringInfo(json, "%s\"%s\": ", json->len > 1 ? ", " : "", name);
	escape_json(json, pnstrdup(value, static_cast<Size>(pg_mbcliplen(value, length, longest_value))));
}

} // namespace

void
notify(const char *event, const char *subscription, std::initializer_list<Field> fields)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	append_field(&json, "event", event);
	append_field(&json, "subscription", subscription);
	for (const Field &field : fields)
		if (field.value != nullptr)
			append_field(&json, field.name, field.value);
	appendStringInfoChar(&json, '}');
	Async_Notify("schemasync", json.data);
}

} // namespace schemasync::catalog
