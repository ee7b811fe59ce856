/*
 * SQL of whole objects: columns, sequences, tables, types.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

/* How a type is stored when nothing else is said; 0 when that is not known here. */
char
usual_storage(const state::TypeRef &type)
{
	constexpr std::string_view main[] = {"numeric", "inet", "cidr"};
	constexpr std::string_view extended[] = {"text",  "varchar", "bpchar",  "bytea", "json",
	                                         "jsonb", "xml",     "varbit",  "bit",   "tsvector",
	                                         "path",  "polygon", "jsonpath"};
	if (!type.element.empty() || (type.builtin && type.name.starts_with('_')))
		return 'x';
	if (!type.builtin)
		return 0;
	if (std::find(std::begin(main), std::end(main), type.name) != std::end(main))
		return 'm';
	return std::find(std::begin(extended), std::end(extended), type.name) != std::end(extended) ? 'x' : 'p';
}

std::string
storage_word(char storage)
{
	return storage == 'p' ? "PLAIN" : storage == 'e' ? "EXTERNAL" : storage == 'm' ? "MAIN" : "EXTENDED";
}

/* A column that the table gets from a parent is not written out. */
bool
comes_from_parent(const state::Relation &relation, const state::Column &column)
{
	return relation.partition_bound.empty() && !relation.parents.empty() && !column.local &&
	       column.inhcount > 0;
}

bool
is_inherited(const state::Constraint &constraint)
{
	return constraint.parent != 0 || (!constraint.local && constraint.inhcount > 0);
}

std::string
add_constraint_sql(const state::Relation &relation, const state::Constraint &constraint)
{
	return "ALTER TABLE " + sql::qualified(relation.name) + " ADD CONSTRAINT " + sql::ident(constraint.name) +
	       " " + constraint.definition;
}

std::string
create_table(const state::Relation &relation, int server_version)
{
	bool partition = !relation.partition_bound.empty();
	std::vector<std::string> parts;
	for (state::Column column : relation.columns) {
		/* it comes with the attachment */
		if (partition && column.inhcount > 0)
			column.identity = 0;
		if (!comes_from_parent(relation, column) && !relation.of_type)
			parts.push_back("\n\t" + column_clause(column, true) + not_null_clause(relation, column, server_version));
	}
	if (!partition && (server_version == 0 || server_version >= 180000))
		for (const state::Column &column : relation.columns) {
			/* the parent's has another name, which it would keep */
			const state::Constraint *constraint = find_not_null(relation, column.attnum);
			if (comes_from_parent(relation, column) && constraint != nullptr && constraint->local &&
			    constraint->validated)
				parts.push_back("\n\tCONSTRAINT " + sql::ident(constraint->name) + " NOT NULL " +
				                sql::ident(column.name));
		}
	std::string result = relation.persistence == 'u' ? "CREATE UNLOGGED TABLE " : "CREATE TABLE ";
	result += sql::qualified(relation.name);
	if (relation.of_type)
		result += " OF " + sql::qualified(*relation.of_type);
	else
		result += " (" + sql::join(parts, ",") + (parts.empty() ? ")" : "\n)");
	if (!partition && !relation.parents.empty()) {
		std::vector<std::string> parents;
		for (const state::Name &parent : relation.parents)
			parents.push_back(sql::qualified(parent));
		result += " INHERITS (" + sql::join(parents, ", ") + ")";
	}
	if (relation.relkind == 'p')
		result += " PARTITION BY " + relation.partition_key;
	/* of a partitioned table, from 17 on, any that is said differs from the default */
	bool said = relation.relkind == 'p' ? server_version == 0 || server_version >= 170000
	                                    : relation.access_method != "heap";
	if (!relation.access_method.empty() && said)
		result += " USING " + sql::ident(relation.access_method);
	if (!relation.options.empty())
		result += " WITH " + options_sql(relation.options);
	return result;
}

/* What the clause of the table could not say of columns that come from a parent or a type. */
void
complete_columns(const state::Relation &relation, std::vector<std::string> &out)
{
	std::string table = sql::qualified(relation.name);
	for (const state::Column &column : relation.columns) {
		std::string alter = "ALTER TABLE ONLY " + table + " ALTER COLUMN " + sql::ident(column.name) + " ";
		if ((comes_from_parent(relation, column) || relation.of_type) && column.generated == 0) {
			if (column.default_expr)
				out.push_back(alter + "SET DEFAULT " + default_sql(column));
			/* one that is the parent's alone comes from there, and must go when the parent's goes */
			const state::Constraint *constraint = find_not_null(relation, column.attnum);
			if (column.not_null && (constraint == nullptr || (constraint->validated && constraint->local)))
				out.push_back(alter + "SET NOT NULL");
			if (relation.of_type && column.identity != 0)
				out.push_back(alter + "ADD " + default_sql(column));
		}
		if (column.sequence && column.identity == 0)
			out.push_back(sequence_owned_by(*column.sequence, table, column.name));
		for (std::string &more : physical_sql(column, table))
			out.push_back(std::move(more));
	}
}

