/*
 * What the merge asks about the subscriber beyond the relation's own state. The apply worker answers from the
 * local catalog; the answers given here, "all is there and nothing is in the way", serve schemasync_check on
 * the publisher, where there is no subscriber to ask.
 *
 * Zone: core. An implementation may throw (pg::Error) through the merge: it keeps nothing but values.
 */
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/state.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

/* Something that depends on a column or table and would go with it. */
struct Dependent {
	std::string type; /* as pg_identify_object has it: "view", "table constraint", "rule", "function", ... */
	std::string identity; /* likewise: "public.v", "fk on public.child" */
	std::string schema;   /* of a table constraint: its table's */
	std::string table;    /* of a table constraint */
	std::string name;     /* bare */
};

class LocalFacts {
public:
	virtual ~LocalFacts() = default;

	virtual bool
	schema_exists(std::string_view) const
	{
		return true;
	}
	/* Any pg_class entry of that name: table, view, index, sequence. */
	virtual bool
	relation_exists(std::string_view, std::string_view) const
	{
		return false;
	}
	/* relkind of what relation_exists() finds ('c': a composite type); 0: nothing, or it is not known. */
	virtual char
	relation_kind(std::string_view, std::string_view) const
	{
		return 0;
	}
	/* A table that rows or foreign keys can refer to. */
	virtual bool
	table_exists(std::string_view, std::string_view) const
	{
		return true;
	}
	virtual bool
	type_exists(std::string_view, std::string_view) const
	{
		return true;
	}
	/* typtype of the local type ('e', 'd', ...); 0 when it is not known. */
	virtual char
	type_kind(std::string_view, std::string_view) const
	{
		return 0;
	}
	/* What is at the bottom of a local domain, whose values are the domain's; nullopt: it is none, or not known. */
	virtual std::optional<state::TypeRef>
	domain_base(std::string_view, std::string_view) const
	{
		return std::nullopt;
	}
	/* Whether the subscriber has a cast of its own between the two, by a function, in the place of the server's. */
	virtual bool
	own_cast(const state::TypeRef &, const state::TypeRef &) const
	{
		return false;
	}
	/* As it stands in SQL: qualified and quoted. */
	virtual bool
	collation_exists(std::string_view) const
	{
		return true;
	}
	virtual bool
	role_exists(std::string_view) const
	{
		return true;
	}
	/* Whether the local relation that the publisher's was mapped to is there (for a parent): its oid there,
	 * name here. */
	virtual std::optional<state::Name>
	local_relation(state::Oid) const
	{
		return std::nullopt;
	}
	/* The local type that the publisher's type is mapped to; 0 when that is not known, names are compared
	 * then. */
	virtual state::Oid
	local_type(state::Oid) const
	{
		return 0;
	}
	/* The same type: its oid and its name here, whatever it was named when the publisher's was mapped to it. */
	virtual std::optional<state::Name>
	local_type_name(state::Oid) const
	{
		return std::nullopt;
	}
	/* What is at the bottom of a domain of the publisher, as its state says; nullopt: it is none, or not known. */
	virtual std::optional<state::TypeRef>
	publisher_domain_base(state::Oid) const
	{
		return std::nullopt;
	}
	/* The digest that the local definition of an object in an expression has (docs/wire.md, EXPR); nullopt:
	 * missing. */
	virtual std::optional<std::string>
	digest(const state::Reference &reference) const
	{
		return reference.digest;
	}
	/*
	 * What on the subscriber would make DROP ... RESTRICT of the local column (0: of the whole table) fail:
	 * views, foreign keys of other tables, rules, functions. Not the table's own constraints and indexes.
	 */
	virtual std::vector<Dependent>
	dependents(const state::Relation &, state::AttrNumber) const
	{
		return {};
	}
	/* The same for DROP of a type or domain. */
	virtual std::vector<Dependent>
	type_dependents(std::string_view, std::string_view) const
	{
		return {};
	}
	/* server_version_num of the subscriber; 0: not known, what both sides need is used. */
	virtual int
	server_version() const
	{
		return 0;
	}
};

} // namespace schemasync::merge
