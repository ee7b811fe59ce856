/*
 * The merge of one definition, in parts: definition.cpp (what becomes of an object), definition_sql.cpp (the SQL that
 * makes or names one), definition_grants.cpp (comments and privileges, which are said of any object).
 *
 * Zone: core.
 */
#pragma once

#include "core/definition.hpp"
#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

using state::Definition;
using state::Privilege;

// ---- definition_sql.cpp ----

/* The words that SQL has for an object, by what pg_identify_object calls it. */
struct Keyword {
	std::string_view type;
	std::string_view object;  /* ALTER, DROP, COMMENT ON */
	std::string_view granted; /* GRANT ON; empty: it has no privileges */
};

/* nullptr for what has no word here */
const Keyword *find_keyword(std::string_view type);

/* What stands after ALTER or DROP: VIEW s.v, TRIGGER t ON s.r. */
std::string designation(const Definition &object);

/* "CREATE VIEW ..." -> "CREATE OR REPLACE VIEW ..." */
std::string or_replace(const std::string &statement);

/* reloptions as they stand in WITH (...) and SET (...). */
std::string option_list(const std::vector<std::string> &options);

std::string create_view(const Definition &view, bool replace);
std::string create_policy(const Definition &policy);

/* The roles and expressions, as they stand in CREATE and ALTER POLICY. */
std::string policy_clauses(const Definition &policy);

/* ALTER TABLE ... ENABLE TRIGGER and its like. */
std::string set_enabled(const Definition &object);

/* ALTER STATISTICS ... SET STATISTICS. */
std::string set_target(const Definition &statistics);

/* All that makes the object from nothing. */
std::vector<std::string> create_statements(const Definition &object, bool version_available);

// ---- definition.cpp, definition_grants.cpp ----

class DefinitionMerge {
public:
	DefinitionMerge(const DefinitionInput &input, const Policy &policy)
	    : input_(input), policy_(policy), theirs_(input.theirs), ours_(input.ours)
	{
	}

	Result run(bool *again);

private:
	Operation &add(Op op, std::vector<std::string> sql, const std::string &change);
	void refuse_last(Reason reason, std::string detail);
	void drop();
	void create();
	bool rename();
	void change_owner();
	void replace();
	void replace_view();
	bool rename_columns();
	void merge_defaults();
	void merge_indexes();
	void replace_trigger();
	void replace_policy();
	void replace_sequence();
	void update_extension();
	void set_comment();
	void set_privileges();
	void set_default_privileges();
	void refresh_view();
	bool target_is_there(Op op, const std::string &change);
	const Definition &any() const { return theirs_ != nullptr ? *theirs_ : *ours_; }

	const DefinitionInput &input_;
	const Policy &policy_;
	const Definition *theirs_, *ours_;
	Result result_;
};

} // namespace schemasync::merge
