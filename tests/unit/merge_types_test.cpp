/*
 * Types and schemas.
 */
#include "states.hpp"

#include <gtest/gtest.h>

namespace {

using namespace states;

Type
mood(std::vector<std::pair<Oid, std::string>> labels)
{
	Type type;
	type.name = {70, "public", "mood"};
	type.typtype = 'e';
	for (auto &[oid, label] : labels)
		type.labels.push_back({oid, label});
	return type;
}

struct TypeScene {
	std::optional<Type> base, theirs, ours;
	Facts facts;
	Policy policy;
	Result result;

	std::string
	sql()
	{
		auto pointer = [](const std::optional<Type> &type) { return type ? &*type : nullptr; };
		result = merge_type(pointer(base), pointer(theirs), pointer(ours), {}, policy, &facts);
		std::string out;
		for (const Operation &operation : result.operations) {
			for (const std::string &statement : operation.sql)
				out += statement + ";\n";
			if (operation.verdict != Verdict::Forward)
				out += std::string(name(operation.verdict)) + " " + std::string(info(operation.reason).name) +
				       "\n";
		}
		return out;
	}
};

const std::string alter = "ALTER TYPE \"public\".\"mood\" ";

TEST(MergeTypes, CreatesAnEnum)
{
	TypeScene scene;
	scene.theirs = mood({{1, "ok"}, {2, "it's"}});
	EXPECT_EQ(scene.sql(), "CREATE TYPE \"public\".\"mood\" AS ENUM ('ok', 'it''s');\n");
	scene.ours = mood({{5, "ok"}, {6, "own"}, {7, "it's"}});
	EXPECT_EQ(scene.sql(), "satisfied none\n");
	scene.ours = mood({{5, "it's"}, {6, "ok"}});
	EXPECT_EQ(scene.sql(), "refuse local_name_taken\n");
}

TEST(MergeTypes, SuggestsANameThatIsFree)
{
	TypeScene scene;
	scene.theirs = mood({{1, "ok"}});
	scene.theirs->typtype = 'd';
	scene.ours = mood({{5, "other"}});
	scene.facts.relations = {"public.mood_local"};
	EXPECT_EQ(scene.sql(), "refuse local_name_taken\n");
	EXPECT_EQ(scene.result.operations[0].suggested_sql, alter + "RENAME TO \"mood_local2\"");
	const std::string length(63, 'm');
	scene.theirs->name.name = scene.ours->name.name = length;
	(void)scene.sql();
	EXPECT_EQ(scene.result.operations[0].suggested_sql,
	          "ALTER TYPE \"public\".\"" + length + "\" RENAME TO \"" + length.substr(0, 57) + "_local\"");
	/* a table's row type goes by the table's name */
	scene.theirs->name.name = scene.ours->name.name = "mood";
	scene.ours->typtype = 'c';
	scene.ours->row_type_of = Name{9, "public", "mood"};
	scene.facts.relations = {"public.mood"};
	EXPECT_EQ(scene.sql(), "refuse local_name_taken\n");
	EXPECT_EQ(scene.result.operations[0].suggested_sql, "ALTER TABLE \"public\".\"mood\" RENAME TO \"mood_local\"");
}

TEST(MergeTypes, AddsLabelsWhereTheyBelong)
{
	TypeScene scene;
	scene.base = scene.ours = mood({{1, "b"}, {2, "d"}});
	scene.theirs = mood({{3, "a"}, {1, "b"}, {4, "c"}, {2, "d"}, {5, "e"}});
	EXPECT_EQ(scene.sql(), alter + "ADD VALUE 'a' BEFORE 'b';\n" + alter + "ADD VALUE 'c' AFTER 'b';\n" +
	                           alter + "ADD VALUE 'e' AFTER 'd';\n");
	scene.ours = scene.theirs;
	EXPECT_EQ(scene.sql(), "satisfied none\nsatisfied none\nsatisfied none\n");
	scene.base = scene.ours = mood({});
	scene.theirs = mood({{1, "x"}, {2, "y"}});
	EXPECT_EQ(scene.sql(), alter + "ADD VALUE 'x';\n" + alter + "ADD VALUE 'y' AFTER 'x';\n");
}

TEST(MergeTypes, RenamesLabelsByTheirOid)
{
	TypeScene scene;
	scene.base = scene.ours = mood({{1, "a"}, {2, "b"}});
	scene.theirs = mood({{1, "b"}, {2, "c"}});
	EXPECT_EQ(scene.sql(), alter + "RENAME VALUE 'b' TO 'c';\n" + alter + "RENAME VALUE 'a' TO 'b';\n");
	scene.theirs = mood({{1, "b"}, {2, "a"}});
	EXPECT_EQ(scene.sql(), alter + "RENAME VALUE 'a' TO 'schemasync_rename';\n" + alter +
	                           "RENAME VALUE 'b' TO 'a';\n" + alter +
	                           "RENAME VALUE 'schemasync_rename' TO 'b';\n");
	scene.theirs = mood({{1, "z"}, {2, "b"}});
	scene.ours = mood({{9, "q"}, {8, "b"}});
	EXPECT_EQ(scene.sql(), "refuse local_drift\n");
	scene.ours = mood({{9, "z"}, {8, "b"}});
	EXPECT_EQ(scene.sql(), "satisfied none\n");
	scene.theirs = mood({{1, "a"}});
	EXPECT_EQ(scene.sql(), "refuse unsupported_object\n");
}

TEST(MergeTypes, RenamesMovesAndDrops)
{
	TypeScene scene;
	scene.base = scene.theirs = scene.ours = mood({{1, "a"}});
	EXPECT_EQ(scene.sql(), "");
	scene.theirs->name.name = "mood_old";
	EXPECT_EQ(scene.sql(), alter + "RENAME TO \"mood_old\";\n");
	scene.theirs->name = {70, "s", "mood"};
	EXPECT_EQ(scene.sql(), alter + "SET SCHEMA \"s\";\n");
	scene.theirs.reset();
	EXPECT_EQ(scene.sql(), "DROP TYPE \"public\".\"mood\";\n");
	scene.facts.in_the_way = {{"table column", "public.x.c", "", "", ""}};
	EXPECT_EQ(scene.sql(), "refuse local_dependents\n");
	scene.ours.reset();
	EXPECT_EQ(scene.sql(), "satisfied none\n");
}

TEST(MergeTypes, Domains)
{
	TypeScene scene;
	Type domain;
	domain.name = {71, "public", "d"};
	domain.typtype = 'd';
	domain.base = text;
	domain.constraints = {constraint(5, "d_check", 'c', "CHECK ((VALUE <> ''::text))")};
	scene.theirs = domain;
	EXPECT_EQ(scene.sql(), "CREATE DOMAIN \"public\".\"d\" AS text;\nALTER DOMAIN \"public\".\"d\" ADD "
	                       "CONSTRAINT \"d_check\" CHECK ((VALUE <> ''::text));\n");
	scene.base = scene.ours = domain;
	scene.theirs->default_expr = expression("'x'::text");
	scene.theirs->not_null = true;
	scene.theirs->constraints[0].name = "d2";
	scene.theirs->constraints.push_back(constraint(6, "n", 'c', "CHECK ((length(VALUE) < 9)) NOT VALID"));
	EXPECT_EQ(
	    scene.sql(),
	    "ALTER DOMAIN \"public\".\"d\" SET DEFAULT 'x'::text;\nALTER DOMAIN \"public\".\"d\" SET NOT NULL;\n"
	    "ALTER DOMAIN \"public\".\"d\" RENAME CONSTRAINT \"d_check\" TO \"d2\";\n"
	    "ALTER DOMAIN \"public\".\"d\" ADD CONSTRAINT \"n\" CHECK ((length(VALUE) < 9)) NOT VALID;\n");
	std::swap(scene.base, scene.theirs);
	scene.ours = scene.base;
	EXPECT_EQ(scene.sql(),
	          "ALTER DOMAIN \"public\".\"d\" DROP DEFAULT;\nALTER DOMAIN \"public\".\"d\" DROP NOT NULL;\n"
	          "ALTER DOMAIN \"public\".\"d\" DROP CONSTRAINT \"n\";\n"
	          "ALTER DOMAIN \"public\".\"d\" RENAME CONSTRAINT \"d2\" TO \"d_check\";\n");
	scene.theirs->base = integer;
	EXPECT_EQ(scene.sql(), "refuse unsupported_object\n");
}

TEST(MergeTypes, Composites)
{
	TypeScene scene;
	Type type;
	type.name = {72, "public", "c"};
	type.typtype = 'c';
	type.attributes = {{1, "x", integer, ""}, {2, "y", text, "\"C\""}};
	scene.theirs = type;
	EXPECT_EQ(scene.sql(), "CREATE TYPE \"public\".\"c\" AS (\"x\" integer, \"y\" text COLLATE \"C\");\n");
	scene.base = scene.ours = type;
	scene.theirs->attributes = {{2, "yy", text, "\"C\""}, {3, "z", bigint, ""}};
	EXPECT_EQ(scene.sql(), "ALTER TYPE \"public\".\"c\" DROP ATTRIBUTE \"x\";\nALTER TYPE \"public\".\"c\" "
	                       "RENAME ATTRIBUTE \"y\" TO \"yy\";\n"
	                       "ALTER TYPE \"public\".\"c\" ADD ATTRIBUTE \"z\" bigint;\n");
	scene.theirs->row_type_of = Name{1, "public", "c"};
	EXPECT_EQ(scene.sql(), "");
}

TEST(MergeTypes, Ranges)
{
	TypeScene scene;
	Type type;
	type.name = {73, "public", "r"};
	type.typtype = 'r';
	type.base = integer;
	type.multirange_name = "mr";
	scene.theirs = type;
	EXPECT_EQ(scene.sql(), "CREATE TYPE \"public\".\"r\" AS RANGE (SUBTYPE = integer, MULTIRANGE_TYPE_NAME = "
	                       "\"public\".\"mr\");\n");
	scene.theirs->canonical = "public.f";
	EXPECT_EQ(scene.sql(), "refuse unsupported_object\n");
	scene.theirs->extension = "x";
	EXPECT_EQ(scene.sql(), "ignore none\n");
}

/* CREATE TYPE t; CREATE FUNCTION t_in ...; CREATE TYPE t (INPUT = t_in, ...) */
TEST(MergeTypes, ShellsAndBaseTypes)
{
	TypeScene scene;
	Type shell = mood({}), base = mood({});
	shell.typtype = 'p';
	base.typtype = 'b';
	scene.theirs = shell;
	EXPECT_EQ(scene.sql(), "ignore none\n");
	scene.base = shell;
	scene.theirs = base;
	EXPECT_EQ(scene.sql(), "refuse unsupported_object\n");
	EXPECT_EQ(scene.result.operations[0].hint, "Bring the subscriber's type to the publisher's state by hand.\n"
	                                           "SELECT schemasync_resume('{subscription}');");
	scene.ours = shell;
	EXPECT_EQ(scene.sql(), "refuse unsupported_object\n");
	scene.ours = base;
	EXPECT_EQ(scene.sql(), "satisfied none\n");
	scene.ours = mood({{1, "ok"}});
	EXPECT_EQ(scene.sql(), "refuse local_name_taken\n");
}

TEST(MergeSchemas, CreatesAndRenames)
{
	Schema theirs{{5, "", "s"}, "", ""};
	Schema base{{5, "", "old"}, "", ""};
	EXPECT_EQ(merge_schema(nullptr, theirs, false, {}).operations[0].sql,
	          std::vector<std::string>({"CREATE SCHEMA \"s\""}));
	EXPECT_EQ(merge_schema(nullptr, theirs, true, {}).operations[0].verdict, Verdict::Satisfied);
	EXPECT_EQ(merge_schema(&base, theirs, false, {}).operations[0].sql,
	          std::vector<std::string>({"ALTER SCHEMA \"old\" RENAME TO \"s\""}));
	EXPECT_EQ(merge_schema(&base, theirs, true, {}).operations[0].reason, Reason::LocalNameTaken);
	EXPECT_EQ(merge_schema(&base, theirs, true, {}, false).operations[0].verdict, Verdict::Satisfied);
	EXPECT_TRUE(merge_schema(&theirs, theirs, true, {}).operations.empty());
}

} // namespace
