/*
 * Fuzz target: the merge, by a model of what its SQL does.
 *
 * The input drives a table of the publisher through changes: columns come, go, change name and type. Base and
 * theirs are the states around some of them, ours is base with some of it done in advance or otherwise. A
 * small interpreter runs the SQL of the plan over a local table in which each value remembers the publisher's
 * column it came from. When the merge does not refuse:
 *   - every column of theirs has its own values or the ones a new column has: nothing crossed over, nothing
 * lost,
 *   - no column of the subscriber's own is gone,
 *   - no statement is other than one clause of those the interpreter knows.
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "core/merge.hpp"
#include "core/sql.hpp"

using namespace schemasync;
using namespace schemasync::merge;
using namespace schemasync::state;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace {

class Input {
public:
	Input(const std::uint8_t *data, std::size_t size) : data_(data), size_(size) {}
	unsigned
	below(unsigned n)
	{
		return size_ == 0 ? 0 : (size_--, *data_++ % n);
	}
	bool
	empty() const
	{
		return size_ == 0;
	}

private:
	const std::uint8_t *data_;
	std::size_t size_;
};

[[noreturn]] void
fail(const char *what, const Result &result)
{
	std::fprintf(stderr, "%s\n", what);
	for (const Operation &operation : result.operations) {
		std::fprintf(stderr, "%s %d: %s\n", operation.operation.c_str(), static_cast<int>(operation.verdict),
		             operation.change.c_str());
		for (const std::string &statement : operation.sql)
			std::fprintf(stderr, "\t%s\n", statement.c_str());
	}
	std::abort();
}

const char *const names[] = {"a", "b", "c", "\"", "A", "x y"};

TypeRef
some_type(unsigned which)
{
	static const struct {
		const char *name, *sql;
		Oid oid;
		std::int32_t typmod;
	} types[] = {{"int4", "integer", 23, -1},
	             {"int8", "bigint", 20, -1},
	             {"text", "text", 25, -1},
	             {"varchar", "character varying(9)", 1043, 13}};
	TypeRef type;
	type.name = types[which].name;
	type.schema = "pg_catalog";
	type.sql = types[which].sql;
	type.oid = types[which].oid;
	type.typmod = types[which].typmod;
	type.builtin = true;
	return type;
}

/* A name that no column has. */
std::string
free_name(const Relation &relation, Input &input)
{
	for (unsigned i = 0, start = input.below(6); i < 6; i++) {
		std::string candidate = names[(start + i) % 6];
		if (std::none_of(relation.columns.begin(), relation.columns.end(),
		                 [&](const Column &c) { return c.name == candidate; }))
			return candidate;
	}
	return "n" + std::to_string(relation.columns.size()) + "_" + std::to_string(relation.filenode);
}

Column &
some_column(Relation &relation, Input &input)
{
	return relation.columns[input.below(static_cast<unsigned>(relation.columns.size()))];
}

/* One command on the publisher (or by hand on the subscriber). */
void
change(Relation &relation, AttrNumber &next, Input &input)
{
	unsigned what = input.below(7);
	if (what == 0 || relation.columns.empty()) {
		Column column;
		column.attnum = next++;
		column.name = free_name(relation, input);
		column.type = some_type(input.below(4));
		if (input.below(3) == 0)
			column.missing = "7";
		if (input.below(3) == 0)
			column.default_expr = Expression{"random()", "isv" [input.below(3)], {}};
		relation.columns.push_back(column);
	} else if (what == 1) {
		Column &column = some_column(relation, input);
		std::erase_if(relation.columns,
		              [number = column.attnum](const Column &c) { return c.attnum == number; });
	} else if (what == 2) {
		some_column(relation, input).name = free_name(relation, input);
	} else if (what == 3) {
		std::swap(some_column(relation, input).name, some_column(relation, input).name);
	} else if (what == 4) {
		some_column(relation, input).type = some_type(input.below(4));
		relation.filenode += input.below(2);
	} else if (what == 5) {
		Column &column = some_column(relation, input);
		column.not_null = !column.not_null;
	} else {
		some_column(relation, input).default_expr = Expression{"1", 'i', {}};
	}
}

/* The local table: name of a column to the attnum of the publisher whose values it has (negative: the
 * subscriber's own). */
using Local = std::map<std::string, int>;

std::string
unquoted(std::string_view token)
{
	std::string result;
	for (std::size_t i = 1; i + 1 < token.size(); i++) {
		result += token[i];
		if (token[i] == '"')
			i++;
	}
	return result;
}

