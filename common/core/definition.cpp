#include "core/definition.hpp"

#include <algorithm>

#include "core/merge_internal.hpp"
#include "core/sql.hpp"

#include "core/pure.hpp"

namespace schemasync::state {

bool
Privilege::same_as(const Privilege &other) const
{
	return role == other.role && column == other.column && privilege == other.privilege && owner == other.owner;
}

} // namespace schemasync::state

namespace schemasync::merge {
namespace {

using state::Definition;
using state::Privilege;

/* The words that SQL has for an object, by what pg_identify_object calls it. */
struct Keyword {
	std::string_view type;
	std::string_view object;  /* ALTER, DROP, COMMENT ON */
	std::string_view granted; /* GRANT ON */
};
constexpr Keyword keywords[] = {
    {"table", "TABLE", "TABLE"},
    {"foreign table", "FOREIGN TABLE", "TABLE"},
    {"view", "VIEW", "TABLE"},
    {"materialized view", "MATERIALIZED VIEW", "TABLE"},
    {"sequence", "SEQUENCE", "SEQUENCE"},
    {"index", "INDEX", ""},
    {"composite type", "TYPE", "TYPE"},
    {"type", "TYPE", "TYPE"},
    {"schema", "SCHEMA", "SCHEMA"},
    {"language", "LANGUAGE", "LANGUAGE"},
    {"function", "ROUTINE", "ROUTINE"},
    {"procedure", "ROUTINE", "ROUTINE"},
    {"aggregate", "ROUTINE", "ROUTINE"},
    {"table constraint", "CONSTRAINT", ""},
    {"trigger", "TRIGGER", ""},
    {"rule", "RULE", ""},
    {"policy", "POLICY", ""},
    {"statistics object", "STATISTICS", ""},
    {"extension", "EXTENSION", ""},
};

const Keyword *
find_keyword(std::string_view type)
{
	for (const Keyword &keyword : keywords)
		if (keyword.type == type)
			return &keyword;
	return nullptr;
}

/* Objects without a schema that lie on a table and are named NAME ON TABLE. */
bool
is_on_table(const Definition &object)
{
	return object.object_class == "triggers" || object.object_class == "rules" || object.object_class == "policies";
}

/* What stands after ALTER or DROP: VIEW s.v, TRIGGER t ON s.r. */
std::string
designation(const Definition &object)
{
	const Keyword *keyword = find_keyword(object.type);
	std::string words(keyword != nullptr ? keyword->object : "");

	if (is_on_table(object))
		return words + " " + sql::ident(object.name.name) + " ON " + sql::qualified(object.relation);
	if (object.catalog == "pg_proc")
		return words + " " + object.identity;
	if (object.catalog == "pg_extension")
		return words + " " + sql::ident(object.name.name);
	return words + " " + sql::qualified(object.name.schema, object.name.name);
}

/* "CREATE VIEW ..." -> "CREATE OR REPLACE VIEW ..." */
std::string
or_replace(const std::string &statement)
{
	constexpr std::string_view create = "CREATE ";

	if (!statement.starts_with(create) || statement.starts_with("CREATE OR REPLACE "))
		return statement;
	return "CREATE OR REPLACE " + statement.substr(create.size());
}

std::string
identifiers(const std::vector<std::string> &names)
{
	std::vector<std::string> quoted;
	for (const std::string &name : names)
		quoted.push_back(sql::ident(name));
	return sql::join(quoted, ", ");
}

/* reloptions as they stand in WITH (...) and SET (...). */
std::string
option_list(const std::vector<std::string> &options)
{
	std::vector<std::string> settings;
	for (const std::string &option : options) {
		std::size_t equals = option.find('=');
		settings.push_back(equals == std::string::npos
		                       ? sql::ident(option)
		                       : sql::ident(option.substr(0, equals)) + " = " + sql::literal(option.substr(equals + 1)));
	}
	return sql::join(settings, ", ");
}

std::string
create_view(const Definition &view, bool replace)
{
	bool stored = view.type == "materialized view";
	std::string statement = replace && !stored ? "CREATE OR REPLACE " : "CREATE ";

	statement += (stored ? "MATERIALIZED VIEW " : "VIEW ") + sql::qualified(view.name);
	if (!view.columns.empty())
		statement += " (" + identifiers(view.columns) + ")";
	if (stored && !view.access_method.empty())
		statement += " USING " + sql::ident(view.access_method);
	if (!view.options.empty())
		statement += " WITH (" + option_list(view.options) + ")";
	statement += " AS " + view.definition;
	if (stored)
		statement += view.populated ? " WITH DATA" : " WITH NO DATA";
	return statement;
}

std::string
role_list(const Definition &policy)
{
	return policy.roles.empty() ? "PUBLIC" : identifiers(policy.roles);
}

std::string
policy_clauses(const Definition &policy)
{
	std::string clauses = " TO " + role_list(policy);

	if (!policy.using_expr.empty())
		clauses += " USING (" + policy.using_expr + ")";
	if (!policy.check_expr.empty())
		clauses += " WITH CHECK (" + policy.check_expr + ")";
	return clauses;
}

std::string
create_policy(const Definition &policy)
{
	struct {
		char letter;
		const char *word;
	} const commands[] = {{'*', "ALL"}, {'r', "SELECT"}, {'a', "INSERT"}, {'w', "UPDATE"}, {'d', "DELETE"}};
	std::string command = "ALL";

	for (const auto &one : commands)
		if (one.letter == policy.command)
			command = one.word;
	return "CREATE POLICY " + sql::ident(policy.name.name) + " ON " + sql::qualified(policy.relation) + " AS " +
	       (policy.permissive ? "PERMISSIVE" : "RESTRICTIVE") + " FOR " + command + policy_clauses(policy);
}

/* ALTER TABLE ... ENABLE TRIGGER and its like. */
std::string
set_enabled(const Definition &object)
{
	std::string how = object.enabled == 'D'   ? "DISABLE"
	                  : object.enabled == 'R' ? "ENABLE REPLICA"
	                  : object.enabled == 'A' ? "ENABLE ALWAYS"
	                                          : "ENABLE";

	return "ALTER TABLE " + sql::qualified(object.relation) + " " + how +
	       (object.object_class == "rules" ? " RULE " : " TRIGGER ") + sql::ident(object.name.name);
}

std::string
set_target(const Definition &statistics)
{
	return "ALTER " + designation(statistics) + " SET STATISTICS " + std::to_string(statistics.target);
}

std::string
create_extension(const Definition &extension, bool version_available)
{
	std::string statement = "CREATE EXTENSION " + sql::ident(extension.name.name) + " SCHEMA " +
	                        sql::ident(extension.name.schema);
	if (version_available)
		statement += " VERSION " + sql::literal(extension.version);
	return statement;
}

/* All that makes the object from nothing. */
std::vector<std::string>
create_statements(const Definition &object, bool version_available)
{
	std::vector<std::string> statements;

	if (object.object_class == "views") {
		statements.push_back(create_view(object, false));
		for (const auto &[column, expression] : object.defaults)
			statements.push_back("ALTER " + designation(object) + " ALTER COLUMN " + sql::ident(column) +
			                     " SET DEFAULT " + expression);
		for (const Definition::Index &index : object.indexes)
			statements.push_back(index.definition);
	} else if (object.object_class == "policies") {
		statements.push_back(create_policy(object));
	} else if (object.object_class == "extensions") {
		statements.push_back(create_extension(object, version_available));
	} else if (object.sequence) {
		statements.push_back(create_sequence(*object.sequence));
	} else {
		statements.push_back(object.definition);
		if (object.enabled != 'O')
			statements.push_back(set_enabled(object));
		if (object.target != -1)
			statements.push_back(set_target(object));
	}
	return statements;
}

bool
same_indexes(const Definition &a, const Definition &b)
{
	auto less = [](const Definition::Index &x, const Definition::Index &y) { return x.name < y.name; };
	std::vector<Definition::Index> left = a.indexes, right = b.indexes;
	std::sort(left.begin(), left.end(), less);
	std::sort(right.begin(), right.end(), less);
	return std::equal(left.begin(), left.end(), right.begin(), right.end(),
	                  [](const auto &x, const auto &y) { return x.name == y.name && x.definition == y.definition; });
}

class DefinitionMerge {
public:
	DefinitionMerge(const DefinitionInput &input, const Policy &policy)
	    : input_(input), policy_(policy), theirs_(input.theirs), ours_(input.ours)
	{
	}

