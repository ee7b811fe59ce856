#include "pg/subtransaction.hpp"

extern "C" {
#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
}

namespace schemasync::pg {

ErrorData *
run_in_subtransaction(void (*body)(void *), void *arg, Ending ending)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(nullptr);
	MemoryContextSwitchTo(context);
	ErrorData *error = run_protected(body, arg);
	if (error == nullptr && ending == Ending::Commit)
		ReleaseCurrentSubTransaction();
	else
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

} // namespace schemasync::pg
