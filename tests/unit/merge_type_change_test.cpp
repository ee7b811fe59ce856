/*
 * Type changes: what is forwarded, under which settings, and what halts.
 */
#include "states.hpp"

#include <gtest/gtest.h>

namespace {

using namespace states;

/* base and ours have `from`, theirs has `to`; the rows were rewritten unless told otherwise */
Scene
change(const TypeRef &from, const TypeRef &to, bool rewritten = true)
{
	Scene scene;
	scene.all([&](Relation &r) { at(r, 2).type = from; });
	at(scene.theirs, 2).type = to;
	if (rewritten) {
		scene.theirs.filenode = 2000;
		scene.command.rewrites = {{1000, 4, 10, false}};
	}
	return scene;
}

void
use(Scene &scene, const std::string &sql, char volatility = 'i', AttrNumber attnum = 2)
{
	scene.command.using_hints.push_back({1000, attnum, true, expression(sql, volatility)});
}

void
settings(Scene &scene)
{
	scene.command.settings = {{"TimeZone", "Europe/Berlin"}, {"DateStyle", "ISO, DMY"},
	                          {"IntervalStyle", "postgres"}, {"bytea_output", "hex"},
	                          {"extra_float_digits", "1"},   {"search_path", "x"},
	                          {"lc_monetary", "C"}};
}

const std::string prefix = "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"a\" ";

TEST(TypeChange, ForwardsKnownCasts)
{
	const std::pair<TypeRef, TypeRef> pairs[] = {
	    {integer, bigint},
	    {bigint, integer},
	    {varchar(20), varchar(50)},
	    {varchar(20), text},
	    {text, varchar(20)},
	    {numeric(12, 4), numeric(12, 2)},
	    {integer, text},
	    {uuid, text},
	    {date, timestamp},
	    {timestamp, date},
	    {integer, numeric(10, 0)},
	    {builtin("bpchar", "character(3)", 7), builtin("bpchar", "character(5)", 9)},
	    {builtin("json"), builtin("jsonb")},
	    {builtin("_int4", "integer[]"), builtin("_int8", "bigint[]")},
	    {builtin("timestamp", "timestamp(6) without time zone", 6),
	     builtin("timestamp", "timestamp(0) without time zone", 0)},
	};
	for (const auto &[from, to] : pairs) {
		Scene scene = change(from, to);
		EXPECT_EQ(scene.sql(), prefix + "TYPE " + to.sql + ";\n") << from.sql << " to " << to.sql;
		EXPECT_TRUE(scene.result.operations[0].settings.empty());
		EXPECT_EQ(scene.result.operations[0].change, "column a changed from " + from.sql + " to " + to.sql);
	}
}

TEST(TypeChange, HaltsAtCastsThatAreNotKnown)
{
	const std::pair<TypeRef, TypeRef> pairs[] = {
	    {text, integer},
	    {text, date},
	    {integer, user_type(5, "e")},
	    {user_type(5, "e"), user_type(6, "f")},
	    {builtin("_text", "text[]"), text},
	    {builtin("regclass"), text},
	};
	for (const auto &[from, to] : pairs) {
		Scene scene = change(from, to);
		EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven")
		    << from.sql << " to " << to.sql;
		EXPECT_FALSE(scene.result.operations[0].suggested_sql.empty());
		/* no row, nothing to prove */
		scene.has_rows = false;
		EXPECT_EQ(scene.verdicts(), "alter_column_type forward");
	}
}

TEST(TypeChange, RunsUnderTheSettingsThatTheResultDependsOn)
{
	Scene scene = change(timestamp, timestamptz);
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven");
	settings(scene);
	EXPECT_EQ(scene.verdicts(), "alter_column_type forward");
	using Setting = std::pair<std::string, std::string>;
	EXPECT_EQ(scene.result.operations[0].settings, std::vector<Setting>({{"TimeZone", "Europe/Berlin"}}));
	scene = change(timestamptz, text);
	settings(scene);
	scene.run();
	EXPECT_EQ(scene.result.operations[0].settings.size(), 3u);
	scene = change(builtin("float8", "double precision"), text);
	settings(scene);
	scene.run();
	EXPECT_EQ(scene.result.operations[0].settings, std::vector<Setting>({{"extra_float_digits", "1"}}));
}

TEST(TypeChange, ForwardsAProvenUsing)
{
	Scene scene = change(text, integer);
	use(scene, "(a)::integer");
	EXPECT_EQ(scene.sql(), prefix + "TYPE integer USING (a)::integer;\n");
	/* what changes the values goes too */
	scene = change(integer, bigint);
	use(scene, "(a * 100)");
	EXPECT_EQ(scene.sql(), prefix + "TYPE bigint USING (a * 100);\n");
}

TEST(TypeChange, ADomainIsProvenByWhatIsBelowIt)
{
	TypeRef positive{5000, "public", "positive", -1, "public.positive", false, {}};
	auto into = [&](const TypeRef &from, std::optional<TypeRef> below) {
		Scene scene = change(from, positive);
		scene.command.using_hints.push_back(
		    {1000, 2, false,
		     Expression{"(NULL::integer)::public.positive", 'i', {{"type", "public.positive", "1"}, {"function", "public.f(integer)", "1"}}}});
		scene.facts.domain = std::move(below);
		return scene;
	};
	EXPECT_EQ(into(integer, integer).sql(), prefix + "TYPE public.positive;\n");
	EXPECT_EQ(into(integer, bigint).sql(), prefix + "TYPE public.positive;\n");
	/* not known to be the same, or no domain at all, or below it is what is not known */
	EXPECT_EQ(into(integer, std::nullopt).verdicts(), "alter_column_type refuse type_change_unproven");
	EXPECT_EQ(into(text, builtin("date", "date")).verdicts(), "alter_column_type refuse type_change_unproven");
	Scene scene = into(integer, integer);
	scene.facts.digests_given = true;
	scene.facts.local_digests = {{"type", "public.positive", "1"}, {"function", "public.f(integer)", "2"}};
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven");
	scene.facts.local_digests[1].digest = "1";
	EXPECT_EQ(scene.verdicts(), "alter_column_type forward");
	scene.command.using_hints.clear();
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven");
}

TEST(TypeChange, OfADomainIsThatOfTheTypeBelowIt)
{
	TypeRef domain = user_type(5000, "d"), mood = user_type(70, "mood");
	auto verdict = [](const TypeRef &from, const TypeRef &to, std::optional<TypeRef> theirs, std::optional<TypeRef> ours, bool hint = false) {
		Scene scene = change(from, to);
		if (hint)
			scene.command.using_hints.push_back({1000, 2, false, Expression{"(NULL)::public.x", 'i', {}}});
		if (theirs)
			scene.facts.publisher_domains = {{5000, *theirs}};
		scene.facts.domain = std::move(ours);
		return scene.verdicts();
	};
	const std::string yes = "alter_column_type forward", no = "alter_column_type refuse type_change_unproven";
	EXPECT_EQ(verdict(domain, text, varchar(10), varchar(10)), yes);
	EXPECT_EQ(verdict(domain, text, builtin("bpchar", "character(4)", 8), builtin("bpchar", "character(4)", 8)), yes);
	/* not the same here, or not known to be, or the cast is not known */
	EXPECT_EQ(verdict(domain, text, varchar(10), varchar(20)), no);
	EXPECT_EQ(verdict(domain, text, integer, text), no);
	EXPECT_EQ(verdict(domain, text, std::nullopt, text), no);
	EXPECT_EQ(verdict(domain, text, text, std::nullopt), no);
	EXPECT_EQ(verdict(domain, date, text, text), no);
	/* to another one, and of one over an enum to the enum and back */
	EXPECT_EQ(verdict(domain, user_type(5001, "e"), text, text, true), yes);
	EXPECT_EQ(verdict(domain, user_type(5001, "e"), text, text), no);
	EXPECT_EQ(verdict(domain, mood, mood, mood), yes);
	EXPECT_EQ(verdict(mood, domain, mood, mood, true), yes);
	EXPECT_EQ(verdict(user_type(71, "other"), domain, mood, mood, true), no);
	/* arrays of it */
	TypeRef array = user_type(5002, "_d");
	array.element = {domain};
	EXPECT_EQ(verdict(array, builtin("_int8", "bigint[]"), integer, integer), yes);
	EXPECT_EQ(verdict(array, builtin("_int8", "bigint[]"), text, text), no);
	EXPECT_EQ(verdict(builtin("_int4", "integer[]"), array, integer, integer, true), yes);
	EXPECT_EQ(verdict(builtin("_int4", "integer[]"), array, integer, integer), no);
	EXPECT_EQ(verdict(builtin("_text", "text[]"), array, integer, integer, true), no);
	EXPECT_EQ(verdict(integer, array, integer, integer, true), no);
}

TEST(TypeChange, AnEnumIsFoundUnderItsNewName)
{
	Scene scene = change(user_type(70, "mood"), text);
	struct Renamed : Facts {
		char
		type_kind(std::string_view, std::string_view name) const override
		{
			return name == "mood_old" ? 'e' : '\0';
		}
	} facts;
	RelationInput input;
	input.base = &scene.base, input.theirs = &scene.theirs, input.ours = &scene.ours;
	input.mapped = true;
	input.columns = map_columns_by_name(scene.base, scene.ours);
	EXPECT_TRUE(merge_relation(input, scene.command, scene.policy, &facts).refused());
	facts.mapped_types = {{70, "public", "mood_old"}};
	EXPECT_FALSE(merge_relation(input, scene.command, scene.policy, &facts).refused());
}

TEST(TypeChange, TheSafeWayMakesAgainWhatGoesWithTheColumn)
{
	const std::string longest(63, 'x');
	Scene scene = change(text, uuid);
	scene.all([&](Relation &r) {
		r.identity_columns = {1};
		at(r, 2).name = longest;
		r.columns.push_back(column(4, longest.substr(0, 59) + "_new"));
	});
	at(scene.theirs, 2).type = uuid;
	auto safe = [&] {
		scene.run();
		const std::string &hint = scene.result.operations[0].hint;
		return hint.substr(hint.find("A safe way"));
	};
	EXPECT_NE(safe().find("ADD COLUMN " + longest.substr(0, 58) + "_new2 uuid;"), std::string::npos);
	scene.all([](Relation &r) { at(r, 2).name = "a"; });
	at(scene.theirs, 2).type = uuid;
	scene.theirs.constraints = {constraint(1, "t_pkey", 'p', "PRIMARY KEY (a)", {2})};
	scene.theirs.indexes = {index(2, "i", "USING btree (lower(a))", false, {0})};
	EXPECT_EQ(safe(), "A safe way to write it: ALTER TABLE public.t ADD COLUMN a_new uuid; UPDATE public.t SET a_new = a::uuid; ALTER TABLE public.t "
	                  "DROP COLUMN a; ALTER TABLE public.t RENAME COLUMN a_new TO a; ALTER TABLE public.t ADD CONSTRAINT t_pkey PRIMARY KEY (a); "
	                  "CREATE INDEX i ON public.t USING btree (lower(a));");
	/* what is made from it, or refers to it, is more than that */
	scene.facts.in_the_way = {{"table constraint", "fk on public.u", "public", "u", "fk"}};
	EXPECT_EQ(safe().find("ALTER TABLE"), std::string::npos);
	scene.facts.in_the_way.clear();
	at(scene.theirs, 3).generated = 's';
	at(scene.theirs, 3).default_expr = expression("length(a)");
	EXPECT_EQ(safe().find("ALTER TABLE"), std::string::npos);
}

TEST(TypeChange, HaltsAtAUsingThatIsNotProven)
{
	Scene scene = change(integer, bigint);
	use(scene, "(random() * 10)", 'v');
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven");
	scene = change(integer, bigint);
	scene.command.using_hints.push_back({1000, 2, true, std::nullopt});
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven");
	scene = change(integer, bigint);
	scene.command.using_hints.push_back(
	    {1000, 2, true, Expression{"public.f(a)", 'i', {{"function", "public.f(integer)", "1"}}}});
	EXPECT_EQ(scene.verdicts(), "alter_column_type forward");
	scene.facts.digests_given = true;
	scene.facts.local_digests = {{"function", "public.f(integer)", "2"}};
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse local_drift");
}

TEST(TypeChange, TellsStableExpressionsApart)
{
	auto verdict = [](const TypeRef &from, const TypeRef &to, const std::string &sql) {
		Scene scene = change(from, to);
		settings(scene);
		use(scene, sql, 's');
		return scene.verdicts();
	};
	const std::string yes = "alter_column_type forward", no = "alter_column_type refuse type_change_unproven";
	TypeRef mood = user_type(70, "mood");
	EXPECT_EQ(verdict(text, mood, "(a)::public.mood"), yes);
	EXPECT_EQ(verdict(user_type(71, "old"), mood, "((a)::text)::public.mood"), yes);
	EXPECT_EQ(verdict(timestamp, timestamptz, "(a AT TIME ZONE 'UTC'::text)"), yes);
	EXPECT_EQ(verdict(timestamptz, date, "(a)::date"), yes);
	EXPECT_EQ(verdict(timestamptz, text, "to_char(a, 'YYYY'::text)"), yes);
	EXPECT_EQ(verdict(text, text, "CASE WHEN (a IS NULL) THEN 'x'::text ELSE upper(a) END"),
	          "rewrite_column forward");
	/* the clock, the session, names of objects, text that may say 'now' */
	EXPECT_EQ(verdict(integer, timestamptz, "now()"), no);
	EXPECT_EQ(verdict(integer, date, "CURRENT_DATE"), no);
	EXPECT_EQ(verdict(text, date, "(a)::date"), no);
	EXPECT_EQ(verdict(integer, date, "('today'::text)::date"), no);
	EXPECT_EQ(verdict(text, timestamptz, "(a)::timestamp with time zone"), no);
	EXPECT_EQ(verdict(integer, text, "current_setting('x'::text)"), no);
	EXPECT_EQ(verdict(text, builtin("regclass"), "(a)::regclass"), no);
}

TEST(TypeChange, OneStatementChangesAllColumnsOfACommand)
{
	Scene scene = change(integer, bigint);
	at(scene.theirs, 3).type = bigint;
	use(scene, "b", 'i', 2);
	use(scene, "a", 'i', 3);
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"a\" TYPE bigint USING b, ALTER "
	                       "COLUMN \"b\" TYPE bigint USING a;\n");
	EXPECT_EQ(scene.verdicts(), "alter_column_type forward; alter_column_type forward");
}

