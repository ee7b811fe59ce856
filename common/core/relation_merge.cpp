/*
 * The course of the merge of one relation, and what its parts share.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

bool
is_array(const state::TypeRef &type)
{
	return !type.element.empty();
}

/* A type's parameter as PostgreSQL stores it is four more than the length. */
constexpr std::int32_t header = 4;

std::int32_t
length_limit(const state::TypeRef &type)
{
	return type.typmod < header ? -1 : type.typmod - header;
}

/* Whether a USING is nothing but the column. */
bool
leaves_value(const UsingHint *hint, const state::Column &column)
{
	return hint == nullptr || !hint->given ||
	       (hint->expr && (hint->expr->sql == sql::shown(column.name) || hint->expr->sql == sql::ident(column.name)));
}

} // namespace

const state::Column *
find_column(const state::Relation &relation, AttrNumber attnum)
{
	for (const state::Column &column : relation.columns)
		if (column.attnum == attnum)
			return &column;
	return nullptr;
}

const state::Column *
find_column(const state::Relation &relation, std::string_view name)
{
	for (const state::Column &column : relation.columns)
		if (column.name == name)
			return &column;
	return nullptr;
}

RelationMerge::RelationMerge(const RelationInput &input, const Command &command, const Policy &policy,
                             const LocalFacts &facts)
    : input_(input), command_(command), policy_(policy), facts_(facts), base_(input.base),
      theirs_(input.theirs), ours_(input.ours)
{
	const state::Relation *named = ours_ != nullptr ? ours_ : theirs_ != nullptr ? theirs_ : base_;
	if (named != nullptr) {
		schema_ = named->name.schema;
		name_ = named->name.name;
	}
	if (ours_ != nullptr)
		load_columns();
}

/*
 * The order is that of the server's own passes over one ALTER TABLE: what goes away first, so that names are
 * free, then renames, then the types of what stays, then what is new, then what may refer to it.
 */
Result
RelationMerge::run()
{
	const state::Relation *subject = theirs_ != nullptr ? theirs_ : base_;
	if (subject == nullptr)
		return std::move(result_);
	if (!subject->extension.empty()) {
		ignore(on_table(Op::ExtensionMember,
		                "table " + shown_table() + " of extension " + subject->extension + " changed"),
		       "members of an extension are changed by the extension's own scripts on each side");
	} else if (theirs_ == nullptr) {
		drop();
	} else if (base_ == nullptr) {
		ours_ == nullptr ? create() : adopt();
	} else if (ours_ == nullptr) {
		Operation &operation = on_table(Op::Unsupported, "table " + shown_table() + " changed");
		refuse(operation, Reason::MissingObject, "The subscriber's table is missing.");
		teach(operation, shown_table());
	} else {
		match_constraints();
		match_indexes();
		unsupported_changes();
		table_names();
		table_detach();
		drop_constraints();
		drop_indexes();
		drop_expressions();
		drop_columns();
		rename_columns();
		rename_constraints();
		not_null_constraints();
		rename_indexes();
		change_types();
		add_columns();
		first_after_rows_ = result_.operations.size();
		column_attributes();
		add_indexes();
		add_constraints();
		table_properties();
		table_parents();
		table_rewrite();
	}
	finish();
	return std::move(result_);
}

/* Of commands that nobody saw, not even the order is known: one that rewrote rows may have read what another
 * made. */
void
RelationMerge::find_interacting()
{
	auto unproven = [](const Operation &operation) {
		return operation.verdict == Verdict::Refuse &&
		       (operation.reason == Reason::TypeChangeUnproven ||
		        operation.reason == Reason::VolatileDefault ||
		        operation.reason == Reason::DefaultUnreadable || operation.reason == Reason::RewriteUnproven);
	};
	auto &found = result_.operations;
	if (command_.captured || std::count_if(found.begin(), found.end(), unproven) < 2)
		return;
	for (Operation &operation : found)
		if (unproven(operation)) {
			refuse(
			    operation, Reason::MultiShapeUnordered,
			    operation.detail +
			        " Other changes of the table came with it, in an order that no event trigger recorded.");
			teach(operation, shown_table());
		}
}

std::vector<AttrNumber>
RelationMerge::unchanged_key() const
{
	auto key_of = [](const state::Relation &relation) -> std::vector<AttrNumber> {
		for (const state::Constraint &constraint : relation.constraints)
			if (constraint.type == 'p')
				return constraint.columns;
		return relation.replica_identity == 'i' ? relation.identity_columns : std::vector<AttrNumber>();
	};
	std::vector<AttrNumber> key = key_of(*theirs_);
	if (key != key_of(*base_))
		return {};
	for (AttrNumber attnum : key) {
		const state::Column *was = find_column(*base_, attnum), *is = find_column(*theirs_, attnum);
		if (was == nullptr || is == nullptr || was->type.oid != is->type.oid || was->type.typmod != is->type.typmod ||
		    was->collation != is->collation || !leaves_value(using_hint(attnum), *is))
			return {};
	}
	return key;
}

