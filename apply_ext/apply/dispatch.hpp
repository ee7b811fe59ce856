/*
 * The messages of the stream, one after the other: each goes to what applies it.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/apply/session.hpp"

namespace schemasync::apply {

enum class Step {
	Done,
	Schema, /* a schema message: session->schema_prefix and schema_content; what came before it is written and
	           closed */
};

/*
 * Handles one message.
 *
 * replayed: it comes back from a streamed transaction's file
 */
Step dispatch(Session *session, std::string_view message, bool replayed);

/* The last message of a streamed transaction was replayed. */
void finish_replay(Session *session);

} // namespace schemasync::apply
