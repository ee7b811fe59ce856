/*
 * One row of schemasync.subscription as plain data, and the writes that the worker makes to it.
 *
 * The statements run as the extension's owner, whoever calls (catalog/internal.hpp).
 *
 * Zone: server code (leaves: may ereport).
 */
#pragma once

#include <cstdint>

#include "core/policy.hpp"

#include "pg/postgres.hpp"

extern "C" {
#include "access/xlogdefs.h"
}

namespace schemasync::catalog {

enum class Conflicts : std::uint8_t { Error, ApplyRemote, KeepLocal };
enum class Streaming : std::uint8_t { Off, On, Parallel };

/* The options of DESIGN 7 with their defaults. */
struct Options {
	Policy policy;
	Conflicts conflicts = Conflicts::Error;
	Streaming streaming = Streaming::On;
	bool auto_refresh = true;
	bool binary = true;
	bool two_phase = false;
	bool failover = false; /* the slot is kept in step on the publisher's standbys; 17 and later */
	bool origin_none = false;
	bool run_as_owner = false;
	bool password_required = true; /* of owners that are no superusers; as PostgreSQL 16 */
	int ddl_lock_timeout = 5000;   /* ms; 0: wait for ever */
	int ddl_lock_retries = 10;
	int group_commit_delay = 10;   /* ms that a group of small transactions may wait for more; 0: no grouping */
	int copy_workers = 2;
	int copy_part_size = 65536;    /* kB of a table that one of them copies at once; 0: each table as a whole */
	int apply_workers = 1;
	const char *synchronous_commit = "off";
	const char *ddl_classes = nullptr; /* JSON text of the array, or "all" */
};

struct Subscription {
	std::int64_t subid;
	const char *name;
	Oid owner;
	const char *conninfo;
	const char **publications; /* null-terminated */
	const char *slot_name;
	const char *origin_name; /* schemasync_<database oid>_<subid> */
	bool create_slot, copy_schema, copy_data, enabled, drain;
	bool refresh;        /* schemasync_refresh was called, and the copy worker has not seen to it yet */
	bool refresh_copies; /* ... and rows of new tables are copied */
	bool copy_begun; /* create_slot, and an interrupted copy may have made it already */
	bool objects_adopted; /* those that ddl_classes names now */
	bool table_carries;   /* rewrites = carry is set for a table */
	bool has_classes;     /* ddl_classes is set for it or for a table */
	bool refreshing;      /* the copy is that of schemasync_refresh */
	XLogRecPtr drain_lsn, skip_lsn;
	const char *state; /* the lasting part: init until the initial copy is done, then ready, refused, failed, drained */
	const char *schema_changes, *options_text; /* as stored */
	bool owner_is_superuser; /* when it was loaded: to ask later needs a transaction */
	const char *system_identifier;
	Options options;
};

/* The subscription, palloc'd in the current context; nullptr when there is none. Needs a transaction. */
Subscription *load_subscription(std::int64_t subid);
/* The same by its name; 0: none. */
std::int64_t find_subscription(const char *name);

/* Whether the owner's connections must use a password (DESIGN 9). */
bool needs_password(const Subscription &subscription);

/* The initial copy is about to make the slot. */
void save_copy_begun(std::int64_t subid);
/* The initial copy is done: the slot exists, and the state becomes ready. */
void save_copied(std::int64_t subid);
/* What ddl_classes names was made, as far as it can be. */
void save_objects_adopted(std::int64_t subid);

/* Sets the lasting state (and last_error; nullptr clears it). Needs a transaction. */
void save_state(std::int64_t subid, const char *state, const char *last_error);

/* What was applied in all, as it was when it was last stored. Need a transaction. */
void load_counters(std::int64_t subid, std::int64_t *rows, std::int64_t *transactions);
void save_counters(std::int64_t subid, std::int64_t rows, std::int64_t transactions);

/*
 * Records an error of a worker (one row, counted on repeats), the subscription's last_error and state 'failed'.
 * Needs a transaction of its own.
 */
struct ErrorContextInfo {
	const char *worker, *relation, *command, *key;
	XLogRecPtr lsn;
	std::int64_t xid;
};
void record_error(std::int64_t subid, const ErrorData *error, const ErrorContextInfo *where);
/* The same for an error that does not stand in the way of the subscription: its state stays. returns: whether it is a new one */
bool note_error(std::int64_t subid, const ErrorData *error, const ErrorContextInfo *where);
/* After success: open errors get their resolved_at. */
void resolve_errors(std::int64_t subid);
/* Those of the copy: all its tables are there. */
void resolve_copy_errors(std::int64_t subid);

} // namespace schemasync::catalog
