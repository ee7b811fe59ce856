/*
 * Names that something of the subscriber has already, and names that nothing has.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

constexpr std::size_t longest_name = 63; /* in bytes */

/* As ALTER has it; empty: unknown. */
std::string_view
keyword(char relkind)
{
	switch (relkind) {
	case 'r':
	case 'p':
		return "TABLE";
	case 'v':
		return "VIEW";
	case 'm':
		return "MATERIALIZED VIEW";
	case 'f':
		return "FOREIGN TABLE";
	case 'i':
	case 'I':
		return "INDEX";
	case 'S':
		return "SEQUENCE";
	case 'c':
		return "TYPE";
	default:
		return "";
	}
}

/* A table has a type of its name; one that the server made for an array steps aside by itself. */
bool
is_type_in_the_way(std::string_view schema, std::string_view name, const LocalFacts &facts)
{
	char kind = facts.type_kind(schema, name);
	return kind != 0 && std::string_view("edrm").find(kind) != std::string_view::npos;
}

} // namespace

std::string
name_beside(std::string_view name, std::string_view suffix, const std::function<bool(const std::string &)> &taken)
{
	constexpr int enough = 1000;
	std::string result;

	for (int number = 1; number < enough; number++) {
		std::string end(suffix);
		if (number > 1)
			end += std::to_string(number);
		std::size_t length = std::min(name.size(), longest_name - end.size());
		/* not within a character */
		while (length > 0 && length < name.size() && (static_cast<unsigned char>(name[length]) & 0xc0) == 0x80)
			length--;
		result = std::string(name.substr(0, length)) + end;
		if (!taken || !taken(result))
			break;
	}
	return result;
}

bool
is_table_name_taken(std::string_view schema, std::string_view name, const LocalFacts &facts)
{
	return facts.relation_exists(schema, name) || is_type_in_the_way(schema, name, facts);
}

void
refuse_taken(Operation &operation, std::string_view schema, std::string_view name, const LocalFacts &facts)
{
	std::string_view what = keyword(facts.relation_kind(schema, name));
	if (what.empty() && !facts.relation_exists(schema, name) && is_type_in_the_way(schema, name, facts))
		what = "TYPE";
	std::string kind = what.empty() ? "thing" : std::string(what);
	std::transform(kind.begin(), kind.end(), kind.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
	refuse(operation, Reason::LocalNameTaken,
	       "The subscriber has another " + kind + " of the name " + sql::shown(schema, name) + ".");
	operation.suggested_sql.clear();
	if (!what.empty())
		operation.suggested_sql =
		    "ALTER " + std::string(what) + " " + sql::qualified(schema, name) + " RENAME TO " +
		    sql::ident(name_beside(name, "_local",
		                           [&](const std::string &other) { return is_table_name_taken(schema, other, facts); }));
}

state::Name
local_name(const state::TypeRef &type, const LocalFacts &facts)
{
	return facts.local_type_name(type.oid).value_or(state::Name{0, type.schema, type.name});
}

std::optional<state::TypeRef>
below_domain(const state::TypeRef &type, const LocalFacts &facts)
{
	if (type.builtin || !type.element.empty())
		return std::nullopt;
	std::optional<state::TypeRef> theirs = facts.publisher_domain_base(type.oid);
	state::Name name = local_name(type, facts);
	std::optional<state::TypeRef> ours = facts.domain_base(name.schema, name.name);
	if (!theirs || !ours || theirs->typmod != ours->typmod || theirs->builtin != ours->builtin || !theirs->element.empty())
		return std::nullopt;
	if (theirs->builtin)
		return theirs->oid == ours->oid ? theirs : std::nullopt;
	state::Name below = local_name(*theirs, facts);
	return below.schema == ours->schema && below.name == ours->name ? theirs : std::nullopt;
}

} // namespace schemasync::merge
