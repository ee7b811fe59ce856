#include "apply_ext/apply/error_context.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/transam.h"
}

namespace schemasync::apply {

namespace {

ErrorContextCallback callback;

void
describe(void *arg)
{
	const ErrorPosition *position = static_cast<const ErrorPosition *>(arg);

	if (position->command == nullptr)
		return;
	if (position->relation != nullptr && position->column != nullptr)
		errcontext("applying %s for table \"%s.%s\", column \"%s\"", position->command, position->schema,
		           position->relation, position->column);
	else if (position->relation != nullptr)
		errcontext("applying %s for table \"%s.%s\"", position->command, position->schema,
		           position->relation);
	else
		errcontext("applying %s", position->command);
	if (position->xid != InvalidTransactionId)
		errcontext("publisher transaction %u, commit at %s, subscription \"%s\"", position->xid,
		           pg::compat::lsn_text(position->lsn), position->subscription);
	else
		errcontext("subscription \"%s\"", position->subscription);
}

} // namespace

void
push_error_context(ErrorPosition *position)
{
	callback.callback = describe;
	callback.arg = position;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
}

} // namespace schemasync::apply
