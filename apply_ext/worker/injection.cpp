/*
 * The injection points of the crash tests (pg/injection.hpp); not part of an ordinary build.
 */
#include "pg/injection.hpp"

#include <csignal>
#include <cstdio>
#include <unistd.h>

#include "pg/postgres.hpp"

extern "C" {
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/wait_event.h"
}

namespace schemasync::pg {

namespace {

/* Names that hold in the data directory, which is a server process' working directory. */
constexpr const char *wish = "schemasync_injection";
constexpr const char *hit = "schemasync_injection.hit";

/* Takes the file when its point is this one. returns: whether it was taken; action: at least 16 bytes */
bool
take(const char *name, char *action)
{
	char point[64] = "";

	if (access(wish, F_OK) != 0)
		return false;
	FILE *file = AllocateFile(wish, "r");
	if (file == nullptr)
		return false;
	bool read = fscanf(file, "%63s %15s", point, action) == 2;
	FreeFile(file);
	if (!read || strcmp(point, name) != 0 || rename(wish, hit) != 0)
		return false;
	file = AllocateFile(hit, "w");
	if (file != nullptr) {
		(void) fprintf(file, "%d\n", MyProcPid);
		FreeFile(file);
	}
	return true;
}

} // namespace

void
at_point(const char *name)
{
	char action[16] = "";

	if (!take(name, action))
		return;
	ereport(LOG, (errmsg("injection point \"%s\": %s", name, action)));
	if (strcmp(action, "kill") == 0) {
		(void) kill(MyProcPid, SIGKILL);
		for (;;)
			pg_usleep(1000000);
	}
	if (strcmp(action, "error") == 0)
		ereport(ERROR, (errcode(MAKE_SQLSTATE('S', 'S', '0', 'Z', 'Z')), errmsg("injection point \"%s\"", name)));
	while (access(hit, F_OK) == 0) {
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	/* whoever waited for this latch looks again */
	SetLatch(MyLatch);
}

} // namespace schemasync::pg
