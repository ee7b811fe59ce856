/*
 * Executes one statement of schema: checked to be exactly one of the expected form, under the identity, the
 * settings and the lock timeout that are given, so that what fails can be told from what waits.
 *
 * Called by the schema side of applying (apply/schema*.cpp). Zone: server code (leaves: may ereport, plain
 * data only).
 */
#pragma once

#include "pg/postgres.hpp"

namespace schemasync::apply {

/* A server parameter that is set while a statement runs. */
struct Setting {
	const char *name, *value;
};

struct Execution {
	const char *sql;
	Oid run_as;      /* the role that executes it */
	bool checked;    /* it must be one statement of a kind that the merge makes */
	bool restricted; /* in a security-restricted context: what it calls cannot change who it is */
	const char *search_path;
	Oid waits_for; /* the relation whose lock it needs, to name those who hold it; may be InvalidOid */
	const Setting *settings;
	int nsettings;
	int lock_timeout; /* ms; 0: wait for ever */
	int lock_retries; /* how often it is tried again after a lock timeout */
};

enum class Outcome { Done, Failed, LockTimeout };

struct Executed {
	Outcome outcome;
	ErrorData *error;     /* of Failed and LockTimeout, in the caller's memory context */
	const char *blockers; /* of LockTimeout: who held the lock, one line each; may be empty */
};

/*
 * Executes in a subtransaction: when it fails nothing of it remains. While it waits again and again for a
 * lock the worker's state is waiting_lock.
 *
 * errors: an interrupt, a shutdown, a lost connection and exhausted resources are raised, as they say nothing
 * of the statement; everything else is an Outcome
 */
Executed execute_ddl(const Execution &execution);

/* Errors that say something of the server or the worker, not of the statement: they go on to the worker's own handling. */
bool is_no_verdict(int sqlstate);

/* Whether the publisher's transaction at work gave an enum a label here: see commit_new_labels() in apply/schema.hpp. */
bool has_new_labels();

/*
 * Checks that sql is exactly one statement, of a kind that the merge makes.
 *
 * returns: nullptr, or what is wrong with it
 * errors:  syntax_error when it cannot be parsed
 */
const char *check_statement(const char *sql);

} // namespace schemasync::apply
