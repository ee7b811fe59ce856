/*
 * The replication connection: starts the stream, hands out its messages one by one, waits, and answers.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <string_view>

#include "apply_ext/catalog/subscription.hpp"
#include "apply_ext/worker/publisher.hpp"

extern "C" {
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
}

namespace schemasync::worker {

struct Upstream {
	Publisher *publisher;  /* nullptr: not connected */
	MemoryContext context; /* owns the connection */
	int server_version;    /* as PQserverVersion */
	bool is_awaited;       /* commits of the publisher may wait for what it hears from here (synchronous_standby_names) */
	char *message;         /* libpq's buffer of the message handed out last */
};

/*
 * Connects, checks that the publisher is still the one that the subscription was made with, and starts the
 * stream.
 *
 * from:      position; 0 leaves it to the slot
 * relations: publisher oids with commas: rows of these alone; nullptr: of all
 * errors: the publisher's, or connection_failure
 */
void start_stream(Upstream *upstream, const catalog::Subscription &subscription, XLogRecPtr from,
                  bool binary, const char *relations);

/* Whether start_stream() raised this because the publisher, or this server, is not the one, or in the state, of before. */
bool is_identity_lost(const ErrorData *error);

/* Closes the connection, if there is one. */
void stop_stream(Upstream *upstream);

/*
 * The next CopyData of the stream, without waiting.
 *
 * returns: false when nothing more has arrived; else a view that lasts until the next call. The byte behind
 * it may be written to. errors:  connection_failure when the stream has ended, the publisher's error when it
 * sent one
 */
bool next_message(Upstream *upstream, std::string_view *message);

/* Waits until something arrives, the latch is set, or the time is over. returns: whether the time was over.
 */
bool wait_for_message(Upstream *upstream, long timeout_ms);

void send_reply(Upstream *upstream, std::string_view reply);

} // namespace schemasync::worker