TEST(TypeChange, TakesTheDefaultOutOfTheWay)
{
	TypeRef mood = user_type(70, "mood");
	Scene scene = change(text, mood);
	settings(scene);
	use(scene, "(a)::public.mood", 's');
	at(scene.base, 2).default_expr = at(scene.ours, 2).default_expr = expression("'x'::text");
	at(scene.theirs, 2).default_expr = expression("'x'::public.mood");
	EXPECT_EQ(scene.sql(), prefix + "DROP DEFAULT;\n" + prefix +
	                           "TYPE public.mood USING (a)::public.mood;\n" + prefix +
	                           "SET DEFAULT 'x'::public.mood;\n");
}

TEST(TypeChange, ForwardsAnUnseenChangeOnlyWhenNothingWasRewritten)
{
	Scene scene = change(varchar(20), varchar(50), false);
	scene.command = {};
	EXPECT_EQ(scene.verdicts(), "alter_column_type forward");
	scene = change(integer, bigint);
	scene.command = {};
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven");
	/* a cast that an extension has, and the stored rows as they were */
	scene = change(text, user_type(80, "citext"), false);
	EXPECT_EQ(scene.verdicts(), "alter_column_type forward");
}

TEST(TypeChange, AcceptsATypeThatTakesEveryValue)
{
	Scene scene = change(integer, bigint);
	at(scene.ours, 2).type = bigint;
	EXPECT_EQ(scene.verdicts(), "alter_column_type satisfied");
	at(scene.ours, 2).type = builtin("numeric");
	EXPECT_EQ(scene.verdicts(), "alter_column_type satisfied");
	scene = change(varchar(20), varchar(50));
	at(scene.ours, 2).type = text;
	EXPECT_EQ(scene.verdicts(), "alter_column_type satisfied");
	/* between the two it goes on to the publisher's, elsewhere it is not known what it held */
	at(scene.ours, 2).type = varchar(30);
	EXPECT_EQ(scene.sql(), "ALTER TABLE \"public\".\"t\" ALTER COLUMN \"a\" TYPE character varying(50);\n");
	at(scene.ours, 2).type = varchar(10);
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse local_drift");
}

