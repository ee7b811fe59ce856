/*
 * Tables as a whole: created, dropped, renamed, moved; their parents and properties.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

bool
has_parent(const state::Relation &relation, const state::Name &parent)
{
	return std::any_of(relation.parents.begin(), relation.parents.end(),
	                   [&](const state::Name &other) { return other.oid == parent.oid; });
}

/* ours names its parents with local oids */
bool
has_local_parent(const state::Relation &ours, const state::Name &parent)
{
	return std::any_of(ours.parents.begin(), ours.parents.end(), [&](const state::Name &other) {
		return other.schema == parent.schema && other.name == parent.name;
	});
}

/* Of a constraint of another table that the publisher's CASCADE dropped ("name on schema.table") the statement that drops it if it is there. */
std::string
drop_foreign(const DroppedObject &object, const state::Relation &table)
{
	auto all = sql::tokens(object.identity);
	auto is_name = [](const sql::Token &token) {
		return token.kind == sql::Token::Kind::Word || token.kind == sql::Token::Kind::QuotedWord;
	};
	constexpr std::size_t parts = 5;
	if (object.type != "table constraint" || !all || all->size() != parts || (*all)[1].text != "on" || (*all)[3].text != "." ||
	    !is_name((*all)[0]) || !is_name((*all)[2]) || !is_name((*all)[4]))
		return "";
	std::string owner = std::string((*all)[2].text) + "." + std::string((*all)[4].text);
	if (owner == sql::shown(table.name.schema, table.name.name))
		return "";
	return "ALTER TABLE IF EXISTS " + owner + " DROP CONSTRAINT IF EXISTS " + std::string((*all)[0].text);
}

std::string
option_name(const std::string &option)
{
	return option.substr(0, option.find('='));
}

bool
has_option(const std::vector<std::string> &options, const std::string &name)
{
	return std::any_of(options.begin(), options.end(),
	                   [&](const std::string &option) { return option_name(option) == name; });
}

} // namespace

void
RelationMerge::create()
{
	std::string change = "table " + shown_table() + " was created";
	if (theirs_->relkind != 'r' && theirs_->relkind != 'p') {
		ignore(on_table(Op::Unsupported, "relation " + shown_table() + " was created"), "It is not a table.");
		return;
	}
	Operation &operation = on_table(Op::CreateTable, change);
	bool proven = true;
	auto check = [&](bool good) { proven = proven && good; };
	if (!facts_.schema_exists(theirs_->name.schema)) {
		refuse(operation, Reason::MissingObject,
		       "The schema " + sql::shown(theirs_->name.schema) + " is missing on the subscriber.");
		check(false);
	}
	auto check_name = [&](std::string_view schema, std::string_view name, bool taken) {
		if (proven && taken)
			refuse_taken(operation, schema, name, facts_);
		check(!taken);
	};
	check_name(theirs_->name.schema, theirs_->name.name, is_table_name_taken(theirs_->name.schema, theirs_->name.name, facts_));
	if (std::string feature = missing_feature(*theirs_, policy_, facts_.server_version());
	    proven && !feature.empty()) {
		refuse(operation, Reason::UnsupportedObject, "The subscriber's server has no " + feature + ".");
		check(false);
	}
	for (const state::Column &column : theirs_->columns) {
		check(proven && prove_type(operation, column.type, column.collation));
		std::optional<state::Expression> value = column.default_expr;
		if (value && column.sequence)
			std::erase_if(value->refs,
			              [](const state::Reference &reference) { return reference.kind == "relation"; });
		check(proven && prove(operation, value, column.generated != 0, column.generated != 0));
		if (column.sequence)
			check_name(column.sequence->name.schema, column.sequence->name.name,
			           facts_.relation_exists(column.sequence->name.schema, column.sequence->name.name));
	}
	for (const state::Constraint &constraint : theirs_->constraints) {
		if (proven && !sql::is_one_clause(constraint.definition)) {
			refuse(operation, Reason::UnsupportedObject, "The definition of a constraint is not one clause.");
			check(false);
		}
		check(proven && prove(operation, in_parentheses(constraint.expr), true));
		bool itself = constraint.references && constraint.references->oid == theirs_->name.oid;
		if (proven && constraint.references && !itself && policy_.constraints != Choice::Ignore &&
		    !facts_.table_exists(constraint.references->schema, constraint.references->name)) {
			refuse(operation, Reason::MissingObject,
			       "The table " + sql::shown(constraint.references->schema, constraint.references->name) +
			           " that a foreign key refers to is missing on the subscriber.");
			check(false);
		}
	}
	for (const state::Index &index : theirs_->indexes) {
		bool made = index.parent == 0 && index.valid &&
		            (index.primary || index.oid == theirs_->replica_identity_index ||
		             (index.constraint != 0 ? policy_.constraints : policy_.indexes) != Choice::Ignore);
		check_name(theirs_->name.schema, index.name, made && facts_.relation_exists(theirs_->name.schema, index.name));
		check(proven && (index.constraint != 0 || prove(operation, in_parentheses(index.expr), true)));
	}
	for (const state::Name &parent : theirs_->parents)
		if (proven && !facts_.table_exists(parent.schema, parent.name)) {
			refuse(operation, Reason::MissingObject,
			       "The parent table " + sql::shown(parent.schema, parent.name) +
			           " is missing on the subscriber.");
			check(false);
		}
	for (std::string_view clause :
	     {std::string_view(theirs_->partition_key), std::string_view(theirs_->partition_bound)})
		if (proven && !clause.empty() && !sql::is_one_clause(clause)) {
			refuse(operation, Reason::UnsupportedObject, "The partition clause is not one clause.");
			check(false);
		}
	if (!proven)
		return teach(operation, shown_table());
	CreateScript script = render_create(*theirs_, policy_, facts_.server_version());
	operation.sql = std::move(script.before_rows);
	operation.sql.insert(operation.sql.end(), script.after_rows.begin(), script.after_rows.end());
	if (policy_.owners_same && !theirs_->owner.empty() && facts_.role_exists(theirs_->owner))
		operation.sql.push_back(alter("OWNER TO " + sql::ident(theirs_->owner)));
	for (const state::Column &column : theirs_->columns)
		columns_.push_back({nullptr, column.attnum, column.name, false, false, true});
}

