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

Definition
view(const char *query)
{
	Definition result;
	result.object_class = "views";
	result.catalog = "pg_class";
	result.oid = 70;
	result.type = "view";
	result.name = {70, "s", "v"};
	result.identity = "s.v";
	result.definition = query;
	result.columns = {"a"};
	return result;
}

TEST(Difference, DefinitionsOfFollowedClasses)
{
	Definition theirs = view("SELECT 1 AS a;"), ours = theirs, base = theirs;
	DefinitionInput input;
	input.mapped = true;
	input.theirs = &theirs;
	std::vector<Difference> found = definition_differences(input, {}, false);
	ASSERT_EQ(found.size(), 1U);
	EXPECT_EQ(found[0].difference, "view is missing on the subscriber");
	EXPECT_EQ(found[0].verdict, Verdict::Forward);
	EXPECT_EQ(found[0].suggested_sql, found[0].publisher);
	EXPECT_EQ(found[0].subscriber, "");

	input.ours = &ours;
	EXPECT_TRUE(definition_differences(input, {}, false).empty());
	ours.definition = "SELECT 2 AS a;";
	input.base = &base;
	found = definition_differences(input, {}, false);
	ASSERT_EQ(found.size(), 1U);
	EXPECT_EQ(found[0].difference, "view is defined otherwise on the subscriber");
	EXPECT_EQ(found[0].verdict, Verdict::Forward);
	Policy refusing;
	refusing.schema_changes = SchemaChanges::Refuse;
	EXPECT_EQ(definition_differences(input, refusing, false)[0].verdict, Verdict::Refuse);
	EXPECT_NE(definition_differences(input, refusing, false)[0].suggested_sql, "") << "the SQL is that of no policy";

	/* another version may have written it so */
	EXPECT_EQ(definition_differences(input, {}, true)[0].verdict, Verdict::Ignore);
	base.definition = "SELECT 3 AS a;";
	EXPECT_EQ(definition_differences(input, {}, true)[0].verdict, Verdict::Forward) << "but this one was not";

	input.mapped = false;
	found = definition_differences(input, {}, false);
	EXPECT_EQ(found[0].reason, Reason::LocalNameTaken);
	EXPECT_TRUE(found[0].suggested_sql.starts_with("CREATE OR REPLACE VIEW")) << found[0].suggested_sql;

	theirs.name.name = "w";
	input.mapped = true;
	found = definition_differences(input, {}, false);
	ASSERT_EQ(found.size(), 1U) << "what else differs is told when it bears its name";
	EXPECT_EQ(found[0].difference, "view is named v on the subscriber");
}

TEST(Difference, CommentsOfWhatIsNotHereAreNotTold)
{
	Definition theirs = view("");
	theirs.object_class = "comments";
	theirs.text = "what";
	DefinitionInput input;
	input.mapped = true;
	input.theirs = &theirs;
	EXPECT_TRUE(definition_differences(input, {}, false).empty());
	Definition ours = theirs;
	ours.text.reset();
	input.ours = &ours;
	std::vector<Difference> found = definition_differences(input, {}, false);
	ASSERT_EQ(found.size(), 1U);
	EXPECT_EQ(found[0].publisher, "what");
	EXPECT_EQ(found[0].subscriber, "");
}

} // namespace
