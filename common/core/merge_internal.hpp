/*
 * The merge of one relation, in the making: what its parts (columns, type changes, constraints, indexes,
 * table) share. Included by the sources of the merge only.
 *
 * Zone: core.
 */
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/merge.hpp"
#include "core/sql.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

/* What became of the rows that were there when a column was added, or when one changed its type. */
enum class Fill : std::uint8_t {
	NoRows,   /* there are none */
	Null,     /* they read as NULL */
	Constant, /* all have the one stored value */
	Evaluate, /* an immutable default gives each the same value everywhere */
	Unread,   /* one value, but it is not to be had */
	PerRow,   /* each got its own */
};

/* What a conversion depends on beside the value. */
struct Conversion {
	enum class Effect : std::uint8_t { Coercible, Immutable, Settings, Unknown } effect = Effect::Unknown;
	std::vector<std::string_view> settings;
	std::string why; /* Unknown: why it is not known */
};

/* The conversion that ALTER COLUMN TYPE without USING does. */
Conversion conversion(const state::TypeRef &from, const state::TypeRef &to, const LocalFacts &facts);
/* The conversion by an expression over the columns. */
Conversion conversion(const state::Expression &expression, const state::Relation &relation);

const state::Column *find_column(const state::Relation &relation, AttrNumber attnum);
const state::Column *find_column(const state::Relation &relation, std::string_view name);

/* An attribute of a composite type, as CREATE TYPE and ADD ATTRIBUTE have it. */
std::string attribute_clause(const state::Attribute &attribute);

/* A column of the subscriber and the name it has at this point of the plan. */
struct LocalColumn {
	const state::Column *column = nullptr; /* null: added by the plan */
	AttrNumber publisher = 0;              /* 0: the subscriber's own */
	std::string name;
	bool dropped = false;
	bool adopted = false; /* was the subscriber's own and is now the publisher's new column */
	bool added = false;
};

/* A constraint or an index on the three sides, matched by oid or, where the server made it anew, by name. */
template <typename T>
struct Triple {
	const T *base = nullptr;
	const T *theirs = nullptr;
	const T *ours = nullptr;
};

class RelationMerge {
public:
	RelationMerge(const RelationInput &input, const Command &command, const Policy &policy,
	              const LocalFacts &facts);
	Result run();

private:
	/* --- shared (relation_merge.cpp) --- */
	void load_columns();
	Operation &add(Op op, const std::string &identity, std::string change);
	Operation &on_column(Op op, std::string_view column, std::string change);
	Operation &on_table(Op op, std::string change);
	std::string
	table() const
	{
		return sql::qualified(schema_, name_);
	}
	std::string
	alter(std::string_view action) const
	{
		return "ALTER TABLE " + table() + " " + std::string(action);
	}
	std::string alter_alone(std::string_view action) const;
	std::string alter_column(std::string_view column, std::string_view action) const;
	std::string
	shown_table() const
	{
		return sql::shown(schema_, name_);
	}
	std::string
	shown_column(std::string_view column) const
	{
		return shown_table() + "." + sql::shown(column);
	}
	LocalColumn *local_of(AttrNumber publisher);
	LocalColumn *local_named(std::string_view name);
	bool same_local_type(const state::TypeRef &theirs, const state::TypeRef &ours) const;
	bool takes_every_value(const state::TypeRef &ours, const state::TypeRef &theirs) const;
	const RewriteHint *rewrite_hint() const;
	const UsingHint *using_hint(AttrNumber attnum) const;
	bool has_subcommand(std::string_view name) const;
	bool sets_default(const state::Column &column) const;
	bool has_dropped(std::string_view class_name, Oid oid) const;
	bool has_rows() const;
	/* Whether the publisher's table was rewritten between base and theirs; true when that is not known. */
	bool rewritten() const;
	bool prove(Operation &operation, const std::optional<state::Expression> &expression, bool exact, bool values = false);
	bool prove_type(Operation &operation, const state::TypeRef &type, std::string_view collation);
	/* Foreign keys that the publisher's CASCADE dropped too become statements; anything else refuses. Whether
	 * all are. */
	bool release_dependents(Operation &operation, AttrNumber local_attnum);
	/* Refuses what a policy does not want; to be done by hand with what was released before it. */
	void refuse_by_policy(Operation &operation, const std::string &statement, std::string why);
	std::string renamed(std::string_view expression) const;
	bool same_expression(const std::optional<state::Expression> &base,
	                     const std::optional<state::Expression> &theirs) const;
	void find_interacting();
	void await_rows();
	void count_rows();
	std::vector<AttrNumber> unchanged_key() const;
	void finish();

