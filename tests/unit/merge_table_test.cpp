/*
 * Tables as a whole and their indexes.
 */
#include "states.hpp"

#include <gtest/gtest.h>

namespace {

using namespace states;

const std::string alter = "ALTER TABLE \"public\".\"t\" ";

/* ---- create, rename, drop ---- */

TEST(MergeTable, CreatesATableWithAllThatBelongsToIt)
{
	CreateScene scene;
	Relation &t = scene.theirs;
	at(t, 1).identity = 'a';
	at(t, 1).sequence = Sequence{{60, "public", "t_id_seq"}, "integer", 1, 1, 1, 2147483647, 1, false};
	at(t, 2).default_expr = expression("random()", 'v');
	at(t, 3).generated = 's';
	at(t, 3).default_expr = expression("(a * 2)");
	t.constraints = {constraint(1, "t_pkey", 'p', "PRIMARY KEY (id)", {1}),
	                 constraint(2, "t_a_check", 'c', "CHECK ((a > 0))", {2}),
	                 constraint(3, "t_fk", 'f', "FOREIGN KEY (a) REFERENCES public.u(id)", {2})};
	t.indexes = {index(4, "t_pkey", "USING btree (id)", true, {1}),
	             index(5, "t_a", "USING btree (a DESC) WHERE (a > 1)", false, {2})};
	t.indexes[0].constraint = 1;
	t.options = {"fillfactor=70"};
	t.replica_identity = 'f';
	EXPECT_EQ(scene.sql(),
	          "CREATE TABLE \"public\".\"t\" (\n"
	          "\t\"id\" integer GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME \"public\".\"t_id_seq\" START "
	          "WITH 1 INCREMENT BY 1 "
	          "MINVALUE 1 MAXVALUE 2147483647 CACHE 1 NO CYCLE) NOT NULL,\n"
	          "\t\"a\" integer DEFAULT random(),\n"
	          "\t\"b\" integer GENERATED ALWAYS AS ((a * 2)) STORED\n) WITH (\"fillfactor\" = '70');\n" +
	              alter + "ADD CONSTRAINT \"t_a_check\" CHECK ((a > 0));\n" + alter +
	              "ADD CONSTRAINT \"t_pkey\" PRIMARY KEY (id);\n" +
	              "CREATE INDEX \"t_a\" ON \"public\".\"t\" USING btree (a DESC) WHERE (a > 1);\n" + alter +
	              "ADD CONSTRAINT \"t_fk\" FOREIGN KEY (a) REFERENCES public.u(id);\n" + alter +
	              "REPLICA IDENTITY FULL;\n");
}

TEST(MergeTable, CreatesPartitionsChildrenAndOddTables)
{
	CreateScene scene;
	scene.theirs.relkind = 'p';
	scene.theirs.partition_key = "RANGE (id)";
	EXPECT_NE(scene.sql().find("PARTITION BY RANGE (id)"), std::string::npos);

	CreateScene leaf;
	leaf.theirs.parents = {{5, "public", "root"}};
	leaf.theirs.partition_bound = "FOR VALUES FROM (1) TO (10)";
	leaf.theirs.constraints = {constraint(1, "t_pkey", 'p', "PRIMARY KEY (id)", {1})};
	leaf.theirs.constraints[0].parent = 99;
	EXPECT_EQ(
	    leaf.sql(),
	    "CREATE TABLE \"public\".\"t\" (\n\t\"id\" integer NOT NULL,\n\t\"a\" integer,\n\t\"b\" integer\n);\n"
	    "ALTER TABLE \"public\".\"root\" ATTACH PARTITION \"public\".\"t\" FOR VALUES FROM (1) TO (10);\n");
	leaf.facts.no_tables = {"public.root"};
	EXPECT_EQ(leaf.verdicts(), "create_table refuse missing_object");

	CreateScene child;
	child.theirs.parents = {{5, "public", "root"}};
	at(child.theirs, 1).local = false;
	at(child.theirs, 1).inhcount = 1;
	EXPECT_EQ(child.sql(), "CREATE TABLE \"public\".\"t\" (\n\t\"a\" integer,\n\t\"b\" integer\n) INHERITS "
	                       "(\"public\".\"root\");\n"
	                       "ALTER TABLE ONLY \"public\".\"t\" ALTER COLUMN \"id\" SET NOT NULL;\n");

	CreateScene odd;
	odd.theirs.columns.clear();
	odd.theirs.persistence = 'u';
	EXPECT_EQ(odd.sql(), "CREATE UNLOGGED TABLE \"public\".\"t\" ();\n");
	odd.theirs.of_type = Name{9, "public", "ty"};
	EXPECT_EQ(odd.sql(), "CREATE UNLOGGED TABLE \"public\".\"t\" OF \"public\".\"ty\";\n");
}

TEST(MergeTable, HaltsWhenWhatATableNeedsIsMissing)
{
	CreateScene scene;
	at(scene.theirs, 2).type = user_type(70, "mood");
	scene.facts.no_types = {"public.mood"};
	EXPECT_EQ(scene.verdicts(), "create_table refuse missing_object");
	EXPECT_NE(scene.result.operations[0].detail.find("public.mood"), std::string::npos);
	scene = {};
	scene.facts.no_schemas = {"public"};
	EXPECT_EQ(scene.verdicts(), "create_table refuse missing_object");
	scene = {};
	scene.theirs.constraints = {constraint(3, "fk", 'f', "FOREIGN KEY (a) REFERENCES public.u(id)", {2})};
	scene.theirs.constraints[0].references = Name{5, "public", "u"};
	scene.facts.no_tables = {"public.u"};
	EXPECT_EQ(scene.verdicts(), "create_table refuse missing_object");
	scene = {};
	scene.facts.relations = {"public.t"};
	EXPECT_EQ(scene.verdicts(), "create_table refuse local_name_taken");
	/* the expressions of an index are read together */
	scene = {};
	scene.theirs.indexes = {index(5, "i", "USING btree (lower(a), lower(b))")};
	scene.theirs.indexes[0].expr = expression("lower(a), lower(b)");
	EXPECT_EQ(scene.verdicts(), "create_table forward");
	scene = {};
	scene.theirs.relkind = 'v';
	EXPECT_EQ(scene.verdicts(), "unsupported ignore");
}

TEST(MergeTable, AcceptsATableOfTheSameShape)
{
	CreateScene scene;
	Relation ours = table();
	ours.columns.push_back(column(9, "own"));
	scene.ours = &ours;
	EXPECT_EQ(scene.verdicts(), "create_table satisfied");
	EXPECT_EQ(scene.result.local_columns.size(), 3u);
	scene.theirs.constraints = {constraint(1, "t_pkey", 'p', "PRIMARY KEY (id)", {1})};
	EXPECT_EQ(scene.verdicts(), "create_table satisfied; add_primary_key forward");
	at(ours, 2).type = text;
	EXPECT_EQ(scene.verdicts(), "create_table refuse local_name_taken");
	EXPECT_NE(scene.result.operations[0].detail.find("column a is text, not integer"), std::string::npos);
	at(ours, 2).type = bigint;
	ours.columns[3].not_null = true;
	EXPECT_EQ(scene.verdicts(), "create_table refuse local_name_taken");
}

TEST(MergeTable, AccessMethods)
{
	Scene scene;
	scene.theirs.access_method = "other";
	EXPECT_EQ(scene.sql(), alter + "SET ACCESS METHOD \"other\";\n");
	scene.all([](Relation &r) { r.relkind = 'p', r.access_method = "", r.partition_key = "LIST (id)"; });
	scene.theirs.access_method = "other";
	EXPECT_EQ(scene.sql(), alter + "SET ACCESS METHOD \"other\";\n");
	scene.facts.version = 160000;
	EXPECT_EQ(scene.verdicts(), "set_access_method ignore");
	scene.facts.version = 170000;
	scene.base = scene.ours = scene.theirs;
	scene.theirs.access_method = "";
	EXPECT_EQ(scene.sql(), alter + "SET ACCESS METHOD DEFAULT;\n");
	scene.ours.access_method = "";
	EXPECT_EQ(scene.verdicts(), "set_access_method satisfied");
}

TEST(MergeTable, RenamesAndMoves)
{
	Scene scene;
	scene.theirs.name.name = "u";
	EXPECT_EQ(scene.sql(), alter + "RENAME TO \"u\";\n");
	scene.theirs.columns.push_back(column(4, "c"));
	EXPECT_EQ(scene.sql(),
	          alter + "RENAME TO \"u\";\nALTER TABLE \"public\".\"u\" ADD COLUMN \"c\" integer;\n");
	scene.theirs = table();
	scene.theirs.name.schema = "s";
	EXPECT_EQ(scene.sql(), alter + "SET SCHEMA \"s\";\n");
	scene.facts.no_schemas = {"s"};
	EXPECT_EQ(scene.verdicts(), "set_table_schema refuse missing_object");
	scene.facts.no_schemas.clear();
	scene.facts.relations = {"s.t"};
	EXPECT_EQ(scene.verdicts(), "set_table_schema refuse local_name_taken");
	scene.facts.relkind = 'c';
	scene.run();
	EXPECT_EQ(scene.result.operations[0].suggested_sql, "ALTER TYPE \"s\".\"t\" RENAME TO \"t_local\"");
	/* a table's row type has its name: another type is in the way */
	scene.facts.relations.clear();
	scene.facts.kind = 'e';
	scene.run();
	EXPECT_TRUE(scene.result.operations[0].suggested_sql.starts_with("ALTER TYPE \"s\".\"t\" RENAME TO \"t_local"));
	scene.facts.kind = 0;
	scene.ours.name.schema = "s";
	EXPECT_EQ(scene.verdicts(), "set_table_schema satisfied");
	scene.ours.name.schema = "elsewhere";
	EXPECT_EQ(scene.verdicts(), "set_table_schema refuse local_drift");
}

TEST(MergeTable, Drops)
{
	Relation base = table(), ours = table();
	Facts facts;
	Policy policy;
	Command command;
	RelationInput input;
	input.base = &base;
	input.ours = &ours;
	auto run = [&] { return merge_relation(input, command, policy, &facts).operations[0]; };
	EXPECT_EQ(run().sql, std::vector<std::string>({"DROP TABLE \"public\".\"t\""}));
	policy.drop_table = Choice::Keep;
	EXPECT_EQ(run().verdict, Verdict::Ignore);
	policy.drop_table = Choice::Refuse;
	EXPECT_EQ(run().reason, Reason::PolicyRefuse);
	policy.drop_table = Choice::Forward;
	facts.in_the_way = {{"view", "public.v", "", "", "v"}};
	EXPECT_EQ(run().reason, Reason::LocalDependents);
	facts.in_the_way = {{"table constraint", "fk on public.c", "public", "c", "fk"}};
	command.dropped.push_back(
	    {"pg_constraint", "table constraint", "public", "fk", "fk on public.c", 8, 0, false});
	EXPECT_EQ(run().sql, std::vector<std::string>({"ALTER TABLE \"public\".\"c\" DROP CONSTRAINT \"fk\"",
	                                               "DROP TABLE \"public\".\"t\""}));
	/* by hand, too, what the publisher's CASCADE dropped goes first */
	policy.drop_table = Choice::Refuse;
	EXPECT_EQ(run().suggested_sql, "ALTER TABLE \"public\".\"c\" DROP CONSTRAINT \"fk\";\n"
	                               "ALTER TABLE IF EXISTS public.c DROP CONSTRAINT IF EXISTS fk;\nDROP TABLE \"public\".\"t\"");
	facts.in_the_way.clear();
	EXPECT_EQ(run().suggested_sql, "ALTER TABLE IF EXISTS public.c DROP CONSTRAINT IF EXISTS fk;\nDROP TABLE \"public\".\"t\"");
	facts.in_the_way.push_back({"view", "public.v", "", "", "v"});
	EXPECT_EQ(run().reason, Reason::PolicyRefuse);
	EXPECT_EQ(run().suggested_sql, "");
	EXPECT_NE(run().detail.find("view public.v"), std::string::npos);
	input.ours = nullptr;
	EXPECT_EQ(run().verdict, Verdict::Satisfied);
}

TEST(MergeTable, MembersOfExtensionsAreLeftAlone)
{
	Scene scene;
	scene.all([](Relation &r) { r.extension = "x"; });
	scene.theirs.columns.push_back(column(4, "c"));
	EXPECT_EQ(scene.verdicts(), "extension_member ignore");
}

TEST(MergeTable, PropertiesOfTheTable)
{
	Scene scene;
	scene.theirs.options = {"fillfactor=70", "autovacuum_enabled=false"};
	scene.base.options = scene.ours.options = {"fillfactor=90", "toast_tuple_target=200"};
	EXPECT_EQ(scene.sql(), alter + "RESET (\"toast_tuple_target\");\n" + alter +
	                           "SET (\"fillfactor\" = '70', \"autovacuum_enabled\" = 'false');\n");
	scene = Scene();
	scene.theirs.rls = scene.theirs.force_rls = true;
	EXPECT_EQ(scene.sql(), alter + "ENABLE ROW LEVEL SECURITY;\n" + alter + "FORCE ROW LEVEL SECURITY;\n");
	scene = Scene();
	scene.theirs.persistence = 'u';
	EXPECT_EQ(scene.sql(), alter + "SET UNLOGGED;\n");
	std::swap(scene.base, scene.theirs);
	scene.ours.persistence = 'u';
	EXPECT_EQ(scene.verdicts(), "set_persistence refuse rewrite_unproven");
	/* a table that is empty here says nothing of what was written there; one that is empty there takes the rows here */
	scene.has_rows = false;
	EXPECT_EQ(scene.verdicts(), "set_persistence refuse rewrite_unproven");
	scene.command.rewrites = {{scene.theirs.name.oid, 1, 0, false}};
	EXPECT_EQ(scene.sql(), alter + "SET LOGGED;\n");
	EXPECT_EQ(scene.verdicts(), "set_persistence forward");
	scene.has_rows = true;
	EXPECT_EQ(scene.verdicts(), "set_persistence carry");
	scene.command.rewrites[0].rows = 3;
	scene.has_rows = false;
	EXPECT_EQ(scene.verdicts(), "set_persistence refuse rewrite_unproven");
	scene = Scene();
	scene.base.owner = "a";
	scene.theirs.owner = "b";
	EXPECT_EQ(scene.verdicts(), "change_table_owner ignore");
	scene.policy.owners_same = true;
	EXPECT_EQ(scene.sql(), alter + "OWNER TO \"b\";\n");
	scene.facts.no_roles = {"b"};
	EXPECT_EQ(scene.verdicts(), "change_table_owner refuse missing_object");
}

TEST(MergeTable, ReplicaIdentity)
{
	Scene scene;
	scene.theirs.replica_identity = 'f';
	EXPECT_EQ(scene.sql(), alter + "REPLICA IDENTITY FULL;\n");
	scene.ours.replica_identity = 'f';
	EXPECT_EQ(scene.verdicts(), "set_replica_identity satisfied");
	scene = Scene();
	scene.theirs.replica_identity = 'i';
	scene.theirs.replica_identity_index = 9;
	scene.theirs.indexes = {index(9, "t_a", "USING btree (a)", true, {2})};
	scene.policy.indexes = Choice::Ignore;
	EXPECT_EQ(scene.sql(), "CREATE UNIQUE INDEX \"t_a\" ON \"public\".\"t\" USING btree (a);\n" + alter +
	                           "REPLICA IDENTITY USING INDEX \"t_a\";\n");
	scene.theirs.indexes.clear();
	scene.theirs.replica_identity_index = 0;
	EXPECT_EQ(scene.verdicts(), "set_replica_identity ignore");
}

TEST(MergeTable, AReplicaIdentityMayBeOnTheWayToAnother)
{
	Scene scene;
	scene.all([](Relation &r) {
		r.replica_identity = 'i';
		r.replica_identity_index = 9;
		r.identity_columns = {1};
		r.indexes = {index(9, "t_id", "USING btree (id)", true, {1})};
	});
	scene.theirs.indexes.clear();
	scene.theirs.replica_identity_index = 0;
	scene.theirs.identity_columns.clear();
	EXPECT_EQ(scene.verdicts(), "drop_index forward; set_replica_identity ignore");
	EXPECT_TRUE(scene.result.identity_lost);
	scene.base = scene.ours = scene.theirs;
	scene.theirs.indexes = {index(10, "t_id", "USING btree (id)", true, {1})};
	EXPECT_EQ(scene.verdicts(), "create_index forward");
	scene.base = scene.ours = scene.theirs;
	scene.theirs.replica_identity_index = 10;
	EXPECT_EQ(scene.sql(), alter + "REPLICA IDENTITY USING INDEX \"t_id\";\n");

	Scene key;
	key.all([](Relation &r) {
		r.identity_columns = {1}, r.constraints = {constraint(1, "t_pkey", 'p', "PRIMARY KEY (id)", {1})};
	});
	key.theirs.identity_columns.clear();
	key.theirs.constraints[0] = constraint(2, "t_pkey", 'p', "PRIMARY KEY (id) DEFERRABLE", {1});
	key.theirs.constraints[0].deferrable = true;
	EXPECT_FALSE(key.run().refused());
	key.theirs.constraints.clear();
	EXPECT_EQ(key.verdicts(), "drop_constraint forward");
}

TEST(MergeTable, PartitionsAndParents)
{
	Scene scene;
	scene.theirs.parents = {{5, "public", "root"}};
	scene.theirs.partition_bound = "FOR VALUES IN (1)";
	EXPECT_EQ(scene.sql(),
	          "ALTER TABLE \"public\".\"root\" ATTACH PARTITION \"public\".\"t\" FOR VALUES IN (1);\n");
	std::swap(scene.base, scene.theirs);
	scene.ours.parents = {{77, "public", "root"}};
	scene.ours.partition_bound = "FOR VALUES IN (1)";
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"root\" DETACH PARTITION \"public\".\"t\";\n");
	scene = Scene();
	scene.theirs.parents = {{5, "public", "root"}};
	EXPECT_EQ(scene.sql(), alter + "INHERIT \"public\".\"root\";\n");
	scene.ours.parents = {{77, "public", "root"}};
	EXPECT_EQ(scene.verdicts(), "change_parents satisfied");
	std::swap(scene.base, scene.theirs);
	EXPECT_EQ(scene.sql(), alter + "NO INHERIT \"public\".\"root\";\n");
}

