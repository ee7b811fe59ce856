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

namespace {

/* What stands in one pair of parentheses, or the whole text: the connective that all its operands have (AND, OR),
 * or none. */
std::string_view
connective(const std::vector<Token> &all, std::size_t begin, std::size_t end)
{
	std::string_view found;
	int depth = 0;
	for (std::size_t i = begin; i < end; i++) {
		if (all[i].text == "(")
			depth++;
		else if (all[i].text == ")")
			depth--;
		else if (depth == 0 && all[i].kind == Token::Kind::Word && (all[i].text == "AND" || all[i].text == "OR")) {
			if (!found.empty() && found != all[i].text)
				return {};
			found = all[i].text;
		}
	}
	return found;
}

std::size_t
closing(const std::vector<Token> &all, std::size_t open)
{
	int depth = 0;
	for (std::size_t i = open; i < all.size(); i++) {
		depth += all[i].text == "(" ? 1 : all[i].text == ")" ? -1 : 0;
		if (depth == 0)
			return i;
	}
	return all.size();
}

/* Appends the tokens of [begin, end), whose operands are joined by `outer` (empty: not by AND or OR alone). */
void
append_flat(const std::vector<Token> &all, std::size_t begin, std::size_t end, std::string_view outer, std::string &out)
{
	for (std::size_t i = begin; i < end; i++) {
		bool opens = all[i].text == "(";
		std::size_t close = opens ? closing(all, i) : i;
		if (!opens || close >= end) {
			out.append(out.empty() ? "" : " ").append(all[i].text);
			continue;
		}
		std::string_view inner = connective(all, i + 1, close);
		bool operand = (i == begin || all[i - 1].text == outer) && (close + 1 == end || all[close + 1].text == outer);
		bool splice = !inner.empty() && inner == outer && operand;
		if (!splice)
			out.append(out.empty() ? "(" : " (");
		append_flat(all, i + 1, close, inner, out);
		if (!splice)
			out.append(" )");
		i = close;
	}
}

} // namespace

std::string
flatten(std::string_view text)
{
	constexpr int deepest = 100; /* of what a person wrote; below, it recurses */
	auto all = tokens(text);
	int depth = 0, reached = 0;
	for (std::size_t i = 0; all && i < all->size(); i++) {
		depth += (*all)[i].text == "(" ? 1 : (*all)[i].text == ")" ? -1 : 0;
		reached = std::max(reached, depth);
	}
	if (!all || reached > deepest)
		return std::string(text);
	std::string result;
	append_flat(*all, 0, all->size(), connective(*all, 0, all->size()), result);
	return result;
}

} // namespace schemasync::sql
