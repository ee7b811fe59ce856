/*
 * Our tables of subcommands and command tags against the lists in the headers of the server that is built
 * against: a change of PostgreSQL that nobody has thought about fails here.
 */
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/operation.hpp"
#include "core/subcommands.hpp"
#include "core/tags.hpp"

#include "server_lists.inc"

namespace {

using namespace schemasync;

TEST(ServerLists, EverySubcommandIsKnown)
{
	for (std::string_view name : server_subcommands) {
		if (name.ends_with("Recurse"))
			name.remove_suffix(7);
		EXPECT_NE(find_subcommand(name), nullptr) << name;
	}
}

TEST(ServerLists, ASubcommandHasOperationsOrARemark)
{
	for (const Subcommand &subcommand : subcommands)
		EXPECT_FALSE(subcommand.operations.empty() && subcommand.remark.empty()) << subcommand.name;
}

TEST(ServerLists, TheOperationsOfASubcommandAreInTheCatalog)
{
	for (const Subcommand &subcommand : subcommands) {
		std::string_view rest = subcommand.operations;
		while (!rest.empty()) {
			std::size_t end = rest.find(' ');
			std::string_view code = rest.substr(0, end);
			bool found = false;
			for (const merge::OperationInfo &operation : merge::operations)
				found |= operation.code == code;
			EXPECT_TRUE(found) << subcommand.name << ": " << code;
			rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
		}
	}
}

TEST(ServerLists, EveryTagIsKnown)
{
	for (std::string_view tag : server_tags) {
		const CommandTag *found = find_tag(tag);
		EXPECT_NE(found, nullptr) << tag;
	}
	EXPECT_EQ(find_tag("no such tag"), nullptr);
	EXPECT_TRUE(is_marked("no such tag"));
}

TEST(ServerLists, WhatIsLocalIsNotMarked)
{
	EXPECT_FALSE(is_marked("LOGIN"));
	EXPECT_TRUE(is_marked("REFRESH MATERIALIZED VIEW"));
	EXPECT_TRUE(is_secret("CREATE USER MAPPING"));
	EXPECT_TRUE(is_secret("ALTER SUBSCRIPTION"));
	EXPECT_FALSE(is_secret("ALTER TABLE"));
	EXPECT_TRUE(is_marked("ALTER TABLE"));
	EXPECT_TRUE(is_marked("DROP OWNED"));
}

} // namespace