/* A table of the new table's name is there: made in advance by hand, or another one. */
void
RelationMerge::adopt()
{
	Operation &operation = on_table(Op::CreateTable, "table " + shown_table() + " was created");
	std::vector<std::string> differences;
	for (const state::Column &column : theirs_->columns) {
		LocalColumn *local = local_named(column.name);
		if (local == nullptr) {
			differences.push_back("column " + sql::shown(column.name) + " is missing");
			continue;
		}
		if (!same_local_type(column.type, local->column->type) &&
		    !takes_every_value(local->column->type, column.type))
			differences.push_back("column " + sql::shown(column.name) + " is " + local->column->type.sql +
			                      ", not " + column.type.sql);
		if ((local->column->generated != 0) != (column.generated != 0))
			differences.push_back("column " + sql::shown(column.name) + " is generated on one side only");
		local->publisher = column.attnum;
		local->adopted = true;
	}
	for (const LocalColumn &local : columns_)
		if (local.publisher == 0 && local.column->not_null && !local.column->default_expr &&
		    local.column->identity == 0)
			differences.push_back("column " + sql::shown(local.name) +
			                      " is the subscriber's own, NOT NULL and without a default");
	if (policy_.drop_table == Choice::Keep && has_rows() && !input_.resumed)
		differences.push_back("it may be one that drop_table = keep left here, with its old rows");
	if (theirs_->relkind != ours_->relkind)
		differences.push_back("one is partitioned and the other is not");
	if (!differences.empty()) {
		refuse(operation, Reason::LocalNameTaken,
		       "The subscriber has a table of that name that does not fit: " + sql::join(differences, "; ") +
		           ".");
		operation.suggested_sql =
		    alter("RENAME TO " + sql::ident(name_beside(name_, "_local", [&](const std::string &other) {
			          return is_table_name_taken(schema_, other, facts_);
		          })));
		return teach(operation, shown_table());
	}
	satisfy(operation, "The subscriber has a table of that name and shape.");
	match_constraints();
	match_indexes();
	column_attributes();
	add_indexes();
	add_constraints();
	/* what it had all along is not worth a line */
	std::erase_if(result_.operations, [](const Operation &done) {
		return done.verdict == Verdict::Satisfied && done.op != Op::CreateTable;
	});
}

