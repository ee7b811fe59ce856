#include "core/marker_json.hpp"

#include <nlohmann/json.hpp>

#include "core/pure.hpp"

namespace schemasync {
namespace {

using Json = nlohmann::json;

std::string
text(const Json &object, const char *key)
{
	auto found = object.find(key);
	return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<state::Expression>
read_expression(const Json &json)
{
	if (!json.is_object())
		return std::nullopt;
	state::Expression expression;
	expression.sql = text(json, "sql");
	std::string volatility = text(json, "volatility");
	expression.volatility = volatility.empty() ? 'v' : volatility[0];
	for (const Json &ref : json.value("refs", Json::array()))
		expression.refs.push_back({text(ref, "kind"), text(ref, "name"), text(ref, "digest")});
	return expression;
}

void
add_objects(merge::Command &command, const Json &marker, std::string_view (*class_name)(state::Oid))
{
	for (const Json &entry : marker.at("objects")) {
		merge::TouchedObject object;
		object.class_name = class_name(entry.at("classid").get<state::Oid>());
		object.oid = entry.at("objid").get<state::Oid>();
		object.subid = entry.at("objsubid").get<int>();
		object.type = text(entry, "type");
		object.schema = text(entry, "schema");
		object.identity = text(entry, "identity");
		object.extension = entry.at("in_extension").get<bool>();
		command.objects.push_back(std::move(object));
	}
	for (const Json &entry : marker.at("dropped")) {
		merge::DroppedObject object;
		object.class_name = class_name(entry.at("classid").get<state::Oid>());
		object.oid = entry.at("objid").get<state::Oid>();
		object.subid = entry.at("objsubid").get<int>();
		object.type = text(entry, "type");
		object.schema = text(entry, "schema");
		object.name = text(entry, "name");
		object.identity = text(entry, "identity");
		object.original = entry.at("original").get<bool>();
		command.dropped.push_back(std::move(object));
	}
}

void
add_fields(merge::Command &command, const Json &marker, std::string_view (*class_name)(state::Oid))
{
	command.captured = true;
	command.tag = text(marker, "tag");
	command.statement = text(marker, "statement");
	command.user = text(marker, "user");
	command.settings.clear();
	for (const auto &[name, value] : marker.at("settings").items())
		command.settings.emplace_back(name, value.get<std::string>());
	for (const Json &name : marker.at("subcommands"))
		command.subcommands.push_back(name.get<std::string>());
	add_objects(command, marker, class_name);
	for (const Json &entry : marker.at("using"))
		command.using_hints.push_back({entry.at("relid").get<state::Oid>(),
		                               entry.at("attnum").get<state::AttrNumber>(),
		                               entry.at("given").get<bool>(), read_expression(entry.at("expr")),
		                               entry.value("casts", std::vector<state::Oid>())});
	for (const Json &entry : marker.value("defaults", Json::array()))
		command.set_defaults.push_back({entry.at("relid").get<state::Oid>(), entry.at("attnum").get<state::AttrNumber>()});
	for (const Json &entry : marker.at("rewrites"))
		command.rewrites.push_back(
		    {entry.at("relid").get<state::Oid>(), entry.at("reason").get<int>(), 0, false});
}

} // namespace

bool
add_marker(merge::Command &command, std::string_view content, std::string_view (*class_name)(state::Oid))
{
	Json marker = Json::parse(content, nullptr, false);
	if (!marker.is_object())
		return false;
	try {
		add_fields(command, marker, class_name);
	} catch (const Json::exception &) {
		return false;
	}
	return true;
}

} // namespace schemasync
