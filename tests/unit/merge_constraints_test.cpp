/*
 * Constraints of a table.
 */
#include "states.hpp"

#include <gtest/gtest.h>

namespace {

using namespace states;

const std::string alter = "ALTER TABLE \"public\".\"t\" ";

TEST(MergeConstraints, AddsRenamesValidatesAndDrops)
{
	Scene scene;
	scene.theirs.constraints = {
	    constraint(3, "fk", 'f', "FOREIGN KEY (a) REFERENCES public.u(id) NOT VALID", {2}),
	    constraint(2, "c", 'c', "CHECK ((a > 0))", {2}),
	    constraint(1, "t_pkey", 'p', "PRIMARY KEY (id)", {1})};
	scene.theirs.constraints[0].validated = false;
	EXPECT_EQ(scene.sql(), alter + "ADD CONSTRAINT \"t_pkey\" PRIMARY KEY (id);\n" + alter +
	                           "ADD CONSTRAINT \"c\" CHECK ((a > 0));\n" + alter +
	                           "ADD CONSTRAINT \"fk\" FOREIGN KEY (a) REFERENCES public.u(id) NOT VALID;\n");
	scene.base = scene.ours = scene.theirs;
	scene.theirs.constraints[0].validated = true;
	scene.theirs.constraints[0].definition = "FOREIGN KEY (a) REFERENCES public.u(id)";
	scene.theirs.constraints[1].name = "c2";
	scene.theirs.constraints.pop_back();
	EXPECT_EQ(scene.sql(), alter + "DROP CONSTRAINT \"t_pkey\";\n" + alter +
	                           "RENAME CONSTRAINT \"c\" TO \"c2\";\n" + alter +
	                           "VALIDATE CONSTRAINT \"fk\";\n");
	scene.ours = scene.theirs;
	EXPECT_EQ(scene.verdicts(),
	          "drop_constraint satisfied; rename_constraint satisfied; validate_constraint satisfied");
}

TEST(MergeConstraints, NamesTheKeysOfAPartitionButNotItsChecks)
{
	Scene scene;
	scene.all([](Relation &r) {
		r.constraints = {constraint(1, "t_pkey", 'p', "PRIMARY KEY (id)", {1}), constraint(2, "c", 'c', "CHECK ((a > 0))", {2})};
		for (state::Constraint &one : r.constraints)
			one.local = false, one.inhcount = 1;
		r.constraints[0].parent = 77;
	});
	scene.theirs.constraints[0].name = "t_key";
	scene.theirs.constraints[1].name = "d";
	EXPECT_EQ(scene.sql(), alter + "RENAME CONSTRAINT \"t_pkey\" TO \"t_key\";\n");
	EXPECT_EQ(scene.verdicts(), "rename_constraint forward; rename_constraint ignore");
}

TEST(MergeConstraints, ReplacesOneUnderItsName)
{
	Scene scene;
	scene.all([](Relation &r) {
		r.constraints = {constraint(3, "fk", 'f', "FOREIGN KEY (a) REFERENCES public.u(id)", {2})};
	});
	scene.theirs.constraints[0].oid = 4;
	scene.theirs.constraints[0].definition += " ON DELETE CASCADE";
	EXPECT_EQ(scene.sql(),
	          alter + "DROP CONSTRAINT \"fk\";\n" + alter +
	              "ADD CONSTRAINT \"fk\" FOREIGN KEY (a) REFERENCES public.u(id) ON DELETE CASCADE;\n");
}

TEST(MergeConstraints, AltersDeferrability)
{
	Scene scene;
	scene.all([](Relation &r) {
		r.constraints = {constraint(3, "fk", 'f', "FOREIGN KEY (a) REFERENCES public.u(id)", {2})};
	});
	scene.theirs.constraints[0].deferrable = scene.theirs.constraints[0].deferred = true;
	scene.theirs.constraints[0].definition += " DEFERRABLE INITIALLY DEFERRED";
	EXPECT_EQ(scene.sql(), alter + "ALTER CONSTRAINT \"fk\" DEFERRABLE INITIALLY DEFERRED;\n");
}

TEST(MergeConstraints, AcceptsAndHalts)
{
	Scene scene;
	scene.theirs.constraints = {constraint(2, "c", 'c', "CHECK ((a > 0))", {2})};
	scene.ours.constraints = {constraint(7, "by_hand", 'c', "CHECK ((a > 0))", {2})};
	EXPECT_EQ(scene.verdicts(), "add_check satisfied");
	scene.ours.constraints = {constraint(7, "c", 'c', "CHECK ((a > 5))", {2})};
	EXPECT_EQ(scene.verdicts(), "add_check refuse local_name_taken");
	scene.ours.constraints.clear();
	scene.policy.constraints = Choice::Ignore;
	EXPECT_EQ(scene.verdicts(), "add_check ignore");
	/* what is lifted there must be lifted here */
	std::swap(scene.base, scene.theirs);
	scene.ours.constraints = scene.base.constraints;
	EXPECT_EQ(scene.verdicts(), "drop_constraint forward");
	scene.policy.constraints = Choice::Forward;
	std::swap(scene.base, scene.theirs);
	scene.ours.constraints.clear();
	scene.theirs.constraints[0].expr =
	    Expression{"public.f(a)", 'i', {{"function", "public.f(integer)", "1"}}};
	scene.facts.digests_given = true;
	EXPECT_EQ(scene.verdicts(), "add_check refuse missing_object");
	scene.theirs.constraints = {constraint(3, "fk", 'f', "FOREIGN KEY (a) REFERENCES public.u(id)", {2})};
	scene.theirs.constraints[0].references = Name{5, "public", "u"};
	scene.facts.no_tables = {"public.u"};
	EXPECT_EQ(scene.verdicts(), "add_foreign_key refuse missing_object");
}

TEST(MergeConstraints, RenamesWhatHasTheName)
{
	auto suggested = [](Scene &scene) {
		EXPECT_NE(scene.verdicts().find("refuse local_name_taken"), std::string::npos) << scene.verdicts();
		return scene.result.operations.back().suggested_sql;
	};
	Scene scene;
	scene.theirs.constraints = {constraint(2, "c", 'c', "CHECK ((a > 0))", {2})};
	scene.ours.constraints = {constraint(7, "c", 'u', "UNIQUE (a)", {2}), constraint(8, "c_local", 'u', "UNIQUE (b)", {3})};
	EXPECT_EQ(suggested(scene), alter + "RENAME CONSTRAINT \"c\" TO \"c_local2\"");
	scene.ours.constraints[0].inhcount = 1;
	EXPECT_EQ(suggested(scene), "");
	EXPECT_TRUE(scene.result.operations[0].hint.starts_with("On the subscriber rename or drop by hand what has the name of c on public.t."));
	/* another one of its kind can stay beside it, but for a primary key */
	scene.ours.constraints = {constraint(7, "c", 'c', "CHECK ((a > 5))", {2})};
	EXPECT_EQ(suggested(scene), alter + "RENAME CONSTRAINT \"c\" TO \"c_local\"");
	scene.theirs.constraints[0] = constraint(2, "t_pkey", 'p', "PRIMARY KEY (a)", {2});
	scene.ours.constraints = {constraint(7, "t_pkey", 'p', "PRIMARY KEY (b)", {3})};
	EXPECT_EQ(suggested(scene), alter + "DROP CONSTRAINT \"t_pkey\"");
	/* an index of that name is needed, and a table has it */
	scene.ours.constraints.clear();
	scene.theirs.constraints[0] = constraint(2, "c", 'u', "UNIQUE (a)", {2});
	scene.facts.relations = {"public.c"};
	EXPECT_EQ(suggested(scene), "ALTER TABLE \"public\".\"c\" RENAME TO \"c_local\"");
	scene.facts.relations.clear();
	/* it goes in the same plan */
	scene.base.constraints = scene.ours.constraints = {constraint(7, "c", 'u', "UNIQUE (a)", {2})};
	scene.theirs.constraints = {constraint(2, "c", 'c', "CHECK ((a > 0))", {2})};
	EXPECT_EQ(scene.verdicts(), "drop_constraint forward; add_check forward");
	/* renamed to it */
	scene.base.constraints = scene.theirs.constraints;
	scene.ours.constraints.push_back(scene.theirs.constraints[0]);
	scene.ours.constraints[0].name = "d";
	scene.theirs.constraints[0].name = "d";
	EXPECT_EQ(suggested(scene), alter + "RENAME CONSTRAINT \"d\" TO \"d_local\"");
}

TEST(MergeConstraints, GoWithTheirColumn)
{
	Scene scene;
	scene.all([](Relation &r) {
		r.constraints = {constraint(3, "u", 'u', "UNIQUE (b)", {3})};
		r.indexes = {index(4, "u", "USING btree (b)", true, {3}),
		             index(5, "i", "USING btree (a, b)", false, {2, 3})};
		r.indexes[0].constraint = 3;
	});
	remove(scene.theirs, 3);
	scene.theirs.constraints.clear();
	scene.theirs.indexes.clear();
	EXPECT_EQ(scene.verdicts(), "drop_constraint satisfied; drop_index satisfied; drop_column forward");
}

TEST(MergeConstraints, TakesAnIndexThatIsThere)
{
	Scene scene;
	scene.all([](Relation &r) { r.indexes = {index(4, "t_new", "USING btree (a)", true, {2})}; });
	scene.theirs.constraints = {constraint(9, "t_pkey", 'p', "PRIMARY KEY (a)", {2})};
	scene.theirs.constraints[0].index = 4;
	scene.theirs.indexes[0].name = "t_pkey";
	scene.theirs.indexes[0].constraint = 9;
	scene.theirs.indexes[0].primary = true;
	EXPECT_EQ(scene.sql(), alter + "ADD CONSTRAINT \"t_pkey\" PRIMARY KEY USING INDEX \"t_new\";\n");
	scene.ours.indexes.clear();
	EXPECT_EQ(scene.sql(), alter + "ADD CONSTRAINT \"t_pkey\" PRIMARY KEY (a);\n");
}

TEST(MergeConstraints, NotNullConstraintsAreToldByTheColumn)
{
	Scene scene;
	at(scene.theirs, 2).not_null = true;
	scene.theirs.constraints = {constraint(9, "t_a_nn", 'n', "NOT NULL a", {2})};
	EXPECT_EQ(scene.sql(), alter + "ALTER COLUMN \"a\" SET NOT NULL;\n");
	scene.facts.version = 180000;
	EXPECT_EQ(scene.sql(), alter + "ADD CONSTRAINT \"t_a_nn\" NOT NULL \"a\";\n");
}

TEST(MergeConstraints, NotNullConstraintsHaveNamesFrom18On)
{
	Scene scene;
	scene.all([](Relation &r) { r.constraints = {constraint(9, "t_id_not_null", 'n', "NOT NULL id", {1})}; });
	EXPECT_EQ(scene.verdicts(), "");
	scene.theirs.constraints[0].name = "must";
	EXPECT_EQ(scene.sql(), alter + "RENAME CONSTRAINT \"t_id_not_null\" TO \"must\";\n");
	scene.ours.constraints.clear();
	EXPECT_EQ(scene.verdicts(), "rename_constraint ignore");
	CreateScene create;
	create.theirs.constraints = scene.theirs.constraints;
	EXPECT_NE(create.sql().find("\"id\" integer CONSTRAINT \"must\" NOT NULL"), std::string::npos);
}

TEST(MergeConstraints, ANewColumnBringsItsNotNullUnderItsName)
{
	Scene scene;
	scene.theirs.columns.push_back(column(4, "c"));
	at(scene.theirs, 4).not_null = true;
	scene.theirs.constraints = {constraint(9, "must", 'n', "NOT NULL c", {4})};
	scene.facts.version = 180000;
	EXPECT_EQ(scene.sql(), alter + "ADD COLUMN \"c\" integer CONSTRAINT \"must\" NOT NULL;\n");
	scene.theirs.constraints[0].no_inherit = true;
	EXPECT_EQ(scene.sql(), alter + "ADD COLUMN \"c\" integer CONSTRAINT \"must\" NOT NULL NO INHERIT;\n");
	scene.facts.version = 170000;
	EXPECT_EQ(scene.sql(), alter + "ADD COLUMN \"c\" integer;\n");
	scene.theirs.constraints[0].no_inherit = false;
	scene.theirs.constraints[0].validated = false;
	EXPECT_EQ(scene.sql(), alter + "ADD COLUMN \"c\" integer;\n");
	scene.facts.version = 180000;
	EXPECT_EQ(scene.sql(), alter + "ADD COLUMN \"c\" integer;\n" + alter + "ADD CONSTRAINT \"must\" NOT NULL \"c\" NOT VALID;\n");
	scene.theirs.constraints[0].validated = true;
	at(scene.theirs, 4).missing = "7";
	at(scene.theirs, 4).default_expr = expression("public.seven()", 's');
	EXPECT_EQ(scene.sql(), alter + "ADD COLUMN \"c\" integer DEFAULT '7'::integer CONSTRAINT \"must\" NOT NULL;\n" +
	                           alter + "ALTER COLUMN \"c\" SET DEFAULT public.seven();\n");
}

TEST(MergeConstraints, CarriedRowsAwaitNotNullUnderItsName)
{
	Scene scene;
	scene.theirs.columns.push_back(column(4, "c"));
	at(scene.theirs, 4).not_null = true;
	at(scene.theirs, 4).default_expr = expression("random()", 'v');
	scene.theirs.constraints = {constraint(9, "must", 'n', "NOT NULL c", {4})};
	scene.command.rewrites = {{1000, 2, 9, true}};
	scene.rows_follow = true;
	scene.facts.version = 180000;
	EXPECT_EQ(scene.sql(), alter + "ADD COLUMN \"c\" integer;\n");
	EXPECT_EQ(scene.result.operations[0].sql_after[0], alter + "ADD CONSTRAINT \"must\" NOT NULL \"c\"");
	scene.facts.version = 170000;
	EXPECT_EQ((scene.run(), scene.result.operations[0].sql_after[0]), alter + "ALTER COLUMN \"c\" SET NOT NULL");
}

TEST(MergeConstraints, WhatAParentBringsIsNotMadeTwice)
{
	Scene scene;
	scene.all([](Relation &r) {
		r.parents = {{2000, "public", "p"}};
		r.columns.push_back(column(4, "c"));
		r.columns[3].local = false;
		r.columns[3].inhcount = 1;
	});
	at(scene.theirs, 4).not_null = true;
	scene.theirs.constraints = {constraint(9, "p_c_not_null", 'n', "NOT NULL c", {4})};
	scene.theirs.constraints[0].local = false;
	scene.theirs.constraints[0].inhcount = 1;
	scene.facts.version = 180000;
	const std::string own = alter + "ADD CONSTRAINT \"p_c_not_null\" NOT NULL \"c\";\n";
	EXPECT_EQ(scene.sql(), own);
	scene.facts.followed = {{2000, "public", "p"}};
	EXPECT_EQ(scene.verdicts(), "set_not_null ignore");
	scene.theirs.constraints.push_back(constraint(10, "p_check", 'c', "CHECK ((c > 0))", {4}));
	scene.theirs.constraints[1].local = false;
	scene.theirs.constraints[1].inhcount = 1;
	EXPECT_EQ(scene.verdicts(), "set_not_null ignore; add_check ignore");
	scene.theirs.constraints.pop_back();
	/* the subscriber's table has not that parent */
	scene.ours.parents.clear();
	EXPECT_EQ(scene.sql(), own);
	scene.ours.parents = {{9, "public", "p"}};
	scene.theirs.constraints[0].local = true;
	EXPECT_EQ(scene.sql(), own);
}

/* ---- indexes ---- */

} // namespace
