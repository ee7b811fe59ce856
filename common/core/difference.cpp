#include "core/definition_internal.hpp"
#include "core/difference_internal.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

/* What each side has of the thing that an operation is about. */
std::string
side_of(const state::Relation &relation, const Operation &operation, const ColumnMap *map, const state::Relation *theirs)
{
	std::string table = sql::shown(relation.name.schema, relation.name.name);
	auto ends_with_name = [&](const std::string &name) {
		return operation.object_identity.ends_with("." + sql::shown(name));
	};
	if (operation.object_type == "column") {
		for (const state::Column &column : relation.columns)
			if (ends_with_name(column.name))
				return describe_column(column);
		/* a column that has another name here */
		if (map != nullptr && theirs != nullptr)
			for (const auto &[publisher, subscriber] : map->pairs) {
				const state::Column *other = find_column(*theirs, publisher);
				const state::Column *own = find_column(relation, subscriber);
				if (other != nullptr && own != nullptr && ends_with_name(other->name))
					return sql::shown(own->name) + " " + describe_column(*own);
			}
		return {};
	}
	for (const state::Constraint &constraint : relation.constraints)
		if (operation.object_identity.starts_with(sql::shown(constraint.name) + " on "))
			return constraint.definition;
	for (const state::Index &index : relation.indexes)
		if (operation.object_type == "index" && ends_with_name(index.name))
			return index.definition;
	return operation.object_type == "table" ? table : std::string();
}

bool
is_addition(Op op)
{
	switch (op) {
	case Op::CreateTable:
	case Op::AddColumn:
	case Op::AddPrimaryKey:
	case Op::AddUnique:
	case Op::AddCheck:
	case Op::AddForeignKey:
	case Op::AddExclusion:
	case Op::CreateIndex:
	case Op::CreateType:
		return true;
	default:
		return false;
	}
}

bool
is_removal(Op op)
{
	switch (op) {
	case Op::DropColumn:
	case Op::DropConstraint:
	case Op::DropIndex:
		return true;
	default:
		return false;
	}
}

std::string
statements(const Operation &operation)
{
	if (operation.sql.empty())
		return operation.suggested_sql;
	std::vector<std::string> all;
	for (std::string text : operation.sql) {
		/* a person runs it, and not while the rows wait */
		constexpr std::string_view concurrently = " CONCURRENTLY";
		if (auto at = text.find(concurrently); operation.background && at != std::string::npos)
			text.erase(at, concurrently.size());
		all.push_back(std::move(text));
	}
	return sql::join(all, ";\n");
}

/* The same operation of another merge; null: there is none. */
const Operation *
find_same(const Result &result, const Operation &operation)
{
	for (const Operation &other : result.operations)
		if (other.op == operation.op && other.object_identity == operation.object_identity && other.change == operation.change)
			return &other;
	return nullptr;
}

/* What the merges say of one difference: with a policy that forbids nothing, with the subscription's, ... */
struct Merged {
	Result found, judged;
	Result unproven; /* ... as if all that the SQL needs were there, which other differences may bring */
	Result filled;   /* ... as if the values of rows came later */
};

std::string
sql_of(const Merged &merged, const Operation &operation)
{
	/* a new column whose rows' values are not to be had: its default is for new rows */
	const Operation *filled = operation.op == Op::AddColumn && operation.verdict == Verdict::Refuse
	                              ? find_same(merged.filled, operation)
	                              : nullptr;
	if (filled != nullptr && filled->verdict == Verdict::Carry) {
		Operation whole = *filled;
		for (const std::string &statement : filled->sql_after)
			if (!statement.ends_with(" SET NOT NULL"))
				whole.sql.push_back(statement);
		return statements(whole);
	}
	std::string text = statements(operation);
	const Operation *unproven = text.empty() ? find_same(merged.unproven, operation) : nullptr;
	return unproven != nullptr ? statements(*unproven) : text;
}

std::vector<Difference>
collect(const Merged &merged)
{
	const std::vector<Operation> &operations = merged.found.operations;
	std::vector<Difference> result;
	auto has_counterpart = [&](const Operation &operation, bool (*is)(Op)) {
		return std::find_if(operations.begin(), operations.end(), [&](const Operation &other) {
			return is(other.op) && other.object_identity == operation.object_identity && &other != &operation;
		});
	};
	for (const Operation &operation : operations) {
		if (operation.verdict == Verdict::Satisfied)
			continue;
		Difference difference;
		const Operation *same = find_same(merged.judged, operation);
		const Operation &verdict = same != nullptr ? *same : operation;
		difference.operation = operation.operation;
		difference.object_type = operation.object_type;
		difference.object_identity = operation.object_identity;
		difference.suggested_sql = sql_of(merged, operation);
		difference.verdict = verdict.verdict == Verdict::Satisfied ? Verdict::Forward : verdict.verdict;
		difference.reason = verdict.reason;
		difference.detail = verdict.detail;
		difference.difference = operation.change;
		if (is_removal(operation.op)) {
			if (has_counterpart(operation, is_addition) != operations.end())
				continue; /* one line for both, at the addition */
			/* the stream leaves alone what only the subscriber has */
			difference.difference = operation.object_type + " is only on the subscriber";
			difference.verdict = Verdict::Ignore;
			difference.reason = Reason::None;
			difference.detail = operation.verdict == Verdict::Refuse ? operation.detail : std::string();
		} else if (is_addition(operation.op)) {
			auto removal = has_counterpart(operation, is_removal);
			bool differs = removal != operations.end();
			difference.difference = operation.object_type + (differs ? " is defined otherwise on the subscriber" : " is missing on the subscriber");
			if (differs)
				difference.suggested_sql = sql_of(merged, *removal) + ";\n" + difference.suggested_sql;
		}
		result.push_back(std::move(difference));
	}
	return result;
}