void
RelationMerge::drop()
{
	Operation &operation =
	    on_table(Op::DropTable, "table " + sql::shown(base_->name.schema, base_->name.name) + " was dropped");
	if (ours_ == nullptr)
		return satisfy(operation, "The subscriber has no such table.");
	std::string statement = "DROP TABLE " + table();
	if (policy_.drop_table == Choice::Keep)
		return ignore(operation, "The subscription has drop_table = keep.");
	bool released = release_dependents(operation, 0);
	/* those of the tables that are at work before this one are gone already, until this refusal takes it back */
	if (policy_.drop_table == Choice::Refuse && released)
		for (const DroppedObject &object : command_.dropped)
			if (std::string before = drop_foreign(object, *base_); !before.empty())
				operation.sql.push_back(before);
	if (policy_.drop_table == Choice::Refuse)
		return refuse_by_policy(operation, statement, "The subscription has drop_table = refuse.");
	if (!released)
		return teach(operation, shown_table());
	operation.sql.push_back(statement);
}

/* Schema first: the name may be free in the one and taken in the other. */
void
RelationMerge::table_names()
{
	std::string was = sql::shown(base_->name.schema, base_->name.name);
	std::string is = sql::shown(theirs_->name.schema, theirs_->name.name);
	bool moved = base_->name.schema != theirs_->name.schema;
	bool renamed = base_->name.name != theirs_->name.name;
	if (!moved && !renamed)
		return;
	bool there = schema_ == theirs_->name.schema && name_ == theirs_->name.name;
	Op op = moved ? Op::SetTableSchema : Op::RenameTable;
	std::string change = "table " + was + (moved ? " was moved to " : " was renamed to ") + is;
	Operation &operation = add(op, is, change);
	if (there)
		return satisfy(operation, "The subscriber's table has that name.");
	if (schema_ != base_->name.schema || name_ != base_->name.name) {
		refuse(operation, Reason::LocalDrift, "The subscriber's table is named " + shown_table() + ".");
		return teach(operation, shown_table());
	}
	if (moved && !facts_.schema_exists(theirs_->name.schema)) {
		refuse(operation, Reason::MissingObject,
		       "The schema " + sql::shown(theirs_->name.schema) + " is missing on the subscriber.");
		return teach(operation, shown_table());
	}
	if (is_table_name_taken(theirs_->name.schema, theirs_->name.name, facts_)) {
		refuse_taken(operation, theirs_->name.schema, theirs_->name.name, facts_);
		return teach(operation, shown_table());
	}
	/* both at once, and the old name is taken in the new schema or the new one in the old: by way of a name
	 * of our own */
	std::string aside = name_;
	if (moved && renamed) {
		aside = "schemasync_rename_" + std::to_string(theirs_->name.oid);
		operation.sql.push_back(alter("RENAME TO " + sql::ident(aside)));
		name_ = aside;
	}
	if (moved) {
		operation.sql.push_back(alter("SET SCHEMA " + sql::ident(theirs_->name.schema)));
		schema_ = theirs_->name.schema;
	}
	if (name_ != theirs_->name.name) {
		operation.sql.push_back(alter("RENAME TO " + sql::ident(theirs_->name.name)));
		name_ = theirs_->name.name;
	}
}

void
RelationMerge::table_detach()
{
	/* it may still be one of theirs: that cannot be seen any more */
	if (theirs_->partition_hidden)
		return;
	for (const state::Name &parent : base_->parents) {
		bool rebound = has_parent(*theirs_, parent) && base_->partition_bound != theirs_->partition_bound;
		if (has_parent(*theirs_, parent) && !rebound)
			continue;
		bool partition = !base_->partition_bound.empty();
		std::string shown = sql::shown(parent.schema, parent.name);
		Operation &operation =
		    on_table(partition ? Op::DetachPartition : Op::ChangeParents,
		             "table " + shown_table() +
		                 (partition ? " was detached from " : " no longer inherits from ") + shown);
		state::Name local = facts_.local_relation(parent.oid).value_or(parent);
		if (!has_local_parent(*ours_, local))
			satisfy(operation, "The subscriber's table has no such parent.");
		else if (partition)
			operation.sql = {"ALTER TABLE " + sql::qualified(local) + " DETACH PARTITION " + table()};
		else
			operation.sql = {alter("NO INHERIT " + sql::qualified(local))};
	}
}

