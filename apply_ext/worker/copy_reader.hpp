/*
 * Reads rows of the publisher as of a snapshot that somebody else took, and holds each table only while it does. Every process that copies
 * has a reader of its own.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/worker/copy_source.hpp"

extern "C" {
#include "storage/block.h"
}

namespace schemasync::worker {

struct Reader {
	Publisher *sql; /* in a transaction with the snapshot */
	Publisher *now; /* sees what is there now */
	char *extension_schema; /* quoted */
	XLogRecPtr position;    /* of the snapshot */
};

/* snapshot: as exported by the source, which must still be open. returns: palloc'd in the current context, which owns the connections */
Reader *open_reader(const catalog::Subscription &subscription, const char *snapshot, const char *extension_schema, XLogRecPtr position);
void close_reader(Reader *reader);

/* A transaction with this snapshot; nullptr: with one of its own. */
void begin_snapshot(Publisher *sql, const char *snapshot);

/*
 * Locks tables (ACCESS SHARE) until unlock_tables(), and compares what the snapshot has of them with what is there now: the rows of one that was
 * written anew or emptied since would look like none. To be called in a transaction, and unlock_tables() after it whatever it returned.
 *
 * now:             a connection without the snapshot; nullptr: nothing is compared
 * with_partitions: those below a partitioned table count too
 * returns:         false when one is gone or was altered since the snapshot
 */
bool lock_tables(Publisher *sql, Publisher *now, const SourceTable *const *tables, int count, bool with_partitions);
void unlock_tables(Publisher *sql);

/* One table's state and types as the content of a schemasync.state message; nullptr when it is gone. */
char *describe_table(const Reader &reader, const SourceTable &table);

/* The columns whose values are sent, in attnum order. */
struct SourceColumn {
	AttrNumber attnum;
	char *name;
	Oid type;
};
SourceColumn *read_columns(const Reader &reader, const SourceTable &table, int *count);

/* Which blocks of the table: from the first on, before the last; 0: no bound. */
struct Part {
	BlockNumber from, until;
};

/* Starts COPY TO of these columns; then read_rows gives the bytes as CopyFrom's callback wants them. */
void start_rows(const Reader &reader, const SourceTable &table, const Part &part, const SourceColumn *columns, int count, bool binary);
int read_rows(void *buffer, int least, int most);
void end_rows();
/* After an ERROR in between: the connection goes, what is here of its rows too. */
void forget_rows();

} // namespace schemasync::worker
