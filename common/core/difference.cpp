#include "core/difference.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

/* Objects that only the subscriber has get identities of this range in the base; the publisher has none there. */
constexpr Oid own_oids = 0xF0000000;
constexpr AttrNumber own_attnums = 20000;

template <typename T>
const T *
find_named(const std::vector<T> &all, std::string_view name)
{
	auto found = std::find_if(all.begin(), all.end(), [&](const T &one) { return one.name == name; });
	return found == all.end() ? nullptr : &*found;
}

/* A definition without what ALTER and VALIDATE CONSTRAINT change. */
std::string
meaning(const state::Constraint &constraint)
{
	std::string_view text = constraint.definition;
	/* keys do not change in this way */
	if (constraint.type == 'f' || constraint.type == 'c' || constraint.type == 'n')
		for (bool again = true; again;) {
			again = false;
			for (std::string_view state : {" NOT VALID", " NOT ENFORCED", " NO INHERIT", " INITIALLY DEFERRED", " DEFERRABLE"})
				if (text.ends_with(state)) {
					text.remove_suffix(state.size());
					again = true;
				}
		}
	return sql::flatten(text);
}

bool
same_expression_text(const std::optional<state::Expression> &a, const std::optional<state::Expression> &b)
{
	return a && b && a->sql == b->sql;
}

/* The subscriber's relation in the publisher's identities. */
class Earlier {
public:
	Earlier(const RelationInput &input, const LocalFacts &facts)
	    : theirs_(*input.theirs), ours_(*input.ours), facts_(facts), map_(input.columns)
	{
	}

	state::Relation
	relation()
	{
		state::Relation base = ours_;
		base.name.oid = theirs_.name.oid;
		base.of_type = theirs_.of_type && ours_.of_type ? theirs_.of_type : ours_.of_type;
		base.extension = theirs_.extension;
		base.published_columns = theirs_.published_columns;
		base.published_filter = theirs_.published_filter;
		base.published_via_root = theirs_.published_via_root;
		base.identity_columns = theirs_.identity_columns;
		base.filenode = theirs_.filenode;
		base.fingerprint.clear();
		if (base.partition_key == theirs_.partition_key)
			base.partition_key_expr = theirs_.partition_key_expr;
		base.parents = parents();
		base.columns = columns();
		base.constraints = constraints();
		base.indexes = indexes();
		base.replica_identity_index = 0;
		for (std::size_t i = 0; i < base.indexes.size(); i++)
			if (base.indexes[i].replica_identity)
				base.replica_identity_index = base.indexes[i].oid;
		return base;
	}

	/* Of base and ours, the subscriber's own columns among them. */
	const ColumnMap &
	map() const
	{
		return map_;
	}

	bool
	retyped() const
	{
		return retyped_;
	}

private:
	bool
	is_child() const
	{
		return !theirs_.parents.empty() && !ours_.parents.empty();
	}

	AttrNumber
	publisher_of(AttrNumber local) const
	{
		for (const auto &[publisher, subscriber] : map_.pairs)
			if (subscriber == local)
				return publisher;
		return 0;
	}

	std::vector<AttrNumber>
	translated(const std::vector<AttrNumber> &columns) const
	{
		std::vector<AttrNumber> result;
		for (AttrNumber attnum : columns)
			result.push_back(attnum > 0 ? publisher_of(attnum) : attnum);
		return result;
	}

	/* Whether it is about columns that the publisher describes. */
	bool
	is_described(const std::vector<AttrNumber> &columns) const
	{
		return !theirs_.published_columns || std::all_of(columns.begin(), columns.end(), [&](AttrNumber attnum) {
			return attnum > 0 && publisher_of(attnum) != 0;
		});
	}

	std::vector<state::Name>
	parents() const
	{
		std::vector<state::Name> result;
		for (state::Name parent : ours_.parents) {
			parent.oid = own_oids + parent.oid;
			for (const state::Name &other : theirs_.parents)
				if (other.schema == parent.schema && other.name == parent.name)
					parent = other;
			result.push_back(parent);
		}
		return result;
	}

