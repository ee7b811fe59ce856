/*
 * What schemasync knows of an object: plain values, parsed from the JSON of docs/wire.md.
 *
 * Made by the catalog reader (as JSON), held as base by the subscriber, compared by the merge.
 *
 * Zone: core.
 */
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pure.hpp"

namespace schemasync::state {

using Oid = std::uint32_t;
using AttrNumber = std::int16_t;

struct Name {
	Oid oid = 0;
	std::string schema;
	std::string name;
	bool operator==(const Name &) const = default;
};

/* An object inside an expression that is not built in. */
struct Reference {
	std::string kind;
	std::string name;
	std::string digest;
	bool operator==(const Reference &) const = default;
};

struct Expression {
	std::string sql;
	char volatility = 'v'; /* i, s, v */
	std::vector<Reference> refs;
	bool operator==(const Expression &) const = default;
};

struct TypeRef {
	Oid oid = 0;
	std::string schema;
	std::string name;
	std::int32_t typmod = -1;
	std::string sql; /* as it is written in SQL, qualified */
	bool builtin = false;
	std::vector<TypeRef> element; /* none or one */
};

struct Sequence {
	Name name;
	std::string type;
	std::int64_t start = 1, increment = 1, min = 1, max = 0, cache = 1;
	bool cycle = false;
	/* Whatever its name. */
	bool same_as(const Sequence &other) const
	{
		return type == other.type && start == other.start && increment == other.increment && min == other.min &&
		       max == other.max && cache == other.cache && cycle == other.cycle;
	}
};

struct Column {
	AttrNumber attnum = 0;
	std::string name;
	TypeRef type;
	std::string collation; /* empty: the type's default */
	bool not_null = false;
	std::optional<Expression> default_expr;
	std::optional<std::string> missing;
	char identity = 0;
	char generated = 0;
	std::optional<Sequence> sequence;
	char storage = 0;
	char compression = 0;
	std::int32_t statistics = -1;
	std::vector<std::string> options;
	bool local = true;
	std::int32_t inhcount = 0;
	std::optional<Expression> domain_default;
};

struct Constraint {
	Oid oid = 0;
	std::string name;
	char type = 0; /* p u c f x n t */
	std::string definition;
	std::vector<AttrNumber> columns;
	bool validated = true, deferrable = false, deferred = false, local = true, no_inherit = false;
	std::int32_t inhcount = 0;
	Oid index = 0, parent = 0;
	std::optional<Expression> expr;
	std::optional<Name> references;
};

struct Index {
	Oid oid = 0;
	std::string schema;
	std::string name;
	std::string definition;
	bool unique = false, primary = false, valid = true, immediate = true, replica_identity = false;
	bool nulls_not_distinct = false;
	std::vector<AttrNumber> columns;
	Oid constraint = 0, parent = 0;
	std::optional<Expression> expr;
};

struct Relation {
	Name name;
	char relkind = 'r';
	char persistence = 'p';
	std::string owner;
	char replica_identity = 'd';
	Oid replica_identity_index = 0;
	std::vector<AttrNumber> identity_columns;
	bool rls = false, force_rls = false;
	std::vector<std::string> options;
	std::string access_method;
	std::optional<Name> of_type;
	std::string partition_key, partition_bound;
	std::optional<Expression> partition_key_expr;
	bool partition_hidden = false; /* a partition, of what and for which values a column list hides */
	std::vector<Name> parents;
	std::string extension;
	std::optional<std::vector<AttrNumber>> published_columns;
	bool published_filter = false, published_via_root = false;
	std::vector<Column> columns;
	std::vector<Constraint> constraints;
	std::vector<Index> indexes;
	std::string fingerprint;
	std::uint32_t filenode = 0;
	bool created_here = false;
	bool inserts_only = false; /* neither updates nor deletes of it are published */
};

struct EnumLabel {
	Oid oid = 0;
	std::string label;
};

struct Attribute {
	AttrNumber attnum = 0;
	std::string name;
	TypeRef type;
	std::string collation;
};

struct Type {
	Name name;
	char typtype = 'b'; /* e d c r b */
	std::string owner, extension, array_name;
	Oid array = 0;
	std::vector<EnumLabel> labels;
	TypeRef base; /* domain: base type; range: subtype */
	bool not_null = false;
	std::optional<Expression> default_expr;
	std::string collation, opclass, canonical, diff, multirange_name;
	std::vector<Constraint> constraints;
	std::vector<Attribute> attributes;
	std::optional<Name> row_type_of; /* the table whose row type it is: followed with the table */
	std::string fingerprint;
};

struct Schema {
	Name name;
	std::string owner, extension;
};

/* One grant of an object's privileges. */
struct Privilege {
	std::string role;   /* empty: PUBLIC, or the owner */
	std::string column; /* empty: of the object */
	std::string privilege;
	bool owner = false;
	bool grantable = false;

	/* The same grant, with or without grant option. */
	bool same_as(const Privilege &other) const;
};

/* One DEFINITION of docs/wire.md; which fields are there depends on the class. */
struct Definition {
	std::string object_class; /* views, functions, ... */
	std::string catalog;      /* pg_class, ... */
	Oid oid = 0;
	int subid = 0;
	std::string type;     /* "view", "function", ..., as pg_identify_object has it */
	std::string identity; /* qualified, as SQL takes it after the keyword: s.f(integer), t ON s.r */
	std::vector<std::string> names, args; /* as pg_get_object_address takes them */
	std::string owner;
	Name name;              /* bare; the schema only where the object has one of its own */
	Name relation;          /* of triggers, rules, policies, statistics */
	Oid of_table = 0;       /* what it belongs to; 0: to no table */
	std::string definition; /* a whole statement, or of a view its query */
	std::vector<std::string> columns, options;
	std::vector<std::pair<std::string, std::string>> defaults; /* of a view's columns */
	struct Index {
		Oid oid = 0;
		std::string name, definition;
	};
	std::vector<Index> indexes; /* of a materialized view */
	std::string access_method;
	bool populated = true;
	std::string refresh; /* what the command did to a materialized view: plain, concurrently, or nothing */
	char enabled = 'O';
	bool clone = false;      /* a partition's copy of its parent's trigger */
	bool constraint = false; /* a constraint trigger */
	bool security_definer = false;
	char command = '*';
	bool permissive = true;
	std::vector<std::string> roles; /* empty: PUBLIC */
	std::string using_expr, check_expr;
	int target = -1;
	std::string version;
	std::optional<Sequence> sequence;
	bool owned = false;              /* a sequence: a column's; it goes with its table */
	std::optional<std::string> text; /* the comment */
	std::vector<Privilege> acl, default_acl;
};

/* Why a JSON text was not taken: a path into it and what was wrong there. */
struct ParseError {
	std::string where;
	std::string what;
};

} // namespace schemasync::state
