#include "core/state_json.hpp"

#include "core/json_node.hpp"

#include "core/pure.hpp"

namespace schemasync::state {
namespace {

/* ---- the parts of a state, in the order of docs/wire.md ---- */

std::vector<AttrNumber>
read_attnums(const Node &node, const char *key)
{
	/* system columns have negative numbers, an expression of an index zero */
	std::vector<AttrNumber> result;
	node.each(key, [&](const Node &element) { result.push_back(element.as_number<AttrNumber>(-16, 1664)); });
	return result;
}

Expression
read_expression(const Node &node)
{
	Expression result;
	result.sql = node.text("sql");
	result.volatility = node.letter("volatility", "vsi", 'v');
	node.each("refs", [&](const Node &ref) {
		result.refs.push_back({ref.text("kind"), ref.text("name"), ref.text("digest", "")});
	});
	return result;
}

std::optional<Expression>
read_expression(const Node &node, const char *key)
{
	return node.has(key) ? std::optional(read_expression(node[key])) : std::nullopt;
}

TypeRef
read_typeref(const Node &node)
{
	TypeRef result;
	result.oid = node.number<Oid>("oid");
	result.schema = node.text("schema");
	result.name = node.text("name");
	result.typmod = node.number<std::int32_t>("typmod", -1);
	result.sql = node.text("sql");
	result.builtin = node.boolean("builtin", false);
	if (result.sql.empty())
		node.reject("is empty", "sql");
	if (node.has("element"))
		result.element.push_back(read_typeref(node["element"]));
	return result;
}

Column
read_column(const Node &node)
{
	Column result;
	result.attnum = node["attnum"].as_number<AttrNumber>(1, 1664);
	result.name = node.text("name");
	if (result.name.empty())
		node.reject("is empty", "name");
	result.type = read_typeref(node["type"]);
	result.collation = node.text("collation", "");
	result.not_null = node.boolean("not_null", false);
	result.default_expr = read_expression(node, "default");
	if (node.has("missing"))
		result.missing = node.text("missing");
	result.identity = node.letter("identity", "ad", 0);
	result.generated = node.letter("generated", "sv", 0);
	if (node.has("sequence"))
		result.sequence = read_sequence(node["sequence"]);
	result.storage = node.letter("storage", "pemx", 0);
	result.compression = node.letter("compression", "pl", 0);
	result.statistics = node.number<std::int32_t>("statistics", -1);
	result.options = read_texts(node, "options");
	result.local = node.boolean("local", true);
	result.inhcount = node.number<std::int32_t>("inhcount", 0);
	result.domain_default = read_expression(node, "domain_default");
	return result;
}

Constraint
read_constraint(const Node &node)
{
	Constraint result;
	result.oid = node.number<Oid>("oid");
	result.name = node.text("name");
	result.type = node.letter("type", "pucfxnt", 0);
	if (result.type == 0)
		node.reject("is missing", "type");
	result.definition = node.text("definition");
	result.columns = read_attnums(node, "columns");
	result.validated = node.boolean("validated", true);
	result.deferrable = node.boolean("deferrable", false);
	result.deferred = node.boolean("deferred", false);
	result.index = node.number<Oid>("index", 0);
	result.local = node.boolean("local", true);
	result.inhcount = node.number<std::int32_t>("inhcount", 0);
	result.no_inherit = node.boolean("no_inherit", false);
	result.parent = node.number<Oid>("parent", 0);
	result.expr = read_expression(node, "expr");
	if (node.has("references"))
		result.references = read_name(node["references"]);
	return result;
}

Index
read_index(const Node &node)
{
	Index result;
	Name name = read_name(node);
	result.oid = name.oid;
	result.schema = name.schema;
	result.name = name.name;
	result.definition = node.text("definition");
	result.unique = node.boolean("unique", false);
	result.primary = node.boolean("primary", false);
	result.valid = node.boolean("valid", true);
	result.immediate = node.boolean("immediate", true);
	result.replica_identity = node.boolean("replica_identity", false);
	result.columns = read_attnums(node, "columns");
	result.constraint = node.number<Oid>("constraint", 0);
	result.parent = node.number<Oid>("parent", 0);
	result.expr = read_expression(node, "expr");
	result.nulls_not_distinct = node.boolean("nulls_not_distinct", false);
	return result;
}

void
read_published(const Node &node, Relation &result)
{
	if (node.has("columns"))
		result.published_columns = read_attnums(node, "columns");
	result.published_filter = node.boolean("filter", false);
	result.published_via_root = node.boolean("via_root", false);
}

/* Two columns of one number or name would make every match by identity ambiguous. */
void
check_columns(const Node &node, const Relation &relation)
{
	for (std::size_t i = 1; i < relation.columns.size(); i++)
		if (relation.columns[i].attnum <= relation.columns[i - 1].attnum)
			return node.reject("is not in the order of attnum", "columns");
	std::vector<std::string_view> names;
	for (const Column &column : relation.columns)
		names.push_back(column.name);
	std::sort(names.begin(), names.end());
	if (std::adjacent_find(names.begin(), names.end()) != names.end())
		node.reject("has a name twice", "columns");
}

Relation
read_relation(const Node &node)
{
	Relation result;
	result.name = read_name(node);
	result.relkind = node.letter("relkind", "rpmvf", 'r');
	result.persistence = node.letter("persistence", "put", 'p');
	result.owner = node.text("owner", "");
	result.replica_identity = node.letter("replica_identity", "dnfi", 'd');
	result.replica_identity_index = node.number<Oid>("replica_identity_index", 0);
	result.identity_columns = read_attnums(node, "identity_columns");
	result.rls = node.boolean("rls", false);
	result.force_rls = node.boolean("force_rls", false);
	result.options = read_texts(node, "options");
	result.access_method = node.text("access_method", "");
	if (node.has("of_type"))
		result.of_type = read_name(node["of_type"]);
	result.partition_key = node.text("partition_key", "");
	result.partition_key_expr = read_expression(node, "partition_key_expr");
	result.partition_bound = node.text("partition_bound", "");
	result.partition_hidden = node.boolean("partition_hidden", false);
	node.each("parents", [&](const Node &parent) { result.parents.push_back(read_name(parent)); });
	result.extension = node.text("extension", "");
	if (node.has("published"))
		read_published(node["published"], result);
	node.each("columns", [&](const Node &column) { result.columns.push_back(read_column(column)); });
	node.each("constraints", [&](const Node &c) { result.constraints.push_back(read_constraint(c)); });
	node.each("indexes", [&](const Node &index) { result.indexes.push_back(read_index(index)); });
	result.fingerprint = node.text("fingerprint", "");
	result.filenode = node.number<std::uint32_t>("filenode", 0);
	result.created_here = node.boolean("created_here", false);
	result.inserts_only = node.boolean("inserts_only", false);
	check_columns(node, result);
	return result;
}

Attribute
read_attribute(const Node &node)
{
	Attribute result;
	result.attnum = node["attnum"].as_number<AttrNumber>(1, 1664);
	result.name = node.text("name");
	result.type = read_typeref(node["type"]);
	result.collation = node.text("collation", "");
	return result;
}

Type
read_type(const Node &node)
{
	Type result;
	result.name = read_name(node);
	result.typtype = node.letter("typtype", "bedcrmp", 'b');
	result.owner = node.text("owner", "");
	result.extension = node.text("extension", "");
	result.array = node.number<Oid>("array", 0);
	result.array_name = node.text("array_name", "");
	node.each("labels", [&](const Node &label) {
		result.labels.push_back({label.number<Oid>("oid"), label.text("label")});
	});
	if (node.has("base"))
		result.base = read_typeref(node["base"]);
	else if (node.has("subtype"))
		result.base = read_typeref(node["subtype"]);
	else if (result.typtype == 'd' || result.typtype == 'r')
		node.reject("is missing", "base");
	result.not_null = node.boolean("not_null", false);
	result.default_expr = read_expression(node, "default");
	result.collation = node.text("collation", "");
	result.opclass = node.text("opclass", "");
	result.canonical = node.text("canonical", "");
	result.diff = node.text("diff", "");
	if (node.has("multirange"))
		result.multirange_name = node["multirange"].text("name");
	node.each("constraints", [&](const Node &c) { result.constraints.push_back(read_constraint(c)); });
	node.each("attributes", [&](const Node &a) { result.attributes.push_back(read_attribute(a)); });
	if (node.has("relation"))
		result.row_type_of = read_name(node["relation"]);
	result.fingerprint = node.text("fingerprint", "");
	return result;
}

Schema
read_schema(const Node &node)
{
	Schema result;
	result.name.oid = node.number<Oid>("oid");
	result.name.name = node.text("name");
	result.owner = node.text("owner", "");
	result.extension = node.text("extension", "");
	return result;
}

/* ---- the messages ---- */

template <typename T, T read(const Node &)>
std::vector<Document<T>>
read_documents(const Node &node, const char *key)
{
	std::vector<Document<T>> result;
	node.each(key, [&](const Node &element) { result.push_back({read(element), element.dump()}); });
	return result;
}

merge::Command
read_command(const Node &node)
{
	merge::Command result;
	result.captured = true;
	result.tag = node.text("tag");
	result.statement = node.text("statement", "");
	result.user = node.text("user", "");
	node.members("settings", [&](const std::string &name, std::string value) {
		result.settings.emplace_back(name, std::move(value));
	});
	result.subcommands = read_texts(node, "subcommands");
	node.each("using", [&](const Node &hint) {
		std::vector<Oid> casts;
		hint.each("casts", [&](const Node &cast) { casts.push_back(cast.as_number<Oid>(0, UINT32_MAX)); });
		result.using_hints.push_back({hint.number<Oid>("relation"),
		                              hint["attnum"].as_number<AttrNumber>(1, 1664),
		                              hint.boolean("given", true), read_expression(hint, "expr"), std::move(casts)});
	});
	node.each("defaults", [&](const Node &hint) {
		result.set_defaults.push_back({hint.number<Oid>("relation"), hint["attnum"].as_number<AttrNumber>(1, 1664)});
	});
	node.each("rewrites", [&](const Node &hint) {
		result.rewrites.push_back({hint.number<Oid>("relation"), hint.number<int>("reason", 0),
		                           hint.number<std::int64_t>("rows", 0), hint.boolean("carried", false)});
	});
	node.each("objects", [&](const Node &object) {
		result.objects.push_back({object.text("class"), object.text("type", ""), object.text("schema", ""),
		                          object.text("identity", ""), object.number<Oid>("oid"),
		                          object.number<int>("subid", 0), object.boolean("extension", false)});
	});
	node.each("dropped", [&](const Node &object) {
		result.dropped.push_back({object.text("class"), object.text("type", ""), object.text("schema", ""),
		                          object.text("name", ""), object.text("identity", ""),
		                          object.number<Oid>("oid"), object.number<int>("subid", 0),
		                          object.boolean("original", false), object.boolean("normal", false)});
	});
	return result;
}

StateMessage
read_state_message(const Node &node)
{
	Node relation = node["relation"];
	return {{read_relation(relation), relation.dump()}, read_documents<Type, read_type>(node, "types")};
}

DdlMessage
read_ddl_message(const Node &node)
{
	DdlMessage message{read_command(node), read_documents<Schema, read_schema>(node, "schemas"),
	                   read_documents<Type, read_type>(node, "types"),
	                   read_documents<Relation, read_relation>(node, "relations"),
	                   read_documents<Definition, read_definition>(node, "definitions")};
	if (node.has("published")) {
		message.published.emplace();
		node.each("published", [&](const Node &table) { message.published->push_back(read_name(table)); });
	}
	node.each("above", [&](const Node &table) { message.above.push_back(table.number<Oid>("oid")); });
	node.each("republished",
	          [&](const Node &table) { message.republished.push_back(table.number<Oid>("oid")); });
	return message;
}

RewriteMessage
read_rewrite_message(const Node &node)
{
	Node state = node["state"];
	return {node.number<Oid>("relation"),
	        node.number<Oid>("transient", 0),
	        node.number<Oid>("published_as", node.number<Oid>("relation")),
	        node.boolean("carried", false),
	        {read_relation(state), state.dump()}};
}

/* Nesting is checked before parsing: writing a value out again recurses. */
bool
too_deep(std::string_view json)
{
	int depth = 0;
	bool in_string = false;
	for (std::size_t i = 0; i < json.size(); i++) {
		char c = json[i];
		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			if (++depth > max_json_depth)
				return true;
		} else if (c == '}' || c == ']') {
			depth--;
		}
	}
	return false;
}

template <typename T, T read(const Node &)>
Parsed<T>
parse(std::string_view json, bool versioned)
{
	if (json.size() > max_json_bytes)
		return ParseError{"$", "is too large"};
	if (too_deep(json))
		return ParseError{"$", "is nested too deeply"};
	Json document = Json::parse(json.begin(), json.end(), nullptr, false);
	if (document.is_discarded())
		return ParseError{"$", "is not valid JSON"};
	std::optional<ParseError> error;
	Node root(document, error);
	if (versioned && root.number<int>("v", 1) != 1)
		return ParseError{"$.v", "is a version that is not known"};
	T result = read(root);
	if (error)
		return *std::move(error);
	return result;
}

} // namespace

Parsed<Relation>
parse_relation(std::string_view json)
{
	return parse<Relation, read_relation>(json, false);
}

Parsed<Type>
parse_type(std::string_view json)
{
	return parse<Type, read_type>(json, false);
}

Parsed<Schema>
parse_schema(std::string_view json)
{
	return parse<Schema, read_schema>(json, false);
}

Parsed<Definition>
parse_definition(std::string_view json)
{
	return parse<Definition, read_definition>(json, false);
}

Parsed<StateMessage>
parse_state_message(std::string_view json)
{
	return parse<StateMessage, read_state_message>(json, true);
}

Parsed<DdlMessage>
parse_ddl_message(std::string_view json)
{
	return parse<DdlMessage, read_ddl_message>(json, true);
}

Parsed<RewriteMessage>
parse_rewrite_message(std::string_view json)
{
	return parse<RewriteMessage, read_rewrite_message>(json, true);
}

} // namespace schemasync::state
