/*
 * What an error of the apply worker says about where it happened: message kind, relation, transaction of the
 * publisher.
 *
 * Zone: server code (leaves).
 */
#pragma once

#include <cstdint>

#include "pg/postgres.hpp"

extern "C" {
#include "access/xlogdefs.h"
}

namespace schemasync::apply {

/* Constant texts and pointers that live at least as long as the message. */
struct ErrorPosition {
	const char *subscription;
	const char *command; /* INSERT, UPDATE, ...; nullptr between messages */
	const char *schema, *relation;
	const char *column; /* whose value is being read */
	const char *key;    /* of a row, where it is known */
	XLogRecPtr lsn;     /* the transaction's commit */
	TransactionId xid;
};

/* Puts position on the server's error context stack for the rest of the process. */
void push_error_context(ErrorPosition *position);

} // namespace schemasync::apply
