#include "core/marker.hpp"

#include <limits>

#include <nlohmann/json.hpp>

#include "core/pure.hpp"

namespace schemasync::marker {

namespace {

using nlohmann::json;

constexpr std::int64_t version = 1;

/* A value as ASCII JSON; the text was parsed as UTF-8, so that it can be written again. */
std::string
write(const json *value)
{
	return value != nullptr ? value->dump(-1, ' ', true, json::error_handler_t::replace) : "null";
}

/* Reads the fields of one object and remembers whether all were well. */
class Fields {
  public:
	explicit Fields(const json &object_) : object(object_), good(object_.is_object()) {}

	const json *
	find(const char *name) const
	{
		if (!object.is_object())
			return nullptr;
		auto found = object.find(name);
		return found != object.end() ? &*found : nullptr;
	}

	template <typename Number>
	Number
	number(const char *name)
	{
		const json *value = find(name);
		if (value == nullptr || !value->is_number_integer())
			return fail<Number>();
		if (value->is_number_unsigned() && value->get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
			return fail<Number>();
		auto wide = value->get<std::int64_t>();
		if (wide < std::int64_t{std::numeric_limits<Number>::min()} ||
		    wide > std::int64_t{std::numeric_limits<Number>::max()})
			return fail<Number>();
		return static_cast<Number>(wide);
	}

	bool
	boolean(const char *name)
	{
		const json *value = find(name);
		if (value == nullptr)
			return false;
		return value->is_boolean() ? value->get<bool>() : fail<bool>();
	}

	/* A text or null, as JSON. */
	std::string
	text(const char *name)
	{
		const json *value = find(name);
		if (value != nullptr && !value->is_string() && !value->is_null())
			return fail<std::string>();
		return write(value);
	}

	/* The elements of an array; none when it is missing. */
	const json *
	array(const char *name)
	{
		const json *value = find(name);
		if (value != nullptr && !value->is_array())
			good = false;
		return value != nullptr && value->is_array() ? value : nullptr;
	}

	template <typename Value>
	Value
	fail()
	{
		good = false;
		return Value{};
	}

	const json &object;
	bool good;
};

bool
is_own(const Fields &fields)
{
	const json *schema = fields.find("schema");

	return schema != nullptr && schema->is_string() && schema->get_ref<const std::string &>() == "schemasync";
}

bool
read(Fields &fields, Object &object)
{
	object.classid = fields.number<Oid>("classid");
	object.objid = fields.number<Oid>("objid");
	object.objsubid = fields.number<std::int32_t>("objsubid");
	object.type_json = fields.text("type");
	object.schema_json = fields.text("schema");
	object.identity_json = fields.text("identity");
	object.in_extension = fields.boolean("in_extension");
	object.own = is_own(fields);
	return fields.good;
}

bool
read(Fields &fields, Dropped &dropped)
{
	dropped.classid = fields.number<Oid>("classid");
	dropped.objid = fields.number<Oid>("objid");
	dropped.objsubid = fields.number<std::int32_t>("objsubid");
	dropped.type_json = fields.text("type");
	dropped.schema_json = fields.text("schema");
	dropped.name_json = fields.text("name");
	dropped.identity_json = fields.text("identity");
	dropped.original = fields.boolean("original");
	dropped.normal = fields.boolean("normal");
	dropped.own = is_own(fields);
	return fields.good;
}

bool
read(Fields &fields, Using &hint)
{
	hint.relid = fields.number<Oid>("relid");
	hint.attnum = fields.number<std::int32_t>("attnum");
	hint.given = fields.boolean("given");
	const json *expr = fields.find("expr");
	hint.expr_json = expr != nullptr && expr->is_object() ? write(expr) : "null";
	if (const json *casts = fields.find("casts"); casts != nullptr && casts->is_array())
		for (const json &cast : *casts)
			if (cast.is_number_unsigned())
				hint.casts.push_back(cast.get<Oid>());
	return fields.good;
}

bool
read(Fields &fields, DefaultSet &set)
{
	set.relid = fields.number<Oid>("relid");
	set.attnum = fields.number<std::int32_t>("attnum");
	return fields.good;
}

bool
read(Fields &fields, Rewrite &rewrite)
{
	rewrite.relid = fields.number<Oid>("relid");
	rewrite.reason = fields.number<std::int32_t>("reason");
	return fields.good;
}

bool
read(Fields &fields, Definition &definition)
{
	definition.of_table = fields.number<Oid>("of_table");
	definition.in_schema = fields.number<Oid>("in_schema");
	const json *object_class = fields.find("class");
	if (object_class != nullptr && object_class->is_string())
		definition.object_class = object_class->get<std::string>();
	definition.json = write(&fields.object);
	return fields.good;
}

template <typename Element>
bool
read_array(Fields &fields, const char *name, std::vector<Element> &elements)
{
	const json *array = fields.array(name);

	if (array == nullptr)
		return fields.good;
	for (const json &value : *array) {
		Fields element_fields(value);
		if (!read(element_fields, elements.emplace_back()))
			return false;
	}
	return true;
}

bool
read_head(Fields &fields, Marker &marker)
{
	marker.xid = fields.number<std::uint32_t>("xid");
	marker.subxid = fields.number<std::uint32_t>("subxid");
	marker.tag_json = fields.text("tag");
	marker.statement_json = fields.text("statement");
	marker.user_json = fields.text("user");

	const json *tag = fields.find("tag");
	if (tag != nullptr && tag->is_string())
		marker.tag = tag->get<std::string>();
	const json *settings = fields.find("settings");
	marker.settings_json = settings != nullptr && settings->is_object() ? write(settings) : "{}";
	const json *subcommands = fields.array("subcommands");
	marker.subcommands_json = subcommands != nullptr ? write(subcommands) : "[]";
	marker.has_subcommands = subcommands != nullptr && !subcommands->empty();
	return fields.good && fields.number<std::int64_t>("v") == version;
}

} // namespace

std::optional<Marker>
parse(std::string_view content)
{
	const json document = json::parse(content, nullptr, false);
	Fields fields(document);
	Marker marker;

	if (document.is_discarded() || !fields.good || !read_head(fields, marker) ||
	    !read_array(fields, "objects", marker.objects) || !read_array(fields, "dropped", marker.dropped) ||
	    !read_array(fields, "using", marker.usings) || !read_array(fields, "rewrites", marker.rewrites) ||
	    !read_array(fields, "defaults", marker.defaults) || !read_array(fields, "definitions", marker.definitions))
		return std::nullopt;
	return marker;
}

} // namespace schemasync::marker
