#include "pg/catalog/names.hpp"

#include "pg/catalog/catalog.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::pg::catalog {

// ---- leaves: may ereport; plain data only ----

bool
is_built_in(Oid oid)
{
	return oid < FirstUnpinnedObjectId;
}

Oid
strip_array(Oid typid)
{
	Oid element = get_element_type(typid);

	return OidIsValid(element) ? element : typid;
}

char *
type_sql(Oid typid, int32 typmod)
{
	return format_type_extended(typid, typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_INVALID_AS_NULL);
}

char *
schema_name(Oid nspid)
{
	return get_namespace_name(nspid);
}

char *
role_name(Oid roleid)
{
	return GetUserNameFromId(roleid, true);
}

char *
collation_name(Oid collation)
{
	HeapTuple tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));

	if (!HeapTupleIsValid(tuple))
		return nullptr;
	auto *form = reinterpret_cast<Form_pg_collation>(GETSTRUCT(tuple));
	char *schema = get_namespace_name(form->collnamespace);
	char *name = schema != nullptr ? quote_qualified_identifier(schema, NameStr(form->collname)) : nullptr;
	ReleaseSysCache(tuple);
	return name;
}

char *
relation_name(Oid relid)
{
	char *name = get_rel_name(relid);
	char *schema = name != nullptr ? get_namespace_name(get_rel_namespace(relid)) : nullptr;

	return schema != nullptr ? quote_qualified_identifier(schema, name) : nullptr;
}

/* As it is written in SQL: an operator of another schema needs the long form. */
char *
operator_name(Oid opno)
{
	HeapTuple tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(opno));

	if (!HeapTupleIsValid(tuple))
		return nullptr;
	auto *form = reinterpret_cast<Form_pg_operator>(GETSTRUCT(tuple));
	char *schema = get_namespace_name(form->oprnamespace);
	char *name = nullptr;
	if (form->oprnamespace == PG_CATALOG_NAMESPACE)
		name = pstrdup(NameStr(form->oprname));
	else if (schema != nullptr)
		name = psprintf("OPERATOR(%s.%s)", quote_identifier(schema), NameStr(form->oprname));
	ReleaseSysCache(tuple);
	return name;
}

char *
operator_class_name(Oid opclass)
{
	HeapTuple tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));

	if (!HeapTupleIsValid(tuple))
		return nullptr;
	auto *form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple));
	char *schema = get_namespace_name(form->opcnamespace);
	char *name = nullptr;
	if (form->opcnamespace == PG_CATALOG_NAMESPACE)
		name = pstrdup(quote_identifier(NameStr(form->opcname)));
	else if (schema != nullptr)
		name = quote_qualified_identifier(schema, NameStr(form->opcname));
	ReleaseSysCache(tuple);
	return name;
}

Oid
default_operator_class(Oid typid, Oid method)
{
	Oid type = getBaseType(typid);
	TYPCATEGORY category = TypeCategory(type);
	Oid exact = InvalidOid;
	Oid preferred = InvalidOid;
	Oid compatible = InvalidOid;
	int preferred_count = 0;
	int compatible_count = 0;

	scan_by_oid(OperatorClassRelationId, OpclassAmNameNspIndexId, Anum_pg_opclass_opcmethod, method,
	            [&](HeapTuple tuple, TupleDesc) {
		            auto *form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple));
		            if (!form->opcdefault)
			            return;
		            if (form->opcintype == type)
			            exact = form->oid;
		            else if (!IsBinaryCoercible(type, form->opcintype))
			            return;
		            else if (IsPreferredType(category, form->opcintype)) {
			            preferred = form->oid;
			            preferred_count++;
		            } else {
			            compatible = form->oid;
			            compatible_count++;
		            }
	            });
	if (OidIsValid(exact))
		return exact;
	if (preferred_count > 0)
		return preferred_count == 1 ? preferred : InvalidOid;
	return compatible_count == 1 ? compatible : InvalidOid;
}

char *
extension_name_of(Oid classid, Oid oid)
{
	Oid extension = getExtensionOfObject(classid, oid);

	return OidIsValid(extension) ? get_extension_name(extension) : nullptr;
}

} // namespace schemasync::pg::catalog
