/*
 * Quoting, and the look at text that came over the wire.
 */
#include "core/sql.hpp"

#include <gtest/gtest.h>

namespace {

using namespace schemasync;

TEST(Sql, Quotes)
{
	EXPECT_EQ(sql::ident("a\"b"), "\"a\"\"b\"");
	EXPECT_EQ(sql::literal("it's"), "'it''s'");
	EXPECT_EQ(sql::literal("a\\b'"), "E'a\\\\b'''");
	EXPECT_EQ(sql::qualified("S", "t"), "\"S\".\"t\"");
	EXPECT_EQ(sql::shown("public", "Select"), "public.\"Select\"");
	EXPECT_EQ(sql::shown("t1_x"), "t1_x");
}

TEST(Sql, TellsOneClause)
{
	for (const char *good :
	     {"1", "(a + 1)", "'x;y'::text", "CHECK ((a > 0)) NOT VALID", "\"a;b\"", "E'\\'; --'", "ARRAY[1, 2]",
	      "f(a, b)", "numeric(10,2)", "(a - '-1'::integer)", "'--'::text", "B'01'"})
		EXPECT_TRUE(sql::is_one_clause(good)) << good;
	for (const char *bad : {"", " ", "1;", "a, b", "(a", "a)", "a--b", "a/*b", "'a", "\"a", "$1", "$$x$$",
	                        "(a]", "E'\\'", "a\\b"})
		EXPECT_FALSE(sql::is_one_clause(bad)) << bad;
	EXPECT_FALSE(sql::is_one_clause(std::string_view("a\0b", 3)));
}

TEST(Sql, FindsWordsOutsideQuotes)
{
	EXPECT_EQ(sql::from_word("CREATE INDEX \" USING \" ON public.t USING btree (a)", "USING"),
	          "USING btree (a)");
	EXPECT_EQ(sql::from_word("CREATE INDEX i ON t", "USING"), "");
	EXPECT_TRUE(sql::ends_with_words("CHECK ((a > 0)) NOT  VALID", "NOT VALID"));
	EXPECT_FALSE(sql::ends_with_words("CHECK ((a = 'NOT VALID'))", "NOT VALID"));
}

TEST(Sql, FlattensWhatTheServerFlattens)
{
	auto same = [](const char *a, const char *b) { return sql::flatten(a) == sql::flatten(b); };
	EXPECT_TRUE(same("CHECK ((((a >= 0) AND (a <= 9)) AND (b > 0)))", "CHECK (((a >= 0) AND (a <= 9) AND (b > 0)))"));
	EXPECT_TRUE(same("((a OR b) OR (c OR (d OR e)))", "(a OR b OR c OR d OR e)"));
	EXPECT_FALSE(same("((a OR b) AND c)", "(a OR (b AND c))"));
	EXPECT_FALSE(same("((a AND b) OR c)", "(a AND b OR c)"));
	EXPECT_FALSE(same("(NOT (a AND b) AND c)", "(NOT a AND b AND c)"));
	EXPECT_FALSE(same("(f(a AND b) AND c)", "(f AND a AND b AND c)"));
	EXPECT_FALSE(same("((a AND b) IS TRUE AND c)", "(a AND b IS TRUE AND c)"));
	EXPECT_EQ(sql::flatten("'(a AND b) AND c'"), "'(a AND b) AND c'");
	std::string deep = std::string(100000, '(');
	EXPECT_EQ(sql::flatten(deep), deep);
}

} // namespace
