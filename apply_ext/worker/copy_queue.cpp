#include "apply_ext/worker/copy_queue.hpp"

extern "C" {
#include "storage/dsm.h"
}

namespace schemasync::worker {

namespace {

/* Tables of fewer blocks are taken some at a time: locking and comparing them costs more than their rows. */
constexpr std::uint32_t small_table = 64;
constexpr int most_in_group = 32;
/* Of one table: enough that the workers end together. */
constexpr std::uint32_t most_parts = 1024;

dsm_segment *own_segment = nullptr;

char *
at_offset(Queue *queue, Size offset)
{
	return reinterpret_cast<char *>(queue) + offset;
}

Task *
all_tasks(Queue *queue)
{
	return reinterpret_cast<Task *>(at_offset(queue, queue->tasks));
}

/* The leader's end, whatever way: who comes late finds nothing to do. Raises nothing. */
void
leave(dsm_segment *segment, Datum)
{
	Queue *queue = static_cast<Queue *>(dsm_segment_address(segment));

	SpinLockAcquire(&queue->mutex);
	queue->over = true;
	SpinLockRelease(&queue->mutex);
	own_segment = nullptr;
}

// ---- leaves: may ereport; plain data only ----

Size
text_size(const char *text)
{
	return text == nullptr ? 0 : strlen(text) + 1;
}

std::uint32_t
store_text(Queue *queue, Size *used, const char *text)
{
	if (text == nullptr)
		return 0;
	std::uint32_t offset = static_cast<std::uint32_t>(*used);
	memcpy(at_offset(queue, *used), text, text_size(text));
	*used += text_size(text);
	return offset;
}

char *
load_text(Queue *queue, std::uint32_t offset)
{
	return offset == 0 ? nullptr : at_offset(queue, offset);
}

/* The largest first, so that no worker begins it when the others are done. */
int
compare_jobs(const void *left, const void *right)
{
	const SourceTable *a = static_cast<const Job *>(left)->table, *b = static_cast<const Job *>(right)->table;

	if (a->rows != b->rows)
		return a->rows > b->rows ? -1 : 1;
	return a->number - b->number;
}

void
store_table(Queue *queue, QueuedTable *queued, const Job &job, Size *used)
{
	const SourceTable &table = *job.table;

	*queued = {.oid = table.oid, .relkind = table.relkind, .published = table.published,
	           .via_root = table.via_root, .partition = table.partition, .below = table.below,
	           .with_rows = job.with_rows, .level = job.level, .resync = job.resync, .partial = job.partial, .in_parts = false,
	           .blocks = table.relkind == 'r' ? table.blocks : 0, .rows = table.rows, .schema = 0, .name = 0, .columns = 0, .filter = 0,
	           .parts_left = 1, .given_up = false, .copied = false};
	queued->schema = store_text(queue, used, table.schema);
	queued->name = store_text(queue, used, table.name);
	queued->columns = store_text(queue, used, table.columns);
	queued->filter = store_text(queue, used, table.filter);
}

} // namespace

Queue *
make_queue(const Source &source, Mode mode, const Job *jobs, int count)
{
	Job *sorted = static_cast<Job *>(palloc(sizeof(Job) * static_cast<Size>(count)));
	Size texts = 0;
	int most_tasks = 0;

	memcpy(sorted, jobs, sizeof(Job) * static_cast<Size>(count));
	qsort(sorted, static_cast<Size>(count), sizeof(Job), compare_jobs);
	for (int i = 0; i < count; i++) {
		const SourceTable &table = *sorted[i].table;
		texts += text_size(table.schema) + text_size(table.name) + text_size(table.columns) + text_size(table.filter);
		most_tasks += static_cast<int>(Min(table.blocks, most_parts)) + 1;
	}
	Size tasks = MAXALIGN(sizeof(Queue)) + MAXALIGN(sizeof(QueuedTable) * static_cast<Size>(count));
	Size first_text = tasks + MAXALIGN(sizeof(Task) * static_cast<Size>(most_tasks));
	dsm_segment *segment = dsm_create(first_text + texts, 0);
	dsm_pin_mapping(segment);
	on_dsm_detach(segment, leave, Datum{0});
	own_segment = segment;

	Queue *queue = static_cast<Queue *>(dsm_segment_address(segment));
	memset(queue, 0, sizeof(Queue));
	SpinLockInit(&queue->mutex);
	queue->mode = mode;
	queue->position = source.position;
	strlcpy(queue->snapshot, source.snapshot, sizeof(queue->snapshot));
	strlcpy(queue->extension_schema, source.extension_schema, sizeof(queue->extension_schema));
	queue->ntables = count;
	queue->most_tasks = most_tasks;
	queue->tasks = tasks;
	queue->texts = first_text;
	for (int i = 0; i < count; i++)
		store_table(queue, &table_of(queue, i), sorted[i], &first_text);
	pfree(sorted);
	return queue;
}

void
drop_queue(Queue *)
{
	dsm_detach(own_segment);
}

std::uint32_t
segment_of(const Queue *)
{
	return dsm_segment_handle(own_segment);
}

Queue *
attach_queue(std::uint32_t segment)
{
	dsm_segment *attached = dsm_attach(segment);

	if (attached == nullptr)
		return nullptr;
	dsm_pin_mapping(attached);
	return static_cast<Queue *>(dsm_segment_address(attached));
}

int
fill_queue(Queue *queue, const catalog::Subscription &subscription)
{
	Task *tasks = all_tasks(queue);
	int groups = 0, small = 0;

	for (int i = 0; i < queue->ntables; i++) {
		QueuedTable &table = table_of(queue, i);
		if (!table.in_parts) {
			tasks[queue->ntasks++] = {i, true, {0, 0}};
			if (table.blocks < small_table)
				small++;
			else
				groups++;
			continue;
		}
		std::uint32_t parts = static_cast<std::uint32_t>(part_count(subscription, table));
		table.parts_left = static_cast<int>(parts);
		for (std::uint32_t part = 0; part < parts; part++) {
			BlockNumber from = static_cast<BlockNumber>(std::uint64_t{table.blocks} * part / parts);
			BlockNumber until = static_cast<BlockNumber>(std::uint64_t{table.blocks} * (part + 1) / parts);
			tasks[queue->ntasks++] = {i, false, {from, part + 1 < parts ? until : 0}};
		}
		groups += static_cast<int>(parts);
	}
	queue->most_in_group = static_cast<std::uint32_t>(Max(1, Min(most_in_group, small / (2 * subscription.options.copy_workers))));
	return groups + (small + static_cast<int>(queue->most_in_group) - 1) / static_cast<int>(queue->most_in_group);
}

int
table_count(const Queue *queue)
{
	return queue->ntables;
}

QueuedTable &
table_of(Queue *queue, int table)
{
	return reinterpret_cast<QueuedTable *>(at_offset(queue, MAXALIGN(sizeof(Queue))))[table];
}

const SourceTable *
unpack_table(Queue *queue, int number)
{
	const QueuedTable &queued = table_of(queue, number);
	SourceTable *table = static_cast<SourceTable *>(palloc0(sizeof(SourceTable)));

	table->oid = queued.oid;
	table->schema = load_text(queue, queued.schema);
	table->name = load_text(queue, queued.name);
	table->columns = load_text(queue, queued.columns);
	table->filter = load_text(queue, queued.filter);
	table->relkind = queued.relkind;
	table->published = queued.published;
	table->via_root = queued.via_root;
	table->partition = queued.partition;
	table->below = queued.below;
	return table;
}

const Task &
task_of(Queue *queue, int task)
{
	return all_tasks(queue)[task];
}

int
part_count(const catalog::Subscription &subscription, const QueuedTable &table)
{
	std::uint64_t blocks = static_cast<std::uint64_t>(subscription.options.copy_part_size) * 1024 / BLCKSZ;

	if (blocks == 0)
		return 1;
	return static_cast<int>(Min(std::uint64_t{Min(most_parts, table.blocks)}, (table.blocks + blocks - 1) / blocks));
}

bool
take(Queue *queue, int *at, int *end)
{
	SpinLockAcquire(&queue->mutex);
	/* what was given up meanwhile is nothing to take */
	while (queue->next < queue->ntasks && table_of(queue, task_of(queue, queue->next).table).given_up)
		queue->next++;
	bool found = !queue->over && queue->next < queue->ntasks;
	if (found) {
		*at = queue->next++;
		std::uint32_t group = 1;
		const Task &first = task_of(queue, *at);
		while (first.whole && table_of(queue, first.table).blocks < small_table && group < queue->most_in_group &&
		       queue->next < queue->ntasks && task_of(queue, queue->next).whole &&
		       table_of(queue, task_of(queue, queue->next).table).blocks < small_table) {
			queue->next++;
			group++;
		}
		*end = queue->next;
	}
	SpinLockRelease(&queue->mutex);
	return found;
}

bool
note_part(Queue *queue, int table, std::int64_t rows)
{
	QueuedTable &queued = table_of(queue, table);

	SpinLockAcquire(&queue->mutex);
	queue->rows += rows;
	bool last = --queued.parts_left == 0 && !queued.given_up;
	SpinLockRelease(&queue->mutex);
	return last;
}

void
note_copied(Queue *queue, int table)
{
	SpinLockAcquire(&queue->mutex);
	table_of(queue, table).copied = true;
	SpinLockRelease(&queue->mutex);
}

void
give_up(Queue *queue, int table)
{
	SpinLockAcquire(&queue->mutex);
	table_of(queue, table).given_up = true;
	SpinLockRelease(&queue->mutex);
}

CrewResult
result_of(Queue *queue)
{
	CrewResult result = {};

	for (int i = 0; i < queue->ntables; i++) {
		if (table_of(queue, i).copied)
			result.copied++;
		else
			result.left++;
	}
	result.rows = queue->rows;
	return result;
}

} // namespace schemasync::worker
