/*
 * The column rows of the verdict table.
 */
#include "states.hpp"

#include <gtest/gtest.h>

namespace {

using namespace states;

/* ---- nothing changed ---- */

TEST(MergeColumns, EqualStatesGiveNoOperation)
{
	Scene scene;
	scene.all([](Relation &r) {
		at(r, 2).default_expr = expression("nextval('public.s'::regclass)", 'v');
		at(r, 3).default_expr = expression("now()", 's');
		r.constraints = {constraint(1, "t_pkey", 'p', "PRIMARY KEY (id)", {1})};
		r.indexes = {index(2, "t_a", "USING btree (a)", false, {2})};
	});
	EXPECT_EQ(scene.verdicts(), "");
	scene.command.captured = false;
	EXPECT_EQ(scene.verdicts(), "");
}

/* ---- add ---- */

TEST(MergeColumns, AddsAPlainColumn)
{
	Scene scene;
	scene.theirs.columns.push_back(column(4, "C \"x\"", text));
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ADD COLUMN \"C \"\"x\"\"\" text;\n");
	EXPECT_EQ(scene.result.operations[0].object_identity, "public.t.\"C \"\"x\"\"\"");
	ASSERT_EQ(scene.result.local_columns.size(), 4u);
}

TEST(MergeColumns, AddsAConstantDefaultInOneStatement)
{
	Scene scene;
	Column c = column(4, "c");
	c.default_expr = expression("5");
	c.missing = "5";
	c.not_null = true;
	scene.theirs.columns.push_back(c);
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ADD COLUMN \"c\" integer DEFAULT 5 NOT NULL;\n");
	scene.theirs.columns.back().type = text;
	scene.theirs.columns.back().default_expr = expression("'it''s'::text");
	scene.theirs.columns.back().missing = "it's";
	EXPECT_EQ(scene.sql(),
	          "ALTER TABLE \"public\".\"t\" ADD COLUMN \"c\" text DEFAULT 'it''s'::text NOT NULL;\n");
}

TEST(MergeColumns, PinsAStableDefaultToTheStoredValue)
{
	Scene scene;
	Column c = column(4, "c", timestamptz);
	c.default_expr = expression("now()", 's');
	c.missing = "2026-01-01 00:00:00+00";
	scene.theirs.columns.push_back(c);
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ADD COLUMN \"c\" timestamp with time zone DEFAULT "
	                       "'2026-01-01 00:00:00+00'::timestamp with time zone;\n"
	                       "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"c\" SET DEFAULT now();\n");
	scene.policy.stable_defaults = Choice::Refuse;
	EXPECT_EQ(scene.verdicts(), "add_column refuse policy_refuse");
}

TEST(MergeColumns, KeepsTheStoredValueWhenTheDefaultIsGoneOrAnother)
{
	Scene scene;
	Column c = column(4, "c");
	c.missing = "5";
	c.not_null = true;
	scene.theirs.columns.push_back(c);
	EXPECT_EQ(scene.sql(),
	          "ALTER TABLE \"public\".\"t\" ADD COLUMN \"c\" integer DEFAULT '5'::integer NOT NULL;\n"
	          "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"c\" DROP DEFAULT;\n");
	scene.theirs.columns.back().default_expr = expression("6");
	EXPECT_NE(scene.sql().find("DEFAULT '5'::integer"), std::string::npos);
	EXPECT_NE(scene.sql().find("SET DEFAULT 6"), std::string::npos);
}

TEST(MergeColumns, ADefaultThatCameLaterLeavesRowsNull)
{
	for (char volatility : {'i', 's', 'v'}) {
		Scene scene;
		Column c = column(4, "c");
		c.default_expr = expression("f()", volatility);
		scene.theirs.columns.push_back(c);
		EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ADD COLUMN \"c\" integer;\n"
		                       "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"c\" SET DEFAULT f();\n");
	}
}

