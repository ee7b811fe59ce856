/*
 * The extension's library: its magic block and what runs when it is loaded.
 *
 * Zone: server code.
 */
#include "pg/postgres.hpp"

extern "C" {
#include "fmgr.h"

PG_MODULE_MAGIC;
}

SCHEMASYNC_EXPORT void _PG_init(void);

void
_PG_init(void)
{
}