void
replica_identity(const state::Relation &relation, std::vector<std::string> &out)
{
	std::string alter = "ALTER TABLE " + sql::qualified(relation.name) + " REPLICA IDENTITY ";
	if (relation.replica_identity == 'f')
		out.push_back(alter + "FULL");
	else if (relation.replica_identity == 'n')
		out.push_back(alter + "NOTHING");
	else if (relation.replica_identity == 'i')
		for (const state::Index &index : relation.indexes)
			if (index.oid == relation.replica_identity_index)
				out.push_back(alter + "USING INDEX " + sql::ident(index.name));
}

} // namespace

std::string
type_sql(const state::TypeRef &type)
{
	return type.sql;
}

std::string
default_sql(const state::Column &column)
{
	if (column.identity != 0) {
		std::string result =
		    column.identity == 'a' ? "GENERATED ALWAYS AS IDENTITY" : "GENERATED BY DEFAULT AS IDENTITY";
		if (column.sequence)
			result += " (SEQUENCE NAME " + sql::qualified(column.sequence->name) + " " +
			          sequence_options(*column.sequence) + ")";
		return result;
	}
	if (!column.default_expr)
		return "NULL";
	if (column.generated != 0)
		return "GENERATED ALWAYS AS (" + column.default_expr->sql + ")" +
		       (column.generated == 'v' ? " VIRTUAL" : " STORED");
	return column.default_expr->sql;
}

/* From 18 on NOT NULL has a name; before, the syntax takes one and forgets it, and children always have it too.
 * One that is not validated is left for after the rows. */
std::string
not_null_clause(const state::Relation &relation, const state::Column &column, int server_version)
{
	if (!column.not_null)
		return "";
	const state::Constraint *constraint = find_not_null(relation, column.attnum);
	if (constraint == nullptr)
		return " NOT NULL";
	if (!constraint->validated)
		return "";
	bool named = server_version == 0 || server_version >= 180000;
	if (!named && constraint->no_inherit)
		return "";
	return " CONSTRAINT " + sql::ident(constraint->name) + " NOT NULL" +
	       (constraint->no_inherit ? " NO INHERIT" : "");
}

/* Name, type, collation; what generates the column belongs to it, a default only when asked for. */
std::string
column_clause(const state::Column &column, bool with_default)
{
	std::string result = sql::ident(column.name) + " " + type_sql(column.type);
	if (!column.collation.empty())
		result += " COLLATE " + column.collation;
	if (column.generated != 0 || (with_default && column.identity != 0))
		result += " " + default_sql(column);
	else if (with_default && column.default_expr)
		result += " DEFAULT " + default_sql(column);
	return result;
}

std::string
sequence_options(const state::Sequence &sequence)
{
	return "START WITH " + std::to_string(sequence.start) + " INCREMENT BY " +
	       std::to_string(sequence.increment) + " MINVALUE " + std::to_string(sequence.min) + " MAXVALUE " +
	       std::to_string(sequence.max) + " CACHE " + std::to_string(sequence.cache) +
	       (sequence.cycle ? " CYCLE" : " NO CYCLE");
}

std::string
create_sequence(const state::Sequence &sequence)
{
	return "CREATE SEQUENCE " + sql::qualified(sequence.name) + " AS " + sequence.type + " " +
	       sequence_options(sequence);
}

std::string
sequence_owned_by(const state::Sequence &sequence, std::string_view table, std::string_view column)
{
	return "ALTER SEQUENCE " + sql::qualified(sequence.name) + " OWNED BY " + std::string(table) + "." +
	       sql::ident(column);
}

/* Storage, compression, statistics target and options, where they are not the usual ones. */
std::vector<std::string>
physical_sql(const state::Column &column, const std::string &table)
{
	std::vector<std::string> result;
	std::string alter = "ALTER TABLE " + table + " ALTER COLUMN " + sql::ident(column.name) + " ";
	char usual = usual_storage(column.type);
	if (column.storage != 0 && column.generated != 'v' &&
	    (usual == 0 ? column.storage == 'e' : column.storage != usual && usual != 'p'))
		result.push_back(alter + "SET STORAGE " + storage_word(column.storage));
	if (column.compression != 0)
		result.push_back(alter + "SET COMPRESSION " + (column.compression == 'l' ? "lz4" : "pglz"));
	if (column.statistics >= 0)
		result.push_back(alter + "SET STATISTICS " + std::to_string(column.statistics));
	if (!column.options.empty())
		result.push_back(alter + "SET " + options_sql(column.options));
	return result;
}

/* {"fillfactor=70"} to ("fillfactor" = '70') */
std::string
options_sql(const std::vector<std::string> &options)
{
	std::vector<std::string> parts;
	for (const std::string &option : options) {
		std::size_t equals = option.find('=');
		std::string name = option.substr(0, equals);
		parts.push_back(sql::ident(name) +
		                (equals == std::string::npos ? "" : " = " + sql::literal(option.substr(equals + 1))));
	}
	return "(" + sql::join(parts, ", ") + ")";
}

