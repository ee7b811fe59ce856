/*
 * What is asked of the publisher before a subscription is made, so that the error comes to the person who can do something about it.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/api/target.hpp"
#include "apply_ext/worker/publisher.hpp"

extern "C" {
#include "nodes/pg_list.h"
}

namespace schemasync::api {

struct Wanted {
	const char *const *publications; /* null-terminated */
	const char *slot_name;
	bool create_slot; /* the slot must not be there yet; else it must be one of ours */
	bool failover;    /* it is to be one that standbys of the publisher keep in step */
};

/* Raises the first thing that would keep the subscription from working, with what to do. */
void check_publisher(worker::Publisher *publisher, const Wanted &wanted);

/* One check of schemasync_preflight (preflight_checks.cpp); the arrays end with one that has no name. */
struct Check {
	const char *name;
	const char *publisher_sql; /* gives the findings, or, with local_sql, what that compares */
	const char *local_sql;
};
extern const Check publisher_checks[];
extern const Check subscriber_checks[];

/* What a check says of one thing. */
struct Finding {
	const char *side;     /* publisher, subscriber */
	const char *severity; /* ok, warn, error */
	const char *check, *detail, *hint;
};

/*
 * Runs all checks, as far as the publisher lets them.
 *
 * publications:     text of a text[]
 * makes_extensions: the copy will make those that are missing (ddl_classes names the class)
 * returns:          a list of Finding, palloc'd: a check that finds nothing has one with the severity ok
 */
List *run_checks(worker::Publisher *publisher, const char *publications, bool makes_extensions);

/* What a subscription will do, so that what does not concern it does not stop it. */
struct Plan {
	bool create_slot, copy_schema, copy_data;
};

/* What schemasync_create_subscription makes of it: findings that are errors are raised together, warnings are one WARNING. */
void report_findings(const List *findings, const char *name, const Plan &plan);

/* The text of a text[]; names: null-terminated. */
char *array_text(const char *const *names);

/* The publisher's system identifier. */
char *system_identifier(worker::Publisher *publisher);

} // namespace schemasync::api
