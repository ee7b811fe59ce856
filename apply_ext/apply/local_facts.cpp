#include "apply_ext/apply/local_facts.hpp"

#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/object.hpp"
#include "apply_ext/catalog/relation.hpp"
#include "apply_ext/catalog/results.hpp"
#include "core/state_json.hpp"

#include <string>

#include "pg/catalog/catalog.hpp"
#include "pg/catalog/digest.hpp"
#include "pg/catalog/names.hpp"
#include "pg/guard.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::apply {

namespace {

// ---- leaves: may ereport; plain data only ----

/* The local oid of what an expression refers to; the names are qualified, and an unknown one may be an ERROR.
 */
Oid
find_referenced_leaf(const char *kind, const char *name)
{
	struct {
		const char *kind;
		PGFunction find;
	} const finders[] = {{"function", to_regprocedure},
	                     {"operator", to_regoperator},
	                     {"type", to_regtype},
	                     {"collation", to_regcollation},
	                     {"relation", to_regclass}};
	int level = NewGUCNestLevel();
	Oid oid = InvalidOid;

	set_config_option("search_path", "", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	for (const auto &finder : finders) {
		if (strcmp(finder.kind, kind) != 0)
			continue;
		LOCAL_FCINFO(info, 1);
		InitFunctionCallInfoData(*info, nullptr, 1, InvalidOid, nullptr, nullptr);
		info->args[0] = {CStringGetTextDatum(name), false};
		Datum value = finder.find(info);
		oid = info->isnull ? InvalidOid : DatumGetObjectId(value);
	}
	AtEOXact_GUC(false, level);
	return oid;
}

/* In the session of a function that a person calls the search_path is any. */
template <typename F>
const char *
pinned(F digest)
{
	int nest_level = pg::catalog::begin_pinned_settings();
	const char *result = digest();

	pg::catalog::end_pinned_settings(nest_level);
	return result;
}

const char *
digest_leaf(const char *kind, Oid oid)
{
	if (strcmp(kind, "function") == 0)
		return pg::catalog::digest_function(oid);
	if (strcmp(kind, "operator") == 0)
		return pg::catalog::digest_operator(oid);
	if (strcmp(kind, "type") == 0)
		return pg::catalog::digest_type(oid);
	if (strcmp(kind, "collation") == 0)
		return pg::catalog::digest_collation(oid);
	return pg::catalog::digest_relation(oid);
}

struct DomainBase {
	Oid oid; /* InvalidOid: it is no domain */
	int32 typmod;
	const char *schema, *name, *sql;
	bool builtin;
};

DomainBase
domain_base_leaf(Oid domain)
{
	DomainBase base = {};

	if (!OidIsValid(domain) || get_typtype(domain) != TYPTYPE_DOMAIN)
		return base;
	base.typmod = -1;
	base.oid = getBaseTypeAndTypmod(domain, &base.typmod);
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(base.oid));
	if (!HeapTupleIsValid(tuple))
		return DomainBase{};
	auto *form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
	base.schema = get_namespace_name(form->typnamespace);
	base.name = pstrdup(NameStr(form->typname));
	ReleaseSysCache(tuple);
	base.sql = pg::catalog::type_sql(base.oid, base.typmod);
	base.builtin = pg::catalog::is_built_in(base.oid);
	return base;
}

/* Runs f in a subtransaction, since looking a name up may raise where it is not there. */
Oid
find_referenced(const char *kind, const char *name)
{
	Oid oid = InvalidOid;

	return pg::try_in_subtransaction([&] { oid = find_referenced_leaf(kind, name); }) == nullptr ? oid
	                                                                                             : InvalidOid;
}

struct DependentRow {
	const char *type, *identity, *schema, *table, *name;
};

constexpr char column_dependents[] =
    "SELECT DISTINCT classid, objid, objsubid FROM pg_catalog.pg_depend"
    " WHERE deptype = 'n' AND (refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND refobjid = $1"
    "  AND ($2 = 0 OR refobjsubid = $2)"
    "  OR $2 = 0 AND refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass"
    "   AND refobjid IN (SELECT t.oid FROM pg_catalog.pg_type t WHERE t.typrelid = $1"
    "    UNION SELECT t.typarray FROM pg_catalog.pg_type t WHERE t.typrelid = $1))";

constexpr char type_dependents_sql[] =
    "SELECT DISTINCT classid, objid, objsubid FROM pg_catalog.pg_depend"
    " WHERE deptype = 'n' AND $2 = 0 AND refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass"
    "  AND refobjid IN (SELECT $1 UNION SELECT t.typarray FROM pg_catalog.pg_type t WHERE t.oid = $1)";

/*
 * Names what one of the queries above found, but for the table's own parts. The rule of a view is named as the view.
 */
constexpr char identify_dependents[] =
    "WITH d AS (%s)"
    " SELECT DISTINCT i.type, i.identity, COALESCE(k.nspname, i.schema), k.relname, COALESCE(k.conname, i.name, '')"
    " FROM d LEFT JOIN pg_catalog.pg_rewrite r ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass"
    "  AND r.oid = d.objid AND r.rulename = '_RETURN'"
    " LEFT JOIN (SELECT c.oid, c.conname, c.conrelid, t.relname, n.nspname FROM pg_catalog.pg_constraint c"
    "  JOIN pg_catalog.pg_class t ON t.oid = c.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace) k"
    "  ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND k.oid = d.objid"
    " CROSS JOIN LATERAL pg_catalog.pg_identify_object("
    "  CASE WHEN r.oid IS NULL THEN d.classid ELSE 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid END,"
    "  COALESCE(r.ev_class, d.objid), CASE WHEN r.oid IS NULL THEN d.objsubid ELSE 0 END) i"
    " WHERE i.identity IS NOT NULL AND COALESCE(r.ev_class, 0) <> $1 AND COALESCE(k.conrelid, 0) <> $1"
    "  AND NOT (d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND (d.objid = $1 OR EXISTS ("
    "   SELECT FROM pg_catalog.pg_index x WHERE x.indexrelid = d.objid AND x.indrelid = $1)))"
    "  AND NOT (d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND EXISTS ("
    "   SELECT FROM pg_catalog.pg_attrdef a WHERE a.oid = d.objid AND a.adrelid = $1))"
    " ORDER BY 1, 2";

/* oid: a relation (with a column or 0) or a type, as the query takes it. */
const DependentRow *
dependents_leaf(const char *query, Oid oid, AttrNumber attnum, int *count)
{
	MemoryContext caller = CurrentMemoryContext;
	catalog::Internal internal = catalog::begin_internal();
	auto rows = static_cast<int>(
	    catalog::run(psprintf(identify_dependents, query), {catalog::as_oid(oid), catalog::as_int4(attnum)}));
	auto *result = static_cast<DependentRow *>(MemoryContextAllocZero(caller, sizeof(DependentRow) * (rows + 1)));

	for (int i = 0; i < rows; i++)
		result[i] = {catalog::result_text(i, 1, caller), catalog::result_text(i, 2, caller),
		             catalog::result_text(i, 3, caller), catalog::result_text(i, 4, caller),
		             catalog::result_text(i, 5, caller)};
	*count = rows;
	catalog::end_internal(internal);
	return result;
}

struct NameRow {
	const char *schema, *name;
};

NameRow
relation_name_leaf(Oid relid)
{
	const char *name = get_rel_name(relid);

	if (name == nullptr)
		return {nullptr, nullptr};
	return {get_namespace_name(get_rel_namespace(relid)), name};
}

NameRow
type_name_leaf(Oid typid)
{
	NameRow result = {nullptr, nullptr};
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));

	if (!HeapTupleIsValid(tuple))
		return result;
	auto *form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
	result = {get_namespace_name(form->typnamespace), pstrdup(NameStr(form->typname))};
	ReleaseSysCache(tuple);
	return result;
}