void
RelationMerge::table_parents()
{
	for (const state::Name &parent : theirs_->parents) {
		bool rebound = has_parent(*base_, parent) && base_->partition_bound != theirs_->partition_bound;
		if (has_parent(*base_, parent) && !rebound)
			continue;
		bool partition = !theirs_->partition_bound.empty();
		std::string shown = sql::shown(parent.schema, parent.name);
		Operation &operation =
		    on_table(partition ? Op::AttachPartition : Op::ChangeParents,
		             "table " + shown_table() + (partition ? " was attached to " : " inherits from ") +
		                 shown + (partition ? " " + theirs_->partition_bound : ""));
		state::Name local = facts_.local_relation(parent.oid).value_or(parent);
		if (has_local_parent(*ours_, local) && !rebound &&
		    ours_->partition_bound == theirs_->partition_bound) {
			satisfy(operation, "The subscriber's table has that parent.");
		} else if (!facts_.table_exists(local.schema, local.name)) {
			refuse(operation, Reason::MissingObject,
			       "The parent table " + shown + " is missing on the subscriber.");
			teach(operation, shown_table());
		} else if (partition && !sql::is_one_clause(theirs_->partition_bound)) {
			refuse(operation, Reason::UnsupportedObject, "The partition bound is not one clause.");
			teach(operation, shown_table());
		} else if (partition) {
			operation.sql = {"ALTER TABLE " + sql::qualified(local) + " ATTACH PARTITION " + table() + " " +
			                 theirs_->partition_bound};
		} else {
			operation.sql = {alter("INHERIT " + sql::qualified(local))};
		}
	}
}

void
RelationMerge::table_properties()
{
	if (base_->owner != theirs_->owner && !base_->owner.empty() && !theirs_->owner.empty()) {
		Operation &operation =
		    on_table(Op::ChangeTableOwner, "owner of " + shown_table() + " is " + sql::shown(theirs_->owner));
		if (!policy_.owners_same)
			ignore(operation, "The subscription has owners = subscription.");
		else if (ours_->owner == theirs_->owner)
			satisfy(operation, "The subscriber's table has that owner.");
		else if (!facts_.role_exists(theirs_->owner)) {
			refuse(operation, Reason::MissingObject,
			       "The role " + sql::shown(theirs_->owner) + " is missing on the subscriber.");
			teach(operation, shown_table());
		} else
			operation.sql = {alter("OWNER TO " + sql::ident(theirs_->owner))};
	}
	access_method();
	if (base_->options != theirs_->options) {
		std::vector<std::string> gone, set;
		for (const std::string &option : base_->options)
			if (!has_option(theirs_->options, option_name(option)) &&
			    has_option(ours_->options, option_name(option)))
				gone.push_back(sql::ident(option_name(option)));
		for (const std::string &option : theirs_->options)
			if (std::find(base_->options.begin(), base_->options.end(), option) == base_->options.end() &&
			    std::find(ours_->options.begin(), ours_->options.end(), option) == ours_->options.end())
				set.push_back(option);
		Operation &operation =
		    on_table(Op::SetTableOptions, "storage parameters of " + shown_table() + " changed");
		if (gone.empty() && set.empty())
			satisfy(operation, "The subscriber's table has them.");
		if (!gone.empty())
			operation.sql.push_back(alter("RESET (" + sql::join(gone, ", ") + ")"));
		if (!set.empty())
			operation.sql.push_back(alter("SET " + options_sql(set)));
	}
	auto flag = [&](bool before, bool now, bool local, const char *what, const char *on, const char *off) {
		if (before == now)
			return;
		Operation &operation = on_table(Op::SetRowSecurity, std::string(what) + " of " + shown_table() +
		                                                        (now ? " is on" : " is off"));
		if (local == now)
			satisfy(operation, "The subscriber's table is so.");
		else
			operation.sql = {alter(now ? on : off)};
	};
	flag(base_->rls, theirs_->rls, ours_->rls, "row security", "ENABLE ROW LEVEL SECURITY",
	     "DISABLE ROW LEVEL SECURITY");
	flag(base_->force_rls, theirs_->force_rls, ours_->force_rls, "forced row security",
	     "FORCE ROW LEVEL SECURITY", "NO FORCE ROW LEVEL SECURITY");
	replica_identity();
	auto type_oid = [](const std::optional<state::Name> &type) { return type ? type->oid : 0; };
	if (type_oid(base_->of_type) != type_oid(theirs_->of_type)) {
		Operation &operation = on_table(Op::ChangeTableType,
		                                "table " + shown_table() +
		                                    (theirs_->of_type ? " is of a type" : " is no longer of a type"));
		if (theirs_->of_type.has_value() == ours_->of_type.has_value() &&
		    (!theirs_->of_type || theirs_->of_type->name == ours_->of_type->name))
			satisfy(operation, "The subscriber's table is so.");
		else
			operation.sql = {
			    alter(theirs_->of_type ? "OF " + sql::qualified(*theirs_->of_type) : std::string("NOT OF"))};
	}
}