/* What the rows must fulfil, or what is made of them, comes after them. */
void
RelationMerge::await_rows()
{
	if (!result_.needs_rows)
		return;
	result_.key = unchanged_key();
	for (std::size_t i = first_after_rows_; i < result_.operations.size(); i++) {
		Operation &operation = result_.operations[i];
		if (operation.verdict != Verdict::Forward || operation.background)
			continue;
		operation.sql_after.insert(operation.sql_after.begin(), operation.sql.begin(), operation.sql.end());
		operation.sql.clear();
	}
}

/* A refusal for the values of rewritten rows says how many there are. */
void
RelationMerge::count_rows()
{
	std::int64_t rows = 0;

	for (const RewriteHint &hint : command_.rewrites) {
		bool concerns = hint.relation == theirs_->name.oid;
		for (const state::Relation *descendant : input_.descendants)
			concerns = concerns || hint.relation == descendant->name.oid;
		rows += concerns ? hint.rows : 0;
	}
	if (rows == 0 || input_.rows_follow)
		return;
	for (Operation &operation : result_.operations)
		if (operation.verdict == Verdict::Refuse &&
		    (operation.reason == Reason::VolatileDefault || operation.reason == Reason::DefaultUnreadable ||
		     operation.reason == Reason::TypeChangeUnproven || operation.reason == Reason::RewriteUnproven))
			operation.detail += " The publisher rewrote " + std::to_string(rows) +
			                    (rows == 1 ? " row" : " rows") + ", which rewrites = carry would bring.";
}

void
RelationMerge::finish()
{
	find_interacting();
	if (base_ != nullptr && theirs_ != nullptr && ours_ != nullptr) {
		await_rows();
		count_rows();
	}
	apply_schema_changes(result_, policy_);
	result_.needs_rows = result_.needs_rows && policy_.schema_changes == SchemaChanges::Forward;
	if (theirs_ == nullptr)
		return;
	/* nothing is done: the subscriber's columns are named as they were */
	if (policy_.schema_changes == SchemaChanges::Ignore && ours_ != nullptr) {
		columns_.clear();
		load_columns();
	}
	for (const state::Column &column : theirs_->columns) {
		LocalColumn *local = local_of(column.attnum);
		/* made here by hand: the values of rows to come belong there */
		if (local == nullptr && policy_.schema_changes == SchemaChanges::Ignore)
			if (local = local_named(column.name); local != nullptr && local->publisher != 0)
				local = nullptr;
		if (local != nullptr)
			result_.local_columns.emplace_back(column.attnum, local->name);
	}
}

void
RelationMerge::load_columns()
{
	for (const state::Column &column : ours_->columns) {
		LocalColumn local;
		local.column = &column;
		local.name = column.name;
		for (const auto &[publisher, subscriber] : input_.columns.pairs)
			if (subscriber == column.attnum)
				local.publisher = publisher;
		columns_.push_back(std::move(local));
	}
}

LocalColumn *
RelationMerge::local_of(AttrNumber publisher)
{
	for (LocalColumn &local : columns_)
		if (local.publisher == publisher && !local.dropped)
			return &local;
	return nullptr;
}

LocalColumn *
RelationMerge::local_named(std::string_view name)
{
	for (LocalColumn &local : columns_)
		if (local.name == name && !local.dropped)
			return &local;
	return nullptr;
}

Operation &
add_operation(Result &result, Op op, const std::string &identity, std::string change)
{
	const OperationInfo &entry = info(op);
	Operation operation;
	operation.op = op;
	operation.operation = entry.code;
	operation.object_type = entry.object_type;
	operation.object_identity = identity;
	operation.verdict = Verdict::Forward;
	operation.change = std::move(change);
	result.operations.push_back(std::move(operation));
	return result.operations.back();
}

Operation &
RelationMerge::add(Op op, const std::string &identity, std::string change)
{
	return add_operation(result_, op, identity, std::move(change));
}

Operation &
RelationMerge::on_column(Op op, std::string_view column, std::string change)
{
	return add(op, shown_column(column), std::move(change));
}

Operation &
RelationMerge::on_table(Op op, std::string change)
{
	return add(op, shown_table(), std::move(change));
}