bool
is_table_leaf(Oid relid)
{
	char kind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';

	return kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE;
}

std::string
or_empty(const char *text)
{
	return text == nullptr ? std::string() : std::string(text);
}

} // namespace

bool
CatalogFacts::schema_exists(std::string_view schema) const
{
	return OidIsValid(find_local_schema(std::string(schema)));
}

bool
CatalogFacts::relation_exists(std::string_view schema, std::string_view name) const
{
	return OidIsValid(find_local_relation(std::string(schema), std::string(name)));
}

char
CatalogFacts::relation_kind(std::string_view schema, std::string_view name) const
{
	Oid relid = find_local_relation(std::string(schema), std::string(name));

	return OidIsValid(relid) ? pg::call([&] { return get_rel_relkind(relid); }) : '\0';
}

bool
CatalogFacts::table_exists(std::string_view schema, std::string_view name) const
{
	Oid relid = find_local_relation(std::string(schema), std::string(name));

	return pg::call([&] { return is_table_leaf(relid); });
}

bool
CatalogFacts::type_exists(std::string_view schema, std::string_view name) const
{
	return OidIsValid(find_local_type(std::string(schema), std::string(name)));
}

char
CatalogFacts::type_kind(std::string_view schema, std::string_view name) const
{
	Oid oid = find_local_type(std::string(schema), std::string(name));

	return OidIsValid(oid) ? pg::call([&] { return get_typtype(oid); }) : '\0';
}

std::optional<state::TypeRef>
CatalogFacts::domain_base(std::string_view schema, std::string_view name) const
{
	Oid oid = find_local_type(std::string(schema), std::string(name));
	DomainBase base = pg::call([&] { return domain_base_leaf(oid); });

	if (!OidIsValid(base.oid))
		return std::nullopt;
	return state::TypeRef{.oid = base.oid,
	                      .schema = base.schema,
	                      .name = base.name,
	                      .typmod = base.typmod,
	                      .sql = base.sql,
	                      .builtin = base.builtin,
	                      .element = {}};
}

