#include "core/definition_internal.hpp"

#include "core/sql.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

namespace {

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

} // namespace

const Keyword *
find_keyword(std::string_view type)
{
	for (const Keyword &keyword : keywords)
		if (keyword.type == type)
			return &keyword;
	return nullptr;
}

namespace {

/* Objects without a schema that lie on a table and are named NAME ON TABLE. */
bool
is_on_table(const Definition &object)
{
	return object.object_class == "triggers" || object.object_class == "rules" || object.object_class == "policies";
}

} // namespace

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

std::string
or_replace(const std::string &statement)
{
	constexpr std::string_view create = "CREATE ";

	if (!statement.starts_with(create) || statement.starts_with("CREATE OR REPLACE "))
		return statement;
	return "CREATE OR REPLACE " + statement.substr(create.size());
}

namespace {

std::string
identifiers(const std::vector<std::string> &names)
{
	std::vector<std::string> quoted;
	for (const std::string &name : names)
		quoted.push_back(sql::ident(name));
	return sql::join(quoted, ", ");
}

} // namespace

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

namespace {

std::string
role_list(const Definition &policy)
{
	return policy.roles.empty() ? "PUBLIC" : identifiers(policy.roles);
}

} // namespace

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

namespace {

std::string
create_extension(const Definition &extension, bool version_available)
{
	std::string statement = "CREATE EXTENSION " + sql::ident(extension.name.name) + " SCHEMA " +
	                        sql::ident(extension.name.schema);
	if (version_available)
		statement += " VERSION " + sql::literal(extension.version);
	return statement;
}

} // namespace

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

} // namespace schemasync::merge