TEST(MergeColumns, RefusesAVolatileDefault)
{
	Scene scene;
	Column c = column(4, "token", uuid);
	c.default_expr = expression("gen_random_uuid()", 'v');
	scene.theirs.columns.push_back(c);
	scene.command.rewrites = {{1000, 2, 3, false}};
	EXPECT_EQ(scene.verdicts(), "add_column refuse volatile_default");
	const Operation &refusal = scene.result.operations[0];
	EXPECT_TRUE(refusal.sql.empty());
	EXPECT_EQ(refusal.suggested_sql, "ALTER TABLE \"public\".\"t\" ADD COLUMN \"token\" uuid");
	EXPECT_NE(refusal.hint.find("SELECT schemasync_resume('{subscription}');"), std::string::npos);

	scene.command.rewrites[0].rows = 0;
	EXPECT_EQ(scene.sql(),
	          "ALTER TABLE \"public\".\"t\" ADD COLUMN \"token\" uuid DEFAULT gen_random_uuid();\n");

	scene.command = {};
	scene.theirs.filenode = 2000;
	EXPECT_EQ(scene.verdicts(), "add_column refuse volatile_default");
	scene.has_rows = false;
	EXPECT_EQ(scene.verdicts(), "add_column forward");
}

TEST(MergeColumns, RefusesAStableDefaultWhoseValueIsLost)
{
	Scene scene;
	Column c = column(4, "c", timestamptz);
	c.default_expr = expression("now()", 's');
	Column d = column(5, "d", uuid);
	d.default_expr = expression("gen_random_uuid()", 'v');
	scene.theirs.columns.push_back(c);
	scene.theirs.columns.push_back(d);
	scene.command.rewrites = {{1000, 2, 3, false}};
	EXPECT_EQ(scene.verdicts(), "add_column refuse default_unreadable; add_column refuse volatile_default");
}

TEST(MergeColumns, ADefaultThatIsSetBesideIsOfItsOwnColumn)
{
	Scene scene;
	Column c = column(4, "c", integer);
	c.default_expr = expression("5", 'i');
	scene.theirs.columns.push_back(c);
	scene.command.rewrites = {{1000, 2, 3, false}};
	scene.command.subcommands = {"AT_AddColumn", "AT_ColumnDefault"};
	EXPECT_EQ(scene.verdicts(), "add_column refuse default_unreadable"); /* a marker that does not say of which */
	scene.command.set_defaults = {{1000, 2}, {1001, 4}};
	EXPECT_EQ(scene.verdicts(), "add_column forward");
	scene.command.set_defaults.push_back({1000, 4});
	EXPECT_EQ(scene.verdicts(), "add_column refuse default_unreadable");
}

TEST(MergeColumns, ASerialColumnNeedsNoRows)
{
	Scene scene;
	Column c = column(4, "n");
	c.not_null = true;
	c.default_expr = expression("nextval('public.t_n_seq'::regclass)", 'v');
	c.sequence = Sequence{{50, "public", "t_n_seq"}, "integer", 1, 1, 1, 2147483647, 1, false};
	scene.theirs.columns.push_back(c);
	scene.command.rewrites = {{1000, 2, 9, false}};
	EXPECT_EQ(scene.verdicts(), "add_column refuse volatile_default");
	scene.command.rewrites = {{1000, 2, 0, false}};
	EXPECT_EQ(scene.sql(), "CREATE SEQUENCE \"public\".\"t_n_seq\" AS integer START WITH 1 INCREMENT BY 1 "
	                       "MINVALUE 1 MAXVALUE 2147483647 "
	                       "CACHE 1 NO CYCLE;\n"
	                       "ALTER TABLE \"public\".\"t\" ADD COLUMN \"n\" integer DEFAULT "
	                       "nextval('public.t_n_seq'::regclass) NOT NULL;\n"
	                       "ALTER SEQUENCE \"public\".\"t_n_seq\" OWNED BY \"public\".\"t\".\"n\";\n");
}