bool
CatalogFacts::own_cast(const state::TypeRef &from, const state::TypeRef &to) const
{
	auto local = [&](const state::TypeRef &type) -> Oid {
		if (type.builtin)
			return type.oid;
		const state::TypeRef &bare = type.element.empty() ? type : type.element[0];
		Oid oid = local_type(bare.oid);
		if (!OidIsValid(oid))
			oid = find_local_type(bare.schema, bare.name);
		return type.element.empty() || !OidIsValid(oid) ? oid : pg::call([&] { return get_array_type(oid); });
	};
	const Oid source = local(from), target = local(to);

	return OidIsValid(source) && OidIsValid(target) && pg::call([&] { return pg::catalog::is_own_cast(source, target); });
}

bool
CatalogFacts::collation_exists(std::string_view name) const
{
	const std::string text(name);

	return OidIsValid(pg::call([&] { return find_referenced("collation", text.c_str()); }));
}

bool
CatalogFacts::role_exists(std::string_view name) const
{
	return OidIsValid(find_role(std::string(name)));
}

std::optional<state::Name>
CatalogFacts::local_relation(state::Oid publisher_oid) const
{
	const auto *row = pg::call([&] { return catalog::load_relation(subid_, publisher_oid); });
	if (row == nullptr || !OidIsValid(row->relid))
		return std::nullopt;
	NameRow name = pg::call([&] { return relation_name_leaf(row->relid); });
	if (name.name == nullptr || name.schema == nullptr)
		return std::nullopt;
	return state::Name{row->relid, name.schema, name.name};
}

state::Oid
CatalogFacts::local_type(state::Oid publisher_oid) const
{
	const auto *row = pg::call([&] { return catalog::load_object(subid_, "pg_type", publisher_oid); });

	return row == nullptr ? InvalidOid : row->local_oid;
}

std::optional<state::Name>
CatalogFacts::local_type_name(state::Oid publisher_oid) const
{
	return type_name(local_type(publisher_oid));
}

std::optional<state::Name>
CatalogFacts::type_name(state::Oid oid) const
{
	NameRow name = pg::call([&] { return type_name_leaf(oid); });

	if (name.name == nullptr || name.schema == nullptr)
		return std::nullopt;
	return state::Name{oid, name.schema, name.name};
}

std::optional<state::TypeRef>
CatalogFacts::publisher_domain_base(state::Oid publisher_oid) const
{
	std::optional<state::TypeRef> below;

	/* a domain over a domain has no parameter of its own; the publisher's catalog has no circles, what it says might */
	for (int depth = 0; depth < 64; depth++) {
		const Oid oid = below ? below->oid : publisher_oid;
		const auto *row = pg::call([&] { return catalog::load_object(subid_, "pg_type", oid); });
		if (row == nullptr)
			return std::nullopt;
		auto parsed = state::parse_type(row->base);
		auto *type = std::get_if<state::Type>(&parsed);
		if (type == nullptr || (type->typtype != 'd' && !below))
			return std::nullopt;
		if (type->typtype != 'd')
			return below;
		below = type->base;
		if (below->builtin || !below->element.empty())
			return below;
	}
	return std::nullopt;
}

std::optional<std::string>
CatalogFacts::digest(const state::Reference &reference) const
{
	constexpr std::string_view between = " AS ";
	auto find = [](const std::string &kind, const std::string &name) {
		return pg::call([&] { return find_referenced(kind.c_str(), name.c_str()); });
	};

	if (reference.kind == "cast") {
		const std::size_t at = reference.name.find(between);
		if (at == std::string::npos)
			return std::nullopt;
		const Oid source = find("type", reference.name.substr(0, at));
		const Oid target = find("type", reference.name.substr(at + between.size()));
		if (!OidIsValid(source) || !OidIsValid(target))
			return std::nullopt;
		return std::string(pg::call([&] { return pinned([&] { return pg::catalog::digest_cast(source, target); }); }));
	}
	const Oid oid = reference.kind == "collation" && reference.name == "default" ? Oid{DEFAULT_COLLATION_OID}
	                                                                         : find(reference.kind, reference.name);
	if (!OidIsValid(oid))
		return std::nullopt;
	return std::string(pg::call([&] { return pinned([&] { return digest_leaf(reference.kind.c_str(), oid); }); }));
}

static std::vector<merge::Dependent>
read_dependents(const char *query, Oid oid, AttrNumber attnum)
{
	int count = 0;
	const DependentRow *rows = pg::call([&] { return dependents_leaf(query, oid, attnum, &count); });
	std::vector<merge::Dependent> result;

	for (int i = 0; i < count; i++)
		result.push_back({or_empty(rows[i].type), or_empty(rows[i].identity), or_empty(rows[i].schema),
		                  or_empty(rows[i].table), or_empty(rows[i].name)});
	return result;
}

std::vector<merge::Dependent>
CatalogFacts::dependents(const state::Relation &relation, state::AttrNumber attnum) const
{
	return read_dependents(column_dependents, relation.name.oid, attnum);
}

std::vector<merge::Dependent>
CatalogFacts::type_dependents(std::string_view schema, std::string_view name) const
{
	return read_dependents(type_dependents_sql, find_local_type(std::string(schema), std::string(name)), 0);
}

int
CatalogFacts::server_version() const
{
	return pg::call([] {
		return static_cast<int>(strtol(GetConfigOption("server_version_num", false, false), nullptr, 10));
	});
}

} // namespace schemasync::apply
