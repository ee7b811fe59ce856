#include "apply_ext/catalog/statement.hpp"

extern "C" {
#include "executor/spi.h"
#include "utils/pg_lsn.h"
}

namespace schemasync::catalog {

std::uint64_t
run_statement(const char *sql, int expected, const Parameter *parameters, int count)
{
	Oid types[max_parameters];
	Datum values[max_parameters];
	char nulls[max_parameters];

	if (count > max_parameters)
		elog(ERROR, "too many parameters: %d", count);
	for (int i = 0; i < count; i++) {
		types[i] = parameters[i].type;
		values[i] = parameters[i].value;
		nulls[i] = parameters[i].is_null ? 'n' : ' ';
	}
	int code = SPI_execute_with_args(sql, count, types, values, nulls, false, 0);
	if (code != expected)
		elog(ERROR, "internal statement gave %s: %s", SPI_result_code_string(code), sql);
	return SPI_processed;
}

Datum
result_value(std::uint64_t row, int column, bool *is_null)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, is_null);
}

const char *
result_text(std::uint64_t row, int column, MemoryContext context)
{
	char *value = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column);

	return value == nullptr ? nullptr : MemoryContextStrdup(context, value);
}

Oid
result_oid(std::uint64_t row, int column)
{
	bool is_null;
	Datum value = result_value(row, column, &is_null);

	return is_null ? InvalidOid : DatumGetObjectId(value);
}

std::int64_t
result_bigint(std::uint64_t row, int column)
{
	bool is_null;
	Datum value = result_value(row, column, &is_null);

	return is_null ? 0 : DatumGetInt64(value);
}

XLogRecPtr
result_lsn(std::uint64_t row, int column)
{
	bool is_null;
	Datum value = result_value(row, column, &is_null);

	return is_null ? InvalidXLogRecPtr : DatumGetLSN(value);
}

bool
result_bool(std::uint64_t row, int column)
{
	bool is_null;
	Datum value = result_value(row, column, &is_null);

	return !is_null && DatumGetBool(value);
}

} // namespace schemasync::catalog
