/*
 * The queue of a copy in a shared segment: its leader makes and fills it, and every worker takes tasks from it (copy_crew.hpp).
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "apply_ext/worker/copy_crew.hpp"
#include "apply_ext/worker/copy_reader.hpp"

extern "C" {
#include "storage/spin.h"
}

namespace schemasync::worker {

/* A table; its texts follow all tables and tasks in the segment. The leader alone writes to it before the work begins. */
struct QueuedTable {
	Oid oid;
	char relkind;
	bool published, via_root, partition, below;
	bool with_rows, level, resync, partial; /* as in Job */
	bool in_parts;
	std::uint32_t blocks;
	std::int64_t rows;
	std::uint32_t schema, name, columns, filter; /* offsets of the texts; 0: none */
	/* under the queue's mutex */
	int parts_left;
	bool given_up, copied;
};

struct Task {
	int table;
	bool whole;
	Part part;
};

struct Queue {
	slock_t mutex;
	Mode mode;
	XLogRecPtr position;
	char snapshot[64];
	char extension_schema[2 * NAMEDATALEN + 3];
	int ntables, ntasks, most_tasks;
	Size tasks, texts; /* where they begin */
	std::uint32_t most_in_group;
	/* under the mutex */
	int next;
	bool over; /* the leader is gone */
	std::int64_t rows;
};

Queue *make_queue(const Source &source, Mode mode, const Job *jobs, int count);
void drop_queue(Queue *queue);
std::uint32_t segment_of(const Queue *queue);
/* In a helper. returns: nullptr when the leader is gone */
Queue *attach_queue(std::uint32_t segment);

/* Makes the tasks, the longest first. returns: for how many workers there is work */
int fill_queue(Queue *queue, const catalog::Subscription &subscription);

int table_count(const Queue *queue);
QueuedTable &table_of(Queue *queue, int table);
/* palloc'd, but its texts lie in the segment. */
const SourceTable *unpack_table(Queue *queue, int table);
const Task &task_of(Queue *queue, int task);
/* Into how many parts a table of this size goes. */
int part_count(const catalog::Subscription &subscription, const QueuedTable &table);

/* The next tasks for this worker, [at, end). returns: false when there is none */
bool take(Queue *queue, int *at, int *end);
/* One task is committed. returns: true when it was the table's last, and none of it failed */
bool note_part(Queue *queue, int table, std::int64_t rows);
void note_copied(Queue *queue, int table);
/* The rest of its tasks is not taken any more. */
void give_up(Queue *queue, int table);
CrewResult result_of(Queue *queue);

} // namespace schemasync::worker
