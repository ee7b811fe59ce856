/*
 * The pieces of SQL text in a message (expressions, types, collations, definitions) come from another server
 * and are put into statements. Each is parsed by itself first and must be one piece of its kind: then no
 * statement that is made of pieces can hold another subcommand, clause or statement than the merge meant.
 *
 * Zone: server code; throws pg::Error (protocol_violation) naming the piece.
 */
#pragma once

#include "core/state.hpp"

namespace schemasync::apply {

/* ... and what they call is what the state says (sql_reference.hpp), which is corrected where it makes an expression too harmless. */
void check_fragments(state::Relation &relation);
void check_fragments(state::Type &type);
void check_expression(const char *where, const std::string &sql);

} // namespace schemasync::apply