TEST(MergeColumns, AnIdentityColumnNeedsNoRows)
{
	Scene scene;
	Column c = column(4, "n", bigint);
	c.not_null = true;
	c.identity = 'a';
	scene.theirs.columns.push_back(c);
	scene.command.rewrites = {{1000, 2, 9, false}};
	EXPECT_EQ(scene.verdicts(), "add_column refuse volatile_default");
	scene.has_rows = false;
	EXPECT_EQ(
	    scene.sql(),
	    "ALTER TABLE \"public\".\"t\" ADD COLUMN \"n\" bigint GENERATED ALWAYS AS IDENTITY NOT NULL;\n");
}

TEST(MergeColumns, ADomainsDefaultCountsAsDefault)
{
	Scene scene;
	Column c = column(4, "c", user_type(90, "d"));
	c.domain_default = expression("random()", 'v');
	scene.theirs.columns.push_back(c);
	scene.command.rewrites = {{1000, 2, 9, false}};
	EXPECT_EQ(scene.verdicts(), "add_column refuse volatile_default");
	at(scene.theirs, 4).domain_default = expression("7");
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ADD COLUMN \"c\" public.d DEFAULT 7;\n"
	                       "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"c\" DROP DEFAULT;\n");
	scene.facts.no_types = {"public.d"};
	EXPECT_EQ(scene.verdicts(), "add_column refuse missing_object");
}

TEST(MergeColumns, ADomainThatWantsValuesIsTakenWhenTheyAreThere)
{
	Scene scene;
	scene.all([](Relation &r) { r.identity_columns = {1}; });
	Column c = column(4, "c", user_type(90, "d"));
	c.domain_default = expression("random()", 'v');
	scene.theirs.columns.push_back(c);
	scene.command.rewrites = {{1000, 2, 9, false}};
	scene.facts.domain = builtin("float8", "double precision");
	scene.run();
	const Operation &refusal = scene.result.operations[0];
	EXPECT_EQ(refusal.suggested_sql, "ALTER TABLE \"public\".\"t\" ADD COLUMN \"c\" double precision");
	EXPECT_NE(refusal.hint.find("then change its type to public.d and set its default"), std::string::npos);
	EXPECT_NE(refusal.hint.find("ALTER TABLE public.t ADD COLUMN c double precision; UPDATE public.t SET c = random(); "
	                            "ALTER TABLE public.t ALTER COLUMN c TYPE public.d;"),
	          std::string::npos);
	/* without a key the rows cannot be updated there */
	scene.all([](Relation &r) { r.identity_columns.clear(); });
	scene.run();
	EXPECT_NE(scene.result.operations[0].hint.find("A safe way to write it: ALTER TABLE public.t REPLICA IDENTITY FULL; "), std::string::npos);
	EXPECT_TRUE(scene.result.operations[0].hint.ends_with("ALTER TABLE public.t REPLICA IDENTITY DEFAULT;"));
	/* one that got its default later has NULL whatever the domain says */
	scene.command.rewrites.clear();
	at(scene.theirs, 4).domain_default.reset();
	at(scene.theirs, 4).default_expr = expression("NULL::public.d");
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ADD COLUMN \"c\" public.d DEFAULT NULL;\n"
	                       "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"c\" SET DEFAULT NULL::public.d;\n");
}

TEST(MergeColumns, TakesAPartitionedTablesValueFromItsLeaves)
{
	Scene scene;
	scene.all([](Relation &r) { r.relkind = 'p'; });
	Column c = column(4, "c", timestamptz);
	c.default_expr = expression("now()", 's');
	scene.theirs.columns.push_back(c);
	EXPECT_EQ(scene.verdicts(), "add_column refuse default_unreadable");
	Relation leaf = table();
	leaf.name.oid = 1001;
	c.attnum = 9;
	c.missing = "2026-01-01 00:00:00+00";
	leaf.columns.push_back(c);
	scene.descendants = {&leaf};
	EXPECT_NE(scene.sql().find("'2026-01-01 00:00:00+00'"), std::string::npos);
}

