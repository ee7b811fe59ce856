/*
 * The opt-in classes: what makes ours like theirs.
 */
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "core/definition.hpp"
#include "core/state_json.hpp"

namespace {

using namespace schemasync;
using merge::Operation;
using state::Definition;

Definition
object(const char *object_class, const char *catalog, const char *type, const char *name, const char *identity)
{
	Definition result;
	result.object_class = object_class;
	result.catalog = catalog;
	result.oid = 70;
	result.type = type;
	result.name = {70, "s", name};
	result.identity = identity;
	result.owner = "app";
	return result;
}

Definition
view(const char *query, std::vector<std::string> columns = {"a"})
{
	Definition result = object("views", "pg_class", "view", "v", "s.v");
	result.definition = query;
	result.columns = std::move(columns);
	return result;
}

Definition
trigger(const char *definition)
{
	Definition result = object("triggers", "pg_trigger", "trigger", "tr", "tr on s.t");
	result.name.schema.clear();
	result.relation = {71, "s", "t"};
	result.definition = definition;
	return result;
}

Definition
sequence(const char *name, std::int64_t increment, bool owned = false)
{
	Definition result = object("sequences", "pg_class", "sequence", name, ("s." + std::string(name)).c_str());
	result.sequence = state::Sequence{.name = result.name, .type = "bigint", .increment = increment, .max = 99};
	result.owned = owned;
	return result;
}

struct Scene {
	std::optional<Definition> base, theirs, ours;
	merge::DefinitionInput input;
	Policy policy;
	bool again = false;

	Scene() { input.mapped = true; }

