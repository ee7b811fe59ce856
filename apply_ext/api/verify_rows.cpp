#include "apply_ext/api/verify_rows.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
}

namespace schemasync::api {

namespace {

constexpr int many_parts = 1024;
constexpr BlockNumber small_table = 1024;        /* blocks: compared in one part */
constexpr std::int64_t most_rows_merged = 500000;
constexpr int most_ranges = 100;
constexpr int rows_at_once = 2000;

/* One column that both sides have. */
struct Pair {
	AttrNumber publisher;
	const char *publisher_sql, *local_sql; /* expressions whose output is compared */
	const char *name;
	bool key;
};

/* The statements of one table on one side differ in names only. */
struct Side {
	const char *row, *key, *from; /* key: nullptr when the whole row is the key */
};

struct Part {
	std::int64_t rows;
	std::uint64_t sum;
};

/* Differing keys that follow one another, with no equal one between them. */
struct Range {
	char *first, *last;
	std::int64_t only_publisher, only_subscriber, changed;
};

struct Merge {
	StringInfoData lines;
	const char *key_names;
	Range range;
	int ranges, written;
};

// ---- leaves: may ereport; plain data only ----

/* Which types show the same value as the same text. */
const char *
family(const char *schema, const char *type)
{
	if (strcmp(schema, "pg_catalog") != 0)
		return nullptr;
	for (const char *name : {"int2", "int4", "int8"})
		if (strcmp(type, name) == 0)
			return "integer";
	for (const char *name : {"text", "varchar"})
		if (strcmp(type, name) == 0)
			return "text";
	return strcmp(type, "numeric") == 0 ? "numeric" : nullptr;
}

const char *
column_expression(const char *name, bool trims)
{
	return trims ? psprintf("pg_catalog.trim_scale(%s)", quote_identifier(name)) : pstrdup(quote_identifier(name));
}

/*
 * Fills in the expressions of a pair; false: values of the two types cannot be compared as text.
 *
 * column: of the publisher: attnum, name, schema and name of the type, typmod
 */
bool
pair_column(char *const *column, Form_pg_attribute local, Pair *pair)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(local->atttypid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", local->atttypid);
	Form_pg_type type = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
	char *schema = get_namespace_name(type->typnamespace);
	char *name = pstrdup(NameStr(type->typname));
	ReleaseSysCache(tuple);

	const char *theirs = family(column[2], column[3]), *ours = family(schema, name);
	bool same = strcmp(column[2], schema) == 0 && strcmp(column[3], name) == 0;
	bool same_typmod = atoi(column[4]) == local->atttypmod;
	if (!same && (theirs == nullptr || ours == nullptr || strcmp(theirs, ours) != 0))
		return false;
	/* padding is a part of the text */
	if (!same_typmod && (strcmp(name, "bpchar") == 0 || strcmp(name, "bit") == 0))
		return false;
	/* so is the scale of a number */
	bool trims = ours != nullptr && strcmp(ours, "numeric") == 0 && !same_typmod;
	pair->publisher = static_cast<AttrNumber>(atoi(column[0]));
	pair->name = column[1];
	pair->publisher_sql = column_expression(column[1], trims);
	pair->local_sql = column_expression(NameStr(local->attname), trims);
	pair->key = column[5][0] == 't';
	return true;
}

/* The columns to compare, in the order of the publisher's. *left_out: names of those that cannot be. */
Pair *
pair_columns(worker::Publisher *publisher, const worker::SourceTable &table, const catalog::RelationRow &row, Relation local,
             int *count, StringInfo left_out)
{
	const char *parameters[] = {psprintf("%u", table.oid), table.columns};
	worker::Rows columns = worker::query(
		publisher,
		"SELECT a.attnum, a.attname, n.nspname, t.typname, a.atttypmod, coalesce(a.attnum = ANY (i.indkey), false)"
		" FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
		" JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
		" LEFT JOIN (SELECT indkey FROM pg_catalog.pg_index WHERE indrelid = $1::pg_catalog.oid AND (indisprimary OR indisreplident)"
		"  AND indisvalid ORDER BY indisprimary DESC LIMIT 1) i ON true"
		" WHERE a.attrelid = $1::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''"
		" AND ($2::pg_catalog.int2[] IS NULL OR a.attnum = ANY ($2::pg_catalog.int2[])) ORDER BY a.attnum",
		2, parameters);
	worker::expect(columns, "vvvvvv");
	Pair *pairs = static_cast<Pair *>(palloc0(sizeof(Pair) * static_cast<Size>(columns.count + 1)));
	TupleDesc descriptor = RelationGetDescr(local);

	for (int i = 0; i < columns.count; i++) {
		AttrNumber attnum = static_cast<AttrNumber>(atoi(columns.values[i][0])), partner = 0;
		for (int j = 0; j < row.npairs; j++)
			if (row.pairs[j].publisher == attnum)
				partner = row.pairs[j].local;
		if (partner > 0 && partner <= descriptor->natts) {
			Form_pg_attribute attribute = TupleDescAttr(descriptor, partner - 1);
			if (!attribute->attisdropped && attribute->attgenerated == '\0' && pair_column(columns.values[i], attribute, &pairs[*count])) {
				(*count)++;
				continue;
			}
		}
		appendStringInfo(left_out, "%s%s", left_out->len > 0 ? ", " : "", quote_identifier(columns.values[i][1]));
	}
	return pairs;
}

const char *
row_expression(const Pair *pairs, int count, bool local, bool keys_only)
{
	StringInfoData list;
	int written = 0;

	initStringInfo(&list);
	for (int i = 0; i < count; i++)
		if (!keys_only || pairs[i].key)
			appendStringInfo(&list, "%s%s", written++ > 0 ? ", " : "", local ? pairs[i].local_sql : pairs[i].publisher_sql);
	return written == 0 ? nullptr : psprintf("ROW(%s)::pg_catalog.text", list.data);
}

const char *
hash_expression(const char *text, const Hashing &hashing)
{
	if (hashing.portable)
		return psprintf("('x' || pg_catalog.substr(pg_catalog.md5(pg_catalog.convert_to(%s, 'UTF8')), 1, 16))::bit(64)::pg_catalog.int8",
		                text);
	return psprintf("pg_catalog.hashtextextended((%s) COLLATE pg_catalog.\"C\", 0)", text);
}

/* Rows with their part, hash and key. */
const char *
rows_sql(const Side &side, const Hashing &hashing, int parts)
{
	const char *key = side.key != nullptr ? side.key : side.row;

	return psprintf("(SELECT %s & %d AS part, %s AS hash, %s AS key FROM %s) rows", hash_expression(key, hashing), parts - 1,
	                hash_expression(side.row, hashing), key, side.from);
}

const char *
count_sql(const Side &side, const Hashing &hashing, int parts)
{
	return psprintf("SELECT part, pg_catalog.count(*), pg_catalog.sum(hash) FROM %s GROUP BY part", rows_sql(side, hashing, parts));
}

/* A whole number in decimal digits modulo 2^64. */
std::uint64_t
modulo(const char *digits)
{
	bool negative = *digits == '-';
	std::uint64_t value = 0;

	for (const char *at = digits + (negative ? 1 : 0); *at >= '0' && *at <= '9'; at++)
		value = value * 10 + static_cast<std::uint64_t>(*at - '0');
	return negative ? 0 - value : value;
}

void
take_part(Part *parts, int count, const char *part, const char *rows, const char *sum)
{
	int number = atoi(part);

	if (number < 0 || number >= count)
		elog(ERROR, "unexpected part %s", part);
	parts[number] = {strtoll(rows, nullptr, 10), modulo(sum)};
}

/* Both sides at once: the publisher works while this one does. */
void
count_parts(worker::Publisher *publisher, const Side &theirs, const Side &ours, const Hashing &hashing, int count, Part *theirs_parts,
            Part *ours_parts)
{
	MemoryContext context = CurrentMemoryContext;

	worker::send_query(publisher, count_sql(theirs, hashing, count));
	SPI_connect();
	if (SPI_execute(count_sql(ours, hashing, count), true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not count the rows");
	for (std::uint64_t i = 0; i < SPI_processed; i++)
		take_part(ours_parts, count, catalog::result_text(i, 1, context), catalog::result_text(i, 2, context),
		          catalog::result_text(i, 3, context));
	SPI_finish();
	worker::Rows rows = worker::receive_rows(publisher);
	worker::expect(rows, "vvv");
	for (int i = 0; i < rows.count; i++)
		take_part(theirs_parts, count, rows.values[i][0], rows.values[i][1], rows.values[i][2]);
}

/* --- where they differ ------------------------------------------------------------------------------------------ */

void
add_count(StringInfo line, std::int64_t count, const char *what)
{
	if (count > 0)
		appendStringInfo(line, "%s" INT64_FORMAT " %s", line->data[line->len - 1] == ':' ? " " : ", ", count, what);
}

void
end_range(Merge *merge)
{
	Range *range = &merge->range;

	if (range->first == nullptr)
		return;
	if (merge->ranges++ < most_ranges) {
		if (merge->lines.len > 0)
			appendStringInfoChar(&merge->lines, '\n');
		if (strcmp(range->first, range->last) == 0)
			appendStringInfo(&merge->lines, "%s = %s:", merge->key_names, range->first);
		else
			appendStringInfo(&merge->lines, "%s from %s to %s:", merge->key_names, range->first, range->last);
		add_count(&merge->lines, range->only_publisher, "only on the publisher");
		add_count(&merge->lines, range->only_subscriber, "only on the subscriber");
		add_count(&merge->lines, range->changed, "with other values");
	}
	pfree(range->first);
	pfree(range->last);
	*range = {};
}

/* A key may be as long as a row; a person needs its beginning. */
char *
shown_key(const char *key)
{
	constexpr int longest = 200;
	int length = static_cast<int>(strlen(key));

	if (length <= longest)
		return pstrdup(key);
	return psprintf("%s...", pnstrdup(key, static_cast<Size>(pg_mbcliplen(key, length, longest))));
}

void
add_difference(Merge *merge, const char *key, int publisher, int subscriber, int changed)
{
	Range *range = &merge->range;

	if (range->first == nullptr)
		range->first = shown_key(key);
	else
		pfree(range->last);
	range->last = shown_key(key);
	range->only_publisher += publisher;
	range->only_subscriber += subscriber;
	range->changed += changed;
}

/* A cursor on either side, with the rows of the last fetch. */
struct Reader {
	worker::Publisher *publisher; /* nullptr: here */
	Portal portal;
	MemoryContext context;        /* of the rows of one fetch */
	int count, at;
	char **keys, **hashes;
	bool done;
};

void
fetch(Reader *reader)
{
	MemoryContext caller = CurrentMemoryContext;

	MemoryContextReset(reader->context);
	MemoryContextSwitchTo(reader->context);
	reader->at = reader->count = 0;
	reader->keys = static_cast<char **>(palloc(sizeof(char *) * rows_at_once));
	reader->hashes = static_cast<char **>(palloc(sizeof(char *) * rows_at_once));
	if (reader->publisher != nullptr) {
		worker::Rows rows = worker::query(reader->publisher, psprintf("FETCH %d FROM schemasync_verify", rows_at_once));
		worker::expect(rows, "vv");
		if (rows.count > rows_at_once)
			ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION), errmsg("the publisher gave more rows than were asked for")));
		for (int i = 0; i < rows.count; i++) {
			reader->keys[i] = rows.values[i][0];
			reader->hashes[i] = rows.values[i][1];
		}
		reader->count = rows.count;
	} else {
		SPI_cursor_fetch(reader->portal, true, rows_at_once);
		for (std::uint64_t i = 0; i < SPI_processed; i++) {
			reader->keys[i] = catalog::result_text(i, 1, reader->context);
			reader->hashes[i] = catalog::result_text(i, 2, reader->context);
		}
		reader->count = static_cast<int>(SPI_processed);
		SPI_freetuptable(SPI_tuptable);
	}
	reader->done = reader->count == 0;
	MemoryContextSwitchTo(caller);
}

bool
has_row(Reader *reader)
{
	if (!reader->done && reader->at == reader->count)
		fetch(reader);
	return !reader->done;
}

/* In the order of the statements: shorter ones first. */
int
compare_keys(const char *left, const char *right)
{
	Size first = strlen(left), second = strlen(right);

	if (first != second)
		return first < second ? -1 : 1;
	return strcmp(left, right);
}

void
merge_rows(Reader *theirs, Reader *ours, Merge *merge)
{
	for (;;) {
		bool left = has_row(theirs), right = has_row(ours);
		if (!left && !right)
			break;
		CHECK_FOR_INTERRUPTS();
		int order = !left ? 1 : !right ? -1 : compare_keys(theirs->keys[theirs->at], ours->keys[ours->at]);
		if (order < 0) {
			add_difference(merge, theirs->keys[theirs->at++], 1, 0, 0);
		} else if (order > 0) {
			add_difference(merge, ours->keys[ours->at++], 0, 1, 0);
		} else {
			if (strcmp(theirs->hashes[theirs->at], ours->hashes[ours->at]) == 0)
				end_range(merge);
			else
				add_difference(merge, theirs->keys[theirs->at], 0, 0, 1);
			theirs->at++;
			ours->at++;
		}
	}
	end_range(merge);
}

/* Parts that differ, until they are enough rows to look at. */
char *
choose_parts(const Part *theirs, const Part *ours, int count, int *differing, int *chosen)
{
	StringInfoData list;
	std::int64_t rows = 0;

	initStringInfo(&list);
	for (int i = 0; i < count; i++) {
		if (theirs[i].rows == ours[i].rows && theirs[i].sum == ours[i].sum)
			continue;
		(*differing)++;
		std::int64_t more = Max(theirs[i].rows, ours[i].rows);
		if (*chosen > 0 && rows + more > most_rows_merged)
			continue;
		rows += more;
		appendStringInfo(&list, "%s%d", (*chosen)++ > 0 ? "," : "", i);
	}
	return list.data;
}

const char *
keys_sql(const Side &side, const Hashing &hashing, int parts, const char *chosen)
{
	return psprintf("SELECT key, hash FROM %s WHERE part = ANY ('{%s}'::pg_catalog.int8[])"
	                " ORDER BY pg_catalog.octet_length(key), key COLLATE pg_catalog.\"C\", hash",
	                rows_sql(side, hashing, parts), chosen);
}

char *
name_differences(worker::Publisher *publisher, const Side &theirs, const Side &ours, const Hashing &hashing, int parts,
                 const char *chosen, const char *key_names)
{
	Merge merge = {};
	Reader readers[2] = {};
	MemoryContext caller = CurrentMemoryContext;

	initStringInfo(&merge.lines);
	merge.key_names = key_names;
	for (Reader &reader : readers)
		reader.context = AllocSetContextCreate(caller, "schemasync verify", ALLOCSET_DEFAULT_SIZES);
	readers[0].publisher = publisher;
	(void) worker::query(publisher, psprintf("DECLARE schemasync_verify NO SCROLL CURSOR FOR %s", keys_sql(theirs, hashing, parts, chosen)));
	SPI_connect();
	SPIPlanPtr plan = SPI_prepare(keys_sql(ours, hashing, parts, chosen), 0, nullptr);
	if (plan == nullptr)
		elog(ERROR, "could not prepare the comparison: %s", SPI_result_code_string(SPI_result));
	readers[1].portal = SPI_cursor_open(nullptr, plan, nullptr, nullptr, true);
	MemoryContextSwitchTo(caller);
	merge_rows(&readers[0], &readers[1], &merge);
	SPI_cursor_close(readers[1].portal);
	SPI_finish();
	(void) worker::query(publisher, "CLOSE schemasync_verify");
	for (Reader &reader : readers)
		MemoryContextDelete(reader.context);
	if (merge.ranges > most_ranges)
		appendStringInfo(&merge.lines, "\nand %d more ranges", merge.ranges - most_ranges);
	return merge.lines.data;
}

char *
key_names(const Pair *pairs, int count)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < count; i++)
		if (pairs[i].key)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", quote_identifier(pairs[i].name));
	return list.len == 0 ? pstrdup("row") : psprintf("(%s)", list.data);
}