	bool
	same_type(const state::TypeRef &theirs, const state::TypeRef &ours) const
	{
		if (theirs.typmod != ours.typmod || theirs.element.size() != ours.element.size())
			return false;
		if (!theirs.element.empty())
			return same_type(theirs.element[0], ours.element[0]);
		if (theirs.builtin || ours.builtin)
			return theirs.builtin && ours.builtin && theirs.oid == ours.oid;
		if (Oid mapped = facts_.local_type(theirs.oid); mapped != 0)
			return mapped == ours.oid;
		return theirs.schema == ours.schema && theirs.name == ours.name;
	}

	state::Column
	column(const state::Column &theirs, const state::Column &ours)
	{
		state::Column base = ours;
		base.attnum = theirs.attnum;
		base.missing = theirs.missing;
		base.domain_default = theirs.domain_default;
		base.local = theirs.local;
		base.inhcount = theirs.inhcount;
		bool inherited = theirs.inhcount > 0 && is_child();
		if (inherited)
			base.name = theirs.name;
		if (inherited || same_type(theirs.type, ours.type))
			base.type = theirs.type;
		else if (!ours.type.builtin)
			base.type.oid = own_oids + ours.type.oid;
		retyped_ = retyped_ || (!inherited && !same_type(theirs.type, ours.type));
		if (inherited)
			base.collation = theirs.collation;
		if (same_expression_text(base.default_expr, theirs.default_expr))
			base.default_expr = theirs.default_expr;
		if (base.sequence && theirs.sequence)
			base.sequence->name.oid = theirs.sequence->name.oid;
		return base;
	}

	std::vector<state::Column>
	columns()
	{
		std::vector<state::Column> result;
		for (const state::Column &theirs : theirs_.columns) {
			const state::Column *ours = nullptr;
			for (const auto &[publisher, subscriber] : map_.pairs)
				if (publisher == theirs.attnum)
					ours = find_column(ours_, subscriber);
			if (ours != nullptr)
				result.push_back(column(theirs, *ours));
			else if (theirs.inhcount > 0 && is_child())
				result.push_back(theirs); /* it comes with the parent's */
		}
		for (const state::Column &ours : ours_.columns) {
			/* what the publisher does not publish, it may still have */
			if (publisher_of(ours.attnum) != 0 || theirs_.published_columns || (ours.inhcount > 0 && is_child()))
				continue;
			state::Column base = ours;
			base.attnum = static_cast<AttrNumber>(own_attnums + ours.attnum);
			map_.pairs.emplace_back(base.attnum, ours.attnum);
			result.push_back(std::move(base));
		}
		std::stable_sort(result.begin(), result.end(), [](const auto &a, const auto &b) { return a.attnum < b.attnum; });
		return result;
	}

	/* Names of columns as the publisher has them. */
	std::string
	renamed(std::string_view text) const
	{
		auto all = sql::tokens(text);
		if (!all)
			return std::string(text);
		std::string result;
		std::size_t copied = 0;
		for (std::size_t i = 0; i < all->size(); i++) {
			const sql::Token &token = (*all)[i];
			bool call = i + 1 < all->size() && (*all)[i + 1].text == "(";
			if (call || (token.kind != sql::Token::Kind::Word && token.kind != sql::Token::Kind::QuotedWord))
				continue;
			for (const auto &[publisher, subscriber] : map_.pairs) {
				const state::Column *theirs = find_column(theirs_, publisher);
				const state::Column *ours = find_column(ours_, subscriber);
				if (theirs == nullptr || ours == nullptr || theirs->name == ours->name ||
				    (token.text != ours->name && token.text != sql::ident(ours->name)))
					continue;
				auto at = static_cast<std::size_t>(token.text.data() - text.data());
				result.append(text.substr(copied, at - copied)).append(sql::shown(theirs->name));
				copied = at + token.text.size();
				break;
			}
		}
		result.append(text.substr(copied));
		return result;
	}

	bool
	same_constraint(const state::Constraint &theirs, const state::Constraint &ours) const
	{
		return theirs.type == ours.type && meaning(theirs) == renamed(meaning(ours));
	}