	/* Statements, and what is not simply forwarded as "verdict reason". */
	std::string
	sql()
	{
		input.base = base ? &*base : nullptr;
		input.theirs = theirs ? &*theirs : nullptr;
		input.ours = ours ? &*ours : nullptr;
		merge::Result result = merge::merge_definition(input, policy, &again);
		std::string out;
		for (const Operation &operation : result.operations) {
			for (const std::string &statement : operation.sql)
				out += statement + ";\n";
			if (operation.verdict != Verdict::Forward)
				out += std::string(name(operation.verdict)) + " " + std::string(info(operation.reason).name) + "\n";
		}
		return out;
	}
};

TEST(Definition, FollowsSequences)
{
	Scene scene;
	const std::string options = " AS bigint START WITH 1 INCREMENT BY 2 MINVALUE 1 MAXVALUE 99 CACHE 1 NO CYCLE;\n";
	scene.theirs = sequence("q", 2);
	EXPECT_EQ(scene.sql(), "CREATE SEQUENCE \"s\".\"q\"" + options);
	scene.ours = sequence("q", 2);
	EXPECT_EQ(scene.sql(), "");
	scene.ours = sequence("q", 3);
	EXPECT_EQ(scene.sql(), "ALTER SEQUENCE \"s\".\"q\"" + options);
	scene.ours = sequence("q", 2, true);
	EXPECT_EQ(scene.sql(), "ALTER SEQUENCE \"s\".\"q\" OWNED BY NONE;\n");
	scene.ours = sequence("was", 2);
	EXPECT_EQ(scene.sql(), "ALTER SEQUENCE \"s\".\"was\" RENAME TO \"q\";\n");
	scene.theirs.reset();
	EXPECT_EQ(scene.sql(), "DROP SEQUENCE \"s\".\"was\";\n");
	EXPECT_EQ(merge::class_of("pg_class", "sequence"), merge::sequence_class);
}

TEST(Definition, MakesViews)
{
	Scene scene;
	scene.theirs = view("SELECT t.a FROM s.t", {"a", "B \" c"});
	scene.theirs->options = {"security_barrier=true"};
	scene.theirs->defaults = {{"a", "1"}};
	EXPECT_EQ(scene.sql(), "CREATE VIEW \"s\".\"v\" (\"a\", \"B \"\" c\") WITH (\"security_barrier\" = 'true') AS SELECT t.a FROM s.t;\n"
	                       "ALTER VIEW \"s\".\"v\" ALTER COLUMN \"a\" SET DEFAULT 1;\n");
	scene.theirs->type = "materialized view";
	scene.theirs->options.clear();
	scene.theirs->defaults.clear();
	scene.theirs->populated = false;
	scene.theirs->indexes = {{80, "i", "CREATE INDEX i ON s.v USING btree (a)"}};
	EXPECT_EQ(scene.sql(), "CREATE MATERIALIZED VIEW \"s\".\"v\" (\"a\", \"B \"\" c\") AS SELECT t.a FROM s.t WITH NO DATA;\n"
	                       "CREATE INDEX i ON s.v USING btree (a);\n");
}

TEST(Definition, ReplacesViews)
{
	Scene scene;
	scene.ours = view("SELECT 1 AS a");
	scene.theirs = view("SELECT 1 AS a");
	EXPECT_EQ(scene.sql(), "");
	scene.theirs = view("SELECT 1 AS a, 2 AS b", {"a", "b"});
	EXPECT_EQ(scene.sql(), "CREATE OR REPLACE VIEW \"s\".\"v\" (\"a\", \"b\") AS SELECT 1 AS a, 2 AS b;\n");
	/* names that change places */
	scene.ours = view("SELECT 1 AS a, 2 AS b", {"a", "b"});
	scene.theirs = view("SELECT 1 AS b, 2 AS a", {"b", "a"});
	EXPECT_EQ(scene.sql(), "ALTER VIEW \"s\".\"v\" RENAME COLUMN \"a\" TO \"schemasync_column_1\";\n"
	                       "ALTER VIEW \"s\".\"v\" RENAME COLUMN \"b\" TO \"schemasync_column_2\";\n"
	                       "ALTER VIEW \"s\".\"v\" RENAME COLUMN \"schemasync_column_1\" TO \"b\";\n"
	                       "ALTER VIEW \"s\".\"v\" RENAME COLUMN \"schemasync_column_2\" TO \"a\";\n");
	EXPECT_TRUE(scene.again);
	scene.ours->name = {70, "other", "old"};
	EXPECT_EQ(scene.sql(), "ALTER VIEW \"other\".\"old\" SET SCHEMA \"s\";\n");
	EXPECT_TRUE(scene.again);
	scene.ours->name = {70, "s", "old"};
	EXPECT_EQ(scene.sql(), "ALTER VIEW \"s\".\"old\" RENAME TO \"v\";\n");
}

TEST(Definition, LeavesWhatIsNotThePublishersAlone)
{
	Scene scene;
	scene.input.mapped = false;
	scene.ours = view("SELECT 1 AS a");
	scene.theirs = view("SELECT 1 AS a");
	EXPECT_EQ(scene.sql(), "");
	scene.theirs = view("SELECT 2 AS a");
	EXPECT_EQ(scene.sql(), "refuse local_name_taken\n");
}

TEST(Definition, FollowsIndexesOfMaterializedViews)
{
	Scene scene;
	scene.base = scene.ours = scene.theirs = view("SELECT 1 AS a");
	for (auto *side : {&scene.base, &scene.ours, &scene.theirs})
		(*side)->type = "materialized view";
	scene.base->indexes = {{80, "i", "CREATE INDEX i ON s.v USING btree (a)"}};
	scene.ours->indexes = {{90, "i", "CREATE INDEX i ON s.v USING btree (a)"}, {91, "gone", "CREATE INDEX gone ON s.v USING btree (a)"}};
	scene.theirs->indexes = {{80, "j", "CREATE INDEX j ON s.v USING btree (a)"}, {82, "new", "CREATE INDEX new ON s.v USING btree (a)"}};
	EXPECT_EQ(scene.sql(), "ALTER INDEX \"s\".\"i\" RENAME TO \"j\";\nDROP INDEX \"s\".\"gone\";\n"
	                       "CREATE INDEX new ON s.v USING btree (a);\n");
}

TEST(Definition, GivesNoFunctionToASuperuser)
{
	Scene scene;
	scene.theirs = object("functions", "pg_proc", "function", "f", "s.f(integer)");
	scene.theirs->definition = "CREATE OR REPLACE FUNCTION s.f(x integer) ...";
	scene.input.creator = "postgres";
	scene.input.creator_is_superuser = true;
	EXPECT_EQ(scene.sql(), "CREATE OR REPLACE FUNCTION s.f(x integer) ...;\n");
	scene.theirs->security_definer = true;
	EXPECT_EQ(scene.sql(), "refuse policy_refuse\n");
	scene.input.creator = "app";
	EXPECT_EQ(scene.sql(), "CREATE OR REPLACE FUNCTION s.f(x integer) ...;\n");
	scene.ours = scene.theirs;
	scene.theirs.reset();
	EXPECT_EQ(scene.sql(), "DROP ROUTINE s.f(integer);\n");
}

TEST(Definition, ReplacesTriggers)
{
	Scene scene;
	scene.ours = trigger("CREATE TRIGGER tr BEFORE INSERT ON s.t EXECUTE FUNCTION s.f()");
	scene.theirs = trigger("CREATE TRIGGER tr AFTER INSERT ON s.t EXECUTE FUNCTION s.f()");
	scene.theirs->enabled = 'D';
	EXPECT_EQ(scene.sql(), "CREATE OR REPLACE TRIGGER tr AFTER INSERT ON s.t EXECUTE FUNCTION s.f();\n"
	                       "ALTER TABLE \"s\".\"t\" DISABLE TRIGGER \"tr\";\n");
	scene.ours = scene.theirs;
	scene.ours->enabled = 'A';
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"s\".\"t\" DISABLE TRIGGER \"tr\";\n");
	scene.theirs->constraint = scene.ours->constraint = true;
	scene.ours->definition = "CREATE CONSTRAINT TRIGGER tr";
	scene.theirs->enabled = 'O';
	EXPECT_EQ(scene.sql(), "DROP TRIGGER \"tr\" ON \"s\".\"t\";\nCREATE TRIGGER tr AFTER INSERT ON s.t EXECUTE FUNCTION s.f();\n");
	scene.theirs.reset();
	EXPECT_EQ(scene.sql(), "DROP TRIGGER \"tr\" ON \"s\".\"t\";\n");
	/* a partition's own copy goes with its parent's */
	scene.ours->clone = true;
	EXPECT_EQ(scene.sql(), "satisfied none\n");
}

