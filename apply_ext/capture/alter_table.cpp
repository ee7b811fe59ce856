#include "capture/alter_table.hpp"

#include "pg/postgres.hpp"

extern "C" {
#include "catalog/pg_class.h"
}

namespace schemasync::capture {

// ---- leaves: may ereport; plain data only ----

const char *
alter_table_type_name(AlterTableType type)
{
	/* from the headers of the server that is built against: the members differ between versions */
	switch (type) {
#include "alter_table_types.inc"
	default:
		return "AT_Unknown";
	}
}

bool
names_partition(AlterTableType type)
{
	return type == AT_AttachPartition || type == AT_DetachPartition || type == AT_DetachPartitionFinalize;
}

void
append_using_hint(StringInfo elements, const AlterTableCmd *subcommand, const ObjectAddress *column)
{
	if (subcommand->subtype != AT_AlterColumnType || column->classId != RelationRelationId ||
	    subcommand->def == nullptr)
		return;

	const ColumnDef *definition = castNode(ColumnDef, subcommand->def);
	appendStringInfo(elements, "{\"relid\":%u,\"attnum\":%d,\"given\":%s,\"expr\":null},", column->objectId,
	                 column->objectSubId, definition->raw_default == nullptr ? "false" : "true");
}

} // namespace schemasync::capture
