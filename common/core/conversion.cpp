/*
 * What a change of type does to a value: our own table of the built-in casts whose result is the same
 * everywhere, or depends on nothing but known settings; and the same question for a USING expression.
 *
 * Not in the table means not known. Text to date and time is never known: 'now' and 'today' are valid input.
 */
#include <algorithm>
#include <array>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

using Effect = Conversion::Effect;
using Types = std::string_view; /* names between blanks */

constexpr Types numbers = " int2 int4 int8 numeric float4 float8 ";
constexpr Types texts = " text varchar bpchar name ";
constexpr Types times = " date time timetz timestamp timestamptz interval ";
/* output to text is the same whatever the settings are */
constexpr Types plain_output =
    " int2 int4 int8 numeric bool uuid inet cidr macaddr macaddr8 json jsonb xml oid xid bit varbit name "
    "char text varchar bpchar tsvector tsquery pg_lsn time int4range int8range numrange "
    "int4multirange int8multirange nummultirange jsonpath ";

bool
is_in(std::string_view name, Types types)
{
	return types.find(" " + std::string(name) + " ") != std::string_view::npos;
}

constexpr std::array<std::string_view, 3> time_settings{"TimeZone", "DateStyle", "IntervalStyle"};

struct Cast {
	std::string_view from, to;
	Effect effect;
	std::string_view setting;
};

/* ALTER TYPE without USING takes assignment casts; only those are listed. */
constexpr Cast casts[] = {
    {"date", "timestamp", Effect::Immutable, ""},
    {"timestamp", "date", Effect::Immutable, ""},
    {"timestamp", "time", Effect::Immutable, ""},
    {"time", "interval", Effect::Immutable, ""},
    {"interval", "time", Effect::Immutable, ""},
    {"timetz", "time", Effect::Immutable, ""},
    {"timestamp", "timestamptz", Effect::Settings, "TimeZone"},
    {"timestamptz", "timestamp", Effect::Settings, "TimeZone"},
    {"timestamptz", "date", Effect::Settings, "TimeZone"},
    {"timestamptz", "time", Effect::Settings, "TimeZone"},
    {"timestamptz", "timetz", Effect::Settings, "TimeZone"},
    {"date", "timestamptz", Effect::Settings, "TimeZone"},
    {"cidr", "inet", Effect::Coercible, ""},
    {"inet", "cidr", Effect::Immutable, ""},
    {"macaddr", "macaddr8", Effect::Immutable, ""},
    {"macaddr8", "macaddr", Effect::Immutable, ""},
    {"json", "jsonb", Effect::Immutable, ""},
    {"jsonb", "json", Effect::Immutable, ""},
    {"bit", "varbit", Effect::Coercible, ""},
    {"varbit", "bit", Effect::Immutable, ""},
    {"int8", "oid", Effect::Immutable, ""},
    {"int2", "oid", Effect::Immutable, ""},
    {"int4", "oid", Effect::Coercible, ""},
    {"oid", "int4", Effect::Coercible, ""},
    {"oid", "int8", Effect::Immutable, ""},
    {"money", "numeric", Effect::Settings, "lc_monetary"},
    {"numeric", "money", Effect::Settings, "lc_monetary"},
    {"int4", "money", Effect::Settings, "lc_monetary"},
    {"int8", "money", Effect::Settings, "lc_monetary"},
};

/* One more than the number of characters that fit; the largest number when there is no limit. */
std::int64_t
room(const state::TypeRef &type)
{
	return type.typmod < 4 ? INT64_MAX : type.typmod;
}

/* The same type with another parameter. */
Conversion
reparameterized(const state::TypeRef &from, const state::TypeRef &to)
{
	if (from.typmod == to.typmod)
		return {Effect::Coercible, {}, {}};
	if (from.name == "varchar")
		return {room(to) >= room(from) ? Effect::Coercible : Effect::Immutable, {}, {}};
	if (from.name == "numeric") {
		if (to.typmod < 4)
			return {Effect::Coercible, {}, {}};
		bool same_scale = from.typmod >= 4 && ((from.typmod - 4) & 0xffff) == ((to.typmod - 4) & 0xffff);
		return {same_scale && to.typmod >= from.typmod ? Effect::Coercible : Effect::Immutable, {}, {}};
	}
	if (is_in(from.name, times))
		return {to.typmod < 0 ? Effect::Coercible : Effect::Immutable, {}, {}};
	if (is_in(from.name, " bpchar bit varbit "))
		return {Effect::Immutable, {}, {}};
	return {Effect::Unknown, {}, "the meaning of the type's parameter is not known"};
}