TEST(Definition, Policies)
{
	Scene scene;
	scene.theirs = object("policies", "pg_policy", "policy", "p", "p on s.t");
	scene.theirs->relation = {71, "s", "t"};
	scene.theirs->command = 'r';
	scene.theirs->roles = {"a", "Odd Role"};
	scene.theirs->using_expr = "(x > 1)";
	EXPECT_EQ(scene.sql(), "CREATE POLICY \"p\" ON \"s\".\"t\" AS PERMISSIVE FOR SELECT TO \"a\", \"Odd Role\" USING ((x > 1));\n");
	scene.ours = scene.theirs;
	scene.theirs->roles.clear();
	EXPECT_EQ(scene.sql(), "ALTER POLICY \"p\" ON \"s\".\"t\" TO PUBLIC USING ((x > 1));\n");
	scene.theirs->command = 'w';
	EXPECT_EQ(scene.sql(), "DROP POLICY \"p\" ON \"s\".\"t\";\n"
	                       "CREATE POLICY \"p\" ON \"s\".\"t\" AS PERMISSIVE FOR UPDATE TO PUBLIC USING ((x > 1));\n");
}

TEST(Definition, Comments)
{
	Scene scene;
	scene.theirs = object("comments", "pg_class", "view column", "", "s.v.a");
	scene.theirs->text = "it's \\ so";
	EXPECT_EQ(scene.sql(), "refuse missing_object\n");
	scene.input.target_followed = false;
	EXPECT_EQ(scene.sql(), "ignore none\n");
	scene.ours = scene.theirs;
	EXPECT_EQ(scene.sql(), "");
	scene.ours->text.reset();
	EXPECT_EQ(scene.sql(), "COMMENT ON COLUMN s.v.a IS E'it''s \\\\ so';\n");
	std::swap(scene.ours, scene.theirs);
	EXPECT_EQ(scene.sql(), "COMMENT ON COLUMN s.v.a IS NULL;\n");
}

state::Privilege
grant(const char *role, const char *privilege, bool grantable = false, const char *column = "")
{
	return {role, column, privilege, false, grantable};
}