TEST(MergeColumns, AddsAGeneratedColumnWhenItsExpressionIsProven)
{
	Scene scene;
	Column c = column(4, "g");
	c.generated = 's';
	c.default_expr = Expression{"public.f(a)", 'i', {{"function", "public.f(integer)", "11"}}};
	scene.theirs.columns.push_back(c);
	EXPECT_EQ(
	    scene.sql(),
	    "ALTER TABLE \"public\".\"t\" ADD COLUMN \"g\" integer GENERATED ALWAYS AS (public.f(a)) STORED;\n");
	scene.facts.digests_given = true;
	EXPECT_EQ(scene.verdicts(), "add_column refuse missing_object");
	scene.facts.local_digests = {{"function", "public.f(integer)", "22"}};
	EXPECT_EQ(scene.verdicts(), "add_column refuse local_drift");
}

TEST(MergeColumns, AcceptsAColumnThatTheSubscriberHas)
{
	Scene scene;
	scene.theirs.columns.push_back(column(4, "c", text));
	scene.ours.columns.push_back(column(7, "c", text));
	EXPECT_EQ(scene.verdicts(), "add_column satisfied");
	EXPECT_EQ(scene.result.local_columns.back(), (std::pair<AttrNumber, std::string>{4, "c"}));
	at(scene.ours, 7).type = integer;
	EXPECT_EQ(scene.verdicts(), "add_column refuse local_name_taken");
}

TEST(MergeColumns, BringsAnAcceptedColumnToThePublishersAttributes)
{
	Scene scene;
	Column c = column(4, "c", text);
	c.default_expr = expression("gen_random_uuid()", 'v');
	c.not_null = true;
	scene.theirs.columns.push_back(c);
	scene.command.rewrites = {{1000, 2, 9, false}};
	scene.ours.columns.push_back(column(4, "c", text));
	EXPECT_EQ(scene.verdicts(), "add_column satisfied; set_default forward; set_not_null forward");
}

TEST(MergeColumns, RefusesASmuggledStatement)
{
	for (const char *evil :
	     {"1; DROP TABLE x", "1) , (2", "1 -- x", "1 /* x", "'a", "\"a", "1, 2", "$1", ""}) {
		Scene scene;
		Column c = column(4, "c");
		c.default_expr = expression(evil);
		scene.theirs.columns.push_back(c);
		EXPECT_EQ(scene.verdicts(), "add_column refuse unsupported_object") << evil;
		at(scene.theirs, 4).default_expr.reset();
		at(scene.theirs, 4).type.sql = evil;
		EXPECT_EQ(scene.verdicts(), "add_column refuse unsupported_object") << evil;
	}
}

/* ---- drop ---- */

TEST(MergeColumns, DropsAColumn)
{
	Scene scene;
	remove(scene.theirs, 3);
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" DROP COLUMN \"b\";\n");
	scene.policy.drop_column = Choice::Refuse;
	EXPECT_EQ(scene.verdicts(), "drop_column refuse policy_refuse");
	scene.policy.drop_column = Choice::Keep;
	at(scene.ours, 3).not_null = true;
	EXPECT_EQ(scene.verdicts(), "drop_column ignore; drop_not_null forward");
	EXPECT_EQ(scene.result.local_columns.size(), 2u);
	remove(scene.ours, 3);
	EXPECT_EQ(scene.verdicts(), "drop_column satisfied");
}

TEST(MergeColumns, NeverDropsWhatDependsOnAColumn)
{
	Scene scene;
	remove(scene.theirs, 3);
	scene.facts.in_the_way = {{"view", "public.v", "", "", "v"}};
	EXPECT_EQ(scene.verdicts(), "drop_column refuse local_dependents");
	EXPECT_NE(scene.result.operations[0].detail.find("view public.v"), std::string::npos);
	/* a foreign key that the publisher's CASCADE took as well goes first, by name */
	scene.facts.in_the_way = {{"table constraint", "fk on public.child", "public", "child", "fk"}};
	scene.command.dropped.push_back(
	    {"pg_constraint", "table constraint", "public", "fk", "fk on public.child", 77, 0, false});
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"child\" DROP CONSTRAINT \"fk\";\nALTER TABLE "
	                       "\"public\".\"t\" DROP COLUMN \"b\";\n");
}

