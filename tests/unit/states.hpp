/*
 * Short ways to write states and to look at what a merge made of them.
 */
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/merge.hpp"
#include "core/sql.hpp"

namespace states {

using namespace schemasync;
using namespace schemasync::merge;
using namespace schemasync::state;

inline TypeRef
builtin(const std::string &name, const std::string &sql = {}, std::int32_t typmod = -1)
{
	TypeRef type;
	Oid oid = 16;
	for (char c : name)
		oid = oid * 31 % 9000 + static_cast<unsigned char>(c);
	type.oid = oid;
	type.schema = "pg_catalog";
	type.name = name;
	type.typmod = typmod;
	type.sql = sql.empty() ? name : sql;
	type.builtin = true;
	return type;
}

inline const TypeRef integer = builtin("int4", "integer");
inline const TypeRef bigint = builtin("int8", "bigint");
inline const TypeRef text = builtin("text");
inline const TypeRef timestamp = builtin("timestamp", "timestamp without time zone");
inline const TypeRef timestamptz = builtin("timestamptz", "timestamp with time zone");
inline const TypeRef date = builtin("date");
inline const TypeRef uuid = builtin("uuid");

inline TypeRef
varchar(int length)
{
	return builtin("varchar", "character varying(" + std::to_string(length) + ")", length + 4);
}

inline TypeRef
numeric(int precision, int scale)
{
	return builtin("numeric", "numeric(" + std::to_string(precision) + "," + std::to_string(scale) + ")",
	               (precision << 16 | scale) + 4);
}

inline TypeRef
user_type(Oid oid, const std::string &name)
{
	TypeRef type;
	type.oid = oid;
	type.schema = "public";
	type.name = name;
	type.sql = "public." + name;
	return type;
}

inline Expression
expression(const std::string &sql, char volatility = 'i')
{
	return {sql, volatility, {}};
}

inline Column
column(AttrNumber attnum, const std::string &name, const TypeRef &type = integer)
{
	Column result;
	result.attnum = attnum;
	result.name = name;
	result.type = type;
	return result;
}

inline Constraint
constraint(Oid oid, const std::string &name, char type, const std::string &definition,
           std::vector<AttrNumber> columns = {})
{
	Constraint result;
	result.oid = oid;
	result.name = name;
	result.type = type;
	result.definition = definition;
	result.columns = std::move(columns);
	return result;
}

inline Index
index(Oid oid, const std::string &name, const std::string &rest, bool unique = false,
      std::vector<AttrNumber> columns = {})
{
	Index result;
	result.oid = oid;
	result.schema = "public";
	result.name = name;
	result.definition =
	    std::string(unique ? "CREATE UNIQUE INDEX " : "CREATE INDEX ") + name + " ON public.t " + rest;
	result.unique = unique;
	result.columns = std::move(columns);
	return result;
}

/* t(id integer not null, a integer, b integer) */
inline Relation
table()
{
	Relation result;
	result.name = {1000, "public", "t"};
	result.access_method = "heap";
	result.columns = {column(1, "id"), column(2, "a"), column(3, "b")};
	result.columns[0].not_null = true;
	result.filenode = 1000;
	return result;
}

inline Column &
at(Relation &relation, AttrNumber attnum)
{
	return *std::find_if(relation.columns.begin(), relation.columns.end(),
	                     [&](const Column &c) { return c.attnum == attnum; });
}

inline void
remove(Relation &relation, AttrNumber attnum)
{
	std::erase_if(relation.columns, [&](const Column &c) { return c.attnum == attnum; });
}

struct Facts : LocalFacts {
	std::vector<std::string> relations, no_types, no_tables, no_schemas, no_roles;
	std::vector<Dependent> in_the_way;
	std::vector<Reference> local_digests;
	std::vector<Name> followed; /* with the publisher's oid */
	bool digests_given = false;
	int version = 0;
	char kind = 0;
	std::optional<TypeRef> domain; /* what is below every type */
	std::vector<std::pair<Oid, TypeRef>> publisher_domains;
	std::vector<Name> mapped_types; /* with the publisher's oid */
	char relkind = 'r';             /* of the relations */

