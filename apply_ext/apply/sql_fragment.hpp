/*
 * The pieces of SQL text in a message (expressions, types, collations, definitions) come from another server
 * and are put into statements. Each is parsed by itself first and must be one piece of its kind: then no
 * statement that is made of pieces can hold another subcommand, clause or statement than the merge meant.
 * A piece with syntax that this server does not know is kept aside: no statement may have it in it.
 *
 * Zone: server code; throws pg::Error (protocol_violation) naming the piece.
 */
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/state.hpp"

namespace schemasync::apply {

/* A piece that this server cannot read, and what it says of it. */
struct UnknownText {
	std::string text;
	std::string message;
};
using UnknownSyntax = std::vector<UnknownText>;

/* Pieces that cannot be read are added to `unknown`. */
void check_fragments(const state::Relation &relation, UnknownSyntax &unknown);
void check_fragments(const state::Type &type, UnknownSyntax &unknown);
void check_expression(UnknownSyntax &unknown, const char *where, const std::string &sql);

/* The one that the statement has in it, nullptr when it has none. */
const UnknownText *find_unknown(const UnknownSyntax &unknown, std::string_view sql);

} // namespace schemasync::apply