TEST(MergeIndexes, CreatesRenamesAndDrops)
{
	Scene scene;
	scene.theirs.indexes = {index(9, "I", "USING gin (a) WHERE (b > 0)")};
	EXPECT_EQ(scene.sql(), "CREATE INDEX \"I\" ON \"public\".\"t\" USING gin (a) WHERE (b > 0);\n");
	scene.base = scene.ours = scene.theirs;
	scene.theirs.indexes[0].name = "J";
	EXPECT_EQ(scene.sql(), "ALTER INDEX \"public\".\"I\" RENAME TO \"J\";\n");
	scene.theirs.indexes.clear();
	EXPECT_EQ(scene.sql(), "DROP INDEX \"public\".\"I\";\n");
}

TEST(MergeIndexes, RenamesWhatHasTheName)
{
	Scene scene;
	scene.theirs.indexes = {index(9, "i", "USING btree (a)")};
	scene.facts.relations = {"public.i", "public.i_local"};
	for (auto [kind, word] : {std::pair('r', "TABLE"), {'v', "VIEW"}, {'S', "SEQUENCE"}, {'c', "TYPE"}, {'i', "INDEX"}}) {
		scene.facts.relkind = kind;
		EXPECT_EQ(scene.verdicts(), "create_index refuse local_name_taken");
		EXPECT_EQ(scene.result.operations[0].suggested_sql, std::string("ALTER ") + word + " \"public\".\"i\" RENAME TO \"i_local2\"");
	}
	scene.base.indexes = scene.ours.indexes = {index(9, "j", "USING btree (a)")};
	EXPECT_EQ(scene.verdicts(), "rename_index refuse local_name_taken");
	/* the one that has it is dropped before */
	scene.base.indexes = scene.ours.indexes = {index(8, "i", "USING btree (b)")};
	EXPECT_EQ(scene.verdicts(), "drop_index forward; create_index forward");
}