BlockNumber
blocks_of(Relation relation)
{
	/* one that is partitioned has none of its own, and may be large */
	return RELKIND_HAS_STORAGE(relation->rd_rel->relkind) ? RelationGetNumberOfBlocks(relation) : small_table + 1;
}

} // namespace

void
set_output(worker::Publisher *publisher)
{
	(void) worker::query(publisher, "SET bytea_output = 'hex'");
	(void) worker::query(publisher, "SET lc_monetary = 'C'");
	/* a query whose session here was cancelled shall not run on */
	(void) worker::query(publisher, "SET client_connection_check_interval = '1s'");
}

Hashing
choose_hashing(worker::Publisher *publisher)
{
	constexpr char sql[] = "SELECT pg_catalog.hashtextextended('schemasync' COLLATE pg_catalog.\"C\", 0),"
	                       " pg_catalog.current_setting('server_encoding')";
	worker::Rows rows = worker::query(publisher, sql);
	worker::expect(rows, "vv", 1);
	MemoryContext context = CurrentMemoryContext;

	SPI_connect();
	if (SPI_execute(sql, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not compute a hash");
	bool same_hash = strcmp(catalog::result_text(0, 1, context), rows.values[0][0]) == 0;
	bool same_encoding = strcmp(catalog::result_text(0, 2, context), rows.values[0][1]) == 0;
	SPI_finish();
	return {!same_hash || !same_encoding, same_encoding};
}

Comparison *
compare_rows(worker::Publisher *publisher, const worker::SourceTable &table, const catalog::RelationRow &row, const Hashing &hashing)
{
	Comparison *result = static_cast<Comparison *>(palloc0(sizeof(Comparison)));
	StringInfoData left_out, detail;
	int npairs = 0, differing = 0, chosen = 0;
	Relation local = table_open(row.relid, AccessShareLock);

	initStringInfo(&left_out);
	initStringInfo(&detail);
	Pair *pairs = pair_columns(publisher, table, row, local, &npairs, &left_out);
	int parts = blocks_of(local) <= small_table ? 1 : many_parts;
	const char *none = "''::pg_catalog.text";
	const char *whole[] = {row_expression(pairs, npairs, false, false), row_expression(pairs, npairs, true, false)};
	Side theirs = {whole[0] != nullptr ? whole[0] : none, row_expression(pairs, npairs, false, true),
	               psprintf("%s%s%s%s", table.relkind == 'p' ? "" : "ONLY ", quote_qualified_identifier(table.schema, table.name),
	                        table.filter != nullptr ? " WHERE " : "", table.filter != nullptr ? table.filter : "")};
	Side ours = {whole[1] != nullptr ? whole[1] : none, row_expression(pairs, npairs, true, true),
	             psprintf("%s%s", local->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? "" : "ONLY ",
	                      quote_qualified_identifier(get_namespace_name(RelationGetNamespace(local)), RelationGetRelationName(local)))};
	table_close(local, NoLock);

	Part *sums = static_cast<Part *>(palloc0(sizeof(Part) * static_cast<Size>(2 * parts)));
	count_parts(publisher, theirs, ours, hashing, parts, sums, sums + parts);
	for (int i = 0; i < parts; i++) {
		result->publisher_rows += sums[i].rows;
		result->publisher_sum += sums[i].sum;
		result->subscriber_rows += sums[parts + i].rows;
		result->subscriber_sum += sums[parts + i].sum;
	}
	char *list = choose_parts(sums, sums + parts, parts, &differing, &chosen);
	result->equal = differing == 0;
	if (left_out.len > 0)
		appendStringInfo(&detail, "not compared, because the subscriber has no such column or one whose values look otherwise: %s", left_out.data);
	if (differing > 0 && hashing.same_order)
		result->differences = name_differences(publisher, theirs, ours, hashing, parts, list, key_names(pairs, npairs));
	if (differing > 0 && !hashing.same_order)
		appendStringInfo(&detail, "%sthe databases have different encodings: the differing keys are not named", detail.len > 0 ? "; " : "");
	if (differing > chosen)
		appendStringInfo(&detail, "%s%d of %d differing parts of the table were looked into", detail.len > 0 ? "; " : "", chosen, differing);
	result->detail = detail.len > 0 ? detail.data : nullptr;
	return result;
}

} // namespace schemasync::api
