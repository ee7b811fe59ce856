/*
 * The callbacks of the output plugin, and nothing else.
 *
 * Zone: server code.
 */
#include "pg/postgres.hpp"

extern "C" {
#include "fmgr.h"
#include "replication/output_plugin.h"

PG_MODULE_MAGIC;
}

SCHEMASYNC_EXPORT void _PG_output_plugin_init(OutputPluginCallbacks *callbacks);

void
_PG_output_plugin_init(OutputPluginCallbacks *)
{
	elog(ERROR, "the decoder is not there yet");
}
