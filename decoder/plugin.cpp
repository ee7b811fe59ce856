/*
 * The table of callbacks of the output plugin, and nothing else: the way from a WAL record into the decoder.
 *
 * The callbacks are leaves without C++ objects that have destructors, so they need no pg::entry.
 *
 * Zone: server code.
 */
#include "decoder/change.hpp"
#include "decoder/transaction.hpp"

extern "C" {
#include "fmgr.h"

PG_MODULE_MAGIC;
}

SCHEMASYNC_EXPORT void _PG_output_plugin_init(OutputPluginCallbacks *callbacks);

void
_PG_output_plugin_init(OutputPluginCallbacks *callbacks)
{
	using namespace schemasync::decoder;

	callbacks->startup_cb = start_session;
	callbacks->shutdown_cb = end_session;
	callbacks->filter_by_origin_cb = filter_origin;

	callbacks->begin_cb = begin_transaction;
	callbacks->change_cb = send_change;
	callbacks->truncate_cb = send_truncate;
	callbacks->message_cb = send_message;
	callbacks->commit_cb = commit_transaction;

	callbacks->begin_prepare_cb = begin_prepare;
	callbacks->prepare_cb = prepare_transaction;
	callbacks->commit_prepared_cb = commit_prepared;
	callbacks->rollback_prepared_cb = rollback_prepared;

	callbacks->stream_start_cb = start_stream;
	callbacks->stream_change_cb = send_change;
	callbacks->stream_truncate_cb = send_truncate;
	callbacks->stream_message_cb = send_message;
	callbacks->stream_stop_cb = stop_stream;
	callbacks->stream_abort_cb = abort_stream;
	callbacks->stream_commit_cb = commit_stream;
	callbacks->stream_prepare_cb = prepare_stream;
}
