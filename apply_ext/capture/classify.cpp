#include "core/definition.hpp"
#include "core/state_json.hpp"
#include "core/tags.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "apply_ext/capture/classify.hpp"
#include "apply_ext/capture/own_facts.hpp"

namespace schemasync::capture {

namespace {

using state::Oid;

/* The parsed states of one relation. */
struct Sides {
	std::optional<state::Relation> before, after;
	std::string name;
	bool known = false; /* it was looked for before the command */
	bool has_rows = false;
	bool published = false;
	bool temporary = false;
};

template <typename T, typename Parse>
std::optional<T>
parse(const Shape *shape, Parse &&parse_state)
{
	if (shape == nullptr || shape->json == nullptr)
		return std::nullopt;
	auto parsed = parse_state(std::string_view(shape->json));
	if (auto *value = std::get_if<T>(&parsed))
		return std::move(*value);
	return std::nullopt;
}

class Classifier {
public:
	Classifier(const Shapes *before, const Shapes *after, const merge::Command &command, const Policies &policies)
	    : before_(before), after_(after), command_(command), policies_(policies)
	{
	}

	std::vector<Finding> run();

private:
	void read_relations();
	void add(const merge::Operation &operation, Oid relation);
	void add_plain(std::string_view operation, std::string_view type, std::string identity, Verdict verdict,
	               std::string detail);
	void merge_schemas();
	void merge_types();
	void merge_relations();
	bool follows_parent(const Sides &sides) const;
	std::vector<Oid> family_of(Oid oid) const;
	bool is_rewritten(Oid oid) const;
	void merge_one(Oid oid, const Sides &sides);
	std::vector<std::pair<std::string, bool>> followers_of(std::string_view object_class) const;
	void note_other_classes();
	void note_nothing();