Policy
permissive(const Policy &policy)
{
	Policy result;
	result.owners_same = policy.owners_same;
	return result;
}

/* The merge, but for what has no shape: that the rows were written anew is no difference of the schema. */
Result
compared(const RelationInput &input, const Command &command, const Policy &policy, const LocalFacts *facts = nullptr)
{
	Result result = facts != nullptr ? merge_relation(input, command, policy, facts) : merge_relation(input, command, policy);
	std::erase_if(result.operations, [](const Operation &operation) { return operation.op == Op::RewriteRows; });
	return result;
}

} // namespace

std::vector<Difference>
relation_differences(const RelationInput &input, const Policy &policy, const LocalFacts *facts)
{
	const LocalFacts &answers = facts != nullptr ? *facts : no_facts();
	RelationInput shifted = input;
	state::Relation base;
	Command command;

	/* as if a command that was seen led from here to there; a default may be older or younger than the rows */
	command.captured = true;
	command.subcommands = {"AT_ColumnDefault"};
	if (input.ours != nullptr) {
		Earlier earlier = earlier_of(input, answers);
		base = std::move(earlier.relation);
		if (!policy.owners_same)
			base.owner = input.theirs->owner;
		shifted.base = &base;
		shifted.mapped = true;
		shifted.columns = earlier.map;
		bool rewritten = input.base == nullptr || input.base->filenode != input.theirs->filenode;
		if (earlier.retyped || rewritten)
			command.rewrites.push_back({.relation = input.theirs->name.oid, .reason = 4, .rows = 1});
	} else {
		shifted.base = nullptr;
	}
	Merged merged;
	merged.found = compared(shifted, command, permissive(policy), &answers);
	if (merged.found.operations.empty())
		return {};
	merged.judged = compared(shifted, command, policy, &answers);
	merged.unproven = compared(shifted, command, permissive(policy));
	shifted.rows_follow = true;
	merged.filled = compared(shifted, command, permissive(policy), &answers);
	std::vector<Difference> result = collect(merged);
	for (Difference &difference : result) {
		for (const Operation &operation : merged.found.operations) {
			if (operation.object_identity != difference.object_identity || operation.operation != difference.operation)
				continue;
			difference.publisher = side_of(*input.theirs, operation, nullptr, nullptr);
			if (input.ours != nullptr)
				difference.subscriber = side_of(*input.ours, operation, &shifted.columns, input.theirs);
			break;
		}
		if (difference.operation == info(Op::AddColumn).code && input.base != nullptr && input.ours != nullptr)
			for (const state::Column &column : input.theirs->columns)
				if (difference.object_identity.ends_with("." + sql::shown(column.name)) &&
				    find_column(*input.base, column.attnum) != nullptr)
					difference.detail = "The subscriber had this column: its values have to be copied again (schemasync_resync).";
	}
	return result;
}

