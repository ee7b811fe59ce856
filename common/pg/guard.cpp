#include "pg/guard.hpp"

#include <cstring>

extern "C" {
#include "utils/memutils.h"
}

namespace schemasync::pg {

ErrorData *
run_protected(void (*body)(void *), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData *volatile error = nullptr;

	PG_TRY();
	{
		body(arg);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	return error;
}

void
describe_current_exception(Caught &caught) noexcept
{
	try {
		throw;
	} catch (const Error &e) {
		caught.error = e.data;
	} catch (const std::bad_alloc &) {
		caught.out_of_memory = true;
	} catch (const std::exception &e) {
		strlcpy(caught.message, e.what(), sizeof(caught.message));
	} catch (...) {
		strlcpy(caught.message, "unknown C++ exception", sizeof(caught.message));
	}
}

void
raise(const Caught &caught)
{
	if (caught.error != nullptr)
		ReThrowError(caught.error);
	if (caught.out_of_memory)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg_internal("%s", caught.message)));
	pg_unreachable();
}

} // namespace schemasync::pg