TEST(Definition, Privileges)
{
	Scene scene;
	scene.theirs = object("privileges", "pg_class", "table", "", "s.t");
	scene.ours = scene.theirs;
	scene.ours->owner = "local owner";
	state::Privilege owners{"", "", "DELETE", true, false};
	scene.theirs->default_acl = {owners};
	scene.ours->acl = {owners, grant("mine", "SELECT"), grant("old", "SELECT"), grant("old", "UPDATE", true)};
	scene.theirs->acl = {grant("", "SELECT"), grant("old", "UPDATE"), grant("new", "INSERT", true, "a b"), grant("new", "SELECT")};
	/* without a base only what nobody granted can be told from what is the subscriber's own */
	EXPECT_EQ(scene.sql(), "REVOKE DELETE ON TABLE s.t FROM \"local owner\";\n"
	                       "GRANT SELECT ON TABLE s.t TO PUBLIC;\n"
	                       "GRANT INSERT (\"a b\") ON TABLE s.t TO \"new\" WITH GRANT OPTION;\n"
	                       "GRANT SELECT ON TABLE s.t TO \"new\";\n");
	scene.base = scene.theirs;
	scene.base->acl = {owners, grant("old", "SELECT"), grant("old", "UPDATE", true)};
	EXPECT_EQ(scene.sql(), "REVOKE DELETE ON TABLE s.t FROM \"local owner\";\n"
	                       "REVOKE SELECT ON TABLE s.t FROM \"old\";\n"
	                       "REVOKE GRANT OPTION FOR UPDATE ON TABLE s.t FROM \"old\";\n"
	                       "GRANT SELECT ON TABLE s.t TO PUBLIC;\n"
	                       "GRANT INSERT (\"a b\") ON TABLE s.t TO \"new\" WITH GRANT OPTION;\n"
	                       "GRANT SELECT ON TABLE s.t TO \"new\";\n");
	/* a privilege on the whole takes those on columns with it */
	scene.base->acl = scene.ours->acl = {grant("r", "SELECT"), grant("r", "SELECT", false, "a")};
	scene.theirs->acl = {grant("r", "SELECT", false, "a")};
	EXPECT_EQ(scene.sql(), "REVOKE SELECT ON TABLE s.t FROM \"r\";\nGRANT SELECT (\"a\") ON TABLE s.t TO \"r\";\n");
	/* privileges that the subscriber's version does not know */
	scene.ours->acl = scene.base->acl = {};
	scene.theirs->acl = {grant("r", "MAINTAIN")};
	scene.input.server_version = 150000;
	EXPECT_EQ(scene.sql(), "");
}

TEST(Definition, DefaultPrivileges)
{
	Scene scene;
	scene.theirs = object("privileges", "pg_default_acl", "default privileges", "", "on TABLES for role app");
	scene.theirs->names = {"app"};
	scene.theirs->args = {"r"};
	scene.ours = scene.theirs;
	state::Privilege owners{"", "", "DELETE", true, false};
	scene.ours->acl = {owners, grant("mine", "SELECT"), grant("both", "UPDATE", true)};
	scene.theirs->acl = {grant("both", "UPDATE"), grant("", "SELECT"), grant("new", "INSERT", true)};
	EXPECT_EQ(scene.sql(), "ALTER DEFAULT PRIVILEGES FOR ROLE \"app\" REVOKE DELETE ON TABLES FROM \"app\";\n"
	                       "ALTER DEFAULT PRIVILEGES FOR ROLE \"app\" REVOKE SELECT ON TABLES FROM \"mine\";\n"
	                       "ALTER DEFAULT PRIVILEGES FOR ROLE \"app\" REVOKE GRANT OPTION FOR UPDATE ON TABLES FROM \"both\";\n"
	                       "ALTER DEFAULT PRIVILEGES FOR ROLE \"app\" GRANT SELECT ON TABLES TO PUBLIC;\n"
	                       "ALTER DEFAULT PRIVILEGES FOR ROLE \"app\" GRANT INSERT ON TABLES TO \"new\" WITH GRANT OPTION;\n");
	scene.theirs->names = {"app", "Odd \"s"};
	scene.theirs->args = {"f"};
	scene.theirs->acl = {grant("r", "EXECUTE")};
	scene.ours->acl.clear();
	EXPECT_EQ(scene.sql(), "ALTER DEFAULT PRIVILEGES FOR ROLE \"app\" IN SCHEMA \"Odd \"\"s\" GRANT EXECUTE ON FUNCTIONS TO \"r\";\n");
	scene.theirs->args = {"r; --"};
	EXPECT_EQ(scene.sql(), "");
	scene.ours.reset();
	EXPECT_EQ(scene.sql(), "refuse missing_object\n");
	scene.input.target_followed = false;
	EXPECT_EQ(scene.sql(), "ignore none\n");
}

