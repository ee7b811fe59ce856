/*
 * The three-way schema merge: base (the publisher's state last accepted), theirs (its state now) and ours
 * (the subscriber's), matched by the publisher's identities, give an ordered list of operations, each with its
 * verdict, reason and SQL.
 *
 * Called by the apply worker at each state or ddl message, by schemasync_check and by the guard. Pure: values in, values out.
 *
 * Zone: core.
 */
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/policy.hpp"
#include "core/reason.hpp"
#include "core/state.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

using state::AttrNumber;
using state::Oid;

/* Publisher attnum -> subscriber attnum, for the columns both have. */
struct ColumnMap {
	std::vector<std::pair<AttrNumber, AttrNumber>> pairs;
};

/* What a marker says of the command (docs/wire.md); absent fields when the change was only inferred. */
struct UsingHint {
	Oid relation = 0;
	AttrNumber attnum = 0;
	bool given = false;
	std::optional<state::Expression> expr;
};
struct RewriteHint {
	Oid relation = 0;
	int reason = 0;
	std::int64_t rows = 0;
	bool carried = false;
};
struct DroppedObject {
	std::string class_name, type, schema, name, identity;
	Oid oid = 0;
	int subid = 0;
	bool original = false;
};
struct TouchedObject {
	std::string class_name, type, schema, identity;
	Oid oid = 0;
	int subid = 0;
	bool extension = false;
};
struct Command {
	bool captured = false;
	std::string tag, statement, user;
	std::vector<std::pair<std::string, std::string>> settings;
	std::vector<std::string> subcommands;
	std::vector<UsingHint> using_hints;
	std::vector<RewriteHint> rewrites;
	std::vector<TouchedObject> objects;
	std::vector<DroppedObject> dropped;
};

/* One step of the way from base to theirs. */
struct Operation {
	std::string operation;       /* stable code of the operation catalog, e.g. "add_column" */
	std::string object_type;     /* "table", "column", "index", ... */
	std::string object_identity; /* qualified, quoted */
	Verdict verdict = Verdict::Refuse;
	Reason reason = Reason::None;
	std::string change;     /* what changed, one line, for people */
	std::string detail;     /* why it cannot be proven (refuse) or was satisfied or ignored */
	std::vector<std::string> sql; /* to execute in order, one statement each; empty when nothing is to be done */
	std::string suggested_sql;    /* refuse: what would bring the subscriber level, when there is such a thing */
	std::string hint;             /* refuse: what to do, in order */
};

/* What is known of one relation on the three sides. A null pointer: there is none. */
struct RelationInput {
	const state::Relation *base = nullptr;
	const state::Relation *theirs = nullptr; /* null: dropped */
	const state::Relation *ours = nullptr;   /* the mapped local relation, or one of theirs' name when nothing is mapped */
	bool mapped = false;                     /* ours is what base was mapped to */
	ColumnMap columns;
	bool has_rows = true; /* whether ours may have rows */
};

struct Result {
	std::vector<Operation> operations; /* in a safe order of execution */
	bool refused() const;
};

/* theirs against base for one relation. `relation_exists` answers whether the subscriber has a relation of that name. */
Result merge_relation(const RelationInput &input, const Command &command, const Policy &policy);

/* The same for a type (enum, domain, composite, range): ours is the subscriber's type of that name, or of base's name. */
Result merge_type(const state::Type *base, const state::Type *theirs, const state::Type *ours, const Command &command,
                  const Policy &policy);

/* A schema that is missing on the subscriber is created. */
Result merge_schema(const state::Schema *base, const state::Schema &theirs, bool exists, const Policy &policy);

/* Pairs the columns of theirs and ours by name; what has no partner is left out. */
ColumnMap map_columns_by_name(const state::Relation &theirs, const state::Relation &ours);

/* Publisher against subscriber, column by column and object by object: one line a difference, for people. */
std::string describe_drift(const state::Relation &theirs, const state::Relation &ours, const ColumnMap &columns);

/* SQL that creates the relation from its state, in parts: what must be there before the rows, and after them. */
struct CreateScript {
	std::vector<std::string> before_rows;
	std::vector<std::string> after_rows;
};
CreateScript render_create(const state::Relation &relation, const Policy &policy);
std::vector<std::string> render_create_type(const state::Type &type);

} // namespace schemasync::merge
