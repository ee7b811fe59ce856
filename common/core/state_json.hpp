/*
 * Reads the JSON of docs/wire.md: states and the three messages of the stream.
 *
 * The input comes from another server and is not trusted: its size, nesting, types, ranges and letters are
 * checked, and what is wrong is answered with the path to it. Unknown fields are passed over, missing ones
 * have their default.
 *
 * Called by the apply worker for each M message and each stored base.
 *
 * Zone: core.
 */
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/command.hpp"
#include "core/state.hpp"

#include "core/pure.hpp"

namespace schemasync::state {

inline constexpr std::size_t max_json_bytes = 256u << 20;
inline constexpr int max_json_depth = 64;

template <typename T>
using Parsed = std::variant<T, ParseError>;

/* A state and its JSON text as it came, which is what the subscriber stores as base. */
template <typename T>
struct Document {
	T value;
	std::string text;
};

struct StateMessage {
	Document<Relation> relation;
	std::vector<Document<Type>> types;
};
struct DdlMessage {
	merge::Command command;
	std::vector<Document<Schema>> schemas;
	std::vector<Document<Type>> types;
	std::vector<Document<Relation>> relations; /* parents first */
	std::vector<Document<Definition>> definitions;
	/* After a command on publications: all tables that are published, those above them that are not, and those that the
	 * command put into a publication or gave another filter or column list. */
	std::optional<std::vector<Name>> published = std::nullopt;
	std::vector<Oid> above = {}, republished = {};
};
struct RewriteMessage {
	Oid relation = 0, transient = 0, published_as = 0;
	bool carried = false;
	Document<Relation> state;
};

Parsed<Relation> parse_relation(std::string_view json);
Parsed<Type> parse_type(std::string_view json);
Parsed<Schema> parse_schema(std::string_view json);
Parsed<Definition> parse_definition(std::string_view json);

Parsed<StateMessage> parse_state_message(std::string_view json);
Parsed<DdlMessage> parse_ddl_message(std::string_view json);
Parsed<RewriteMessage> parse_rewrite_message(std::string_view json);

} // namespace schemasync::state
