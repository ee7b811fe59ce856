#include "core/json_node.hpp"

#include "core/pure.hpp"

namespace schemasync::state {
namespace {

std::vector<Privilege>
read_privileges(const Node &node, const char *key)
{
	std::vector<Privilege> result;
	node.each(key, [&](const Node &entry) {
		result.push_back({entry.text("role", ""), entry.text("column", ""), entry.text("privilege"),
		                  entry.boolean("owner", false), entry.boolean("grantable", false)});
	});
	return result;
}

void
read_body(const Node &node, Definition &result)
{
	result.definition = node.text("definition", "");
	result.columns = read_texts(node, "columns");
	result.options = read_texts(node, "options");
	node.each("defaults", [&](const Node &one) { result.defaults.emplace_back(one.text("column"), one.text("sql")); });
	node.each("indexes", [&](const Node &one) {
		result.indexes.push_back({one.number<Oid>("oid"), one.text("name"), one.text("definition")});
	});
	result.access_method = node.text("access_method", "");
	result.populated = node.boolean("populated", true);
	result.refresh = node.text("refresh", "");
	result.enabled = node.letter("enabled", "ODRA", 'O');
	result.clone = node.boolean("clone", false);
	result.constraint = node.boolean("constraint", false);
	result.security_definer = node.boolean("security_definer", false);
	result.command = node.letter("command", "*rawd", '*');
	result.permissive = node.boolean("permissive", true);
	result.roles = read_texts(node, "roles");
	result.using_expr = node.text("using", "");
	result.check_expr = node.text("check", "");
	result.target = node.number<int>("target", -1);
	result.version = node.text("version", "");
	if (node.has("sequence"))
		result.sequence = read_sequence(node["sequence"]);
	result.owned = node.boolean("owned", false);
}

} // namespace

Sequence
read_sequence(const Node &node)
{
	Sequence result;
	result.name = read_name(node);
	result.type = node.text("type");
	result.start = node.number<std::int64_t>("start");
	result.increment = node.number<std::int64_t>("increment");
	result.min = node.number<std::int64_t>("min");
	result.max = node.number<std::int64_t>("max");
	result.cache = node.number<std::int64_t>("cache");
	result.cycle = node.boolean("cycle", false);
	return result;
}

Definition
read_definition(const Node &node)
{
	Definition result;
	result.object_class = node.text("class");
	result.catalog = node.text("catalog");
	result.oid = node.number<Oid>("oid");
	result.subid = node.number<int>("subid", 0);
	result.type = node.text("type");
	result.identity = node.text("identity");
	result.names = read_texts(node, "names");
	result.args = read_texts(node, "args");
	result.owner = node.text("owner", "");
	result.name = {result.oid, node.text("schema", ""), node.text("name", "")};
	if (node.has("of_table"))
		result.of_table = node.number<Oid>("of_table");
	if (node.has("relation"))
		result.relation = read_name(node["relation"]);
	read_body(node, result);
	if (node.has("text"))
		result.text = node.text("text");
	result.acl = read_privileges(node, "acl");
	result.default_acl = read_privileges(node, "default");
	return result;
}

} // namespace schemasync::state
