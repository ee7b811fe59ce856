/*
 * The operation catalog and the table of command tags as rows.
 *
 * Zone: server code.
 */
#include "core/operation.hpp"
#include "core/subcommands.hpp"
#include "core/tags.hpp"

#include "pg/compat.hpp"
#include "pg/postgres.hpp"

extern "C" {
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(schemasync_operations);
PG_FUNCTION_INFO_V1(schemasync_commands);
}

namespace {

// ---- leaves: may ereport; plain data only ----

constexpr int max_columns = 11;

struct Row {
	Datum values[max_columns] = {};
	bool nulls[max_columns] = {};
	int count = 0;
};

Datum
text_datum(std::string_view text)
{
	return PointerGetDatum(cstring_to_text_with_len(text.data(), static_cast<int>(text.size())));
}

/* An empty text is null. */
void
add_text(Row *row, std::string_view text)
{
	row->nulls[row->count] = text.empty();
	row->values[row->count++] = text.empty() ? Datum{0} : text_datum(text);
}

void
put(FunctionCallInfo fcinfo, Row *row)
{
	auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	tuplestore_putvalues(result->setResult, result->setDesc, row->values, row->nulls);
}

/* Whether a list of words separated by blanks has the word. */
bool
has_word(std::string_view words, std::string_view word)
{
	while (!words.empty()) {
		std::size_t end = words.find(' ');
		if (words.substr(0, end) == word)
			return true;
		words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
	}
	return false;
}

void
add_subcommands(Row *row, std::string_view code)
{
	Datum names[schemasync::subcommands.size()];
	int count = 0;

	for (const schemasync::Subcommand &subcommand : schemasync::subcommands)
		if (has_word(subcommand.operations, code))
			names[count++] = text_datum(subcommand.name);
	row->values[row->count++] =
	    PointerGetDatum(construct_array(names, count, TEXTOID, -1, false, TYPALIGN_INT));
}

} // namespace

SCHEMASYNC_EXPORT Datum
schemasync_operations(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	for (const schemasync::merge::OperationInfo &operation : schemasync::merge::operations) {
		Row row;
		add_text(&row, operation.code);
		add_text(&row, operation.object_type);
		add_text(&row, operation.proof);
		add_text(&row, operation.default_action);
		add_text(&row, operation.condition);
		add_text(&row, operation.otherwise);
		add_text(&row, operation.lock);
		add_text(&row, operation.cost);
		add_text(&row, schemasync::merge::name(operation.severity));
		row.nulls[row.count] = operation.since == 0;
		row.values[row.count++] = Int32GetDatum(operation.since);
		add_subcommands(&row, operation.code);
		put(fcinfo, &row);
	}
	return Datum{0};
}

SCHEMASYNC_EXPORT Datum
schemasync_commands(PG_FUNCTION_ARGS)
{
	constexpr std::string_view policies[] = {"structure", "definition", "publication", "dependency", "local", "silent"};

	InitMaterializedSRF(fcinfo, 0);
	for (const schemasync::CommandTag &tag : schemasync::command_tags) {
		Row row;
		add_text(&row, tag.tag);
		add_text(&row, tag.object_class);
		add_text(&row, policies[static_cast<int>(tag.policy)]);
		row.values[row.count++] = BoolGetDatum(schemasync::is_marked(tag.tag));
		put(fcinfo, &row);
	}
	return Datum{0};
}
