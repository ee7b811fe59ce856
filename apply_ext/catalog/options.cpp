#include "apply_ext/catalog/options.hpp"

#include <climits>
#include <cstddef>

#include "pg/compat.hpp"

extern "C" {
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
}

namespace schemasync::catalog {

namespace {

struct ChoiceName {
	const char *name;
	Choice value;
};

constexpr ChoiceName choice_names[] = {
	{"forward", Choice::Forward}, {"keep", Choice::Keep},       {"refuse", Choice::Refuse}, {"ignore", Choice::Ignore},
	{"background", Choice::Background}, {"pin", Choice::Pin}, {"carry", Choice::Carry},
};

/* Kinds of values. A Choice stores the Choice of that name, an Enum the position in `values`. */
enum class Kind : unsigned char { Choice, Enum, Boolean, Number, Milliseconds, Kilobytes, Text, Classes };

struct Spec {
	const char *name;
	Kind kind;
	std::size_t offset;      /* into Options */
	const char *values;      /* "a|b|c" for Choice, Enum, Text and Classes */
	int least, most;         /* Number, Milliseconds, Kilobytes */
};

#define SCHEMASYNC_AT(field) offsetof(Options, field)

constexpr char class_values[] = "tables|indexes|constraints|types|sequences|schemas|publications|views|functions|triggers|"
                                "rules|policies|comments|privileges|statistics|extensions";

const Spec specs[] = {
	{"rewrites", Kind::Choice, SCHEMASYNC_AT(policy.rewrites), "refuse|carry", 0, 0},
	{"stable_defaults", Kind::Choice, SCHEMASYNC_AT(policy.stable_defaults), "pin|refuse", 0, 0},
	{"drop_column", Kind::Choice, SCHEMASYNC_AT(policy.drop_column), "forward|keep|refuse", 0, 0},
	{"drop_table", Kind::Choice, SCHEMASYNC_AT(policy.drop_table), "forward|keep|refuse", 0, 0},
	{"indexes", Kind::Choice, SCHEMASYNC_AT(policy.indexes), "forward|background|ignore", 0, 0},
	{"constraints", Kind::Choice, SCHEMASYNC_AT(policy.constraints), "forward|ignore", 0, 0},
	{"owners", Kind::Enum, SCHEMASYNC_AT(policy.owners_same), "subscription|same", 0, 0},
	{"ddl_classes", Kind::Classes, SCHEMASYNC_AT(ddl_classes), class_values, 0, 0},
	{"auto_refresh", Kind::Boolean, SCHEMASYNC_AT(auto_refresh), nullptr, 0, 0},
	{"ddl_lock_timeout", Kind::Milliseconds, SCHEMASYNC_AT(ddl_lock_timeout), nullptr, 0, INT_MAX},
	{"ddl_lock_retries", Kind::Number, SCHEMASYNC_AT(ddl_lock_retries), nullptr, 0, INT_MAX},
	{"conflicts", Kind::Enum, SCHEMASYNC_AT(conflicts), "error|apply_remote|keep_local", 0, 0},
	{"binary", Kind::Boolean, SCHEMASYNC_AT(binary), nullptr, 0, 0},
	{"streaming", Kind::Enum, SCHEMASYNC_AT(streaming), "off|on|parallel", 0, 0},
	{"two_phase", Kind::Boolean, SCHEMASYNC_AT(two_phase), nullptr, 0, 0},
	{"failover", Kind::Boolean, SCHEMASYNC_AT(failover), nullptr, 0, 0},
	{"origin", Kind::Enum, SCHEMASYNC_AT(origin_none), "any|none", 0, 0},
	{"run_as_owner", Kind::Boolean, SCHEMASYNC_AT(run_as_owner), nullptr, 0, 0},
	{"group_commit_delay", Kind::Milliseconds, SCHEMASYNC_AT(group_commit_delay), nullptr, 0, 60000},
	{"copy_workers", Kind::Number, SCHEMASYNC_AT(copy_workers), nullptr, 1, 64},
	{"copy_part_size", Kind::Kilobytes, SCHEMASYNC_AT(copy_part_size), nullptr, 0, INT_MAX},
	{"apply_workers", Kind::Number, SCHEMASYNC_AT(apply_workers), nullptr, 1, 64},
	{"synchronous_commit", Kind::Text, SCHEMASYNC_AT(synchronous_commit), "off|local|on|remote_write|remote_apply", 0, 0},
	{"password_required", Kind::Boolean, SCHEMASYNC_AT(password_required), nullptr, 0, 0},
};

#undef SCHEMASYNC_AT

// ---- leaves: may ereport; plain data only ----

/* "a|b|c" for people: "a, b, c". */
char *
list_values(const char *values)
{
	StringInfoData list;

	initStringInfo(&list);
	for (const char *at = values; *at != '\0'; at++) {
		if (*at == '|')
			appendStringInfoString(&list, ", ");
		else
			appendStringInfoChar(&list, *at);
	}
	return list.data;
}

/* The position of value in "a|b|c", or -1. */
int
position_in(const char *values, const char *value)
{
	Size length = strlen(value);
	int position = 0;

	for (const char *at = values; at != nullptr; position++) {
		const char *end = strchr(at, '|');
		Size here = end != nullptr ? static_cast<Size>(end - at) : strlen(at);
		if (here == length && strncmp(at, value, length) == 0)
			return position;
		at = end != nullptr ? end + 1 : nullptr;
	}
	return -1;
}

[[noreturn]] void
bad_value(const char *option, const char *value, const char *known)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
	                errmsg("invalid value for subscription option \"%s\": \"%s\"", option, value),
	                errdetail("Known values: %s.", known)));
	pg_unreachable();
}

