/*
 * Values of the result of catalog::run() as plain data; each reads NULL as the value that means nothing.
 *
 * Zone: server code (leaves).
 */
#pragma once

#include <cstdint>

#include "apply_ext/catalog/internal.hpp"

extern "C" {
#include "utils/pg_lsn.h"
}

namespace schemasync::catalog {

inline Oid
result_oid(std::uint64_t row, int column)
{
	bool isnull;
	Datum value = result(row, column, &isnull);

	return isnull ? InvalidOid : DatumGetObjectId(value);
}

inline std::int64_t
result_int8(std::uint64_t row, int column)
{
	bool isnull;
	Datum value = result(row, column, &isnull);

	return isnull ? 0 : DatumGetInt64(value);
}

inline XLogRecPtr
result_lsn(std::uint64_t row, int column)
{
	bool isnull;
	Datum value = result(row, column, &isnull);

	return isnull ? InvalidXLogRecPtr : DatumGetLSN(value);
}

inline bool
result_boolean(std::uint64_t row, int column)
{
	bool isnull;
	Datum value = result(row, column, &isnull);

	return !isnull && DatumGetBool(value);
}

} // namespace schemasync::catalog
