#include "apply_ext/catalog/internal.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
}

namespace schemasync::catalog {

namespace {

// ---- leaves: may ereport; plain data only ----

struct Extension {
	Oid owner, schema;
};

Extension
find_extension()
{
	Extension found = {InvalidOid, InvalidOid};
	ScanKeyData key;

	Relation table = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("schemasync"));
	SysScanDesc scan = systable_beginscan(table, ExtensionNameIndexId, true, nullptr, 1, &key);
	HeapTuple tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple)) {
		Form_pg_extension form = reinterpret_cast<Form_pg_extension>(GETSTRUCT(tuple));
		found = {form->extowner, form->extnamespace};
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	if (!OidIsValid(found.owner))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("extension \"%s\" does not exist", "schemasync")));
	return found;
}

std::uint64_t
execute(const char *sql, std::initializer_list<Argument> arguments, bool read_only)
{
	constexpr std::size_t most = 32;
	Oid types[most] = {};
	Datum values[most] = {};
	char nulls[most] = {};
	std::size_t count = 0;

	Assert(arguments.size() <= most);
	for (const Argument &argument : arguments) {
		types[count] = argument.type;
		values[count] = argument.value;
		nulls[count] = argument.null ? 'n' : ' ';
		count++;
	}
	int code = SPI_execute_with_args(sql, static_cast<int>(count), types, values, nulls, read_only, 0);
	if (code < 0)
		elog(ERROR, "statement on the extension's tables failed: %s", SPI_result_code_string(code));
	return SPI_processed;
}

} // namespace

Internal
begin_internal()
{
	Internal internal = {};
	Extension extension = find_extension();

	GetUserIdAndSecContext(&internal.saved_user, &internal.saved_sec_context);
	SetUserIdAndSecContext(extension.owner, internal.saved_sec_context | SECURITY_LOCAL_USERID_CHANGE |
	                                            SECURITY_RESTRICTED_OPERATION);
	internal.guc_level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
	                         false);
	SPI_connect();
	return internal;
}

void
end_internal(const Internal &internal)
{
	SPI_finish();
	AtEOXact_GUC(false, internal.guc_level);
	SetUserIdAndSecContext(internal.saved_user, internal.saved_sec_context);
}

Oid
extension_schema()
{
	return find_extension().schema;
}

Argument
as_text(const char *value)
{
	return {TEXTOID, value == nullptr ? Datum{0} : CStringGetTextDatum(value), value == nullptr};
}

Argument
as_text_array(const char *const *values)
{
	int count = 0;
	while (values[count] != nullptr)
		count++;
	Datum *elements = static_cast<Datum *>(palloc(sizeof(Datum) * static_cast<Size>(count + 1)));
	for (int i = 0; i < count; i++)
		elements[i] = CStringGetTextDatum(values[i]);
	ArrayType *array = construct_array(elements, count, TEXTOID, -1, false, TYPALIGN_INT);
	return {TEXTARRAYOID, PointerGetDatum(array), false};
}

Argument
as_json(const char *value)
{
	if (value == nullptr)
		return {JSONBOID, Datum{0}, true};
	return {JSONBOID, DirectFunctionCall1(jsonb_in, CStringGetDatum(value)), false};
}

Argument
as_int8(std::int64_t value)
{
	return {INT8OID, Int64GetDatum(value), false};
}

Argument
as_int4(std::int32_t value)
{
	return {INT4OID, Int32GetDatum(value), false};
}

Argument
as_oid(Oid value)
{
	return {OIDOID, ObjectIdGetDatum(value), false};
}

Argument
as_boolean(bool value)
{
	return {BOOLOID, BoolGetDatum(value), false};
}

Argument
as_lsn(XLogRecPtr value)
{
	return {PG_LSNOID, LSNGetDatum(value), XLogRecPtrIsInvalid(value)};
}

Argument
as_time(TimestampTz value)
{
	return {TIMESTAMPTZOID, TimestampTzGetDatum(value), value == 0};
}

std::uint64_t
run(const char *sql, std::initializer_list<Argument> arguments)
{
	return execute(sql, arguments, false);
}

std::uint64_t
run_latest(const char *sql, std::initializer_list<Argument> arguments)
{
	/* read only, for SPI then takes the snapshot that is active */
	PushActiveSnapshot(GetLatestSnapshot());
	std::uint64_t rows = execute(sql, arguments, true);
	PopActiveSnapshot();
	return rows;
}

char *
result_text(std::uint64_t row, int column, MemoryContext context)
{
	char *value = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column);
	return value == nullptr ? nullptr : MemoryContextStrdup(context, value);
}

Datum
result(std::uint64_t row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, isnull);
}

} // namespace schemasync::catalog
