#include "apply_ext/capture/policies.hpp"

#include "apply_ext/catalog/options.hpp"
#include "pg/compat.hpp"
#include "pg/postgres.hpp"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"
}

namespace schemasync::capture {

namespace {

constexpr char tables_key[] = "tables";

// ---- leaves: may ereport; plain data only ----

[[noreturn]] void
bad_tables(const char *where)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
	                errmsg("\"%s\" of a policy must be a JSON object of tables and their options", where),
	                errhint("For example '{\"tables\": {\"public.audit\": {\"drop_column\": \"keep\"}}}'.")));
	pg_unreachable();
}

Oid
find_relation_anywhere(const char *schema, const char *name)
{
	Oid nspid = get_namespace_oid(schema, true);

	return OidIsValid(nspid) ? get_relname_relid(name, nspid) : InvalidOid;
}

/* InvalidOid when there is no such table and that does not matter. */
Oid
find_table(const char *name, bool strict)
{
	List *names = textToQualifiedNameList(cstring_to_text(name));
	Oid relid = InvalidOid;
	/* of the guard every role's commands are judged, also those of roles that may not look into the table's schema */
	if (strict)
		relid = RangeVarGetRelid(makeRangeVarFromNameList(names), NoLock, false);
	else if (list_length(names) == 2)
		relid = find_relation_anywhere(strVal(linitial(names)), strVal(lsecond(names)));
	else if (list_length(names) == 1)
		relid = RelnameGetRelid(strVal(linitial(names)));
	char kind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';

	if (kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE)
		return relid;
	if (strict)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" is not a table", name)));
	return InvalidOid;
}

bool
is_object(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data);
}

void
add_table(Policies *policies, const char *name, const JsonbValue *value, bool strict)
{
	if (value->type == jbvNull)
		return;
	if (!is_object(value))
		bad_tables(name);
	char *json = JsonbToCString(nullptr, value->val.binary.data, value->val.binary.len);
	catalog::check_table_policy(json);

	TablePolicy *table = &policies->tables[policies->count];
	table->relid = find_table(name, strict);
	table->options = policies->all;
	catalog::read_options(json, &table->options);
	if (OidIsValid(table->relid))
		policies->count++;
}

} // namespace

void
read_policies(const char *json, bool strict, Policies *policies)
{
	Jsonb *object = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));
	JsonbValue *tables = nullptr;

	policies->tables = nullptr;
	policies->count = 0;
	if (JB_ROOT_IS_OBJECT(object))
		tables = getKeyJsonValueFromContainer(&object->root, tables_key, strlen(tables_key), nullptr);
	if (tables == nullptr) {
		catalog::read_options(json, &policies->all);
		return;
	}
	Datum rest = DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(object), CStringGetTextDatum(tables_key));
	catalog::read_options(DatumGetCString(DirectFunctionCall1(jsonb_out, rest)), &policies->all);
	if (tables->type == jbvNull)
		return;
	if (!is_object(tables))
		bad_tables(tables_key);

	policies->tables = static_cast<TablePolicy *>(
	    palloc0(sizeof(TablePolicy) * (JsonContainerSize(tables->val.binary.data) + 1)));
	JsonbIterator *iterator = JsonbIteratorInit(tables->val.binary.data);
	JsonbValue value;
	JsonbIteratorToken token;
	const char *name = nullptr;
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE) {
		if (token == WJB_KEY)
			name = pnstrdup(value.val.string.val, value.val.string.len);
		else if (token == WJB_VALUE)
			add_table(policies, name, &value, strict);
	}
}

const catalog::Options &
policy_for(const Policies &policies, Oid relid, const Shape *shape)
{
	auto find = [&](Oid wanted) -> const catalog::Options * {
		for (int i = 0; i < policies.count; i++)
			if (policies.tables[i].relid == wanted)
				return &policies.tables[i].options;
		return nullptr;
	};
	const catalog::Options *found = find(relid);

	for (int i = 0; found == nullptr && shape != nullptr && i < list_length(shape->ancestors); i++)
		found = find(list_nth_oid(shape->ancestors, i));
	return found != nullptr ? *found : policies.all;
}

} // namespace schemasync::capture