	const Shapes *before_, *after_;
	const merge::Command &command_;
	const Policies &policies_;
	const OwnFacts facts_;
	std::map<Oid, Sides> relations_;
	std::vector<Finding> findings_;
};

/* Every oid of a kind on either side, in the order of discovery. */
std::vector<Oid>
oids_of(const Shapes *before, const Shapes *after, ShapeKind kind)
{
	std::vector<Oid> result;
	for (const Shapes *side : {before, after})
		for (int i = 0; side != nullptr && i < side->count; i++)
			if (side->items[i].kind == kind &&
			    std::find(result.begin(), result.end(), side->items[i].oid) == result.end())
				result.push_back(side->items[i].oid);
	return result;
}

void
Classifier::read_relations()
{
	for (Oid oid : oids_of(before_, after_, ShapeKind::Relation)) {
		const Shape *before = find_shape(before_, ShapeKind::Relation, oid);
		const Shape *after = find_shape(after_, ShapeKind::Relation, oid);
		Sides &sides = relations_[oid];
		sides.before = parse<state::Relation>(before, state::parse_relation);
		sides.after = parse<state::Relation>(after, state::parse_relation);
		sides.known = before != nullptr || (sides.after && sides.after->created_here);
		for (const Shape *shape : {before, after}) {
			if (shape == nullptr || shape->json == nullptr)
				continue;
			sides.name = shape->name != nullptr ? shape->name : "";
			sides.published |= shape->published;
			sides.temporary |= shape->temporary;
		}
		sides.has_rows = before != nullptr && before->has_rows;
		if (sides.after)
			sides.after->inserts_only = after->inserts_only;
	}
}

void
Classifier::add(const merge::Operation &operation, Oid relation)
{
	const merge::OperationInfo &info = merge::info(operation.op);
	Finding finding;
	finding.operation = operation;
	finding.lock = info.lock;
	finding.cost = info.cost;
	finding.severity = merge::name(info.severity);
	if (info.cost == "rewrite" || operation.op == merge::Op::AddColumn)
		for (Oid member : family_of(relation))
			finding.rewrite |= is_rewritten(member);
	findings_.push_back(std::move(finding));
}

/* Something that no operation of the catalog stands for. */
void
Classifier::add_plain(std::string_view operation, std::string_view type, std::string identity,
                      Verdict verdict, std::string detail)
{
	Finding finding;
	finding.operation.operation = operation;
	finding.operation.object_type = type;
	finding.operation.object_identity = std::move(identity);
	finding.operation.verdict = verdict;
	finding.operation.detail = std::move(detail);
	finding.severity = "info";
	findings_.push_back(std::move(finding));
}

void
Classifier::merge_schemas()
{
	for (Oid oid : oids_of(before_, after_, ShapeKind::Schema)) {
		auto before = parse<state::Schema>(find_shape(before_, ShapeKind::Schema, oid), state::parse_schema);
		auto after = parse<state::Schema>(find_shape(after_, ShapeKind::Schema, oid), state::parse_schema);
		if (!after) {
			if (before)
				add_plain("drop_schema", "schema", before->name.name, Verdict::Ignore,
				          "The subscriber keeps its schema.");
			continue;
		}
		bool there = before && before->name.name == after->name.name;
		merge::Result result =
		    merge::merge_schema(before ? &*before : nullptr, *after, there, policies_.all.policy, before.has_value());
		for (const merge::Operation &operation : result.operations)
			add(operation, 0);
	}
}

void
Classifier::merge_types()
{
	for (Oid oid : oids_of(before_, after_, ShapeKind::Type)) {
		auto before = parse<state::Type>(find_shape(before_, ShapeKind::Type, oid), state::parse_type);
		auto after = parse<state::Type>(find_shape(after_, ShapeKind::Type, oid), state::parse_type);
		if (!before && !after)
			continue;
		const state::Type *base = before ? &*before : nullptr;
		merge::Result result = merge::merge_type(base, after ? &*after : nullptr, base, command_, policies_.all.policy);
		for (const merge::Operation &operation : result.operations)
			add(operation, 0);
	}
}

/* A change of a parent reaches its partitions and children by itself. */
bool
Classifier::follows_parent(const Sides &sides) const
{
	if (!sides.before || !sides.after)
		return false;
	for (const state::Name &parent : sides.after->parents) {
		bool had = std::any_of(sides.before->parents.begin(), sides.before->parents.end(),
		                       [&](const state::Name &name) { return name.oid == parent.oid; });
		if (had && relations_.count(parent.oid) != 0)
			return true;
	}
	return false;
}

/* The relation and its partitions and children after the command. */
std::vector<Oid>
Classifier::family_of(Oid oid) const
{
	std::vector<Oid> family{oid};
	auto is_member = [&](Oid wanted) {
		return std::find(family.begin(), family.end(), wanted) != family.end();
	};
	for (std::size_t size = 0; size != family.size();) {
		size = family.size();
		for (const auto &[child, sides] : relations_)
			if (sides.after && !is_member(child) &&
			    std::any_of(sides.after->parents.begin(), sides.after->parents.end(),
			                [&](const state::Name &parent) { return is_member(parent.oid); }))
				family.push_back(child);
	}
	return family;
}

bool
Classifier::is_rewritten(Oid oid) const
{
	return std::any_of(command_.rewrites.begin(), command_.rewrites.end(),
	                   [&](const merge::RewriteHint &hint) { return hint.relation == oid; });
}

void
Classifier::merge_one(Oid oid, const Sides &sides)
{
	merge::RelationInput input;
	input.base = sides.before ? &*sides.before : nullptr;
	input.theirs = sides.after ? &*sides.after : nullptr;
	input.ours = input.base;
	input.mapped = input.base != nullptr;
	input.has_rows = sides.has_rows;
	if (input.base != nullptr)
		for (const state::Column &column : input.base->columns)
			input.columns.pairs.emplace_back(column.attnum, column.attnum);

	bool rewritten = false;
	for (Oid member : family_of(oid)) {
		rewritten |= is_rewritten(member);
		if (member != oid)
			input.descendants.push_back(&*relations_.at(member).after);
	}
	const Policy &policy = options_of(policies_, before_, after_, oid).policy;
	input.rows_follow = rewritten && policy.rewrites == Choice::Carry;

	merge::Result result = merge::merge_relation(input, command_, policy, &facts_);
	for (const merge::Operation &operation : result.operations)
		add(operation, oid);
	/* as one command is judged: a later one of the transaction may give it another */
	if (result.identity_lost)
		add(merge::lost_identity(sides.name), oid);
}

void
Classifier::merge_relations()
{
	for (Oid oid : oids_of(before_, after_, ShapeKind::Relation)) {
		const Sides &sides = relations_[oid];
		/* what was not looked for before the command cannot be told from what was not there */
		if (sides.temporary || !sides.known || (!sides.before && !sides.after) || follows_parent(sides))
			continue;
		if (!sides.published) {
			add_plain("unpublished", "table", sides.name, Verdict::Ignore,
			          "No publication covers the table.");
			continue;
		}
		merge_one(oid, sides);
	}
}

/*
 * Whether the class is followed; of the classes that a table may have of its own, for each table that the command
 * touches, unless it is the same for all: then, and where none is touched, the name is empty.
 */
std::vector<std::pair<std::string, bool>>
Classifier::followers_of(std::string_view object_class) const
{
	auto follows = [&](const catalog::Options &options) {
		return options.ddl_classes != nullptr && merge::names_class(options.ddl_classes, object_class);
	};
	std::vector<std::pair<std::string, bool>> result;
	if (object_class != "views" && object_class != "functions" && object_class != "extensions")
		for (const auto &[oid, sides] : relations_)
			if (!sides.temporary && !follows_parent(sides))
				result.emplace_back(sides.name, follows(options_of(policies_, before_, after_, oid)));
	bool same = std::all_of(result.begin(), result.end(),
	                        [&](const auto &one) { return one.second == result.front().second; });
	if (same)
		result = {{"", result.empty() ? follows(policies_.all) : result.front().second}};
	return result;
}

/* Commands on objects that are followed by their definition, if at all. */
void
Classifier::note_other_classes()
{
	const CommandTag *tag = find_tag(command_.tag);
	if (tag == nullptr || tag->policy == TagPolicy::Structure)
		return;

	std::string identity = !command_.objects.empty()   ? command_.objects.front().identity
	                       : !command_.dropped.empty() ? command_.dropped.front().identity
	                                                   : std::string();
	std::string type = !command_.objects.empty()   ? command_.objects.front().type
	                   : !command_.dropped.empty() ? command_.dropped.front().type
	                                               : std::string(tag->object_class);
	std::string operation = command_.tag;
	std::transform(operation.begin(), operation.end(), operation.begin(), [](char c) {
		return c == ' ' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
	});
	std::string object_class(tag->object_class);
	switch (tag->policy) {
	case TagPolicy::Definition:
		for (const auto &[table, follows] : followers_of(object_class))
			add_plain(operation, type, table.empty() ? identity : table,
			          follows ? Verdict::Forward : Verdict::Ignore,
			          follows ? "It is followed by its definition."
			                  : "The option ddl_classes does not name the class " + object_class + ".");
		break;
	case TagPolicy::Publication:
		add_plain(operation, type, identity, Verdict::Forward, "Subscriptions with auto_refresh follow it.");
		break;
	case TagPolicy::Dependency:
		add_plain(operation, type, identity, Verdict::Ignore,
		          "It is not replicated; what needs it is refused as missing_object where it is missing.");
		break;
	default:
		add_plain(operation, type, identity, Verdict::Ignore, "It is a matter of this server alone.");
		break;
	}
}

void
Classifier::note_nothing()
{
	if (findings_.empty())
		add_plain("none", "", "", Verdict::Ignore, "The command changes nothing that a subscriber follows.");
}

std::vector<Finding>
Classifier::run()
{
	read_relations();
	merge_schemas();
	merge_types();
	merge_relations();
	note_other_classes();
	note_nothing();
	return std::move(findings_);
}

} // namespace

void
estimate_rows(merge::Command &command, const Shapes *before)
{
	for (merge::RewriteHint &hint : command.rewrites) {
		const Shape *shape = find_shape(before, ShapeKind::Relation, hint.relation);
		if (shape != nullptr && shape->has_rows)
			hint.rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(shape->row_count));
	}
}

const catalog::Options &
options_of(const Policies &policies, const Shapes *before, const Shapes *after, Oid relid)
{
	const Shape *shape = find_shape(before, ShapeKind::Relation, relid);
	if (shape == nullptr || shape->json == nullptr)
		shape = find_shape(after, ShapeKind::Relation, relid);
	return policy_for(policies, relid, shape);
}

std::vector<Finding>
classify(const Shapes *before, const Shapes *after, const merge::Command &command, const Policies &policies)
{
	return Classifier(before, after, command, policies).run();
}

} // namespace schemasync::capture
