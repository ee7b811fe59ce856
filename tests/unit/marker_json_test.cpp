/*
 * The content of a marker as the command that the merge takes.
 */
#include <gtest/gtest.h>

#include <string_view>

#include "core/marker_json.hpp"

namespace {

using namespace schemasync;

std::string_view
class_name(state::Oid oid)
{
	return oid == 1259 ? "pg_class" : "";
}

constexpr std::string_view marker = R"json({"v":1,"xid":7,"subxid":7,"tag":"ALTER TABLE","statement":"alter table t ...","user":"app",
"settings":{"TimeZone":"UTC","DateStyle":"ISO, MDY"},"subcommands":["AT_AlterColumnType"],
"objects":[{"classid":1259,"objid":10,"objsubid":2,"type":"table column","schema":"s","identity":"s.t.b","in_extension":false}],
"dropped":[{"classid":2604,"objid":11,"objsubid":0,"type":"default value","schema":null,"name":null,"identity":"for s.t.b","original":true,"normal":false}],
"using":[{"relid":10,"attnum":2,"given":true,"expr":{"sql":"f(b)","volatility":"s","refs":[{"kind":"function","name":"s.f(integer)","digest":"0123456789abcdef"}]}},
{"relid":10,"attnum":3,"given":false,"expr":null}],"rewrites":[{"relid":10,"reason":4}],"defaults":[{"relid":10,"attnum":3}]})json";

TEST(MarkerJson, ReadsEveryField)
{
	merge::Command command;
	ASSERT_TRUE(add_marker(command, marker, class_name));
	EXPECT_TRUE(command.captured);
	EXPECT_EQ(command.tag, "ALTER TABLE");
	EXPECT_EQ(command.user, "app");
	EXPECT_EQ(command.settings.size(), 2u);
	ASSERT_EQ(command.objects.size(), 1u);
	EXPECT_EQ(command.objects[0].class_name, "pg_class");
	EXPECT_EQ(command.objects[0].subid, 2);
	ASSERT_EQ(command.dropped.size(), 1u);
	EXPECT_EQ(command.dropped[0].class_name, "");
	EXPECT_EQ(command.dropped[0].schema, "");
	EXPECT_TRUE(command.dropped[0].original);
	ASSERT_EQ(command.using_hints.size(), 2u);
	ASSERT_TRUE(command.using_hints[0].expr.has_value());
	EXPECT_EQ(command.using_hints[0].expr->volatility, 's');
	EXPECT_EQ(command.using_hints[0].expr->refs.size(), 1u);
	EXPECT_FALSE(command.using_hints[1].expr.has_value());
	ASSERT_EQ(command.rewrites.size(), 1u);
	EXPECT_EQ(command.rewrites[0].reason, 4);
	ASSERT_EQ(command.set_defaults.size(), 1u);
	EXPECT_EQ(command.set_defaults[0].attnum, 3);
}

TEST(MarkerJson, SeveralAddUp)
{
	merge::Command command;
	ASSERT_TRUE(add_marker(command, marker, class_name));
	ASSERT_TRUE(add_marker(command, marker, class_name));
	EXPECT_EQ(command.objects.size(), 2u);
	EXPECT_EQ(command.settings.size(), 2u);
}

TEST(MarkerJson, WhatIsNoMarkerIsNotTaken)
{
	for (std::string_view text : {"", "{", "null", "[]", "{}", R"({"objects":[]})", R"({"settings":{"a":1}})"}) {
		merge::Command command;
		EXPECT_FALSE(add_marker(command, text, class_name)) << text;
	}
}

} // namespace
