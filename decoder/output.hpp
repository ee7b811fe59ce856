/*
 * Messages on their way out: a message is begun, written into ctx->out and ended.
 *
 * Inside a walsender the server sends every message with a system call of its own, which is 40 % of what
 * it costs to send a narrow row. Messages that may wait are therefore only put into the connection's buffer,
 * with the very header that the walsender wrote, and leave with the next message that may not wait, or when
 * enough has gathered. The bytes on the wire are the same. Elsewhere (SQL functions) every message goes
 * through OutputPluginWrite.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/session.hpp"

namespace schemasync::decoder {

enum class Delivery {
	may_wait, /* a change inside a transaction: nobody can use it before the transaction's end */
	now,      /* an end of a transaction or of a streamed chunk */
};

/* Begins a message. last is false when another message of the same change follows: its position is not told.
 */
inline void
begin_message(LogicalDecodingContext *ctx, bool last = true)
{
	OutputPluginPrepareWrite(ctx, last);
}

/* Ends the message that was begun with the same last. */
void end_message(LogicalDecodingContext *ctx, Delivery delivery, bool last = true);

} // namespace schemasync::decoder