std::string
RelationMerge::alter_column(std::string_view column, std::string_view action) const
{
	std::string whole = "ALTER COLUMN " + sql::ident(column) + " " + std::string(action);
	/* these two go with ONLY where nothing inherits, so it says nothing of what does here, and would be an error */
	return action.starts_with("TYPE ") || action == "DROP EXPRESSION" ? alter(whole) : alter_alone(whole);
}

/* ONLY where the publisher's command said so: what inherits may be other there. Of a partitioned table only what it may
 * have for itself, lest partitions that are only here make an error of it. */
std::string
RelationMerge::alter_alone(std::string_view action) const
{
	bool shared = action.starts_with("DROP ") || action.ends_with(" NOT NULL");
	bool only = has_subcommand("ONLY") && !(ours_ != nullptr && ours_->relkind == 'p' && shared);
	return (only ? "ALTER TABLE ONLY " : "ALTER TABLE ") + table() + " " + std::string(action);
}

/* Types that are not built in have other oids on each side: the mapping of types decides, or their names. */
bool
RelationMerge::same_local_type(const state::TypeRef &theirs, const state::TypeRef &ours) const
{
	if (theirs.typmod != ours.typmod || is_array(theirs) != is_array(ours))
		return false;
	if (is_array(theirs))
		return same_local_type(theirs.element[0], ours.element[0]);
	if (theirs.builtin || ours.builtin)
		return theirs.builtin == ours.builtin && theirs.oid == ours.oid;
	if (Oid mapped = facts_.local_type(theirs.oid); mapped != 0)
		return mapped == ours.oid;
	return theirs.schema == ours.schema && theirs.name == ours.name;
}

/* Whether a column of type ours holds each value of theirs unchanged, so that it may stay what it is. */
bool
RelationMerge::takes_every_value(const state::TypeRef &ours, const state::TypeRef &theirs) const
{
	if (!ours.builtin || !theirs.builtin)
		return false;
	auto whole_number = [](std::string_view type) {
		return type == "int2" ? 2 : type == "int4" ? 4 : type == "int8" ? 8 : 0;
	};
	if (int width = whole_number(theirs.name); width != 0)
		return whole_number(ours.name) >= width || (ours.name == "numeric" && ours.typmod < header);
	auto text_like = [](std::string_view type) { return type == "text" || type == "varchar"; };
	if (text_like(theirs.name) && text_like(ours.name)) {
		std::int32_t limit = ours.name == "text" ? -1 : length_limit(ours);
		std::int32_t wanted = theirs.name == "text" ? -1 : length_limit(theirs);
		return limit == -1 || (wanted != -1 && limit >= wanted);
	}
	if (theirs.name == "numeric" && ours.name == "numeric")
		return ours.typmod < header;
	return theirs.name == "float4" && ours.name == "float8"
	           ? false
	           : theirs.oid == ours.oid && ours.typmod == -1 && theirs.name != "bpchar" &&
	                 theirs.name != "bit";
}

const RewriteHint *
RelationMerge::rewrite_hint() const
{
	for (const RewriteHint &hint : command_.rewrites) {
		if (theirs_ != nullptr && hint.relation == theirs_->name.oid)
			return &hint;
		for (const state::Relation *descendant : input_.descendants)
			if (hint.relation == descendant->name.oid)
				return &hint;
	}
	return nullptr;
}

const UsingHint *
RelationMerge::using_hint(AttrNumber attnum) const
{
	for (const UsingHint &hint : command_.using_hints)
		if (hint.relation == theirs_->name.oid && hint.attnum == attnum)
			return &hint;
	return nullptr;
}

bool
RelationMerge::has_subcommand(std::string_view name) const
{
	return std::find(command_.subcommands.begin(), command_.subcommands.end(), name) !=
	       command_.subcommands.end();
}

bool
RelationMerge::has_dropped(std::string_view class_name, Oid oid) const
{
	return std::any_of(command_.dropped.begin(), command_.dropped.end(), [&](const DroppedObject &object) {
		return object.oid == oid && object.class_name == class_name;
	});
}

/* A rewrite of which no row was decoded shows that the publisher's table is empty; then so is ours, or it is
 * our own. */
bool
RelationMerge::has_rows() const
{
	if (!input_.has_rows)
		return false;
	if (!command_.captured)
		return true;
	bool any = false;
	for (const RewriteHint &hint : command_.rewrites) {
		bool concerns = hint.relation == theirs_->name.oid;
		for (const state::Relation *descendant : input_.descendants)
			concerns = concerns || hint.relation == descendant->name.oid;
		if (concerns && hint.rows != 0)
			return true;
		any = any || (concerns && hint.relation == theirs_->name.oid);
	}
	/* one empty table says nothing of its children */
	return !(any && input_.descendants.empty());
}

