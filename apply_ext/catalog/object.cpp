#include "apply_ext/catalog/object.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/results.hpp"

extern "C" {
#include "executor/spi.h"
#include "utils/memutils.h"
}

namespace schemasync::catalog {

ObjectRow *
load_object(std::int64_t subid, const char *class_name, Oid publisher_oid)
{
	MemoryContext caller = CurrentMemoryContext;
	ObjectRow *row = nullptr;
	Internal internal = begin_internal();

	if (run("SELECT local_oid, base FROM schemasync.object WHERE subid = $1 AND class = $2 AND publisher_oid "
	        "= $3",
	        {as_int8(subid), as_text(class_name), as_oid(publisher_oid)}) > 0) {
		row = static_cast<ObjectRow *>(MemoryContextAlloc(caller, sizeof(ObjectRow)));
		row->class_name = MemoryContextStrdup(caller, class_name);
		row->publisher_oid = publisher_oid;
		row->local_oid = result_oid(0, 1);
		row->base = result_text(0, 2, caller);
	}
	end_internal(internal);
	return row;
}

void
save_object(std::int64_t subid, const ObjectRow *row)
{
	Internal internal = begin_internal();

	run("INSERT INTO schemasync.object (subid, class, publisher_oid, local_oid, base) VALUES ($1, $2, $3, "
	    "$4, $5)"
	    " ON CONFLICT (subid, class, publisher_oid) DO UPDATE SET local_oid = excluded.local_oid,"
	    " base = excluded.base",
	    {as_int8(subid), as_text(row->class_name), as_oid(row->publisher_oid), as_oid(row->local_oid),
	     as_text(row->base)});
	end_internal(internal);
}

void
delete_object(std::int64_t subid, const char *class_name, Oid publisher_oid)
{
	Internal internal = begin_internal();

	run("DELETE FROM schemasync.object WHERE subid = $1 AND class = $2 AND publisher_oid = $3",
	    {as_int8(subid), as_text(class_name), as_oid(publisher_oid)});
	end_internal(internal);
}

} // namespace schemasync::catalog
