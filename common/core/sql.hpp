/*
 * Pieces of SQL text: quoting, and the checks that a piece which came over the wire is what it claims to be.
 *
 * Names are always quoted. Types, expressions and definitions come as text that the publisher deparsed;
 * before they are put into a statement their tokens are looked at, so that none can end the statement, open a
 * comment or leave its parentheses. (The worker parses the whole statement back as well.)
 *
 * Zone: core.
 */
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/state.hpp"

#include "core/pure.hpp"

namespace schemasync::sql {

/* "name", quotes doubled. */
std::string ident(std::string_view name);
/* 'text', quotes doubled; E'' when there is a backslash, so that it means the same under any setting. */
std::string literal(std::string_view text);
/* "schema"."name" */
std::string qualified(std::string_view schema, std::string_view name);
std::string qualified(const state::Name &name);
/* For people: quoted only where it must be. */
std::string shown(std::string_view name);
std::string shown(std::string_view schema, std::string_view name);

std::string join(const std::vector<std::string> &parts, std::string_view separator);

/*
 * Whether the text may stand where one expression, type or clause may: not empty, quotes and parentheses
 * balanced, no semicolon, comment, parameter or dollar quote, no comma outside parentheses.
 */
bool is_one_clause(std::string_view text);

/* A token of a text for which is_one_clause holds. */
struct Token {
	enum class Kind : char { Word, QuotedWord, String, Number, Symbol } kind;
	std::string_view text; /* as it stands */
};
/* Empty when the text has a quote that is not closed. */
std::optional<std::vector<Token>> tokens(std::string_view text);

/* What follows the first of `word` (upper case) that stands outside quotes and parentheses, from it on;
 * empty: none. */
std::string_view from_word(std::string_view text, std::string_view word);
/*
 * The text without the parentheses that only group operands of AND within an AND, or of OR within an OR. The server
 * deparses "a BETWEEN 1 AND 2 AND b" as ((a) AND (b)) AND (c) and, when it reads that, makes one AND of it; so what was
 * copied has another text than its source and is the same.
 */
std::string flatten(std::string_view text);
/* Whether the words stand one after the other at the end, e.g. "NOT VALID". */
bool ends_with_words(std::string_view text, std::string_view words);

} // namespace schemasync::sql