std::vector<Difference>
type_differences(const state::Type &theirs, const state::Type *ours, const Policy &policy, const LocalFacts *facts)
{
	state::Type base;
	Command command;

	command.captured = true;
	if (ours != nullptr) {
		base = *ours;
		base.name.oid = theirs.name.oid;
		base.extension = theirs.extension;
		if (!policy.owners_same)
			base.owner = theirs.owner;
		bool same = theirs.base.builtin ? theirs.base.oid == base.base.oid
		                                : theirs.base.schema == base.base.schema && theirs.base.name == base.base.name;
		if (same && theirs.base.typmod == base.base.typmod)
			base.base = theirs.base;
		for (state::EnumLabel &label : base.labels) {
			auto found = std::find_if(theirs.labels.begin(), theirs.labels.end(), [&](const auto &l) { return l.label == label.label; });
			label.oid = found == theirs.labels.end() ? own_oids + label.oid : found->oid;
		}
		for (state::Constraint &constraint : base.constraints) {
			const state::Constraint *named = find_named(theirs.constraints, constraint.name);
			bool equal = named != nullptr && meaning(*named) == meaning(constraint);
			constraint.oid = equal ? named->oid : own_oids + constraint.oid;
		}
		for (state::Attribute &attribute : base.attributes) {
			const state::Attribute *named = find_named(theirs.attributes, attribute.name);
			attribute.attnum = named != nullptr ? named->attnum : static_cast<AttrNumber>(own_attnums + attribute.attnum);
			if (named != nullptr && named->type.sql == attribute.type.sql)
				attribute.type = named->type;
		}
	}
	const state::Type *from = ours != nullptr ? &base : nullptr;
	Merged merged;
	merged.found = merge_type(from, &theirs, ours, command, permissive(policy), facts);
	merged.judged = merge_type(from, &theirs, ours, command, policy, facts);
	merged.unproven = merge_type(from, &theirs, ours, command, permissive(policy));
	std::vector<Difference> result = collect(merged);
	/* labels that only the subscriber has do no harm, and cannot go */
	for (Difference &difference : result)
		if (difference.reason == Reason::UnsupportedObject && difference.difference.starts_with("label ") &&
		    difference.difference.ends_with(" is gone")) {
			difference.difference.replace(difference.difference.size() - 8, 8, " is only on the subscriber");
			difference.verdict = Verdict::Ignore;
			difference.reason = Reason::None;
			difference.suggested_sql.clear();
		}
	return result;
}

namespace {

std::string
without_end(std::string statements)
{
	while (statements.ends_with(';'))
		statements.pop_back();
	return statements;
}

/* What one side has of it, as statements that make it; a comment as it is. */
std::string
shown_definition(const Definition &definition)
{
	if (definition.object_class == "comments")
		return definition.text.value_or(std::string());
	if (definition.object_class == "privileges")
		return {};
	return without_end(sql::join(create_statements(definition, true), ";\n"));
}

std::string
describe_difference(const Operation &operation, const Definition &theirs, const Definition *ours)
{
	const std::string &type = operation.object_type;

	switch (operation.op) {
	case Op::CreateObject:
		return type + " is missing on the subscriber";
	case Op::RenameObject:
		return type + " is named " + sql::shown(ours->name.name) + " on the subscriber";
	case Op::SetObjectSchema:
		return type + " is in schema " + sql::shown(ours->name.schema) + " on the subscriber";
	case Op::ChangeObjectOwner:
		return type + " belongs to " + sql::shown(ours->owner) + " on the subscriber, not to " + sql::shown(theirs.owner);
	case Op::SetComment:
		return "comment on " + type + " differs on the subscriber";
	case Op::SetPrivileges:
		return theirs.catalog == "pg_default_acl" ? "default privileges differ on the subscriber"
		                                          : "privileges on " + type + " differ on the subscriber";
	default:
		if (ours->version != theirs.version)
			return type + " is there in version " + ours->version + " on the subscriber";
		return type + " is defined otherwise on the subscriber";
	}
}

bool
is_renaming(const Operation &operation)
{
	return operation.op == Op::RenameObject || operation.op == Op::SetObjectSchema;
}

} // namespace

std::vector<Difference>
definition_differences(const DefinitionInput &input, const Policy &policy, bool other_version)
{
	const Definition &theirs = *input.theirs;
	bool said_of = theirs.object_class == "comments" || theirs.object_class == "privileges", again = false;

	if (said_of && input.ours == nullptr)
		return {};
	const Result found = merge_definition(input, permissive(policy), &again), judged = merge_definition(input, policy, &again);
	/* what is here was made of this very text */
	bool made_of_it = other_version && !said_of && input.base != nullptr && create_statements(*input.base, true) == create_statements(theirs, true);
	std::vector<Difference> result;
	for (const Operation &operation : found.operations) {
		if (operation.verdict == Verdict::Satisfied)
			continue;
		const Operation *same = find_same(judged, operation);
		const Operation &verdict = same != nullptr ? *same : operation;
		Difference &difference = result.emplace_back();
		difference.operation = operation.operation;
		difference.object_type = operation.object_type;
		/* by the name that the publisher has */
		difference.object_identity = theirs.identity;
		difference.difference = describe_difference(operation, theirs, input.ours);
		difference.publisher = shown_definition(theirs);
		if (input.ours != nullptr)
			difference.subscriber = shown_definition(*input.ours);
		difference.suggested_sql = without_end(statements(operation));
		difference.verdict = verdict.verdict;
		difference.reason = verdict.reason;
		difference.detail = verdict.detail;
		if (is_renaming(operation))
			difference.detail = "What else differs is told when that is done.";
		if (made_of_it && (operation.op == Op::ReplaceObject || operation.op == Op::AlterObject)) {
			difference.verdict = Verdict::Ignore;
			difference.detail = "The publisher's definition is the one that this was made of; the servers, of different versions, may only write it in different ways.";
		} else if (other_version && operation.op == Op::ReplaceObject && difference.detail.empty()) {
			difference.detail = "The servers are of different versions, and may only write the same definition in different ways.";
		}
	}
	return result;
}

} // namespace schemasync::merge