	/* --- the parts --- */
	void create();           /* table.cpp */
	void adopt();            /* table.cpp */
	void drop();             /* table.cpp */
	void table_names();      /* table.cpp */
	void table_detach();     /* table.cpp */
	void table_properties(); /* table.cpp */
	void table_parents();    /* table.cpp */
	void access_method();
	void lose_identity(Operation &operation);
	void replica_identity();    /* table.cpp */
	void table_rewrite();       /* table.cpp */
	void unsupported_changes(); /* table.cpp */
	void drop_columns();        /* columns.cpp */
	void drop_column(const state::Column &column);
	void rename_columns(); /* columns.cpp */
	void add_columns();    /* add_column.cpp */
	void add_column(const state::Column &column);
	void adopt_column(const state::Column &column, LocalColumn &local);
	void refuse_fill(Operation &operation, const state::Column &column, Fill fill);
	Fill fill_of(const state::Column &column, std::string &constant) const;
	std::vector<std::string> add_column_sql(const state::Column &column, Fill fill,
	                                        const std::string &constant) const;
	void carry_column(Operation &operation, const state::Column &column);
	void change_types(); /* type_change.cpp */
	std::string replace_column(const state::Column &theirs, const std::string &fresh, const LocalColumn *local) const;
	bool has_own_cast(const state::TypeRef &from, const state::TypeRef &to, const UsingHint *hint) const;
	std::string safe_retype(const state::Column &theirs, const UsingHint *hint) const;
	Conversion into_domain(const state::TypeRef &from, const state::TypeRef &to, const UsingHint *hint, Conversion unknown) const;
	bool change_type(Operation &operation, const state::Column &base, const state::Column &theirs,
	                 const LocalColumn &local, std::string &using_clause);
	bool carry_type(Operation &operation, const state::Column &theirs, const LocalColumn &local,
	                std::string &using_clause);
	bool may_be_domain(const state::TypeRef &type) const;
	bool takes_null(const state::Column &theirs, const LocalColumn &local) const;
	/* Whether each column that the expression names is the subscriber's of that name and has the same type
	 * (as in `types`). */
	bool columns_agree(const state::Expression &expression, const state::Relation &types, std::string &why);
	void column_attributes(); /* column_attributes.cpp */
	void drop_expressions();
	void drop_expression(const LocalColumn &local);
	void generated(const state::Column *base, const state::Column &theirs, const LocalColumn &local);
	void identity(const state::Column *base, const state::Column &theirs, const LocalColumn &local);
	void default_value(const state::Column *base, const state::Column &theirs, const LocalColumn &local);
	void owned_sequence(const state::Column *base, const state::Column &theirs, const LocalColumn &local);
	void not_null(const state::Column *base, const state::Column &theirs, const LocalColumn &local);
	std::string set_not_null(const state::Column &theirs, std::string_view name, std::string &why) const;
	bool has_followed_parent() const;
	void physical(const state::Column *base, const state::Column &theirs, const LocalColumn &local);
	void match_constraints(); /* constraints.cpp */
	void drop_constraints();
	void rename_constraints();
	void add_constraints();
	void not_null_constraints();
	void not_null_constraint(const state::Constraint &theirs, AttrNumber attnum, const LocalColumn &local);
	void add_constraint(const Triple<state::Constraint> &triple);
	void alter_constraint(const Triple<state::Constraint> &triple);
	void match_indexes(); /* indexes.cpp */
	void drop_indexes();
	void rename_indexes();
	void add_indexes();
	/* Whether an index (or what makes one) cannot get the name: it is taken by what this plan does not take away. */
	bool is_index_name_taken(const std::string &name) const;
	/* Refuses what is to get the name of a constraint of the subscriber that stays. Whether it did. */
	bool refuse_taken_constraint(Operation &operation, const state::Constraint &theirs);
	/* SQL that updates the publisher's table, which needs a replica identity for it. */
	std::string with_identity(const std::string &statements) const;
	/* Of a domain the type below it, else the type. */
	state::TypeRef without_domain(const state::TypeRef &type) const;

