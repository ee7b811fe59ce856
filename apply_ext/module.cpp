/*
 * The extension's library: its magic block and what runs when it is loaded.
 *
 * Zone: server code.
 */
#include "apply_ext/capture/guard.hpp"
#include "apply_ext/worker/shared.hpp"

#include "pg/postgres.hpp"

extern "C" {
#include "fmgr.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;
}

SCHEMASYNC_EXPORT void _PG_init(void);

void
_PG_init(void)
{
	schemasync::worker::init_shared();
	schemasync::capture::define_guard();
	MarkGUCPrefixReserved("schemasync");
}