TEST(MergeIndexes, Policies)
{
	Scene scene;
	scene.theirs.indexes = {index(9, "i", "USING btree (a)")};
	scene.policy.indexes = Choice::Background;
	EXPECT_EQ(scene.sql(), "CREATE INDEX CONCURRENTLY \"i\" ON \"public\".\"t\" USING btree (a);\n");
	EXPECT_TRUE(scene.result.operations[0].background);
	EXPECT_EQ(scene.result.operations[0].index, 9u);
	scene.ours.indexes = scene.theirs.indexes;
	EXPECT_EQ(scene.verdicts(), "create_index satisfied");
	scene.ours.indexes[0].valid = false;
	EXPECT_EQ(scene.verdicts(), "create_index refuse local_name_taken");
	EXPECT_EQ(scene.result.operations[0].suggested_sql, "DROP INDEX \"public\".\"i\"");
	scene.ours.indexes.clear();
	scene.policy.indexes = Choice::Ignore;
	EXPECT_EQ(scene.verdicts(), "create_index ignore");
	scene.base.indexes = scene.ours.indexes = scene.theirs.indexes;
	scene.theirs.indexes.clear();
	EXPECT_EQ(scene.verdicts(), "drop_index ignore");
	scene.base.indexes[0].unique = true;
	EXPECT_EQ(scene.verdicts(), "drop_index forward");
}

