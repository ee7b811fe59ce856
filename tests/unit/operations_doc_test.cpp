/*
 * docs/operations.md is made from the operation catalog: this compares the two. To write it anew:
 *
 *     SCHEMASYNC_WRITE_DOCS=1 meson test -C build operations_doc
 */
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "core/operation.hpp"
#include "core/reason.hpp"
#include "core/subcommands.hpp"
#include "core/tags.hpp"

namespace {

using namespace schemasync;

std::string
code(std::string_view text)
{
	return text.empty() ? "" : "`" + std::string(text) + "`";
}

/* A list of codes: blanks or commas between them. */
std::string
codes(std::string_view list)
{
	std::string result, word;
	for (char c : std::string(list) + " ") {
		if (c != ' ' && c != ',') {
			word += c;
			continue;
		}
		if (!word.empty())
			result += (result.empty() ? "" : ", ") + code(word);
		word.clear();
	}
	return result;
}

std::string
operations_section()
{
	std::string text = "## Operations\n\n"
	                   "What one command does comes out as one or more of these. *Proof* is what identifies the object on both sides of the change; "
	                   "*lock* and *work* are what it takes on the subscriber's table; a change that is not forwarded is refused with one of the reasons.\n\n"
	                   "| operation | on | proof | by default | when | else | lock | work | severity | since |\n"
	                   "|---|---|---|---|---|---|---|---|---|---|\n";
	for (const merge::OperationInfo &operation : merge::operations) {
		text += "| " + code(operation.code) + " | " + std::string(operation.object_type) + " | " + std::string(operation.proof) + " | " +
		        std::string(operation.default_action) + " | " + std::string(operation.condition) + " | " + codes(operation.otherwise) +
		        " | " + std::string(operation.lock) + " | " + std::string(operation.cost) + " | " +
		        std::string(merge::name(operation.severity)) + " | " + (operation.since == 0 ? "" : std::to_string(operation.since)) + " |\n";
	}
	return text;
}

std::string
reasons_section()
{
	std::string text = "\n## Reasons of a refusal\n\n| reason | SQLSTATE | |\n|---|---|---|\n";
	for (const ReasonInfo &reason : reasons)
		if (reason.reason != Reason::None)
			text += "| " + code(reason.name) + " | " + std::string(reason.sqlstate) + " | " + std::string(reason.summary) + " |\n";
	return text;
}

std::string
subcommands_section()
{
	std::string text = "\n## Subcommands of ALTER TABLE\n\n"
	                   "Every member of the server's `AlterTableType` in the supported versions, and what it comes out as.\n\n"
	                   "| subcommand | operations | remark | since |\n|---|---|---|---|\n";
	for (const Subcommand &subcommand : subcommands)
		text += "| " + code(subcommand.name) + " | " + codes(subcommand.operations) + " | " + std::string(subcommand.remark) + " | " +
		        (subcommand.since == 0 ? "" : std::to_string(subcommand.since)) + " |\n";
	return text;
}

std::string
tags_section()
{
	constexpr std::string_view policies[] = {"followed by the merge of states", "followed by its definition when `ddl_classes` names the class",
	                                         "followed by `auto_refresh`", "not followed; what needs it is refused where it is missing",
	                                         "a matter of each server; shown as ignored", "changes nothing; not marked"};
	std::string text = "\n## Commands\n\nEvery command tag that fires event triggers in the supported versions.\n\n"
	                   "| command | class | what becomes of it |\n|---|---|---|\n";
	for (const CommandTag &tag : command_tags)
		text += "| " + std::string(tag.tag) + " | " + std::string(tag.object_class) + " | " +
		        std::string(policies[static_cast<int>(tag.policy)]) + " |\n";
	return text;
}

TEST(OperationsDoc, IsWhatTheCatalogSays)
{
	std::string wanted = "# Operations\n\n"
	                     "Made from the operation catalog by `tests/unit/operations_doc_test.cpp`; the view `schemasync_operations` shows the same.\n\n" +
	                     operations_section() + reasons_section() + subcommands_section() + tags_section();
	const char *path = SCHEMASYNC_SOURCE_ROOT "/docs/operations.md";
	if (std::getenv("SCHEMASYNC_WRITE_DOCS") != nullptr)
		std::ofstream(path) << wanted;
	std::ostringstream text;
	text << std::ifstream(path).rdbuf();
	EXPECT_EQ(text.str(), wanted) << "run: SCHEMASYNC_WRITE_DOCS=1 meson test -C build operations_doc";
}

} // namespace