Conversion
to_text(const state::TypeRef &from, const state::TypeRef &to)
{
	if (is_in(from.name, texts)) {
		bool coercible = is_in(from.name, " text varchar ") && is_in(to.name, " text varchar ") &&
		                 (to.name == "text" || room(to) == INT64_MAX ||
		                  (from.name == "varchar" && room(to) >= room(from)));
		return {coercible ? Effect::Coercible : Effect::Immutable, {}, {}};
	}
	if (is_in(from.name, plain_output))
		return {Effect::Immutable, {}, {}};
	if (is_in(from.name, times) ||
	    is_in(from.name, " daterange tsrange tstzrange datemultirange tsmultirange tstzmultirange "))
		return {Effect::Settings, {time_settings.begin(), time_settings.end()}, {}};
	if (is_in(from.name, " float4 float8 "))
		return {Effect::Settings, {"extra_float_digits"}, {}};
	if (from.name == "bytea")
		return {Effect::Settings, {"bytea_output"}, {}};
	if (from.name == "money")
		return {Effect::Settings, {"lc_monetary"}, {}};
	return {Effect::Unknown, {}, "what the type's text form depends on is not known"};
}

std::string_view
bare_name(const state::TypeRef &type)
{
	return type.builtin && type.name.starts_with('_') ? std::string_view(type.name).substr(1)
	                                                  : std::string_view(type.name);
}

bool
is_array(const state::TypeRef &type)
{
	return !type.element.empty() || (type.builtin && type.name.starts_with('_'));
}

state::TypeRef
element_of(const state::TypeRef &type)
{
	if (!type.element.empty())
		return type.element[0];
	state::TypeRef element = type;
	element.name = bare_name(type);
	return element;
}

/* ---- expressions ---- */

/* Functions that are stable for no other reason than the settings, and immutable ones that are often beside
 * them. */
constexpr Types known_functions =
    " coalesce nullif greatest least case lower upper initcap btrim ltrim rtrim trim replace substring "
    "substr left right lpad rpad "
    "split_part regexp_replace regexp_match concat concat_ws length char_length octet_length position strpos "
    "translate reverse repeat "
    "overlay md5 encode decode abs round floor ceil ceiling trunc mod sign div power sqrt numeric_scale "
    "to_char to_number date_part "
    "extract date_trunc timezone make_date make_timestamp make_time to_hex array array_length cardinality "
    "array_to_string "
    "string_to_array array_append array_remove array_cat json_build_object jsonb_build_object to_json "
    "to_jsonb row_to_json text int4 "
    "int8 int2 float8 float4 numeric bool varchar bpchar date timestamp timestamptz ";
constexpr Types known_words = " case when then else end and or not null is in any all some array at time "
                              "zone collate true false row from distinct like ilike "
                              "between symmetric similar to escape unknown leading trailing both for placing "
                              "year month day hour minute second epoch ";
constexpr Types time_types = " date time timetz timestamp timestamptz ";
/* input that reads the catalog, or the clock */
constexpr Types object_types =
    " regclass regproc regprocedure regoper regoperator regtype regrole regnamespace regconfig "
    "regdictionary regcollation ";

std::string
folded(std::string_view word)
{
	std::string result(word);
	for (char &c : result)
		c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
	return result;
}

bool
is_text_column(const state::Column &column)
{
	std::string_view type = bare_name(column.type);
	return !column.type.builtin || is_in(type, texts) || is_in(type, " json jsonb xml ");
}

Conversion
unknown(std::string why)
{
	return {Effect::Unknown, {}, std::move(why)};
}

} // namespace