TEST(MergeIndexes, AnIndexThatIsNotValidIsNotThere)
{
	Scene scene;
	scene.theirs.indexes = {index(9, "i", "USING btree (a)")};
	scene.theirs.indexes[0].valid = false;
	EXPECT_EQ(scene.verdicts(), "");
	scene.base = scene.theirs;
	scene.theirs.indexes[0].valid = true;
	EXPECT_EQ(scene.verdicts(), "create_index forward");
}

TEST(MergeIndexes, ReindexIsNoChange)
{
	Scene scene;
	scene.all([](Relation &r) { r.indexes = {index(9, "i", "USING btree (a)")}; });
	scene.theirs.indexes[0].oid = 10;
	EXPECT_EQ(scene.verdicts(), "");
}

TEST(MergeIndexes, AcceptsAndHalts)
{
	Scene scene;
	scene.theirs.indexes = {index(9, "i", "USING btree (a)")};
	scene.ours.indexes = {index(3, "by_hand", "USING btree (a)")};
	EXPECT_EQ(scene.verdicts(), "create_index satisfied");
	scene.ours.indexes = {index(3, "i", "USING btree (b)")};
	EXPECT_EQ(scene.verdicts(), "create_index refuse local_name_taken");
	scene.ours.indexes.clear();
	scene.theirs.indexes[0].definition = "CREATE INDEX i ON public.t USING btree (a); DROP TABLE x";
	EXPECT_EQ(scene.verdicts(), "create_index refuse unsupported_object");
}

TEST(Drift, NamesEachDifference)
{
	Relation theirs = table(), ours = table();
	at(theirs, 2).type = bigint;
	at(ours, 3).name = "bb";
	ours.columns.push_back(column(4, "own"));
	theirs.constraints = {constraint(1, "c", 'c', "CHECK ((a > 0))", {2})};
	EXPECT_EQ(describe_drift(theirs, ours, {{{1, 1}, {2, 2}, {3, 3}}}),
	          "column a: publisher bigint, subscriber integer\n"
	          "column b: publisher b, subscriber named bb\n"
	          "column own: publisher none, subscriber integer\n"
	          "constraint c: publisher CHECK ((a > 0)), subscriber none");
	EXPECT_EQ(describe_drift(table(), table(), {}), "");
}

} // namespace