	Result run(bool *again);

private:
	Operation &add(Op op, std::vector<std::string> sql, const std::string &change);
	void refuse_last(Reason reason, std::string detail);
	void drop();
	void create();
	bool rename();
	void change_owner();
	void replace();
	void replace_view();
	bool rename_columns();
	void merge_defaults();
	void merge_indexes();
	void replace_trigger();
	void replace_policy();
	void replace_sequence();
	void update_extension();
	void set_comment();
	void set_privileges();
	void set_default_privileges();
	void refresh_view();
	bool target_is_there(Op op, const std::string &change);
	const Definition &any() const { return theirs_ != nullptr ? *theirs_ : *ours_; }

	const DefinitionInput &input_;
	const Policy &policy_;
	const Definition *theirs_, *ours_;
	Result result_;
};

Operation &
DefinitionMerge::add(Op op, std::vector<std::string> sql, const std::string &change)
{
	Operation operation;

	operation.op = op;
	operation.operation = std::string(info(op).code);
	operation.object_type = any().type;
	operation.object_identity = any().identity;
	operation.verdict = Verdict::Forward;
	operation.change = change;
	operation.sql = std::move(sql);
	if (any().object_class == "functions")
		operation.settings = {{"check_function_bodies", "off"}};
	result_.operations.push_back(std::move(operation));
	return result_.operations.back();
}

void
DefinitionMerge::refuse_last(Reason reason, std::string detail)
{
	Operation &operation = result_.operations.back();
	operation.suggested_sql = sql::join(operation.sql, ";\n");
	if (!operation.suggested_sql.empty())
		operation.suggested_sql += ";";
	refuse(operation, reason, std::move(detail));
}

void
DefinitionMerge::drop()
{
	std::string change = "drop " + ours_->type + " " + ours_->identity;

	if (ours_->clone) {
		add(Op::DropObject, {}, change).verdict = Verdict::Satisfied;
		return;
	}
	add(Op::DropObject, {"DROP " + designation(*ours_)}, change);
}

void
DefinitionMerge::create()
{
	std::string change = "create " + theirs_->type + " " + theirs_->identity;

	add(Op::CreateObject, create_statements(*theirs_, input_.version_available), change);
	if (theirs_->security_definer && input_.creator_is_superuser && input_.creator != theirs_->owner)
		refuse_last(Reason::PolicyRefuse,
		            "It is SECURITY DEFINER and belongs to \"" + theirs_->owner +
		                "\" on the publisher; here it would run with the rights of the superuser \"" + input_.creator +
		                "\". With the option owners = same it belongs to the role of the publisher's name, or the "
		                "subscription can belong to a role that is no superuser.");
}

/* Name and schema first: everything after it goes by the new name. */
bool
DefinitionMerge::rename()
{
	bool moves = !theirs_->name.schema.empty() && theirs_->name.schema != ours_->name.schema;
	bool renames = theirs_->name.name != ours_->name.name && ours_->catalog != "pg_extension";

	if (moves)
		add(Op::SetObjectSchema, {"ALTER " + designation(*ours_) + " SET SCHEMA " + sql::ident(theirs_->name.schema)},
		    "move " + ours_->type + " " + ours_->identity + " to schema " + sql::shown(theirs_->name.schema));
	else if (renames)
		add(Op::RenameObject, {"ALTER " + designation(*ours_) + " RENAME TO " + sql::ident(theirs_->name.name)},
		    "rename " + ours_->type + " " + ours_->identity + " to " + sql::shown(theirs_->name.name));
	return moves || renames;
}

void
DefinitionMerge::change_owner()
{
	bool owned = ours_->object_class == "views" || ours_->object_class == "functions" ||
	             ours_->object_class == "statistics" || ours_->object_class == "sequences";

	/* creator is the publisher's owner where it may own things here */
	if (owned && policy_.owners_same && input_.creator == theirs_->owner && ours_->owner != theirs_->owner)
		add(Op::ChangeObjectOwner, {"ALTER " + designation(*ours_) + " OWNER TO " + sql::ident(theirs_->owner)},
		    "owner of " + ours_->type + " " + ours_->identity + ": " + theirs_->owner);
}

bool
DefinitionMerge::rename_columns()
{
	std::vector<std::string> last, first;
	std::size_t count = std::min(ours_->columns.size(), theirs_->columns.size());
	std::string alter = "ALTER " + designation(*ours_) + " RENAME COLUMN ";

	for (std::size_t i = 0; i < count; i++) {
		const std::string &from = ours_->columns[i], &to = theirs_->columns[i];
		if (from == to)
			continue;
		if (std::find(ours_->columns.begin(), ours_->columns.end(), to) == ours_->columns.end()) {
			last.push_back(alter + sql::ident(from) + " TO " + sql::ident(to));
			continue;
		}
		/* names change places */
		std::string between = "schemasync_column_" + std::to_string(i + 1);
		first.push_back(alter + sql::ident(from) + " TO " + sql::ident(between));
		last.push_back(alter + sql::ident(between) + " TO " + sql::ident(to));
	}
	if (last.empty())
		return false;
	first.insert(first.end(), last.begin(), last.end());
	add(Op::AlterObject, std::move(first), "rename columns of " + ours_->type + " " + ours_->identity);
	return true;
}

void
DefinitionMerge::merge_defaults()
{
	std::vector<std::string> statements;
	std::string alter = "ALTER " + designation(*theirs_) + " ALTER COLUMN ";
	auto find = [](const Definition &view, const std::string &column) -> const std::string * {
		for (const auto &[name, expression] : view.defaults)
			if (name == column)
				return &expression;
		return nullptr;
	};

	for (const auto &[column, expression] : ours_->defaults)
		if (find(*theirs_, column) == nullptr)
			statements.push_back(alter + sql::ident(column) + " DROP DEFAULT");
	for (const auto &[column, expression] : theirs_->defaults)
		if (const std::string *own = find(*ours_, column); own == nullptr || *own != expression)
			statements.push_back(alter + sql::ident(column) + " SET DEFAULT " + expression);
	if (!statements.empty())
		add(Op::AlterObject, std::move(statements), "defaults of view " + theirs_->identity);
}

void
DefinitionMerge::merge_indexes()
{
	if (same_indexes(*ours_, *theirs_))
		return;
	std::vector<std::string> statements;
	std::vector<Definition::Index> left = ours_->indexes;
	auto named = [](std::vector<Definition::Index> &list, const std::string &name) {
		return std::find_if(list.begin(), list.end(), [&](const auto &index) { return index.name == name; });
	};

	if (input_.base != nullptr)
		for (const Definition::Index &was : input_.base->indexes)
			for (const Definition::Index &index : theirs_->indexes)
				if (auto own = named(left, was.name); was.oid == index.oid && was.name != index.name && own != left.end()) {
					statements.push_back("ALTER INDEX " + sql::qualified(theirs_->name.schema, was.name) +
					                     " RENAME TO " + sql::ident(index.name));
					*own = index;
				}
	for (const Definition::Index &index : left) {
		std::vector<Definition::Index> wanted = theirs_->indexes;
		auto like = named(wanted, index.name);
		if (like == wanted.end() || like->definition != index.definition)
			statements.push_back("DROP INDEX " + sql::qualified(theirs_->name.schema, index.name));
	}
	for (const Definition::Index &index : theirs_->indexes) {
		auto own = named(left, index.name);
		if (own == left.end() || own->definition != index.definition)
			statements.push_back(index.definition);
	}
	if (!statements.empty())
		add(Op::AlterObject, std::move(statements), "indexes of materialized view " + theirs_->identity);
}

void
DefinitionMerge::replace_view()
{
	bool stored = theirs_->type == "materialized view";
	std::string change = "replace " + theirs_->type + " " + theirs_->identity;

	if (theirs_->type != ours_->type || (stored && theirs_->definition != ours_->definition) ||
	    theirs_->columns.size() < ours_->columns.size()) {
		std::vector<std::string> statements = create_statements(*theirs_, true);
		statements.insert(statements.begin(), "DROP " + designation(*ours_));
		add(Op::ReplaceObject, std::move(statements), change);
		return;
	}
	if (!stored) {
		if (theirs_->definition != ours_->definition || theirs_->options != ours_->options ||
		    theirs_->columns != ours_->columns)
			add(Op::ReplaceObject, {create_view(*theirs_, true)}, change);
		merge_defaults();
		return;
	}
	if (theirs_->options != ours_->options) {
		std::vector<std::string> statements, gone;
		for (const std::string &option : ours_->options)
			gone.push_back(sql::ident(option.substr(0, option.find('='))));
		if (!gone.empty())
			statements.push_back("ALTER " + designation(*theirs_) + " RESET (" + sql::join(gone, ", ") + ")");
		if (!theirs_->options.empty())
			statements.push_back("ALTER " + designation(*theirs_) + " SET (" + option_list(theirs_->options) + ")");
		add(Op::AlterObject, std::move(statements), "options of materialized view " + theirs_->identity);
	}
	if (theirs_->populated != ours_->populated && theirs_->refresh.empty())
		add(Op::AlterObject,
		    {"REFRESH MATERIALIZED VIEW " + sql::qualified(theirs_->name) +
		     (theirs_->populated ? " WITH DATA" : " WITH NO DATA")},
		    "populate materialized view " + theirs_->identity);
	merge_indexes();
}

/* REFRESH, from the rows that are here now: whose view it is does not matter, it is the same query. */
void
DefinitionMerge::refresh_view()
{
	if (theirs_->refresh.empty() || (!theirs_->populated && !ours_->populated))
		return;
	for (const Operation &operation : result_.operations)
		if (operation.verdict == Verdict::Refuse || operation.op == Op::ReplaceObject)
			return;
	/* what the server asks for: rows to compare with, and a unique index */
	bool beside = theirs_->refresh == "concurrently" && theirs_->populated && ours_->populated && same_indexes(*ours_, *theirs_);
	Operation &operation = add(Op::AlterObject,
	                           {std::string("REFRESH MATERIALIZED VIEW ") + (beside ? "CONCURRENTLY " : "") +
	                            sql::qualified(theirs_->name) + (theirs_->populated ? " WITH DATA" : " WITH NO DATA")},
	                           "refresh materialized view " + theirs_->identity);
	/* it makes a temporary table; the view's query is restricted by the server */
	operation.restricted = !beside;
}

void
DefinitionMerge::replace_trigger()
{
	if (theirs_->definition != ours_->definition && !theirs_->clone) {
		std::vector<std::string> statements;
		/* there is no CREATE OR REPLACE CONSTRAINT TRIGGER */
		if (theirs_->constraint || ours_->constraint)
			statements = {"DROP " + designation(*ours_), theirs_->definition};
		else
			statements = {or_replace(theirs_->definition)};
		if (theirs_->enabled != 'O')
			statements.push_back(set_enabled(*theirs_));
		add(Op::ReplaceObject, std::move(statements), "replace " + theirs_->type + " " + theirs_->identity);
	} else if (theirs_->enabled != ours_->enabled) {
		add(Op::AlterObject, {set_enabled(*theirs_)}, "enable or disable " + theirs_->type + " " + theirs_->identity);
	}
}

void
DefinitionMerge::replace_policy()
{
	bool same_kind = theirs_->command == ours_->command && theirs_->permissive == ours_->permissive &&
	                 (ours_->using_expr.empty() || !theirs_->using_expr.empty()) &&
	                 (ours_->check_expr.empty() || !theirs_->check_expr.empty());
	std::string change = "replace policy " + theirs_->identity;

	if (!same_kind)
		add(Op::ReplaceObject, {"DROP " + designation(*ours_), create_policy(*theirs_)}, change);
	else if (theirs_->roles != ours_->roles || theirs_->using_expr != ours_->using_expr ||
	         theirs_->check_expr != ours_->check_expr)
		add(Op::AlterObject, {"ALTER " + designation(*theirs_) + policy_clauses(*theirs_)}, change);
}

/* What a column owned, or the subscriber still has so, belongs to nobody; its values are each side's own. */
void
DefinitionMerge::replace_sequence()
{
	std::vector<std::string> statements;

	if (ours_->owned && !theirs_->owned)
		statements.push_back("ALTER " + designation(*theirs_) + " OWNED BY NONE");
	if (theirs_->sequence && ours_->sequence && !theirs_->sequence->same_as(*ours_->sequence))
		statements.push_back("ALTER " + designation(*theirs_) + " AS " + theirs_->sequence->type + " " +
		                     sequence_options(*theirs_->sequence));
	if (!statements.empty())
		add(Op::AlterObject, std::move(statements), "alter sequence " + theirs_->identity);
}

void
DefinitionMerge::update_extension()
{
	if (theirs_->version == ours_->version)
		return;
	Operation &operation =
	    add(Op::AlterObject,
	        {"ALTER EXTENSION " + sql::ident(theirs_->name.name) + " UPDATE TO " + sql::literal(theirs_->version)},
	        "update extension " + theirs_->identity + " to version " + theirs_->version);
	if (!input_.mapped || !input_.version_available) {
		operation.sql.clear();
		operation.verdict = Verdict::Satisfied;
		operation.detail = "It is there in version " + ours_->version + "; the publisher has " + theirs_->version + ".";
	}
}

void
DefinitionMerge::replace()
{
	const std::string &object_class = theirs_->object_class;
	std::size_t before = result_.operations.size();

	if (object_class == "views") {
		replace_view();
	} else if (object_class == "triggers" || object_class == "rules") {
		replace_trigger();
	} else if (object_class == "policies") {
		replace_policy();
	} else if (object_class == "extensions") {
		update_extension();
	} else if (object_class == "sequences") {
		replace_sequence();
	} else if (theirs_->definition != ours_->definition) {
		std::string change = "replace " + theirs_->type + " " + theirs_->identity;
		if (object_class == "statistics")
			add(Op::ReplaceObject, {"DROP " + designation(*ours_), theirs_->definition}, change);
		else
			add(Op::ReplaceObject, {or_replace(theirs_->definition)}, change);
	}
	if (object_class == "statistics" && theirs_->target != ours_->target)
		add(Op::AlterObject, {set_target(*theirs_)}, "statistics target of " + theirs_->identity);
	if (input_.mapped)
		return;
	/* somebody else's, as far as is known */
	for (std::size_t i = before; i < result_.operations.size(); i++) {
		Operation &operation = result_.operations[i];
		if (operation.verdict != Verdict::Forward)
			continue;
		operation.suggested_sql = sql::join(operation.sql, ";\n") + ";";
		refuse(operation, Reason::LocalNameTaken, "Another " + ours_->type + " of that name is there.");
		operation.hint = "To take the publisher's: SELECT schemasync_resolve(refusal_id, 'apply') FROM schemasync_refusals"
		                 " WHERE subscription = '{subscription}' AND status = 'open';\n"
		                 "Or rename or drop the one that is here, then: SELECT schemasync_resume('{subscription}');";
	}
}

/* Comments and privileges are of something that must be there. */
bool
DefinitionMerge::target_is_there(Op op, const std::string &change)
{
	if (ours_ != nullptr)
		return true;
	Operation &operation = add(op, {}, change);
	if (input_.target_followed) {
		refuse_last(Reason::MissingObject, theirs_->type + " " + theirs_->identity + " is not here.");
		result_.operations.back().hint = "Create it, then: SELECT schemasync_resume('{subscription}');";
	} else {
		operation.verdict = Verdict::Ignore;
		operation.detail = theirs_->catalog == "pg_default_acl"
		                       ? "The role or schema is not here, or the role is none that the subscription's owner may act as."
		                       : theirs_->type + " " + theirs_->identity + " is not here, and is of no class that is followed.";
	}
	return false;
}

/* What stands after COMMENT ON; empty for what has no word here. */
std::string
comment_target(const Definition &object)
{
	if (object.type.ends_with(" column"))
		return "COLUMN " + object.identity;
	if (object.type == "domain constraint" && object.names.size() == 1 && object.args.size() == 1)
		return "CONSTRAINT " + sql::ident(object.args[0]) + " ON DOMAIN " + object.names[0];
	const Keyword *keyword = find_keyword(object.type);
	return keyword == nullptr ? std::string() : std::string(keyword->object) + " " + object.identity;
}

void
DefinitionMerge::set_comment()
{
	std::string change = "comment on " + theirs_->type + " " + theirs_->identity;

	if (!target_is_there(Op::SetComment, change))
		return;
	std::string target = comment_target(*ours_);
	if (target.empty()) {
		Operation &operation = add(Op::SetComment, {}, change);
		operation.verdict = Verdict::Ignore;
		operation.detail = "Objects of this kind are not followed.";
	} else if (theirs_->text != ours_->text) {
		add(Op::SetComment,
		    {"COMMENT ON " + target + " IS " + (theirs_->text ? sql::literal(*theirs_->text) : std::string("NULL"))}, change);
	}
}

bool
contains(const std::vector<Privilege> &list, const Privilege &wanted)
{
	return std::any_of(list.begin(), list.end(), [&](const Privilege &one) { return one.same_as(wanted); });
}

const Privilege *
find_grant(const std::vector<Privilege> &list, const Privilege &wanted)
{
	for (const Privilege &one : list)
		if (one.same_as(wanted))
			return &one;
	return nullptr;
}

/* The statements of one kind for a list of grants, one for each role, in the order of the list: that of the publisher. */
std::vector<std::string>
grant_statements(const std::vector<Privilege> &grants, const std::string &target, const std::string &owner,
                 std::string_view begin, std::string_view preposition)
{
	bool grants_options = begin.ends_with("GRANT ");
	std::vector<std::string> statements;
	std::vector<const Privilege *> left;

	for (const Privilege &grant : grants)
		left.push_back(&grant);
	while (!left.empty()) {
		const Privilege first = *left.front();
		std::vector<std::string> parts;
		std::erase_if(left, [&](const Privilege *grant) {
			if (grant->role != first.role || grant->owner != first.owner ||
			    (grants_options && grant->grantable != first.grantable))
				return false;
			parts.push_back(grant->privilege + (grant->column.empty() ? "" : " (" + sql::ident(grant->column) + ")"));
			return true;
		});
		std::string role = first.owner ? sql::ident(owner) : first.role.empty() ? "PUBLIC" : sql::ident(first.role);
		statements.push_back(std::string(begin) + sql::join(parts, ", ") + " ON " + target + " " + std::string(preposition) +
		                     " " + role + (grants_options && first.grantable ? " WITH GRANT OPTION" : ""));
	}
	return statements;
}

void
append(std::vector<std::string> &to, std::vector<std::string> from)
{
	to.insert(to.end(), from.begin(), from.end());
}

void
DefinitionMerge::set_privileges()
{
	std::string change = "privileges on " + theirs_->type + " " + theirs_->identity;

	if (!target_is_there(Op::SetPrivileges, change))
		return;
	const Keyword *keyword = find_keyword(ours_->type);
	if (keyword == nullptr || keyword->granted.empty())
		return;
	std::string target = std::string(keyword->granted) + " " + ours_->identity;
	const std::vector<Privilege> &base = input_.base != nullptr ? input_.base->acl : theirs_->default_acl;
	std::vector<Privilege> now = ours_->acl, revoked, narrowed, granted;
	auto is_known = [&](const Privilege &grant) {
		/* MAINTAIN came with 17 */
		return grant.privilege != "MAINTAIN" || input_.server_version == 0 || input_.server_version >= 170000;
	};

	for (const Privilege &own : ours_->acl)
		if (contains(base, own) && !contains(theirs_->acl, own))
			revoked.push_back(own);
	for (const Privilege &gone : revoked)
		/* a privilege on the whole takes those on columns with it */
		std::erase_if(now, [&](const Privilege &own) {
			return own.role == gone.role && own.owner == gone.owner && own.privilege == gone.privilege &&
			       (gone.column.empty() || own.column == gone.column);
		});
	for (const Privilege &wanted : theirs_->acl) {
		const Privilege *own = find_grant(now, wanted);
		const Privilege *was = find_grant(base, wanted);
		if (own != nullptr && own->grantable && !wanted.grantable && was != nullptr && was->grantable)
			narrowed.push_back(wanted);
		else if ((own == nullptr || (wanted.grantable && !own->grantable)) && is_known(wanted))
			granted.push_back(wanted);
	}
	std::vector<std::string> statements = grant_statements(revoked, target, ours_->owner, "REVOKE ", "FROM");
	append(statements, grant_statements(narrowed, target, ours_->owner, "REVOKE GRANT OPTION FOR ", "FROM"));
	append(statements, grant_statements(granted, target, ours_->owner, "GRANT ", "TO"));
	if (!statements.empty())
		add(Op::SetPrivileges, std::move(statements), change);
}

/*
 * What a role gives to new objects, wholly as on the publisher: what it gave to an object here is a matter of that object's own
 * privileges, which are told with it.
 */
void
DefinitionMerge::set_default_privileges()
{
	struct {
		std::string_view letter, objects;
	} const kinds[] = {{"r", "TABLES"}, {"S", "SEQUENCES"}, {"f", "FUNCTIONS"}, {"T", "TYPES"}, {"n", "SCHEMAS"}};
	std::string change = "default privileges " + theirs_->identity, objects;

	if (!target_is_there(Op::SetPrivileges, change))
		return;
	for (const auto &kind : kinds)
		if (theirs_->args.size() == 1 && theirs_->args[0] == kind.letter)
			objects = kind.objects;
	if (objects.empty() || theirs_->names.empty() || theirs_->names.size() > 2)
		return;
	std::string begin = "ALTER DEFAULT PRIVILEGES FOR ROLE " + sql::ident(theirs_->names[0]) +
	                    (theirs_->names.size() == 2 ? " IN SCHEMA " + sql::ident(theirs_->names[1]) : "");
	std::vector<Privilege> revoked, narrowed, granted;
	for (const Privilege &own : ours_->acl)
		if (!contains(theirs_->acl, own))
			revoked.push_back(own);
	for (const Privilege &wanted : theirs_->acl) {
		const Privilege *own = find_grant(ours_->acl, wanted);
		bool known = wanted.privilege != "MAINTAIN" || input_.server_version == 0 || input_.server_version >= 170000;
		if (own != nullptr && own->grantable && !wanted.grantable)
			narrowed.push_back(wanted);
		else if ((own == nullptr || (wanted.grantable && !own->grantable)) && known)
			granted.push_back(wanted);
	}
	std::vector<std::string> statements = grant_statements(revoked, objects, ours_->owner, begin + " REVOKE ", "FROM");
	append(statements, grant_statements(narrowed, objects, ours_->owner, begin + " REVOKE GRANT OPTION FOR ", "FROM"));
	append(statements, grant_statements(granted, objects, ours_->owner, begin + " GRANT ", "TO"));
	if (!statements.empty())
		add(Op::SetPrivileges, std::move(statements), change);
}

Result
DefinitionMerge::run(bool *again)
{
	*again = false;
	if (theirs_ == nullptr) {
		if (ours_ != nullptr)
			drop();
	} else if (theirs_->object_class == "comments") {
		set_comment();
	} else if (theirs_->catalog == "pg_default_acl") {
		set_default_privileges();
	} else if (theirs_->object_class == "privileges") {
		set_privileges();
	} else if (ours_ == nullptr) {
		if (!theirs_->clone)
			create();
	} else if (rename() || (theirs_->object_class == "views" && ours_->type == theirs_->type && rename_columns())) {
		*again = true;
	} else {
		replace();
		change_owner();
		refresh_view();
	}
	apply_schema_changes(result_, policy_);
	for (const Operation &operation : result_.operations)
		*again = *again && operation.verdict == Verdict::Forward;
	return std::move(result_);
}

} // namespace

bool
names_class(std::string_view option, std::string_view object_class)
{
	return option == "all" || option == "\"all\"" ||
	       option.find('"' + std::string(object_class) + '"') != std::string_view::npos;
}

std::string_view
class_of(std::string_view catalog, std::string_view type)
{
	struct {
		std::string_view catalog, object_class;
	} const classes[] = {{"pg_proc", "functions"}, {"pg_trigger", "triggers"}, {"pg_rewrite", "rules"},
	                     {"pg_policy", "policies"}, {"pg_statistic_ext", "statistics"}, {"pg_extension", "extensions"}};

	if (catalog == "pg_class")
		return type.find("view") != std::string_view::npos ? "views" : type == "sequence" ? sequence_class : "";
	for (const auto &one : classes)
		if (one.catalog == catalog)
			return one.object_class;
	return "";
}

bool
is_rule_of_view(const DroppedObject &dropped)
{
	return dropped.class_name == "pg_rewrite" && dropped.identity.starts_with("\"_RETURN\" on ");
}

bool
may_be_of_class(const DroppedObject &dropped)
{
	if (is_rule_of_view(dropped))
		return false;
	return !class_of(dropped.class_name, dropped.type).empty() ||
	       (dropped.class_name == "pg_class" && dropped.type == "index");
}

Result
merge_definition(const DefinitionInput &input, const Policy &policy, bool *again)
{
	return DefinitionMerge(input, policy).run(again);
}

} // namespace schemasync::merge