TEST(MergeColumns, DropsAndAddsUnderOneName)
{
	Scene scene;
	remove(scene.theirs, 3);
	scene.theirs.columns.push_back(column(4, "b"));
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" DROP COLUMN \"b\";\nALTER TABLE \"public\".\"t\" "
	                       "ADD COLUMN \"b\" integer;\n");
	/* nobody saw the commands */
	scene.command = {};
	EXPECT_EQ(scene.verdicts(), "drop_column refuse rename_unproven; add_column refuse local_name_taken");
	/* emptied for a copy, say: no value can be lost */
	scene.has_rows = false;
	EXPECT_EQ(scene.verdicts(), "drop_column forward; add_column forward");
	scene.has_rows = true;
	at(scene.theirs, 4).type = text;
	EXPECT_EQ(scene.verdicts(), "drop_column forward; add_column forward");
}

TEST(MergeColumns, AColumnTakenOffTheColumnListStays)
{
	Scene scene;
	scene.base.published_columns = {{1, 2, 3}};
	scene.theirs.published_columns = {{1, 2}};
	remove(scene.theirs, 3);
	EXPECT_EQ(scene.verdicts(), "unpublish_column ignore");
	std::swap(scene.base, scene.theirs);
	remove(scene.ours, 3);
	EXPECT_EQ(scene.verdicts(), "publish_column refuse default_unreadable");
	scene.has_rows = false;
	EXPECT_EQ(scene.verdicts(), "add_column forward");
}

/* ---- rename ---- */

TEST(MergeColumns, RenamesByAttnum)
{
	for (bool captured : {true, false}) {
		Scene scene;
		scene.command.captured = captured;
		at(scene.theirs, 2).name = "z";
		EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" RENAME COLUMN \"a\" TO \"z\";\n");
		at(scene.ours, 2).name = "z";
		scene.columns.pairs = {{1, 1}, {2, 2}, {3, 3}};
		EXPECT_EQ(scene.verdicts(), "rename_column satisfied");
		at(scene.ours, 2).name = "q";
		EXPECT_EQ(scene.verdicts(), "rename_column refuse local_drift");
	}
}

TEST(MergeColumns, SwapsNames)
{
	Scene scene;
	std::swap(at(scene.theirs, 2).name, at(scene.theirs, 3).name);
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" RENAME COLUMN \"a\" TO \"schemasync_rename_2\";\n"
	                       "ALTER TABLE \"public\".\"t\" RENAME COLUMN \"b\" TO \"a\";\n"
	                       "ALTER TABLE \"public\".\"t\" RENAME COLUMN \"schemasync_rename_2\" TO \"b\";\n");
	/* changed by hand in advance */
	std::swap(at(scene.ours, 2).name, at(scene.ours, 3).name);
	scene.columns.pairs = {{1, 1}, {2, 2}, {3, 3}};
	EXPECT_EQ(scene.verdicts(), "rename_column satisfied; rename_column satisfied");
}

TEST(MergeColumns, RenamesAChainInTheOrderInWhichNamesAreFree)
{
	Scene scene;
	at(scene.theirs, 2).name = "b";
	at(scene.theirs, 3).name = "c";
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" RENAME COLUMN \"b\" TO \"c\";\n"
	                       "ALTER TABLE \"public\".\"t\" RENAME COLUMN \"a\" TO \"b\";\n");
}

TEST(MergeColumns, RenamesAwayAndAddsTheOldName)
{
	Scene scene;
	at(scene.theirs, 3).name = "b_old";
	scene.theirs.columns.push_back(column(4, "b"));
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" RENAME COLUMN \"b\" TO \"b_old\";\n"
	                       "ALTER TABLE \"public\".\"t\" ADD COLUMN \"b\" integer;\n");
}

