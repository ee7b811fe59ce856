#include "decoder/output.hpp"

#include <cstring>

/*
 * libpq.h comes with the struct of a connection, which wants the headers of GSSAPI and OpenSSL that a
 * server-dev package does not bring. Only the table of send functions is used here, which has nothing of
 * either.
 */
#undef ENABLE_GSS
#undef USE_OPENSSL
#undef USE_SSL

extern "C" {
#include "libpq/libpq.h"
#include "port/pg_bswap.h"
#include "replication/walsender_private.h"
#include "utils/timestamp.h"
}

namespace schemasync::decoder {

// ---- leaves: may ereport; plain data only ----

namespace {

/* bytes in the connection's buffer at which they are sent */
constexpr std::size_t flush_size = 32 * 1024;
/* microseconds after which they are sent with the next message, however few they are */
constexpr TimestampTz flush_age = 100 * 1000;
/* offset of the time in the header of a CopyData message of replication: 'w', two positions */
constexpr int send_time_offset = 1 + 8 + 8;

/*
 * Whether ctx->write is the walsender's. A walsender can also run the SQL functions, but only in state
 * startup: it is in the two states below between START_REPLICATION and the end of its stream.
 */
bool
streams_to_walreceiver()
{
	return MyWalSnd != nullptr &&
	       (MyWalSnd->state == WALSNDSTATE_CATCHUP || MyWalSnd->state == WALSNDSTATE_STREAMING);
}

} // namespace

void
end_message(LogicalDecodingContext *ctx, Delivery delivery, bool last)
{
	Session *session = session_of(ctx);

	if (delivery == Delivery::may_wait && streams_to_walreceiver()) {
		TimestampTz now = GetCurrentTimestamp();

		if (session->unflushed == 0)
			session->oldest_unflushed = now;
		if (session->unflushed < flush_size && now - session->oldest_unflushed < flush_age) {
			std::uint64_t sent = pg_hton64(static_cast<std::uint64_t>(now));

			memcpy(ctx->out->data + send_time_offset, &sent, sizeof(sent));
			pq_putmessage_noblock('d', ctx->out->data, static_cast<std::size_t>(ctx->out->len));
			session->unflushed += static_cast<std::size_t>(ctx->out->len);
			ctx->prepared_write = false;
			return;
		}
	}
	session->unflushed = 0;
	OutputPluginWrite(ctx, last);
}

} // namespace schemasync::decoder