	std::vector<state::Constraint>
	constraints() const
	{
		std::vector<state::Constraint> result;
		std::vector<const state::Constraint *> used;
		auto pair = [&](const state::Constraint &theirs, const state::Constraint &ours) {
			state::Constraint base = theirs;
			base.name = ours.name;
			base.validated = ours.validated;
			base.deferrable = ours.deferrable;
			base.deferred = ours.deferred;
			base.no_inherit = ours.no_inherit;
			base.definition = ours.definition;
			used.push_back(&ours);
			result.push_back(std::move(base));
		};
		for (const state::Constraint &theirs : theirs_.constraints) {
			const state::Constraint *named = find_named(ours_.constraints, theirs.name);
			const state::Constraint *match = named != nullptr && same_constraint(theirs, *named) ? named : nullptr;
			for (const state::Constraint &ours : ours_.constraints)
				if (match == nullptr && named == nullptr && same_constraint(theirs, ours) &&
				    find_named(theirs_.constraints, ours.name) == nullptr &&
				    std::find(used.begin(), used.end(), &ours) == used.end())
					match = &ours;
			if (match != nullptr)
				pair(theirs, *match);
			else if ((theirs.parent != 0 || theirs.inhcount > 0) && is_child())
				result.push_back(theirs); /* it comes with the parent's */
		}
		for (const state::Constraint &ours : ours_.constraints) {
			if (std::find(used.begin(), used.end(), &ours) != used.end() || ours.type == 'n' ||
			    ((ours.parent != 0 || ours.inhcount > 0) && is_child()) || !is_described(ours.columns))
				continue;
			state::Constraint base = ours;
			base.oid = own_oids + ours.oid;
			base.columns = translated(ours.columns);
			result.push_back(std::move(base));
		}
		return result;
	}

	bool
	same_index(const state::Index &theirs, const state::Index &ours) const
	{
		/* one whose building failed, or goes on, is not there; that of a partitioned table lacks some partition's */
		return (ours.valid || !theirs.valid || ours_.relkind == 'p') && theirs.unique == ours.unique && (theirs.constraint == 0) == (ours.constraint == 0) &&
		       sql::from_word(theirs.definition, "USING") == renamed(sql::from_word(ours.definition, "USING"));
	}

	std::vector<state::Index>
	indexes() const
	{
		std::vector<state::Index> result;
		std::vector<const state::Index *> used;
		for (const state::Index &theirs : theirs_.indexes) {
			const state::Index *named = find_named(ours_.indexes, theirs.name);
			const state::Index *match = named != nullptr && same_index(theirs, *named) ? named : nullptr;
			for (const state::Index &ours : ours_.indexes)
				if (match == nullptr && named == nullptr && same_index(theirs, ours) &&
				    find_named(theirs_.indexes, ours.name) == nullptr &&
				    std::find(used.begin(), used.end(), &ours) == used.end())
					match = &ours;
			if (match != nullptr) {
				state::Index base = theirs;
				base.name = match->name;
				base.valid = true;
				base.replica_identity = match->replica_identity;
				used.push_back(match);
				result.push_back(std::move(base));
			} else if (theirs.parent != 0 && is_child()) {
				result.push_back(theirs); /* it comes with the parent's */
			}
		}
		for (const state::Index &ours : ours_.indexes) {
			if (std::find(used.begin(), used.end(), &ours) != used.end() || (ours.parent != 0 && is_child()) ||
			    !is_described(ours.columns))
				continue;
			state::Index base = ours;
			base.oid = own_oids + ours.oid;
			base.columns = translated(ours.columns);
			if (base.constraint != 0)
				base.constraint += own_oids;
			result.push_back(std::move(base));
		}
		return result;
	}

	const state::Relation &theirs_;
	const state::Relation &ours_;
	const LocalFacts &facts_;
	ColumnMap map_;
	bool retyped_ = false;
};

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
		Earlier earlier(input, answers);
		base = earlier.relation();
		if (!policy.owners_same)
			base.owner = input.theirs->owner;
		shifted.base = &base;
		shifted.mapped = true;
		shifted.columns = earlier.map();
		bool rewritten = input.base == nullptr || input.base->filenode != input.theirs->filenode;
		if (earlier.retyped() || rewritten)
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

} // namespace schemasync::merge