TEST(Definition, RefreshesViews)
{
	Scene scene;
	scene.theirs = view("SELECT t.a FROM s.t");
	scene.theirs->type = "materialized view";
	scene.theirs->refresh = "plain";
	scene.ours = scene.theirs;
	EXPECT_EQ(scene.sql(), "REFRESH MATERIALIZED VIEW \"s\".\"v\" WITH DATA;\n");
	scene.theirs->refresh = "concurrently";
	EXPECT_EQ(scene.sql(), "REFRESH MATERIALIZED VIEW CONCURRENTLY \"s\".\"v\" WITH DATA;\n");
	scene.ours->populated = false;
	EXPECT_EQ(scene.sql(), "REFRESH MATERIALIZED VIEW \"s\".\"v\" WITH DATA;\n");
	scene.theirs->populated = false;
	EXPECT_EQ(scene.sql(), "");
	scene.ours->populated = true;
	EXPECT_EQ(scene.sql(), "REFRESH MATERIALIZED VIEW \"s\".\"v\" WITH NO DATA;\n");
	/* what is made anew is made with data; somebody else's is not touched */
	scene.theirs->populated = true;
	scene.theirs->definition = "SELECT t.b FROM s.t";
	EXPECT_EQ(scene.sql(), "DROP MATERIALIZED VIEW \"s\".\"v\";\nCREATE MATERIALIZED VIEW \"s\".\"v\" (\"a\") AS SELECT t.b FROM s.t WITH DATA;\n");
	scene.input.mapped = false;
	EXPECT_TRUE(scene.sql().ends_with("refuse local_name_taken\n"));
}

TEST(Definition, Extensions)
{
	Scene scene;
	scene.theirs = object("extensions", "pg_extension", "extension", "x-y", "\"x-y\"");
	scene.theirs->version = "1.1";
	EXPECT_EQ(scene.sql(), "CREATE EXTENSION \"x-y\" SCHEMA \"s\" VERSION '1.1';\n");
	scene.input.version_available = false;
	EXPECT_EQ(scene.sql(), "CREATE EXTENSION \"x-y\" SCHEMA \"s\";\n");
	scene.ours = scene.theirs;
	scene.ours->version = "1.0";
	EXPECT_EQ(scene.sql(), "satisfied none\n");
	scene.input.version_available = true;
	EXPECT_EQ(scene.sql(), "ALTER EXTENSION \"x-y\" UPDATE TO '1.1';\n");
	scene.theirs.reset();
	EXPECT_EQ(scene.sql(), "DROP EXTENSION \"x-y\";\n");
}

TEST(Definition, ObeysSchemaChanges)
{
	Scene scene;
	scene.theirs = view("SELECT 1 AS a");
	scene.policy.schema_changes = SchemaChanges::Refuse;
	EXPECT_EQ(scene.sql(), "refuse policy_refuse\n");
	scene.policy.schema_changes = SchemaChanges::Ignore;
	EXPECT_EQ(scene.sql(), "ignore none\n");
}

TEST(Definition, ClassesAreFoundByCatalog)
{
	EXPECT_EQ(merge::class_of("pg_class", "materialized view"), "views");
	EXPECT_EQ(merge::class_of("pg_class", "table"), "");
	EXPECT_EQ(merge::class_of("pg_proc", "aggregate"), "functions");
	EXPECT_EQ(merge::class_of("pg_type", "type"), "");
	EXPECT_TRUE(merge::names_class("all", "views"));
	EXPECT_TRUE(merge::names_class(R"(["views", "rules"])", "rules"));
	EXPECT_FALSE(merge::names_class(R"(["views"])", "rules"));
	EXPECT_FALSE(merge::names_class("", "rules"));
}

TEST(Definition, IsReadFromJson)
{
	auto parsed = state::parse_definition(
	    R"({"class":"triggers","catalog":"pg_trigger","oid":5,"subid":0,"type":"trigger","identity":"tr on s.t","names":["s","t","tr"],"args":[],
	        "owner":"app","name":"tr","relation":{"oid":7,"schema":"s","name":"t"},"definition":"CREATE TRIGGER","enabled":"R"})");
	ASSERT_TRUE(std::holds_alternative<Definition>(parsed));
	const Definition &read = std::get<Definition>(parsed);
	EXPECT_EQ(read.enabled, 'R');
	EXPECT_EQ(read.relation.oid, 7u);
	EXPECT_EQ(read.names.size(), 3u);
	EXPECT_FALSE(read.text.has_value());
	EXPECT_TRUE(std::holds_alternative<state::ParseError>(state::parse_definition(R"({"class":"x"})")));
	EXPECT_TRUE(std::holds_alternative<state::ParseError>(
	    state::parse_definition(R"({"class":"x","catalog":"c","oid":1,"type":"t","identity":"i","enabled":"Z"})")));
}

} // namespace