TEST(TypeChange, DoesNotTakeTheTypeAsProofOfTheValues)
{
	Scene scene = change(integer, bigint);
	at(scene.ours, 2).type = bigint;
	use(scene, "(a * 100)");
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven");
	/* a cast that widens changes nothing */
	scene.command.using_hints[0].expr = expression("(a)::bigint");
	EXPECT_EQ(scene.verdicts(), "alter_column_type satisfied");
	scene.command.using_hints[0].expr = expression("(a * 100)");
	scene.resumed = true;
	EXPECT_EQ(scene.verdicts(), "alter_column_type satisfied");
	/* but what the catalog shows is looked at */
	at(scene.ours, 2).type = integer;
	EXPECT_EQ(scene.verdicts(), "alter_column_type forward");
}

TEST(TypeChange, SameTypeUsing)
{
	Scene scene = change(integer, integer);
	use(scene, "a");
	EXPECT_EQ(scene.verdicts(), "");
	scene.command.using_hints.clear();
	use(scene, "(- a)");
	EXPECT_EQ(scene.sql(), prefix + "TYPE integer USING (- a);\n");
	EXPECT_EQ(scene.verdicts(), "rewrite_column forward");
	scene.command.using_hints[0].expr = expression("(a + (random() * 5))", 'v');
	EXPECT_EQ(scene.verdicts(), "rewrite_column refuse rewrite_unproven");
	scene.resumed = true;
	EXPECT_EQ(scene.verdicts(), "rewrite_column satisfied");
	scene.resumed = false;
	scene.command.using_hints[0].expr = expression("a");
	EXPECT_EQ(scene.verdicts(), "");
}