	static bool
	has(const std::vector<std::string> &all, std::string_view schema, std::string_view name)
	{
		return std::find(all.begin(), all.end(), std::string(schema) + "." + std::string(name)) != all.end();
	}
	bool
	schema_exists(std::string_view name) const override
	{
		return std::find(no_schemas.begin(), no_schemas.end(), name) == no_schemas.end();
	}
	bool
	role_exists(std::string_view name) const override
	{
		return std::find(no_roles.begin(), no_roles.end(), name) == no_roles.end();
	}
	bool
	relation_exists(std::string_view schema, std::string_view name) const override
	{
		return has(relations, schema, name);
	}
	char
	relation_kind(std::string_view schema, std::string_view name) const override
	{
		return has(relations, schema, name) ? relkind : '\0';
	}
	std::optional<Name>
	local_type_name(Oid publisher) const override
	{
		for (const Name &name : mapped_types)
			if (name.oid == publisher)
				return name;
		return std::nullopt;
	}
	std::optional<TypeRef>
	publisher_domain_base(Oid publisher) const override
	{
		for (const auto &[oid, base] : publisher_domains)
			if (oid == publisher)
				return base;
		return std::nullopt;
	}
	bool
	table_exists(std::string_view schema, std::string_view name) const override
	{
		return !has(no_tables, schema, name);
	}
	bool
	type_exists(std::string_view schema, std::string_view name) const override
	{
		return !has(no_types, schema, name);
	}
	char
	type_kind(std::string_view, std::string_view) const override
	{
		return kind;
	}
	std::optional<TypeRef>
	domain_base(std::string_view, std::string_view) const override
	{
		return domain;
	}
	int
	server_version() const override
	{
		return version;
	}
	std::optional<Name>
	local_relation(state::Oid publisher) const override
	{
		for (const Name &name : followed)
			if (name.oid == publisher)
				return Name{name.oid + 1, name.schema, name.name};
		return std::nullopt;
	}
	std::vector<Dependent>
	dependents(const Relation &, AttrNumber) const override
	{
		return in_the_way;
	}
	std::vector<Dependent>
	type_dependents(std::string_view, std::string_view) const override
	{
		return in_the_way;
	}
	std::optional<std::string>
	digest(const Reference &reference) const override
	{
		if (!digests_given)
			return reference.digest;
		for (const Reference &local : local_digests)
			if (local.name == reference.name)
				return local.digest;
		return std::nullopt;
	}
};

/* One merge: base and ours begin as the same table; a test changes theirs, and ours where it differs. */
struct Scene {
	Relation base = table(), theirs = table(), ours = table();
	Command command;
	Policy policy;
	Facts facts;
	bool has_rows = true, resumed = false, rows_follow = false;
	std::vector<const Relation *> descendants;
	ColumnMap columns;
	Result result;

	Scene() { command.captured = true, command.tag = "ALTER TABLE"; }

	Scene &
	all(auto change)
	{
		change(base), change(theirs), change(ours);
		return *this;
	}
	Result &
	run()
	{
		RelationInput input;
		input.base = &base;
		input.theirs = &theirs;
		input.ours = &ours;
		input.mapped = true;
		input.columns = columns.pairs.empty() ? map_columns_by_name(base, ours) : columns;
		input.has_rows = has_rows;
		input.resumed = resumed;
		input.rows_follow = rows_follow;
		input.descendants = descendants;
		result = merge_relation(input, command, policy, &facts);
		return result;
	}
	std::string
	sql()
	{
		std::string out;
		for (const Operation &operation : run().operations)
			for (const std::string &statement : operation.sql)
				out += statement + ";\n";
		return out;
	}
	/* "add_column forward; drop_column refuse local_dependents" */
	std::string
	verdicts()
	{
		std::string out;
		for (const Operation &operation : run().operations) {
			out +=
			    (out.empty() ? "" : "; ") + operation.operation + " " + std::string(name(operation.verdict));
			if (operation.verdict == Verdict::Refuse)
				out += " " + std::string(info(operation.reason).name);
		}
		return out;
	}
};

/* A table that is new. */
struct CreateScene {
	Relation theirs = table();
	const Relation *ours = nullptr;
	Facts facts;
	Policy policy;
	Result result;

	std::string
	verdicts()
	{
		RelationInput input;
		input.theirs = &theirs;
		input.ours = ours;
		result = merge_relation(input, {}, policy, &facts);
		std::string out;
		for (const Operation &operation : result.operations) {
			out +=
			    (out.empty() ? "" : "; ") + operation.operation + " " + std::string(name(operation.verdict));
			if (operation.verdict == Verdict::Refuse)
				out += " " + std::string(info(operation.reason).name);
		}
		return out;
	}
	std::string
	sql()
	{
		verdicts();
		std::string out;
		for (const Operation &operation : result.operations)
			for (const std::string &statement : operation.sql)
				out += statement + ";\n";
		return out;
	}
};

} // namespace states