TEST(MergeColumns, DropsAndRenamesOver)
{
	Scene scene;
	remove(scene.theirs, 3);
	at(scene.theirs, 2).name = "b";
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" DROP COLUMN \"b\";\n"
	                       "ALTER TABLE \"public\".\"t\" RENAME COLUMN \"a\" TO \"b\";\n");
	scene.policy.drop_column = Choice::Keep;
	EXPECT_EQ(scene.verdicts(), "drop_column ignore; rename_column refuse local_name_taken");
}

TEST(MergeColumns, DoesNotRenameOverAColumnOfTheSubscribersOwn)
{
	Scene scene;
	at(scene.theirs, 2).name = "mine";
	scene.ours.columns.push_back(column(4, "mine"));
	EXPECT_EQ(scene.verdicts(), "rename_column refuse local_name_taken");
}

TEST(MergeColumns, ARenameAloneChangesNoDefaultOrConstraint)
{
	Scene scene;
	scene.all([](Relation &r) {
		Column g = column(4, "g");
		g.generated = 's';
		g.default_expr = expression("(a * 2)");
		r.columns.push_back(g);
		r.constraints = {constraint(5, "c", 'c', "CHECK ((a > 0))", {2})};
		r.indexes = {index(6, "i", "USING btree (a)", false, {2})};
	});
	at(scene.theirs, 2).name = "z";
	at(scene.theirs, 4).default_expr = expression("(z * 2)");
	scene.theirs.constraints[0].definition = "CHECK ((z > 0))";
	scene.theirs.indexes[0].definition = "CREATE INDEX i ON public.t USING btree (z)";
	EXPECT_EQ(scene.verdicts(), "rename_column forward");
}

/* ---- attributes ---- */

TEST(MergeColumns, SetsAndDropsNotNullAndDefault)
{
	Scene scene;
	at(scene.theirs, 2).not_null = true;
	at(scene.theirs, 3).default_expr = expression("random()", 'v');
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"a\" SET NOT NULL;\n"
	                       "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"b\" SET DEFAULT random();\n");
	std::swap(scene.base, scene.theirs);
	scene.ours = scene.base;
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"a\" DROP NOT NULL;\n"
	                       "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"b\" DROP DEFAULT;\n");
	scene.ours = scene.theirs;
	EXPECT_EQ(scene.verdicts(), "drop_not_null satisfied; drop_default satisfied");
}

