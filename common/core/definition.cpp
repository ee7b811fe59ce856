#include "core/definition_internal.hpp"

#include <algorithm>

#include "core/sql.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

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

} // namespace

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