TEST(TypeChange, AProvenUsingNeedsNoCarriedRows)
{
	Scene scene = change(integer, integer);
	use(scene, "(- a)");
	scene.command.rewrites = {{1000, 4, 10, true}};
	scene.rows_follow = true;
	EXPECT_EQ(scene.verdicts(), "rewrite_column forward");
	EXPECT_FALSE(scene.result.needs_rows);
}

TEST(TypeChange, RowsThatAreOnlyHereDoNotLoseTheirValues)
{
	Scene scene = change(text, integer);
	use(scene, "a");
	scene.command.using_hints[0].expr.reset();
	scene.command.rewrites = {{1000, 4, 0, false}};
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse local_drift");
	scene.has_rows = false;
	EXPECT_EQ(scene.sql(), prefix + "TYPE integer USING NULL::integer;\n");
}

TEST(TypeChange, ARefusalCountsTheRewrittenRows)
{
	Scene scene = change(text, integer);
	use(scene, "(a || random())");
	scene.command.using_hints[0].expr->volatility = 'v';
	scene.command.rewrites = {{1000, 4, 12, false}};
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven");
	EXPECT_NE(scene.result.operations[0].detail.find("rewrote 12 rows, which rewrites = carry would bring"),
	          std::string::npos);
	EXPECT_NE(scene.result.operations[0].hint.find("carry"), std::string::npos);
}

