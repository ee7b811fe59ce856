/*
 * What the SQL functions have in common: the subscription that an argument names, and who may change it.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/catalog/subscription.hpp"
#include "apply_ext/worker/publisher.hpp"

#include "pg/postgres.hpp"

extern "C" {
#include "datatype/timestamp.h"
#include "fmgr.h"
}

namespace schemasync::api {

/* A text argument as a string, nullptr for NULL. */
char *text_argument(FunctionCallInfo fcinfo, int number);
/* The same, but NULL is an error that names the argument. */
char *required_text(FunctionCallInfo fcinfo, int number, const char *name);

/* An interval argument in ms; -1 for NULL. Negative ones are an error. */
std::int64_t milliseconds_argument(FunctionCallInfo fcinfo, int number, const char *name);

/* The subscription of the name. errors: undefined_object; insufficient_privilege when the caller is not its owner. */
catalog::Subscription *own_target(const char *name);

/* As own_target, with the subscription's lock taken till the end of the transaction and the row read after that. */
catalog::Subscription *locked_target(const char *name);

/* Anybody's: no check of ownership. */
catalog::Subscription *any_target(const char *name);

/* Connects to the subscription's publisher. application_name is the subscription's name. */
worker::Publisher *connect_publisher(const catalog::Subscription &subscription);

/*
 * The same in steps, for a caller that has other things to do: asks once more.
 *
 * returns: whether *lsn is known now; else call again after some ten milliseconds
 */
struct PositionProbe {
	XLogRecPtr inserted;
	TimestampTz begun;
};
bool probe_position(worker::Publisher *publisher, PositionProbe *probe, XLogRecPtr *lsn);

/* Where the publisher's WAL ends now, everything that has been committed there included. */
XLogRecPtr current_position(worker::Publisher *publisher);

/* An error unless the caller may make subscriptions, as PostgreSQL has it (subscription.cpp). */
void check_may_create();

/* The name of the role that calls. */
char *caller();

} // namespace schemasync::api
