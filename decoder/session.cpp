#include "decoder/session.hpp"

#include <new>

#include "decoder/announce.hpp"
#include "decoder/relation_cache.hpp"

extern "C" {
#include "utils/memutils.h"
}

namespace schemasync::decoder {

// ---- leaves: may ereport; plain data only ----

void
start_session(LogicalDecodingContext *ctx, OutputPluginOptions *output, bool is_init)
{
	auto *session = static_cast<Session *>(MemoryContextAllocZero(ctx->context, sizeof(Session)));

	session->row_context =
	    AllocSetContextCreate(ctx->context, "schemasync decoder row", ALLOCSET_DEFAULT_SIZES);
	session->cache_context =
	    AllocSetContextCreate(ctx->context, "schemasync decoder cache", ALLOCSET_DEFAULT_SIZES);
	session->publication_context =
	    AllocSetContextCreate(ctx->context, "schemasync decoder publications", ALLOCSET_SMALL_SIZES);
	ctx->output_plugin_private = session;
	output->output_type = OUTPUT_PLUGIN_BINARY_OUTPUT;

	if (is_init) {
		/* slot initialization needs neither */
		ctx->streaming = false;
		ctx->twophase = false;
		return;
	}
	session->options = read_options(ctx);
	/* without schemasync the reorder buffer drops rewritten rows, as for pgoutput */
	output->receive_rewrites = session->options.schemasync;
	open_relation_cache(session);
	if (session->options.schemasync)
		start_announcer(ctx, session);
}

void
end_session(LogicalDecodingContext *ctx)
{
	close_relation_cache(session_of(ctx));
}

void
report_progress(LogicalDecodingContext *ctx, bool skipped_transaction)
{
	/* update_progress() reads the clock, which is too much for every change */
	constexpr int changes_between_reports = 100;

	if (pg::compat::plugin_reports_progress) {
		Session *session = session_of(ctx);
		if (!ctx->end_xact && ++session->changes_since_progress < changes_between_reports)
			return;
		session->changes_since_progress = 0;
	}
	OutputPluginUpdateProgress(ctx, skipped_transaction);
}

} // namespace schemasync::decoder
