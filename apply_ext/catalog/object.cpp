#include "apply_ext/catalog/object.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/statement.hpp"

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

	if (run_statement("SELECT local_oid, base FROM schemasync.object WHERE subid = $1 AND class = $2 AND publisher_oid = $3",
	                  SPI_OK_SELECT,
	                  {bigint_parameter(subid), text_parameter(class_name), oid_parameter(publisher_oid)}) > 0) {
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

	run_statement("INSERT INTO schemasync.object (subid, class, publisher_oid, local_oid, base) VALUES ($1, $2, $3, $4, $5)"
	              " ON CONFLICT (subid, class, publisher_oid) DO UPDATE SET local_oid = excluded.local_oid,"
	              " base = excluded.base",
	              SPI_OK_INSERT,
	              {bigint_parameter(subid), text_parameter(row->class_name), oid_parameter(row->publisher_oid),
	               oid_parameter(row->local_oid), text_parameter(row->base)});
	end_internal(internal);
}

void
delete_object(std::int64_t subid, const char *class_name, Oid publisher_oid)
{
	Internal internal = begin_internal();

	run_statement("DELETE FROM schemasync.object WHERE subid = $1 AND class = $2 AND publisher_oid = $3", SPI_OK_DELETE,
	              {bigint_parameter(subid), text_parameter(class_name), oid_parameter(publisher_oid)});
	end_internal(internal);
}

} // namespace schemasync::catalog