TEST(TypeChange, AUsingNamesThePublishersColumns)
{
	Scene scene = change(integer, bigint);
	use(scene, "(a + b)");
	at(scene.ours, 3).name = "b_local";
	scene.ours.columns.push_back(column(4, "b"));
	scene.columns.pairs = {{1, 1}, {2, 2}, {3, 3}};
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven");
}

TEST(TypeChange, AUsingOverAColumnOfAnotherTypeIsNotProven)
{
	Scene scene = change(integer, bigint);
	use(scene, "(a / b)");
	at(scene.ours, 3).type = builtin("numeric");
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse type_change_unproven");
	EXPECT_NE(scene.result.operations[0].detail.find("column b is numeric, not integer"), std::string::npos);
}

TEST(TypeChange, CollationAlone)
{
	Scene scene = change(text, text, false);
	at(scene.theirs, 2).collation = "\"C\"";
	EXPECT_EQ(scene.sql(), prefix + "TYPE text COLLATE \"C\";\n");
}

TEST(TypeChange, AnInheritedColumnIsChangedWithItsParent)
{
	Scene scene = change(integer, integer);
	scene.all([](Relation &r) {
		r.parents = {{5, "public", "root"}}, at(r, 2).inhcount = 1, at(r, 2).local = false;
	});
	use(scene, "(a * 2)");
	EXPECT_EQ(scene.verdicts(), "rewrite_column satisfied");
	scene.ours.parents.clear();
	EXPECT_EQ(scene.verdicts(), "rewrite_column forward");
}