[[noreturn]] void
unknown_option(const char *option)
{
	StringInfoData known;

	initStringInfo(&known);
	for (const Spec &spec : specs)
		appendStringInfo(&known, "%s%s", known.len > 0 ? ", " : "", spec.name);
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unrecognized subscription option \"%s\"", option),
	                errdetail("Known options: %s.", known.data)));
	pg_unreachable();
}

int
read_number(const Spec &spec, const char *value)
{
	int number = 0;
	const char *hint = nullptr;
	bool milliseconds = spec.kind == Kind::Milliseconds;

	if (!parse_int(value, &number, milliseconds ? GUC_UNIT_MS : spec.kind == Kind::Kilobytes ? GUC_UNIT_KB : 0, &hint) || number < spec.least || number > spec.most)
		bad_value(spec.name, value,
		          milliseconds ? psprintf("%d to %d milliseconds, or with a unit such as '5 s'", spec.least, spec.most)
		                       : psprintf("%d to %d", spec.least, spec.most));
	return number;
}

Choice
read_choice(const char *value)
{
	for (const ChoiceName &one : choice_names) {
		if (strcmp(one.name, value) == 0)
			return one.value;
	}
	elog(ERROR, "choice \"%s\" has no value", value);
	pg_unreachable();
}

void
store(const Spec &spec, const char *value, Options *options)
{
	char *field = reinterpret_cast<char *>(options) + spec.offset;
	bool flag = false;

	switch (spec.kind) {
	case Kind::Number:
	case Kind::Milliseconds:
	case Kind::Kilobytes:
		*reinterpret_cast<int *>(field) = read_number(spec, value);
		return;
	case Kind::Boolean:
		if (!parse_bool(value, &flag))
			bad_value(spec.name, value, "true, false");
		*reinterpret_cast<bool *>(field) = flag;
		return;
	default:
		break;
	}

	int position = position_in(spec.values, value);
	if (position < 0 && spec.offset == offsetof(Options, streaming) && parse_bool(value, &flag))
		position = flag ? 1 : 0;
	if (position < 0)
		bad_value(spec.name, value, list_values(spec.values));
	if (spec.kind == Kind::Choice)
		*reinterpret_cast<Choice *>(field) = read_choice(value);
	else if (spec.kind == Kind::Text)
		*reinterpret_cast<const char **>(field) = pstrdup(value);
	else /* an enum or a flag of one byte, whose values are in the order of the names */
		*reinterpret_cast<std::uint8_t *>(field) = static_cast<std::uint8_t>(position);
}

