/*
 * What differs between a publisher's object and the subscriber's.
 */
#include "states.hpp"

#include "core/difference.hpp"

#include <gtest/gtest.h>

namespace {

using namespace states;

/* The subscriber's table: other oids, the same names. */
Relation
local_table()
{
	Relation result = table();
	result.name.oid = 5000;
	return result;
}

std::string
differences(const Relation &theirs, const Relation &ours, const Policy &policy = {})
{
	RelationInput input;
	input.theirs = &theirs;
	input.ours = &ours;
	input.columns = map_columns_by_name(theirs, ours);
	std::string out;
	for (const Difference &difference : relation_differences(input, policy)) {
		out += (out.empty() ? "" : "\n") + difference.operation + " " + std::string(name(difference.verdict));
		if (difference.reason != Reason::None)
			out += " " + std::string(info(difference.reason).name);
		out += ": " + difference.suggested_sql;
	}
	return out;
}

TEST(Difference, ThereIsNoneBetweenEqualTables)
{
	Relation theirs = table(), ours = local_table();
	theirs.constraints = {constraint(1, "t_pkey", 'p', "PRIMARY KEY (id)", {1})};
	ours.constraints = {constraint(77, "t_pkey", 'p', "PRIMARY KEY (id)", {1})};
	theirs.indexes = {index(2, "t_a", "USING btree (a)", false, {2})};
	ours.indexes = {index(78, "t_a", "USING btree (a)", false, {2})};
	theirs.owner = "app";
	ours.owner = "postgres";
	theirs.columns[1].type = user_type(20001, "mood");
	ours.columns[1].type = user_type(30001, "mood");
	EXPECT_EQ(differences(theirs, ours), "");
}

TEST(Difference, WhatOnlyTheSubscriberHasIsLeftAlone)
{
	Relation theirs = table(), ours = local_table();
	ours.columns.push_back(column(4, "own"));
	ours.indexes = {index(78, "mine", "USING btree (own)", false, {4})};
	EXPECT_EQ(differences(theirs, ours), "drop_column ignore: ALTER TABLE \"public\".\"t\" DROP COLUMN \"own\"");
	ours.columns.pop_back();
	ours.indexes = {index(78, "mine", "USING btree (a)", false, {2})};
	EXPECT_EQ(differences(theirs, ours), "drop_index ignore: DROP INDEX \"public\".\"mine\"");
	theirs.published_columns = std::vector<AttrNumber>{1, 2};
	EXPECT_NE(differences(theirs, ours), "") << "an index over published columns is one";
	ours.indexes.clear();
	ours.columns.push_back(column(4, "own"));
	EXPECT_EQ(differences(theirs, ours), "") << "what a column list leaves out may be anything";
}

TEST(Difference, HasTheVerdictOfThePolicyAndTheSqlOfNone)
{
	Relation theirs = table(), ours = local_table();
	theirs.indexes = {index(2, "t_a", "USING btree (a)", false, {2})};
	Policy policy;
	policy.indexes = Choice::Ignore;
	EXPECT_EQ(differences(theirs, ours, policy), "create_index ignore: CREATE INDEX \"t_a\" ON \"public\".\"t\" USING btree (a)");
	policy.schema_changes = SchemaChanges::Refuse;
	theirs.indexes.clear();
	at(theirs, 2).not_null = true;
	EXPECT_EQ(differences(theirs, ours, policy),
	          "set_not_null refuse policy_refuse: ALTER TABLE \"public\".\"t\" ALTER COLUMN \"a\" SET NOT NULL");
}

TEST(Difference, AColumnWithoutItsValuesGetsItsDefaultForNewRows)
{
	Relation theirs = table(), ours = local_table();
	theirs.columns.push_back(column(4, "token", uuid));
	theirs.columns.back().default_expr = expression("gen_random_uuid()", 'v');
	EXPECT_EQ(differences(theirs, ours), "add_column refuse volatile_default: ALTER TABLE \"public\".\"t\" ADD COLUMN \"token\" uuid;\n"
	                                     "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"token\" SET DEFAULT gen_random_uuid()");
}

TEST(Difference, AConstraintThatIsDefinedOtherwiseIsOneLine)
{
	Relation theirs = table(), ours = local_table();
	theirs.constraints = {constraint(1, "c", 'c', "CHECK ((a > 1))", {2})};
	ours.constraints = {constraint(9, "c", 'c', "CHECK ((a > 2))", {2})};
	EXPECT_EQ(differences(theirs, ours), "add_check forward: ALTER TABLE \"public\".\"t\" DROP CONSTRAINT \"c\";\n"
	                                     "ALTER TABLE \"public\".\"t\" ADD CONSTRAINT \"c\" CHECK ((a > 1))");
}

TEST(Difference, TypesDifferByLabels)
{
	Type theirs;
	theirs.name = {1, "public", "mood"};
	theirs.typtype = 'e';
	theirs.labels = {{1, "sad"}, {2, "ok"}};
	Type ours = theirs;
	ours.name.oid = 9;
	ours.labels = {{100, "sad"}, {101, "here"}};
	std::vector<Difference> found = type_differences(theirs, &ours, {});
	ASSERT_EQ(found.size(), 2U);
	EXPECT_EQ(found[0].verdict, Verdict::Ignore);
	EXPECT_EQ(found[0].difference, "label 'here' of public.mood is only on the subscriber");
	EXPECT_EQ(found[1].suggested_sql, "ALTER TYPE \"public\".\"mood\" ADD VALUE 'ok' AFTER 'sad'");
	ours.labels = theirs.labels;
	EXPECT_TRUE(type_differences(theirs, &ours, {}).empty());
}

} // namespace