TEST(TypeChange, UnseenChangesThatInteractHaltTogether)
{
	Scene scene = change(integer, bigint);
	at(scene.theirs, 3).type = bigint;
	scene.command = {};
	EXPECT_EQ(
	    scene.verdicts(),
	    "alter_column_type refuse multi_shape_unordered; alter_column_type refuse multi_shape_unordered");
}

TEST(TypeChange, LocalDependentsHalt)
{
	Scene scene = change(integer, bigint);
	scene.facts.in_the_way = {{"view", "public.v", "", "", "v"}};
	EXPECT_EQ(scene.verdicts(), "alter_column_type refuse local_dependents");
	scene.facts.in_the_way = {{"table constraint", "fk on public.c", "public", "c", "fk"}};
	EXPECT_EQ(scene.verdicts(), "alter_column_type forward");
}

TEST(TypeChange, ARecreatedTypeOfTheSameNameIsAnother)
{
	Scene scene = change(user_type(70, "e"), user_type(71, "e"));
	EXPECT_EQ(scene.verdicts().substr(0, 17), "alter_column_type");
	scene = change(user_type(70, "e"), user_type(70, "renamed"), false);
	EXPECT_EQ(scene.verdicts(), "");
}

TEST(TypeChange, IndexesAndConstraintsMadeAnewAreTheSame)
{
	Scene scene = change(integer, bigint);
	scene.all([](Relation &r) {
		r.constraints = {constraint(10, "t_pkey", 'p', "PRIMARY KEY (a)", {2})};
		r.indexes = {index(11, "t_pkey", "USING btree (a)", true, {2}),
		             index(12, "t_b", "USING btree (a)", false, {2})};
		r.indexes[0].constraint = 10;
	});
	scene.theirs.constraints[0].oid = 20;
	scene.theirs.indexes[0].oid = 21;
	scene.theirs.indexes[0].constraint = 20;
	scene.theirs.indexes[1].oid = 22;
	EXPECT_EQ(scene.verdicts(), "alter_column_type forward");
}