CreateScript
render_create(const state::Relation &relation, const Policy &policy, int server_version)
{
	CreateScript script;
	std::string table = sql::qualified(relation.name);
	for (const state::Column &column : relation.columns)
		if (column.sequence && column.identity == 0)
			script.before_rows.push_back(create_sequence(*column.sequence));
	script.before_rows.push_back(create_table(relation, server_version));
	complete_columns(relation, script.before_rows);

	bool ignored = policy.constraints == Choice::Ignore;
	for (const state::Constraint &constraint : relation.constraints) {
		bool partition = !relation.partition_bound.empty();
		/* rows that were there need not comply with one that is not validated */
		bool any_rows = constraint.validated || sql::ends_with_words(constraint.definition, "NOT ENFORCED");
		if (constraint.type == 'c' && (!is_inherited(constraint) || (partition && any_rows)) && !ignored)
			(any_rows ? script.before_rows : script.after_rows)
			    .push_back(add_constraint_sql(relation, constraint));
		if (constraint.type == 'n' && !constraint.validated && !is_inherited(constraint) &&
		    (server_version == 0 || server_version >= 180000))
			script.after_rows.push_back(add_constraint_sql(relation, constraint));
		bool unique = constraint.type == 'p' || (constraint.type == 'u' && !ignored) ||
		              (constraint.type == 'x' && !ignored);
		if (unique && !is_inherited(constraint))
			script.after_rows.push_back(add_constraint_sql(relation, constraint));
	}
	if (!relation.partition_bound.empty() && relation.parents.size() == 1)
		script.before_rows.push_back("ALTER TABLE " + sql::qualified(relation.parents[0]) +
		                             " ATTACH PARTITION " + table + " " + relation.partition_bound);
	if (relation.rls)
		script.before_rows.push_back("ALTER TABLE " + table + " ENABLE ROW LEVEL SECURITY");
	if (relation.force_rls)
		script.before_rows.push_back("ALTER TABLE " + table + " FORCE ROW LEVEL SECURITY");

	for (const state::Index &index : relation.indexes) {
		bool needed = index.oid == relation.replica_identity_index && relation.replica_identity == 'i';
		if (index.constraint == 0 && index.parent == 0 && index.valid &&
		    (policy.indexes != Choice::Ignore || needed))
			script.after_rows.push_back(
			    create_index_sql(index, relation.name.schema, relation.name.name, false));
	}
	for (const state::Constraint &constraint : relation.constraints)
		if (constraint.type == 'f' && !is_inherited(constraint) && !ignored)
			script.after_rows.push_back(add_constraint_sql(relation, constraint));
	replica_identity(relation, script.after_rows);
	return script;
}

std::string
attribute_clause(const state::Attribute &attribute)
{
	return sql::ident(attribute.name) + " " + attribute.type.sql +
	       (attribute.collation.empty() ? "" : " COLLATE " + attribute.collation);
}

std::vector<std::string>
render_create_type(const state::Type &type)
{
	std::string name = sql::qualified(type.name);
	std::vector<std::string> parts, result;
	if (type.typtype == 'e') {
		for (const state::EnumLabel &label : type.labels)
			parts.push_back(sql::literal(label.label));
		return {"CREATE TYPE " + name + " AS ENUM (" + sql::join(parts, ", ") + ")"};
	}
	if (type.typtype == 'c') {
		for (const state::Attribute &attribute : type.attributes)
			parts.push_back(attribute_clause(attribute));
		return {"CREATE TYPE " + name + " AS (" + sql::join(parts, ", ") + ")"};
	}
	if (type.typtype == 'd') {
		result.push_back("CREATE DOMAIN " + name + " AS " + type.base.sql +
		                 (type.collation.empty() ? "" : " COLLATE " + type.collation) +
		                 (type.default_expr ? " DEFAULT " + type.default_expr->sql : "") +
		                 (type.not_null ? " NOT NULL" : ""));
		for (const state::Constraint &constraint : type.constraints)
			if (constraint.type == 'c')
				result.push_back("ALTER DOMAIN " + name + " ADD CONSTRAINT " + sql::ident(constraint.name) +
				                 " " + constraint.definition);
		return result;
	}
	/* a canonical function needs the type to be there before it */
	if (type.typtype == 'r' && type.canonical.empty()) {
		parts.push_back("SUBTYPE = " + type.base.sql);
		auto more = [&](std::string_view key, const std::string &value) {
			if (!value.empty() && sql::is_one_clause(value))
				parts.push_back(std::string(key) + " = " + value);
		};
		more("SUBTYPE_OPCLASS", type.opclass);
		more("COLLATION", type.collation);
		/* described with its arguments, of which an option takes none; no name of a type in them has parentheses */
		more("SUBTYPE_DIFF", type.diff.substr(0, type.diff.rfind('(')));
		if (!type.multirange_name.empty())
			parts.push_back("MULTIRANGE_TYPE_NAME = " +
			                sql::qualified(type.name.schema, type.multirange_name));
		return {"CREATE TYPE " + name + " AS RANGE (" + sql::join(parts, ", ") + ")"};
	}
	return {};
}

} // namespace schemasync::merge