/* A partitioned table has one since 17: what its new partitions get. None is the server's default. */
void
RelationMerge::access_method()
{
	const std::string &method = theirs_->access_method;
	bool partitioned = theirs_->relkind == 'p';
	if (base_->access_method == method || (!partitioned && (theirs_->relkind != 'r' || method.empty())))
		return;
	Operation &operation =
	    on_table(Op::SetAccessMethod, "access method of " + shown_table() + " is " +
	                                      (method.empty() ? std::string("the default") : sql::shown(method)));
	if (ours_->access_method == method)
		satisfy(operation, "The subscriber's table has that access method.");
	else if (partitioned && facts_.server_version() != 0 && facts_.server_version() < 170000)
		ignore(operation, "The subscriber's server has no access method of partitioned tables; each partition has "
		                  "its own.");
	else
		operation.sql = {alter("SET ACCESS METHOD " + (method.empty() ? std::string("DEFAULT") : sql::ident(method)))};
}

/* Perhaps on the way to another one, in the same transaction. */
void
RelationMerge::lose_identity(Operation &operation)
{
	ignore(operation, "The table has no replica identity.");
	result_.identity_lost = policy_.schema_changes != SchemaChanges::Ignore && !theirs_->inserts_only;
}

void
RelationMerge::replica_identity()
{
	const state::Index *wanted = nullptr;
	const state::Index *local = nullptr;
	if (theirs_->replica_identity == 'i') {
		for (const state::Index &index : theirs_->indexes)
			if (index.oid == theirs_->replica_identity_index)
				wanted = &index;
		for (const Triple<state::Index> &triple : indexes_)
			if (triple.theirs == wanted)
				local = triple.ours;
	}
	/* a primary key that is deferrable is none */
	bool deferrable = std::any_of(theirs_->constraints.begin(), theirs_->constraints.end(),
	                              [](const state::Constraint &c) { return c.type == 'p' && c.deferrable; });
	if (theirs_->replica_identity == 'd' && deferrable && !has_identity(*theirs_) && !base_->identity_columns.empty())
		lose_identity(on_table(Op::SetReplicaIdentity,
		                       "the primary key of " + shown_table() + " is deferrable and no replica identity"));
	bool other_index =
	    theirs_->replica_identity == 'i' && base_->replica_identity_index != theirs_->replica_identity_index;
	if (base_->replica_identity == theirs_->replica_identity && !other_index)
		return;
	constexpr std::string_view words = "dnf";
	std::string kind = theirs_->replica_identity == 'i'   ? "USING INDEX"
	                   : theirs_->replica_identity == 'f' ? "FULL"
	                   : theirs_->replica_identity == 'n' ? "NOTHING"
	                                                      : "DEFAULT";
	Operation &operation =
	    on_table(Op::SetReplicaIdentity, "replica identity of " + shown_table() + " is " + kind +
	                                         (wanted != nullptr ? " " + sql::shown(wanted->name) : ""));
	if (words.find(theirs_->replica_identity) != std::string_view::npos) {
		if (ours_->replica_identity == theirs_->replica_identity)
			satisfy(operation, "The subscriber's table is so.");
		else
			operation.sql = {alter("REPLICA IDENTITY " + kind)};
		return;
	}
	if (wanted == nullptr && !base_->identity_columns.empty())
		return lose_identity(operation);
	if (wanted == nullptr)
		return ignore(operation, "The index of the replica identity is gone on the publisher.");
	if (local != nullptr && ours_->replica_identity == 'i' && local->replica_identity)
		return satisfy(operation, "The subscriber's table is so.");
	std::string name = local == nullptr || wanted->constraint == 0 ? wanted->name : local->name;
	operation.sql = {alter("REPLICA IDENTITY USING INDEX " + sql::ident(name))};
}