/* ddl_classes: "all", or an array of class names. */
void
store_classes(const Spec &spec, JsonbValue *value, Options *options)
{
	if (value->type == jbvString) {
		char *one = pnstrdup(value->val.string.val, value->val.string.len);
		if (strcmp(one, "all") != 0)
			bad_value(spec.name, one, psprintf("\"all\", or an array of %s", list_values(spec.values)));
		options->ddl_classes = "all";
		return;
	}
	if (value->type != jbvBinary || !JsonContainerIsArray(value->val.binary.data))
		bad_value(spec.name, "(not an array)", psprintf("\"all\", or an array of %s", list_values(spec.values)));

	JsonbIterator *iterator = JsonbIteratorInit(value->val.binary.data);
	JsonbValue element;
	JsonbIteratorToken token;
	while ((token = JsonbIteratorNext(&iterator, &element, true)) != WJB_DONE) {
		if (token != WJB_ELEM)
			continue;
		char *one = element.type == jbvString ? pnstrdup(element.val.string.val, element.val.string.len) : pstrdup("null");
		if (position_in(spec.values, one) < 0)
			bad_value(spec.name, one, list_values(spec.values));
	}
	options->ddl_classes = JsonbToCString(nullptr, value->val.binary.data, value->val.binary.len);
}

/* A scalar's text; nullptr for null. */
char *
scalar_text(const Spec &spec, const JsonbValue *value)
{
	switch (value->type) {
	case jbvNull:
		return nullptr;
	case jbvString:
		return pnstrdup(value->val.string.val, value->val.string.len);
	case jbvBool:
		return pstrdup(value->val.boolean ? "true" : "false");
	case jbvNumeric:
		return DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
	default:
		bad_value(spec.name, "(not a single value)", spec.values != nullptr ? list_values(spec.values) : "a single value");
	}
}

const Spec &
find_spec(const char *option)
{
	for (const Spec &spec : specs) {
		if (strcmp(spec.name, option) == 0)
			return spec;
	}
	unknown_option(option);
}

} // namespace

void
read_options(const char *json, Options *options)
{
	Jsonb *object = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));

	if (!JB_ROOT_IS_OBJECT(object))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("subscription options must be a JSON object"),
		                errhint("For example '{\"rewrites\": \"carry\"}'.")));

	JsonbIterator *iterator = JsonbIteratorInit(&object->root);
	JsonbValue value;
	JsonbIteratorToken token;
	const Spec *spec = nullptr;
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE) {
		if (token == WJB_KEY)
			spec = &find_spec(pnstrdup(value.val.string.val, value.val.string.len));
		else if (token == WJB_VALUE && spec->kind == Kind::Classes && value.type != jbvNull)
			store_classes(*spec, &value, options);
		else if (token == WJB_VALUE) {
			char *scalar = scalar_text(*spec, &value);
			if (scalar != nullptr)
				store(*spec, scalar, options);
		}
	}
}

void
check_table_policy(const char *json)
{
	constexpr char names[] = "rewrites|stable_defaults|drop_column|drop_table|indexes|constraints|ddl_classes";
	constexpr char classes[] = "triggers|rules|policies|comments|privileges|statistics";
	Options scratch;

	read_options(json, &scratch); /* that it is an object, and names and values */
	Jsonb *object = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));
	JsonbIterator *iterator = JsonbIteratorInit(&object->root);
	JsonbValue value;
	JsonbIteratorToken token;
	while ((token = JsonbIteratorNext(&iterator, &value, false)) != WJB_DONE) {
		char *text = value.type == jbvString && (token == WJB_KEY || token == WJB_ELEM)
		                 ? pnstrdup(value.val.string.val, value.val.string.len)
		                 : nullptr;
		if (token == WJB_KEY && position_in(names, text) < 0)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("option \"%s\" cannot be set for a table", text),
			                errdetail("Options of a table: %s.", list_values(names))));
		/* the only option with elements */
		if (token == WJB_ELEM && position_in(classes, text) < 0)
			bad_value("ddl_classes", text, psprintf("of a table: \"all\", or an array of %s", list_values(classes)));
	}
}

SchemaChanges
read_schema_changes(const char *value)
{
	int position = position_in("forward|refuse|ignore", value);

	if (position < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid value for schema_changes: \"%s\"", value),
		                errdetail("Known values: forward, refuse, ignore.")));
	return static_cast<SchemaChanges>(position);
}

} // namespace schemasync::catalog