/* Runs one statement; false when it is not one that it knows or it would fail. */
bool
run(Local &local, const std::string &statement, const Relation &theirs)
{
	constexpr std::string_view prefix = "ALTER TABLE \"s\".\"t\" ";
	if (!statement.starts_with(prefix))
		return false;
	auto all = sql::tokens(std::string_view(statement).substr(prefix.size()));
	if (!all || all->size() < 3)
		return false;
	std::string verb = std::string((*all)[0].text) + " " + std::string((*all)[1].text);
	std::string column = unquoted((*all)[2].text);
	if (verb == "ADD COLUMN") {
		const auto found = std::find_if(theirs.columns.begin(), theirs.columns.end(),
		                                [&](const Column &c) { return c.name == column; });
		return found != theirs.columns.end() && local.emplace(column, found->attnum).second;
	}
	auto there = local.find(column);
	if (there == local.end())
		return false;
	if (verb == "DROP COLUMN") {
		local.erase(there);
		return true;
	}
	if (verb == "RENAME COLUMN") {
		int value = there->second;
		local.erase(there);
		return local.emplace(unquoted((*all)[4].text), value).second;
	}
	return verb == "ALTER COLUMN";
}

} // namespace

int
LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	Input input(data, size);
	Relation base;
	base.name = {1000, "s", "t"};
	base.filenode = 1;
	AttrNumber next = 1, local_next = 100;
	for (unsigned i = input.below(5); i > 0; i--)
		change(base, next, input);
	Relation theirs = base, ours = base;
	ColumnMap map;
	for (Column &column : ours.columns) {
		map.pairs.emplace_back(column.attnum, static_cast<AttrNumber>(column.attnum + 50));
		column.attnum = static_cast<AttrNumber>(column.attnum + 50);
	}
	for (unsigned i = input.below(6); i > 0; i--)
		change(theirs, next, input);
	for (unsigned i = input.below(4); i > 0; i--)
		change(ours, local_next, input);

	Command command;
	command.captured = input.below(2) == 0;
	Policy policy;
	policy.drop_column = std::array{Choice::Forward, Choice::Keep, Choice::Refuse}[input.below(3)];
	RelationInput merge_input;
	merge_input.base = &base;
	merge_input.theirs = &theirs;
	merge_input.ours = &ours;
	merge_input.mapped = true;
	merge_input.columns = map;
	merge_input.has_rows = input.below(4) != 0;
	Result result = merge_relation(merge_input, command, policy);

	(void)describe_drift(theirs, ours, map);
	(void)render_create(theirs, policy);
	for (const Operation &operation : result.operations) {
		if (operation.verdict == Verdict::Refuse &&
		    (!operation.sql.empty() || operation.reason == Reason::None || operation.hint.empty()))
			fail("a refusal with SQL, or without a reason or hint", result);
		if ((operation.verdict == Verdict::Satisfied || operation.verdict == Verdict::Ignore) &&
		    !operation.sql.empty())
			fail("SQL where nothing is to be done", result);
	}
	if (result.refused())
		return 0;

	Local local;
	int own = 0;
	for (const Column &column : ours.columns) {
		int value = -1;
		for (const auto &[publisher, subscriber] : map.pairs)
			if (subscriber == column.attnum)
				value = publisher;
		own += value < 0 ? 1 : 0;
		local[column.name] = value;
	}
	for (const Operation &operation : result.operations)
		for (const std::string &statement : operation.sql)
			if (!run(local, statement, theirs))
				fail(("cannot run: " + statement).c_str(), result);
	for (const auto &[attnum, name] : result.local_columns) {
		auto there = local.find(name);
		if (there == local.end())
			fail(("no column " + name).c_str(), result);
		bool was = std::any_of(base.columns.begin(), base.columns.end(),
		                       [number = attnum](const Column &c) { return c.attnum == number; });
		/* a column that was accepted is the subscriber's own */
		bool crossed = was ? there->second != attnum : there->second != attnum && there->second >= 0;
		if (crossed && (was || merge_input.has_rows))
			fail(("crossed over: " + name).c_str(), result);
		own -= there->second < 0 ? 1 : 0;
		there->second = -2;
	}
	for (const auto &[name, value] : local)
		own -= value == -1 ? 1 : 0;
	if (own != 0)
		fail("a column of the subscriber's own is gone", result);
	return 0;
}