/* Rewrites that no other operation of this plan explains. */
void
RelationMerge::table_rewrite()
{
	const bool rows = has_rows();
	if (base_->persistence != theirs_->persistence) {
		bool logged = theirs_->persistence == 'p', empty = publisher_is_empty();
		/* what was written in between is not in the stream, nor what was taken away: the rows here tell nothing of it */
		bool unknown = logged && theirs_->relkind != 'p' && (input_.has_rows || !empty);
		bool carried = unknown && (input_.rows_follow || empty);
		Operation &operation =
		    on_table(Op::SetPersistence, "table " + shown_table() + (logged ? " is logged" : " is unlogged"));
		if (ours_->persistence == theirs_->persistence && !(unknown && (carried || !input_.resumed)))
			return satisfy(operation, "The subscriber's table is so.");
		std::string statement = alter(logged ? "SET LOGGED" : "SET UNLOGGED");
		if (carried) {
			operation.verdict = Verdict::Carry;
			operation.replace_rows = true;
			operation.detail = empty ? "The publisher's table is empty." : "The rows are those that the publisher sent.";
			result_.needs_rows = true;
		} else if (unknown && !input_.resumed) {
			operation.suggested_sql = statement;
			refuse(operation, Reason::RewriteUnproven,
			       "Rows that were written while the table was unlogged are not in the stream.");
			return teach(operation, shown_table());
		}
		if (ours_->persistence != theirs_->persistence)
			operation.sql = {statement};
		return;
	}
	/* rows get other values by a change of type only; one of which nothing is known is not passed over */
	constexpr int rewrites_values = 4;
	bool hinted = std::any_of(command_.using_hints.begin(), command_.using_hints.end(),
	                          [](const UsingHint &hint) { return hint.relation != 0; });
	bool unexplained = false;
	for (const RewriteHint &hint : command_.rewrites)
		unexplained = unexplained || (hint.relation == theirs_->name.oid && hint.rows != 0 && !hinted &&
		                              (hint.reason & rewrites_values) != 0);
	bool told = std::any_of(result_.operations.begin(), result_.operations.end(), [](const Operation &operation) {
		return operation.op == Op::AlterColumnType || operation.op == Op::RewriteColumn;
	});
	/* of a column that a list hides nothing is told, and nothing has to be */
	unexplained = unexplained && !told && rows && !input_.resumed && !theirs_->published_columns;
	result_.needs_rows = result_.needs_rows || (unexplained && input_.rows_follow);
	bool carries = std::any_of(result_.operations.begin(), result_.operations.end(),
	                           [](const Operation &operation) { return operation.verdict == Verdict::Carry; });
	if (carries || (!unexplained && !result_.needs_rows))
		return;
	Operation &operation = on_table(Op::RewriteRows, "table " + shown_table() + " was rewritten");
	if (!result_.needs_rows) {
		refuse(operation, Reason::RewriteUnproven, "What became of the values of existing rows is not known.");
		return teach(operation, shown_table());
	}
	operation.verdict = Verdict::Carry;
	operation.detail = "Existing rows get the values that the publisher sent.";
}

/* Nothing that differs is passed over in silence. */
void
RelationMerge::unsupported_changes()
{
	auto reject = [&](const std::string &what) {
		Operation &operation = on_table(Op::Unsupported, what + " of " + shown_table() + " changed");
		refuse(operation, Reason::UnsupportedObject, "This does not change in place.");
		teach(operation, shown_table());
	};
	if (base_->name.oid != theirs_->name.oid)
		reject("the oid");
	if (base_->relkind != theirs_->relkind)
		reject("the kind");
	if (base_->partition_key.empty() != theirs_->partition_key.empty())
		reject("the partition key");
	if (!theirs_->extension.empty() != !base_->extension.empty())
		reject("the extension");
}

} // namespace schemasync::merge
