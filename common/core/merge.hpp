/*
 * The three-way schema merge: base (the publisher's state last accepted), theirs (its state now) and ours
 * (the subscriber's), matched by the publisher's identities, give an ordered list of operations, each with
 * its verdict, reason and SQL.
 *
 * Called by the apply worker at each state or ddl message, by schemasync_check and by the guard. Pure: values
 * in, values out.
 *
 * Zone: core.
 */
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/command.hpp"
#include "core/facts.hpp"
#include "core/operation.hpp"
#include "core/policy.hpp"
#include "core/reason.hpp"
#include "core/state.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

/* Publisher attnum -> subscriber attnum, for the columns both have. */
struct ColumnMap {
	std::vector<std::pair<AttrNumber, AttrNumber>> pairs;
};

/* One step of the way from base to theirs. */
struct Operation {
	Op op = Op::Unsupported;
	std::string operation;       /* its stable code, e.g. "add_column" */
	std::string object_type;     /* "table", "column", "index", ... */
	std::string object_identity; /* qualified, quoted where needed, the name after the change */
	Verdict verdict = Verdict::Refuse;
	Reason reason = Reason::None;
	std::string change; /* what changed, one line, for people */
	std::string
	    detail; /* why it cannot be proven (refuse), or was satisfied or ignored; else empty or a remark */

	/*
	 * To execute in order, one statement each; empty when nothing is to be done (or another operation's
	 * statement does it too: several type changes of one table must be one statement, because each USING sees
	 * the old row).
	 */
	std::vector<std::string> sql;
	/* Carry: to execute after the last carried row. */
	std::vector<std::string> sql_after;
	/* Carry: what the operation does cannot be done with rows in the table: it is emptied first, and the carried rows
	 * are all its rows; else they may update the local ones by key. */
	bool replace_rows = false;
	/* Carry: the new column (its local name) whose sequence goes on after the carried rows; else empty. */
	std::string counter;
	/* The parameters (SET LOCAL) that `sql` must run under because its result depends on them. */
	std::vector<std::pair<std::string, std::string>> settings;
	/* false: the server itself restricts what it calls, and would not do it in a security-restricted context */
	bool restricted = true;
	/* indexes = background: `sql` is CREATE INDEX CONCURRENTLY for the queue of the index worker. */
	bool background = false;
	state::Oid index = 0; /* of CREATE INDEX: the publisher's index */

	std::string suggested_sql; /* refuse: what would bring the subscriber level, when there is such a thing */
	std::string
	    hint; /* refuse: what to do, in order, one step a line; "{subscription}" stands for its name */
};

/* What is known of one relation on the three sides. A null pointer: there is none. */
struct RelationInput {
	const state::Relation *base = nullptr;
	const state::Relation *theirs = nullptr; /* null: dropped */
	const state::Relation *ours =
	    nullptr;          /* the mapped local relation, or one of theirs' name when nothing is mapped */
	bool mapped = false;  /* ours is what base was mapped to */
	ColumnMap columns;    /* of base (or, when not mapped, may be empty) and ours */
	bool has_rows = true; /* whether ours may have rows */
	/* theirs' partitions and children in the same message, at any depth: they have the stored values a root
	 * has not */
	std::vector<const state::Relation *> descendants;
	/*
	 * The rows of the rewrite that the command made (of this relation or of a descendant) were carried and wait
	 * (docs/wire.md, `schemasync.rewrite`): what needs them gets the verdict carry.
	 */
	bool rows_follow = false;
	/*
	 * A person resumed after a refusal at this very boundary: what the catalog cannot show (that rows were
	 * converted) is taken as done. What it can show is still checked.
	 */
	bool resumed = false;
};

struct Result {
	std::vector<Operation> operations; /* in a safe order of execution */
	/*
	 * The name that each published column of theirs has on the subscriber once the operations are done; a
	 * column that the subscriber does not keep is not in it. The caller turns names into attnums and stores
	 * them as the new map.
	 */
	std::vector<std::pair<AttrNumber, std::string>> local_columns;
	/* The carried rows are to be applied, those of the descendants too: after `sql` of all operations, before `sql_after`. */
	bool needs_rows = false;
	/* The publisher lost the replica identity, perhaps on the way to another one: to be refused at the end of the transaction if not. */
	bool identity_lost = false;
	/* Publisher attnums of a key that the command left as it was, by which a carried row finds the local one; empty: none. */
	std::vector<AttrNumber> key;

	bool refused() const;
	/* Whether the table has to be empty before the operations. */
	bool replaces_rows() const;
};

/*
 * theirs against base for one relation.
 *
 * A change of a parent reaches its partitions and children by itself: the caller takes parents first,
 * executes, and reads `ours` of the children afresh, for which the same change is then `satisfied`.
 *
 * facts: null when there is no subscriber to ask
 */
Result merge_relation(const RelationInput &input, const Command &command, const Policy &policy,
                      const LocalFacts *facts = nullptr);

/* The same for a type (enum, domain, composite, range): ours is the local type that base is mapped to, else
 * of theirs' name. */
Result merge_type(const state::Type *base, const state::Type *theirs, const state::Type *ours,
                  const Command &command, const Policy &policy, const LocalFacts *facts = nullptr);

/*
 * A schema: created when it is missing, renamed when base has another name.
 *
 * exists:      whether the subscriber has a schema of theirs' name
 * base_exists: whether it has one of base's name
 */
Result merge_schema(const state::Schema *base, const state::Schema &theirs, bool exists, const Policy &policy,
                    bool base_exists = true);

/*
 * Refuses the operation when an object in the expression is missing or (when `exact`) differs. Whether it is proven.
 *
 * values: rows get what it computes here, so that the locale of the database counts too
 */
bool prove(Operation &operation, const std::optional<state::Expression> &expression, bool exact,
           const LocalFacts &facts, bool values = false);

/* A rewrite of which rows were decoded but that no marker explained: the refusal for the caller to report at
 * commit. */
Operation unexplained_rewrite(const state::Relation &relation, const RewriteHint &rewrite);

/* The refusal of a replica identity that a transaction took away and did not replace. table: qualified and quoted for show */
Operation lost_identity(const std::string &table);

/* Whether rows of it that are updated or deleted can be found, or it was said that none will be. */
bool has_identity(const state::Relation &relation);

/* Pairs the columns of theirs and ours by name; what has no partner is left out. */
ColumnMap map_columns_by_name(const state::Relation &theirs, const state::Relation &ours);

/* Publisher against subscriber, column by column and object by object: one line a difference, for people. */
std::string describe_drift(const state::Relation &theirs, const state::Relation &ours,
                           const ColumnMap &columns);

/* SQL that creates the relation from its state, in parts: what must be there before the rows, and after them.
 */
struct CreateScript {
	std::vector<std::string> before_rows;
	std::vector<std::string> after_rows;
};
/* For a server of that version (server_version_num); 0: one that has whatever the relation has. */
CreateScript render_create(const state::Relation &relation, const Policy &policy, int server_version = 0);

/* What of it a server of that version does not have, for a sentence ("keys WITHOUT OVERLAPS"); empty: nothing,
 * or the version is 0. */
std::string missing_feature(const state::Constraint &constraint, int server_version);
std::string missing_feature(const state::Relation &relation, const Policy &policy, int server_version);
std::vector<std::string> render_create_type(const state::Type &type);

/* Of the definition from USING on: what makes two indexes the same, whatever they and their tables are named. */
std::string_view method_and_rest(const state::Index &index);

} // namespace schemasync::merge