/* Known of a rewrite by which no row came. */
bool
RelationMerge::publisher_is_empty() const
{
	bool none = false;
	for (const RewriteHint &hint : command_.rewrites) {
		if (hint.relation == theirs_->name.oid && hint.rows != 0)
			return false;
		none = none || hint.relation == theirs_->name.oid;
	}
	return none;
}

bool
RelationMerge::rewritten() const
{
	if (input_.rows_follow)
		return true;
	if (command_.captured)
		return rewrite_hint() != nullptr;
	if (theirs_->relkind == 'p')
		return true;
	return base_->filenode == 0 || base_->filenode != theirs_->filenode;
}

bool
RelationMerge::release_dependents(Operation &operation, AttrNumber local_attnum)
{
	std::vector<std::string> standing;
	for (const Dependent &dependent : facts_.dependents(*ours_, local_attnum)) {
		bool went =
		    std::any_of(command_.dropped.begin(), command_.dropped.end(), [&](const DroppedObject &object) {
			    return object.type == dependent.type && object.identity == dependent.identity;
		    });
		if (went && dependent.type == "table constraint")
			operation.sql.push_back("ALTER TABLE " + sql::qualified(dependent.schema, dependent.table) +
			                        " DROP CONSTRAINT " + sql::ident(dependent.name));
		else
			standing.push_back(dependent.type + " " + dependent.identity);
	}
	if (standing.empty())
		return true;
	operation.suggested_sql = operation.sql.empty() ? "" : sql::join(operation.sql, ";\n");
	refuse(operation, Reason::LocalDependents,
	       "These objects of the subscriber depend on it and would be lost: " + sql::join(standing, ", ") +
	           ".");
	return false;
}

void
RelationMerge::refuse_by_policy(Operation &operation, const std::string &statement, std::string why)
{
	if (operation.verdict == Verdict::Refuse) {
		why += " " + operation.detail;
		operation.suggested_sql.clear();
	} else {
		operation.sql.push_back(statement);
		operation.suggested_sql = sql::join(operation.sql, ";\n");
	}
	refuse(operation, Reason::PolicyRefuse, std::move(why));
	teach(operation, shown_table());
}

bool
Result::refused() const
{
	return std::any_of(operations.begin(), operations.end(),
	                   [](const Operation &operation) { return operation.verdict == Verdict::Refuse; });
}

bool
Result::replaces_rows() const
{
	return needs_rows && std::any_of(operations.begin(), operations.end(),
	                                 [](const Operation &operation) { return operation.replace_rows; });
}

void
satisfy(Operation &operation, std::string detail)
{
	operation.verdict = Verdict::Satisfied;
	operation.detail = std::move(detail);
	operation.sql.clear();
}

void
ignore(Operation &operation, std::string detail)
{
	operation.verdict = Verdict::Ignore;
	operation.detail = std::move(detail);
	operation.sql.clear();
}

void
refuse(Operation &operation, Reason reason, std::string detail)
{
	operation.verdict = Verdict::Refuse;
	operation.reason = reason;
	operation.detail = std::move(detail);
	operation.sql.clear();
	operation.sql_after.clear();
}

void
apply_schema_changes(Result &result, const Policy &policy)
{
	if (policy.schema_changes == SchemaChanges::Forward)
		return;
	for (Operation &operation : result.operations) {
		if (operation.verdict == Verdict::Satisfied || operation.verdict == Verdict::Ignore)
			continue;
		if (policy.schema_changes == SchemaChanges::Ignore) {
			ignore(operation, "schema_changes = ignore");
			operation.reason = Reason::None;
			operation.sql_after.clear();
		} else if (operation.verdict != Verdict::Refuse) {
			operation.suggested_sql = sql::join(operation.sql, ";\n");
			refuse(operation, Reason::PolicyRefuse, "The subscription has schema_changes = refuse.");
			teach(operation, operation.object_identity);
		}
	}
}

/* Nobody to ask: what LocalFacts itself answers. */
const LocalFacts &
no_facts()
{
	/* never destroyed: nothing of ours runs at the exit of a server process */
	static const LocalFacts *const nobody = new LocalFacts;
	return *nobody;
}

Result
merge_relation(const RelationInput &input, const Command &command, const Policy &policy,
               const LocalFacts *facts)
{
	return RelationMerge(input, command, policy, facts != nullptr ? *facts : no_facts()).run();
}

ColumnMap
map_columns_by_name(const state::Relation &theirs, const state::Relation &ours)
{
	ColumnMap result;
	for (const state::Column &column : theirs.columns)
		if (const state::Column *local = find_column(ours, column.name))
			result.pairs.emplace_back(column.attnum, local->attnum);
	return result;
}

} // namespace schemasync::merge