TEST(MergeColumns, FollowsIdentityAndGeneration)
{
	Scene scene;
	at(scene.theirs, 1).identity = 'd';
	EXPECT_EQ(scene.sql(),
	          "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"id\" ADD GENERATED BY DEFAULT AS IDENTITY;\n");
	scene.base = scene.theirs;
	scene.ours = scene.theirs;
	at(scene.theirs, 1).identity = 'a';
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"id\" SET GENERATED ALWAYS;\n");
	at(scene.theirs, 1).identity = 0;
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"id\" DROP IDENTITY;\n");

	/* a partition's: its own where it has a sequence, else that of the whole table */
	Scene partition;
	partition.all([](Relation &r) { r.partition_bound = "DEFAULT", at(r, 1).inhcount = 1; });
	at(partition.theirs, 1).identity = 'd';
	EXPECT_EQ(partition.verdicts(), "add_identity ignore");
	at(partition.theirs, 1).sequence = state::Sequence{.name = {90, "public", "t_id_seq"}, .type = "integer", .max = 9};
	EXPECT_NE(partition.sql().find("ADD GENERATED BY DEFAULT AS IDENTITY"), std::string::npos);

	/* a serial's sequence stays beside that of the identity, and goes where they have one name */
	Scene serial;
	serial.all([](Relation &r) {
		at(r, 1).sequence = state::Sequence{.name = {90, "public", "t_id_seq"}, .type = "integer", .max = 9};
		at(r, 1).default_expr = expression("nextval('t_id_seq')");
	});
	at(serial.theirs, 1).default_expr.reset();
	at(serial.theirs, 1).identity = 'd';
	at(serial.theirs, 1).sequence->name = {91, "public", "other"};
	EXPECT_EQ(serial.verdicts(), "add_identity forward");
	EXPECT_EQ(serial.sql().find("SEQUENCE \"public\".\"t_id_seq\""), std::string::npos);
	std::swap(serial.base, serial.theirs);
	serial.ours = serial.base;
	EXPECT_EQ(serial.sql().find("RENAME"), std::string::npos);
	std::swap(serial.base, serial.theirs);
	serial.ours = serial.base;
	at(serial.theirs, 1).sequence->name.name = "t_id_seq";
	EXPECT_NE(serial.sql().find("DROP SEQUENCE \"public\".\"t_id_seq\";"), std::string::npos);

	Scene other;
	other.all([](Relation &r) { at(r, 3).generated = 's', at(r, 3).default_expr = expression("(a + 1)"); });
	at(other.theirs, 3).generated = 0;
	at(other.theirs, 3).default_expr.reset();
	EXPECT_EQ(other.sql(), "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"b\" DROP EXPRESSION;\n");
	/* with the default that the same command gave it */
	at(other.theirs, 3).default_expr = expression("7");
	EXPECT_EQ(other.sql(), "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"b\" DROP EXPRESSION;\n"
	                       "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"b\" SET DEFAULT 7;\n");
	/* and before the column goes that it was made of */
	remove(other.theirs, 2);
	EXPECT_EQ(other.verdicts(), "drop_expression forward; drop_column forward; set_default forward");
	other.theirs = other.base;
	at(other.theirs, 3).default_expr = expression("(a + 2)");
	other.command.subcommands = {"AT_SetExpression"};
	EXPECT_EQ(other.sql(), "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"b\" SET EXPRESSION AS ((a + 2));\n");
	other.facts.version = 150000;
	EXPECT_EQ(other.verdicts(), "set_expression refuse unsupported_object");
}

TEST(MergeColumns, FollowsStorageAndTheLike)
{
	Scene scene;
	scene.all([](Relation &r) { at(r, 2).type = text, at(r, 2).storage = 'x'; });
	Column &a = at(scene.theirs, 2);
	a.storage = 'e';
	a.compression = 'l';
	a.statistics = 500;
	a.options = {"n_distinct=-0.5"};
	EXPECT_EQ(scene.sql(),
	          "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"a\" SET STORAGE EXTERNAL;\n"
	          "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"a\" SET COMPRESSION lz4;\n"
	          "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"a\" SET STATISTICS 500;\n"
	          "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"a\" SET (\"n_distinct\" = '-0.5');\n");

	/* beside a new type, even when it is what the old one had */
	Scene retyped;
	retyped.all([](Relation &r) { at(r, 2).type = text, at(r, 2).storage = 'e'; });
	at(retyped.theirs, 2).type = varchar(5);
	EXPECT_EQ(retyped.sql().find("STORAGE"), std::string::npos);
	retyped.command.subcommands = {"AT_AlterColumnType", "AT_SetStorage"};
	EXPECT_NE(retyped.sql().find("SET STORAGE EXTERNAL"), std::string::npos) << retyped.sql();
	/* ONLY is no part of a change of type: here the column may be inherited */
	retyped.command.subcommands.push_back("ONLY");
	EXPECT_EQ(retyped.sql().find("ONLY \"public\".\"t\" ALTER COLUMN \"a\" TYPE"), std::string::npos) << retyped.sql();
	EXPECT_NE(retyped.sql().find("ALTER COLUMN \"a\" TYPE"), std::string::npos) << retyped.sql();
	/* without a marker the states tell it */
	retyped.command.subcommands.clear();
	retyped.command.captured = false;
	EXPECT_EQ(retyped.sql().find("STORAGE"), std::string::npos) << retyped.sql();
	at(retyped.theirs, 2).storage = 'm';
	EXPECT_NE(retyped.sql().find("SET STORAGE MAIN"), std::string::npos) << retyped.sql();

	/* the subcommand may be another column's: a wider type here keeps its own */
	Scene wider;
	at(wider.base, 2).type = varchar(3);
	at(wider.theirs, 2).type = varchar(5);
	at(wider.ours, 2).type = text;
	at(wider.theirs, 2).storage = 'p';
	wider.command.subcommands = {"AT_AlterColumnType", "AT_SetStorage"};
	EXPECT_EQ(wider.sql().find("STORAGE"), std::string::npos) << wider.sql();
}