	const RelationInput &input_;
	const Command &command_;
	const Policy &policy_;
	const LocalFacts &facts_;
	const state::Relation *base_;
	const state::Relation *theirs_;
	const state::Relation *ours_;
	std::string schema_, name_; /* of the local table at this point of the plan */
	std::vector<LocalColumn> columns_;
	std::vector<Triple<state::Constraint>> constraints_;
	std::vector<Triple<state::Index>> indexes_;
	/* Of the operations: from here on they want the rows to be there. */
	std::size_t first_after_rows_ = 0;
	Result result_;
};

/* Appends an operation with the verdict forward. The reference lives until the next one is appended. */
Operation &add_operation(Result &result, Op op, const std::string &identity, std::string change);
const LocalFacts &no_facts();

/* The name with the suffix, cut where the server would cut it, so that the suffix stays; with a number where that is taken. */
std::string name_beside(std::string_view name, std::string_view suffix, const std::function<bool(const std::string &)> &taken = nullptr);
/* Refuses because something of the subscriber, outside the table at work, has the name: with SQL that renames it where its kind is known. */
void refuse_taken(Operation &operation, std::string_view schema, std::string_view name, const LocalFacts &facts);
/* Whether a table of that name could not be made or renamed for something else; types are in its way too. */
bool is_table_name_taken(std::string_view schema, std::string_view name, const LocalFacts &facts);
/* What is at the bottom of a domain of the publisher, where it is the same on the subscriber. */
std::optional<state::TypeRef> below_domain(const state::TypeRef &type, const LocalFacts &facts);
/* The local type that the publisher's is, as far as it is known: else one of its name. */
state::Name local_name(const state::TypeRef &type, const LocalFacts &facts);

/* Several expressions that are read together (of an index, an exclusion constraint) as one text. */
std::optional<state::Expression> in_parentheses(std::optional<state::Expression> expressions);
/* As prove(), for a type and a collation: both there, and what they claim to be. */
bool prove_type(Operation &operation, const state::TypeRef &type, std::string_view collation,
                const LocalFacts &facts);

/* Verdicts other than forward. */
void satisfy(Operation &operation, std::string detail);
void ignore(Operation &operation, std::string detail);
void refuse(Operation &operation, Reason reason, std::string detail);
/* Fills in hint (and keeps suggested_sql) of a refusal, from its reason; `next_time` is a safer way to write
 * the change. */
void teach(Operation &operation, std::string_view table, std::string_view next_time = {});
/* schema_changes = refuse | ignore, over everything. */
void apply_schema_changes(Result &result, const Policy &policy);

/* Type, default and the like of a column, for people (drift.cpp). */
std::string describe_column(const state::Column &column);

/* The named NOT NULL of a column (18 and later have them), nullptr: none. From constraints.cpp. */
const state::Constraint *find_not_null(const state::Relation &relation, AttrNumber attnum);

/* Clauses, from render.cpp. */
std::string type_sql(const state::TypeRef &type);
std::string column_clause(const state::Column &column, bool with_default);
/* " NOT NULL" behind it, with the constraint's name; empty when the server cannot have it so, or not before the
 * rows. */
std::string not_null_clause(const state::Relation &relation, const state::Column &column, int server_version);
std::string sequence_options(const state::Sequence &sequence);
std::string create_sequence(const state::Sequence &sequence);
std::string sequence_owned_by(const state::Sequence &sequence, std::string_view table,
                              std::string_view column);
std::vector<std::string> physical_sql(const state::Column &column, const std::string &table);
std::string default_sql(const state::Column &column);
std::string create_index_sql(const state::Index &index, std::string_view schema, std::string_view table,
                             bool concurrently);
std::string options_sql(const std::vector<std::string> &options);

} // namespace schemasync::merge
