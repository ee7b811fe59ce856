/*
 * Fuzz target: the merge of any three states. The first byte of the input is flags (inferred, rows follow, resumed, policy);
 * then come base, theirs and ours, a line of JSON each, "null" for none.
 *
 * Whatever the states are, it must not crash; its SQL has no NUL; and nothing is dropped without a proof: a column is
 * dropped only when its attnum was in base and is not in theirs, a table only when theirs is gone.
 */
#include "core/merge.hpp"
#include "core/state_json.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

using namespace schemasync;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace {

void
require(bool condition)
{
	if (!condition)
		__builtin_trap();
}

std::optional<state::Relation>
next_state(std::string_view &rest)
{
	std::size_t end = std::min(rest.find('\n'), rest.size());
	auto parsed = state::parse_relation(rest.substr(0, end));
	rest.remove_prefix(std::min(end + 1, rest.size()));
	if (auto *relation = std::get_if<state::Relation>(&parsed))
		return std::move(*relation);
	return std::nullopt;
}

bool
has_column(const state::Relation &relation, state::AttrNumber attnum)
{
	return std::any_of(relation.columns.begin(), relation.columns.end(), [&](const auto &c) { return c.attnum == attnum; });
}

void
check(const merge::Result &result, const merge::RelationInput &input)
{
	long gone = 0, dropped = 0;
	if (input.base != nullptr && input.theirs != nullptr)
		gone = std::count_if(input.base->columns.begin(), input.base->columns.end(),
		                     [&](const auto &c) { return !has_column(*input.theirs, c.attnum); });
	for (const merge::Operation &operation : result.operations) {
		require(!operation.operation.empty());
		require((operation.verdict == Verdict::Refuse) == (operation.reason != Reason::None));
		for (const auto *list : {&operation.sql, &operation.sql_after})
			for (const std::string &sql : *list)
				require(!sql.empty() && sql.find('\0') == std::string::npos);
		if (operation.verdict != Verdict::Forward)
			continue;
		dropped += operation.op == merge::Op::DropColumn ? 1 : 0;
		require(operation.op != merge::Op::DropTable || input.theirs == nullptr);
	}
	require(dropped <= gone);
}

} // namespace

int
LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	if (size == 0)
		return 0;
	const std::string text(reinterpret_cast<const char *>(data) + 1, size - 1);
	std::string_view rest = text;
	const auto base = next_state(rest), theirs = next_state(rest), ours = next_state(rest);
	if (!base && !theirs)
		return 0;

	merge::RelationInput input;
	input.base = base ? &*base : nullptr;
	input.theirs = theirs ? &*theirs : nullptr;
	input.ours = ours ? &*ours : nullptr;
	input.mapped = base && ours;
	if (base && ours)
		input.columns = merge::map_columns_by_name(*base, *ours);
	merge::Command command;
	command.captured = (data[0] & 1) == 0;
	input.rows_follow = (data[0] & 2) != 0;
	input.resumed = (data[0] & 4) != 0;
	Policy policy;
	if ((data[0] & 8) != 0)
		policy.rewrites = Choice::Carry;
	if ((data[0] & 16) != 0)
		policy.drop_column = policy.drop_table = Choice::Keep;

	check(merge::merge_relation(input, command, policy), input);
	if (theirs) {
		(void) merge::render_create(*theirs, policy);
		if (ours)
			(void) merge::describe_drift(*theirs, *ours, input.columns);
	}
	return 0;
}