Conversion
conversion(const state::TypeRef &from, const state::TypeRef &to, const LocalFacts &facts)
{
	/* a domain's values are those of the type below it */
	if (auto below = below_domain(from, facts))
		return conversion(*below, to, facts);
	if (is_array(from) && is_array(to))
		return conversion(element_of(from), element_of(to), facts);
	if (is_array(from) || is_array(to))
		return unknown("between an array and another type");
	if (!from.builtin && !to.builtin && from.oid == to.oid && from.typmod == to.typmod)
		return {Effect::Coercible, {}, {}};
	if (!from.builtin || !to.builtin) {
		state::Name name = local_name(from, facts);
		bool enum_to_text = !from.builtin && to.builtin && is_in(to.name, texts) &&
		                    facts.type_kind(name.schema, name.name) == 'e';
		return enum_to_text ? Conversion{Effect::Immutable, {}, {}}
		                    : unknown("casts of a type that is not built in are not known");
	}
	if (from.name == to.name)
		return reparameterized(from, to);
	if (is_in(to.name, texts))
		return to_text(from, to);
	if (is_in(from.name, numbers) && is_in(to.name, numbers))
		return {Effect::Immutable, {}, {}};
	for (const Cast &cast : casts)
		if (cast.from == from.name && cast.to == to.name) {
			Conversion result{cast.effect, {}, {}};
			if (!cast.setting.empty())
				result.settings = {cast.setting};
			return result;
		}
	return unknown("there is no cast from " + from.sql + " to " + to.sql +
	               " that is known to be the same everywhere");
}

/*
 * An immutable expression gives the same everywhere. A stable one does when all that is stable in it are
 * conversions that depend on the settings: every function must be known, nothing may ask for the time or the
 * session, and no text may become a date or time, because such text may say 'now'.
 */
Conversion
conversion(const state::Expression &expression, const state::Relation &relation)
{
	if (expression.volatility == 'v')
		return unknown("the expression is volatile");
	auto all = sql::tokens(expression.sql);
	if (!all)
		return unknown("the expression could not be read");
	if (expression.volatility == 'i')
		return {Effect::Immutable, {}, {}};

	bool has_text = false, to_time = false;
	for (std::size_t i = 0; i < all->size(); i++) {
		const sql::Token &token = (*all)[i];
		if (token.kind == sql::Token::Kind::String) {
			/* '...'::text is a text value; '...'::date is a constant that was read when the command was */
			has_text = has_text || (i + 3 < all->size() &&
			                        is_in(folded((*all)[i + 3].text), " text character bpchar name "));
			continue;
		}
		if (token.kind != sql::Token::Kind::Word && token.kind != sql::Token::Kind::QuotedWord)
			continue;
		std::string word =
		    token.kind == sql::Token::Kind::Word ? folded(token.text) : std::string(token.text);
		bool after_cast = i >= 1 && (*all)[i - 1].text == ":";
		bool qualified = i + 1 < all->size() && (*all)[i + 1].text == ".";
		bool call = i + 1 < all->size() && (*all)[i + 1].text == "(";
		bool constant = after_cast && i >= 3 && (*all)[i - 3].kind == sql::Token::Kind::String;
		if (is_in(word, object_types))
			return unknown("it looks up an object by name");
		if (after_cast) {
			to_time = to_time || (is_in(word, time_types) && !constant);
			continue;
		}
		if (qualified || (i >= 1 && (*all)[i - 1].text == "."))
			continue; /* a type or function that is not built in: the references prove it */
		const state::Column *column = find_column(relation, std::string_view(token.text));
		if (column == nullptr && token.kind == sql::Token::Kind::QuotedWord)
			for (const state::Column &quoted : relation.columns)
				if (sql::ident(quoted.name) == token.text)
					column = &quoted;
		if (call && column == nullptr && !is_in(word, known_functions) && !is_in(word, known_words))
			return unknown("what " + word + "() depends on is not known");
		if (column != nullptr && !call)
			has_text = has_text || is_text_column(*column);
		else if (!call && !is_in(word, known_words) &&
		         !is_in(word, " varying precision character double without with "))
			return unknown("what " + word + " depends on is not known");
		to_time = to_time || (call && is_in(word, " date time timestamp timestamptz "));
	}
	if (has_text && to_time)
		return unknown("text that becomes a date or time may say 'now'");
	Conversion result{Effect::Settings, {time_settings.begin(), time_settings.end()}, {}};
	return result;
}

} // namespace schemasync::merge
