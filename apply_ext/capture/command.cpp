#include "apply_ext/capture/command.hpp"

#include <cstring>

#include "pg/postgres.hpp"

extern "C" {
#include "nodes/memnodes.h"
#include "utils/memutils.h"
}

namespace schemasync::capture {

namespace {

Command *commands = nullptr;

// ---- leaves: may ereport; plain data only ----

/*
 * The context of the server's own state of the command: a child of TopMemoryContext. New children come first,
 * so the first of that name is the innermost command's.
 */
MemoryContext
server_state_context()
{
	for (MemoryContext child = TopMemoryContext->firstchild; child != nullptr; child = child->nextchild) {
		if (strcmp(child->name, "event trigger state") == 0)
			return child;
	}
	return nullptr;
}

/* Called when the server deletes its state: at the command's end or in the cleanup of its error. */
void
forget(void *argument)
{
	auto *command = static_cast<Command *>(argument);

	for (Command **link = &commands; *link != nullptr; link = &(*link)->outer) {
		if (*link == command) {
			*link = command->outer;
			return;
		}
	}
}

} // namespace

Command *
current_command()
{
	MemoryContext context = server_state_context();

	if (context == nullptr)
		return nullptr;
	for (Command *command = commands; command != nullptr; command = command->outer) {
		if (command->context == context)
			return command;
	}

	MemoryContext caller = MemoryContextSwitchTo(context);
	auto *command = static_cast<Command *>(palloc0(sizeof(Command)));
	auto *callback = static_cast<MemoryContextCallback *>(palloc0(sizeof(MemoryContextCallback)));
	command->context = context;
	initStringInfo(&command->dropped);
	initStringInfo(&command->rewrites);
	callback->func = forget;
	callback->arg = command;
	MemoryContextRegisterResetCallback(context, callback);
	command->outer = commands;
	commands = command;
	MemoryContextSwitchTo(caller);
	return command;
}

} // namespace schemasync::capture
