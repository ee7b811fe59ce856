#include "apply_ext/apply/local_state.hpp"

#include "core/state_json.hpp"

#include <stdexcept>
#include <variant>

#include "pg/catalog/catalog.hpp"
#include "pg/guard.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

namespace schemasync::apply {

namespace {

// ---- leaves: may ereport; plain data only ----

Oid
find_relation_leaf(const char *schema, const char *name)
{
	Oid nspid = get_namespace_oid(schema, true);

	return OidIsValid(nspid) ? get_relname_relid(name, nspid) : InvalidOid;
}

Oid
find_type_leaf(const char *schema, const char *name)
{
	Oid nspid = get_namespace_oid(schema, true);

	if (!OidIsValid(nspid))
		return InvalidOid;
	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(name), ObjectIdGetDatum(nspid));
}

Oid
relation_owner_leaf(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

Oid
type_owner_leaf(Oid typid)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	Oid owner = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple))->typowner;
	ReleaseSysCache(tuple);
	return owner;
}

Oid
schema_owner_leaf(Oid nspid)
{
	HeapTuple tuple = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(nspid));

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	Oid owner = reinterpret_cast<Form_pg_namespace>(GETSTRUCT(tuple))->nspowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* JSON of a local object, nullptr when there is none. */
const char *
describe_leaf(Oid oid, bool is_type)
{
	StringInfoData out;
	int level = pg::catalog::begin_pinned_settings();

	initStringInfo(&out);
	bool found =
	    is_type ? pg::catalog::append_type(&out, oid) : pg::catalog::append_relation(&out, oid, nullptr);
	pg::catalog::end_pinned_settings(level);
	return found ? out.data : nullptr;
}

/* Whether the file of one (locked) relation has a block. */
bool
one_has_blocks(Oid relid)
{
	Relation relation = try_table_open(relid, NoLock);
	if (relation == nullptr)
		return false;
	bool has = RELKIND_HAS_STORAGE(relation->rd_rel->relkind) && RelationGetNumberOfBlocks(relation) > 0;
	table_close(relation, NoLock);
	return has;
}

/*
 * A file with blocks may still hold no row: the decision is left to a scan that stops at the first one. It runs as the
 * current (super)user, so that row security hides nothing. No lock is waited for here: the change itself does that, with
 * a timeout.
 */
bool
has_rows_leaf(Oid relid)
{
	bool blocks = false;
	List *relations = find_all_inheritors(relid, NoLock, nullptr);

	for (int i = 0; i < list_length(relations); i++) {
		Oid member = list_nth_oid(relations, i);
		if (!ConditionalLockRelationOid(member, AccessShareLock))
			return true;
		blocks = blocks || one_has_blocks(member);
	}
	if (!blocks)
		return false;

	char *sql = psprintf(
	    "SELECT 1 FROM %s LIMIT 1",
	    quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid)));
	/* the rows of a table that this transaction has just rewritten are in no snapshot taken before */
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	SPI_execute(sql, true, 1);
	bool has = SPI_processed > 0;
	SPI_finish();
	PopActiveSnapshot();
	return has;
}

std::int64_t
count_leaf(Oid relid, const char *condition)
{
	Oid saved_user;
	int saved_context;
	std::int64_t count = -1;
	bool is_null;
	int level = NewGUCNestLevel();
	char *sql = psprintf(
	    "SELECT pg_catalog.count(*) FROM %s WHERE %s",
	    quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid)),
	    condition);

	set_config_option("search_path", "", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	GetUserIdAndSecContext(&saved_user, &saved_context);
	SetUserIdAndSecContext(relation_owner_leaf(relid), saved_context | SECURITY_RESTRICTED_OPERATION);
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	if (SPI_execute(sql, true, 1) == SPI_OK_SELECT && SPI_processed == 1)
		count = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null));
	SPI_finish();
	PopActiveSnapshot();
	SetUserIdAndSecContext(saved_user, saved_context);
	AtEOXact_GUC(false, level);
	return count;
}

} // namespace

Oid
find_local_relation(const std::string &schema, const std::string &name)
{
	return pg::call([&] { return find_relation_leaf(schema.c_str(), name.c_str()); });
}

bool
local_relation_exists(Oid relid)
{
	return pg::call([&] { return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)); });
}

Oid
owner_of_relation(Oid relid)
{
	return pg::call([&] { return relation_owner_leaf(relid); });
}

Oid
find_local_type(const std::string &schema, const std::string &name)
{
	return pg::call([&] { return find_type_leaf(schema.c_str(), name.c_str()); });
}

bool
local_type_exists(Oid typid)
{
	return pg::call([&] { return SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(typid)); });
}

Oid
owner_of_type(Oid typid)
{
	return pg::call([&] { return type_owner_leaf(typid); });
}

Oid
find_local_schema(const std::string &name)
{
	return pg::call([&] { return get_namespace_oid(name.c_str(), true); });
}

Oid
owner_of_schema(Oid nspid)
{
	return pg::call([&] { return schema_owner_leaf(nspid); });
}

Oid
find_role(const std::string &name)
{
	return pg::call([&] { return get_role_oid(name.c_str(), true); });
}

std::optional<state::Relation>
read_local_relation(Oid relid)
{
	const char *json = pg::call([&] { return describe_leaf(relid, false); });

	if (json == nullptr)
		return std::nullopt;
	auto parsed = state::parse_relation(json);
	if (auto *error = std::get_if<state::ParseError>(&parsed))
		throw std::runtime_error("state of a local relation cannot be read: " + error->where + ": " +
		                         error->what);
	return std::get<state::Relation>(std::move(parsed));
}

std::optional<state::Type>
read_local_type(Oid typid)
{
	const char *json = pg::call([&] { return describe_leaf(typid, true); });

	if (json == nullptr)
		return std::nullopt;
	auto parsed = state::parse_type(json);
	if (auto *error = std::get_if<state::ParseError>(&parsed))
		throw std::runtime_error("state of a local type cannot be read: " + error->where + ": " +
		                         error->what);
	return std::get<state::Type>(std::move(parsed));
}

bool
may_have_rows(Oid relid)
{
	return pg::call([&] { return has_rows_leaf(relid); });
}

std::int64_t
count_rows_where(Oid relid, const std::string &condition)
{
	return pg::call([&] {
		std::int64_t count = -1;
		return pg::try_in_subtransaction([&] { count = count_leaf(relid, condition.c_str()); }) == nullptr
		           ? count
		           : -1;
	});
}

std::string
quote_name(const std::string &name)
{
	return pg::call([&] { return quote_identifier(name.c_str()); });
}

std::string
qualified_name(const std::string &schema, const std::string &name)
{
	return quote_name(schema) + "." + quote_name(name);
}

} // namespace schemasync::apply
