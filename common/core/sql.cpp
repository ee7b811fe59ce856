#include "core/sql.hpp"

#include <algorithm>

#include "core/pure.hpp"

namespace schemasync::sql {
namespace {

/* ASCII only: the locale must not matter */
bool
is_lower(char c)
{
	return (c >= 'a' && c <= 'z') || c == '_';
}

bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool
is_word_start(char c)
{
	return is_lower(c) || (c >= 'A' && c <= 'Z') || (static_cast<unsigned char>(c) & 0x80) != 0;
}

std::string
doubled(std::string_view text, char quote)
{
	std::string result(1, quote);
	for (char c : text) {
		if (c == quote)
			result += quote;
		result += c;
	}
	result += quote;
	return result;
}

/* The end of what `open` at `at` opens, past the closing quote; npos when it is not closed. */
std::size_t
end_of_quoted(std::string_view text, std::size_t at, bool escapes)
{
	char quote = text[at];
	for (std::size_t i = at + 1; i < text.size(); i++) {
		if (escapes && text[i] == '\\') {
			i++;
		} else if (text[i] == quote) {
			if (i + 1 < text.size() && text[i + 1] == quote)
				i++;
			else
				return i + 1;
		}
	}
	return std::string_view::npos;
}

/* The token at `at` (no blank there); empty text when a quote is not closed. */
Token
token_at(std::string_view text, std::size_t at)
{
	char c = text[at];
	if (c == '"' || c == '\'') {
		std::size_t end = end_of_quoted(text, at, false);
		return {c == '"' ? Token::Kind::QuotedWord : Token::Kind::String,
		        end == std::string_view::npos ? std::string_view() : text.substr(at, end - at)};
	}
	if ((c == 'E' || c == 'B' || c == 'X') && at + 1 < text.size() && text[at + 1] == '\'') {
		std::size_t end = end_of_quoted(text, at + 1, c == 'E');
		return {Token::Kind::String,
		        end == std::string_view::npos ? std::string_view() : text.substr(at, end - at)};
	}
	std::size_t end = at + 1;
	if (is_word_start(c)) {
		while (end < text.size() && (is_word_start(text[end]) || is_digit(text[end])))
			end++;
		return {Token::Kind::Word, text.substr(at, end - at)};
	}
	if (is_digit(c)) {
		while (end < text.size() && (is_digit(text[end]) || text[end] == '.' || text[end] == 'e'))
			end++;
		return {Token::Kind::Number, text.substr(at, end - at)};
	}
	return {Token::Kind::Symbol, text.substr(at, 1)};
}

bool
is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

} // namespace

std::string
ident(std::string_view name)
{
	return doubled(name, '"');
}

std::string
literal(std::string_view text)
{
	if (text.find('\\') == std::string_view::npos)
		return doubled(text, '\'');
	std::string escaped;
	for (char c : text) {
		if (c == '\\')
			escaped += c;
		escaped += c;
	}
	return "E" + doubled(escaped, '\'');
}

std::string
qualified(std::string_view schema, std::string_view name)
{
	return ident(schema) + "." + ident(name);
}

std::string
qualified(const state::Name &name)
{
	return qualified(name.schema, name.name);
}

std::string
shown(std::string_view name)
{
	bool plain = !name.empty() && is_lower(name[0]) &&
	             std::all_of(name.begin(), name.end(), [](char c) { return is_lower(c) || is_digit(c); });
	return plain ? std::string(name) : ident(name);
}

std::string
shown(std::string_view schema, std::string_view name)
{
	return shown(schema) + "." + shown(name);
}

std::string
join(const std::vector<std::string> &parts, std::string_view separator)
{
	std::string result;
	for (const std::string &part : parts) {
		if (!result.empty())
			result += separator;
		result += part;
	}
	return result;
}

std::optional<std::vector<Token>>
tokens(std::string_view text)
{
	std::vector<Token> result;
	for (std::size_t at = 0; at < text.size();) {
		if (is_blank(text[at])) {
			at++;
			continue;
		}
		Token token = token_at(text, at);
		if (token.text.empty())
			return std::nullopt;
		result.push_back(token);
		at += token.text.size();
	}
	return result;
}

bool
is_one_clause(std::string_view text)
{
	auto all = tokens(text);
	if (!all || all->empty() || text.find('\0') != std::string_view::npos)
		return false;
	std::string open;
	for (std::size_t i = 0; i < all->size(); i++) {
		const Token &token = (*all)[i];
		if (token.kind != Token::Kind::Symbol)
			continue;
		char c = token.text[0];
		/* a comment begins with two characters that touch */
		bool touches = i + 1 < all->size() && (*all)[i + 1].text.data() == token.text.data() + 1;
		char next = touches ? (*all)[i + 1].text[0] : 0;
		if (c == ';' || c == '$' || c == '\\' || (c == '-' && next == '-') || (c == '/' && next == '*'))
			return false;
		if (c == '(' || c == '[') {
			open += c;
		} else if (c == ')' || c == ']') {
			if (open.empty() || open.back() != (c == ')' ? '(' : '['))
				return false;
			open.pop_back();
		} else if (c == ',' && open.empty()) {
			return false;
		}
	}
	return open.empty();
}

std::string_view
from_word(std::string_view text, std::string_view word)
{
	auto all = tokens(text);
	if (!all)
		return {};
	int depth = 0;
	for (const Token &token : *all) {
		if (token.kind == Token::Kind::Symbol)
			depth += token.text[0] == '(' ? 1 : token.text[0] == ')' ? -1 : 0;
		if (depth == 0 && token.kind == Token::Kind::Word && token.text == word)
			return text.substr(static_cast<std::size_t>(token.text.data() - text.data()));
	}
	return {};
}

bool
ends_with_words(std::string_view text, std::string_view words)
{
	auto all = tokens(text);
	auto wanted = tokens(words);
	if (!all || !wanted || all->size() < wanted->size())
		return false;
	return std::equal(wanted->begin(), wanted->end(),
	                  all->end() - static_cast<std::ptrdiff_t>(wanted->size()),
	                  [](const Token &a, const Token &b) { return a.kind == b.kind && a.text == b.text; });
}

} // namespace schemasync::sql