TEST(TypeChange, CarriesWhatIsNotProven)
{
	Scene scene = change(text, integer);
	scene.command.rewrites = {{1000, 4, 10, true}};
	use(scene, "(a)::integer");
	scene.command.using_hints[0].expr->volatility = 'v';
	scene.rows_follow = true;
	scene.all([](Relation &r) {
		r.constraints.push_back({});
		r.constraints[0].type = 'p';
		r.constraints[0].columns = {1};
		at(r, 2).not_null = true;
	});
	EXPECT_EQ(scene.verdicts(), "alter_column_type carry");
	EXPECT_TRUE(scene.result.needs_rows);
	EXPECT_FALSE(scene.result.replaces_rows());
	EXPECT_EQ(scene.result.key, std::vector<AttrNumber>{1});
	const Operation &carry = scene.result.operations[0];
	EXPECT_EQ(carry.sql, std::vector<std::string>(
	                         {prefix + "DROP NOT NULL", prefix + "TYPE integer USING NULL::integer"}));
	EXPECT_EQ(carry.sql_after, std::vector<std::string>({prefix + "SET NOT NULL"}));
	/* a key that changes finds no row, and cannot be NULL for a moment */
	scene.all([](Relation &r) { r.constraints[0].columns = {2}; });
	scene.run();
	EXPECT_TRUE(scene.result.replaces_rows());
	EXPECT_TRUE(scene.result.key.empty());
	/* nor can what a check looks at */
	scene.all([](Relation &r) { r.constraints[0].columns = {1}; });
	scene.run();
	EXPECT_FALSE(scene.result.replaces_rows());
	scene.ours.constraints.push_back({});
	scene.ours.constraints[1].type = 'c';
	scene.run();
	EXPECT_TRUE(scene.result.replaces_rows());
}

TEST(TypeChange, CarriesNewColumnsAndPutsWhatRowsMustFulfilAfterThem)
{
	Scene scene;
	scene.rows_follow = true;
	scene.command.subcommands = {"AT_AddColumn"};
	scene.command.rewrites = {{1000, 2, 10, true}};
	EXPECT_EQ(scene.verdicts(), "");
	Column c = column(4, "c", uuid);
	c.default_expr = expression("gen_random_uuid()", 'v');
	c.not_null = true;
	scene.theirs.columns.push_back(c);
	at(scene.theirs, 3).not_null = true;
	EXPECT_EQ(scene.verdicts(), "add_column carry; set_not_null forward");
	EXPECT_EQ(scene.result.operations[0].sql,
	          std::vector<std::string>({"ALTER TABLE \"public\".\"t\" ADD COLUMN \"c\" uuid"}));
	EXPECT_EQ(scene.result.operations[0].sql_after.size(), 2u);
	EXPECT_TRUE(scene.result.operations[1].sql.empty());
	EXPECT_EQ(scene.result.operations[1].sql_after.size(), 1u);
	/* made here in advance: its values are still the publisher's */
	scene.ours.columns.push_back(c);
	EXPECT_EQ(scene.verdicts(), "add_column satisfied; set_not_null forward; rewrite_rows carry");
	EXPECT_TRUE(scene.result.needs_rows);
}

TEST(TypeChange, ARewriteThatNothingExplainsIsNotPassedOver)
{
	Scene scene;
	scene.command.rewrites = {{1000, 4, 10, false}};
	EXPECT_EQ(scene.verdicts(), "rewrite_rows refuse rewrite_unproven");
	scene.rows_follow = true;
	EXPECT_EQ(scene.verdicts(), "rewrite_rows carry");
	scene.command.rewrites = {{1000, 8, 10, true}};
	EXPECT_EQ(scene.verdicts(), "");
}

} // namespace
