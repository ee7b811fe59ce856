#include "pg/binary_form.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
}

namespace schemasync::pg {

namespace {

// ---- leaves: may ereport; plain data only ----

bool
is_name_of_object(Oid typid)
{
	switch (typid) {
	case REGPROCOID:
	case REGPROCEDUREOID:
	case REGOPEROID:
	case REGOPERATOROID:
	case REGCLASSOID:
	case REGTYPEOID:
	case REGROLEOID:
	case REGNAMESPACEOID:
	case REGCONFIGOID:
	case REGDICTIONARYOID:
	case REGCOLLATIONOID:
		return true;
	default:
		return false;
	}
}

bool
has_send_function(Oid typid)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", typid);
	bool found = OidIsValid(reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple))->typsend);
	ReleaseSysCache(tuple);
	return found;
}

bool
are_attributes_portable(Oid typid)
{
	TupleDesc row = lookup_rowtype_tupdesc(typid, -1);
	bool portable = true;

	for (int i = 0; i < row->natts && portable; i++) {
		Form_pg_attribute attribute = TupleDescAttr(row, i);
		portable = attribute->attisdropped || has_portable_binary(attribute->atttypid);
	}
	ReleaseTupleDesc(row);
	return portable;
}

/* Values of the type begin with, or contain, the oid of a type that each server numbers for itself. */
bool
carries_oids(Oid typid)
{
	Oid element = get_element_type(typid);

	return OidIsValid(element) ? element >= FirstGenbkiObjectId : get_typtype(typid) == TYPTYPE_COMPOSITE;
}

} // namespace

bool
has_portable_binary(Oid typid)
{
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	typid = getBaseType(typid);
	if (is_name_of_object(typid) || !has_send_function(typid))
		return false;
	Oid element = get_element_type(typid);
	if (OidIsValid(element))
		return has_portable_binary(element);
	switch (get_typtype(typid)) {
	case TYPTYPE_COMPOSITE:
		return are_attributes_portable(typid);
	case TYPTYPE_RANGE: {
		Oid bound = getBaseType(get_range_subtype(typid));
		return !carries_oids(bound) && has_portable_binary(bound);
	}
	case TYPTYPE_MULTIRANGE:
		return has_portable_binary(get_multirange_range(typid));
	default:
		return true;
	}
}

} // namespace schemasync::pg
