/*
 * A place in a JSON document that came from another server: reading it checks what it is.
 *
 * For the readers of states alone (state_json.cpp, definition_json.cpp).
 *
 * Zone: core.
 */
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/state_json.hpp"

#include "core/pure.hpp"

namespace schemasync::state {

using Json = nlohmann::ordered_json;

/*
 * A place in the document. Errors are sticky: the first one is kept with the path to it, reading goes on with
 * defaults, and the caller looks once at the end.
 */
class Node {
public:
	Node(const Json &value, std::optional<ParseError> &error) : value_(&value), error_(&error) {}

	bool
	has(const char *key) const
	{
		return find(key) != nullptr;
	}

	/* A member that must be there; without it an error and an empty object. */
	Node
	operator[](const char *key) const
	{
		static const Json *const nothing = new Json(Json::object());
		const Json *member = find(key);
		if (member == nullptr)
			reject("is missing", key);
		return Node(member == nullptr ? *nothing : *member, *error_, this, key);
	}

	std::string
	text(const char *key) const
	{
		return (*this)[key].as_text();
	}
	std::string
	text(const char *key, const char *missing) const
	{
		return has(key) ? text(key) : missing;
	}
	template <typename T>
	T
	number(const char *key) const
	{
		return (*this)[key].as_number<T>(std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
	}
	template <typename T>
	T
	number(const char *key, T missing) const
	{
		return has(key) ? number<T>(key) : missing;
	}
	bool
	boolean(const char *key, bool missing) const
	{
		return has(key) ? (*this)[key].as_boolean() : missing;
	}
	char
	letter(const char *key, std::string_view allowed, char missing) const
	{
		return has(key) ? (*this)[key].as_letter(allowed) : missing;
	}

	/* Calls with a Node for each element of the array; nothing when there is no such member. */
	template <typename Function>
	void
	each(const char *key, Function &&function) const
	{
		const Json *member = find(key);
		if (member == nullptr)
			return;
		Node array(*member, *error_, this, key);
		if (!member->is_array())
			return array.reject("is not an array");
		std::size_t index = 0;
		for (const Json &element : *member)
			function(Node(element, *error_, &array, nullptr, index++));
	}

	/* Calls with name and value for each member of the object. */
	template <typename Function>
	void
	members(const char *key, Function &&function) const
	{
		const Json *member = find(key);
		if (member == nullptr)
			return;
		Node object(*member, *error_, this, key);
		if (!member->is_object())
			return object.reject("is not an object");
		for (const auto &[name, value] : member->items())
			if (!value.is_null())
				function(name, Node(value, *error_, &object, name.c_str()).as_text());
	}

	std::string
	as_text() const
	{
		if (!value_->is_string())
			return reject("is not a string"), std::string();
		const std::string &result = value_->get_ref<const std::string &>();
		if (result.find('\0') != std::string::npos)
			return reject("has a zero byte"), std::string();
		return result;
	}

	template <typename T>
	T
	as_number(T low, T high) const
	{
		if (value_->is_number_unsigned()) {
			auto number = value_->get<std::uint64_t>();
			if (number <= static_cast<std::uint64_t>(high) &&
			    (low <= 0 || number >= static_cast<std::uint64_t>(low)))
				return static_cast<T>(number);
		} else if (value_->is_number_integer()) {
			auto number = value_->get<std::int64_t>();
			if (std::is_signed_v<T> && number >= static_cast<std::int64_t>(low) &&
			    number <= static_cast<std::int64_t>(high))
				return static_cast<T>(number);
		} else {
			return reject("is not an integer"), T{};
		}
		return reject("is out of range"), T{};
	}

	bool
	as_boolean() const
	{
		if (!value_->is_boolean())
			return reject("is not a boolean"), false;
		return value_->get<bool>();
	}

	char
	as_letter(std::string_view allowed) const
	{
		std::string result = as_text();
		if (result.size() != 1 || allowed.find(result[0]) == std::string_view::npos)
			return reject("is not a letter that is known here"), allowed[0];
		return result[0];
	}

	std::string
	dump() const
	{
		return value_->dump(-1, ' ', false, Json::error_handler_t::replace);
	}

	void
	reject(const char *what, const char *key = nullptr) const
	{
		if (!*error_)
			*error_ = ParseError{path() + (key == nullptr ? "" : "." + std::string(key)), what};
	}
	bool
	is_object() const
	{
		return value_->is_object();
	}
	bool
	failed() const
	{
		return error_->has_value();
	}

private:
	Node(const Json &value, std::optional<ParseError> &error, const Node *parent, const char *key,
	     std::size_t index = 0)
	    : value_(&value), error_(&error), parent_(parent), key_(key), index_(index)
	{
	}

	/* null counts as missing */
	const Json *
	find(const char *key) const
	{
		if (!value_->is_object()) {
			reject("is not an object");
			return nullptr;
		}
		auto member = value_->find(key);
		return member == value_->end() || member->is_null() ? nullptr : &*member;
	}

	std::string
	path() const
	{
		if (parent_ == nullptr)
			return "$";
		return parent_->path() +
		       (key_ != nullptr ? "." + std::string(key_) : "[" + std::to_string(index_) + "]");
	}

	const Json *value_;
	std::optional<ParseError> *error_;
	const Node *parent_ = nullptr;
	const char *key_ = nullptr;
	std::size_t index_ = 0;
};

inline std::vector<std::string>
read_texts(const Node &node, const char *key)
{
	std::vector<std::string> result;
	node.each(key, [&](const Node &element) { result.push_back(element.as_text()); });
	return result;
}

inline Name
read_name(const Node &node)
{
	Name result;
	result.oid = node.number<Oid>("oid");
	result.schema = node.text("schema");
	result.name = node.text("name");
	if (result.name.empty())
		node.reject("is empty", "name");
	return result;
}

/* One SEQUENCE, of a column or of nobody. */
Sequence read_sequence(const Node &node);

/* One DEFINITION. */
Definition read_definition(const Node &node);

} // namespace schemasync::state