TEST(MergeColumns, KeepsASequenceThatAnotherColumnTakesOver)
{
	Scene scene;
	Sequence sequence{{50, "public", "t_id_seq"}, "integer", 1, 1, 1, 2147483647, 1, false};
	scene.base.columns[1].sequence = scene.ours.columns[1].sequence = sequence;
	remove(scene.theirs, 2);
	at(scene.theirs, 3).sequence = sequence;
	scene.facts.relations = {"public.t_id_seq"};
	EXPECT_EQ(scene.sql(), "ALTER SEQUENCE \"public\".\"t_id_seq\" OWNED BY NONE;\n"
	                       "ALTER TABLE \"public\".\"t\" DROP COLUMN \"a\";\n"
	                       "ALTER SEQUENCE \"public\".\"t_id_seq\" OWNED BY \"public\".\"t\".\"b\";\n");
}

/* ---- policy ---- */

TEST(MergeColumns, SchemaChangesRefuseAndIgnore)
{
	Scene scene;
	scene.theirs.columns.push_back(column(4, "c"));
	scene.policy.schema_changes = SchemaChanges::Refuse;
	EXPECT_EQ(scene.verdicts(), "add_column refuse policy_refuse");
	EXPECT_EQ(scene.result.operations[0].suggested_sql,
	          "ALTER TABLE \"public\".\"t\" ADD COLUMN \"c\" integer");
	scene.policy.schema_changes = SchemaChanges::Ignore;
	EXPECT_EQ(scene.verdicts(), "add_column ignore");
	EXPECT_EQ(scene.sql(), "");
}

TEST(MergeColumns, IgnoredChangesLeaveTheSubscribersNames)
{
	Scene scene;
	at(scene.theirs, 2).name = "z";
	scene.theirs.columns.push_back(column(4, "c"));
	scene.policy.schema_changes = SchemaChanges::Ignore;
	scene.run();
	EXPECT_EQ(scene.result.local_columns,
	          (std::vector<std::pair<AttrNumber, std::string>>{{1, "id"}, {2, "a"}, {3, "b"}}));
}

TEST(MergeColumns, AKeptColumnIsNotTakenForANewOne)
{
	Scene scene;
	scene.policy.drop_column = Choice::Keep;
	remove(scene.theirs, 3);
	scene.theirs.columns.push_back(column(4, "b"));
	EXPECT_EQ(scene.verdicts(), "drop_column ignore; add_column refuse local_name_taken");
	remove(scene.base, 3);
	EXPECT_EQ(scene.verdicts(), "add_column refuse local_name_taken");
	scene.resumed = true;
	EXPECT_EQ(scene.verdicts(), "add_column satisfied");
}

TEST(MergeColumns, AddressesTheSubscribersColumnsByNameWhateverTheirOrder)
{
	Scene scene;
	scene.ours.columns = {column(2, "b"), column(4, "own"), column(5, "id"), column(9, "a")};
	at(scene.theirs, 3).name = "b2";
	remove(scene.theirs, 2);
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" DROP COLUMN \"a\";\n"
	                       "ALTER TABLE \"public\".\"t\" RENAME COLUMN \"b\" TO \"b2\";\n");
}

} // namespace
