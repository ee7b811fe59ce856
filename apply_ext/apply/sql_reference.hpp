/*
 * What a piece of SQL from the publisher calls, against what its state says that it calls. A state lists each function and operator of an
 * expression that is not built in, with a digest of its definition, and how volatile the expression is; the merge goes by that. So a text must not
 * call more than is listed, and is at least as volatile as the built-in functions that it calls are here.
 *
 * Zone: server code; throws pg::Error (protocol_violation) naming the piece.
 */
#pragma once

#include "core/state.hpp"

namespace schemasync::apply {

/* Corrects the expression's volatility for the worse where it is too good. */
void check_references(const std::string &where, state::Expression &expression);

/* The same for the texts that are no expressions themselves. Nothing is known to be called where there is no expression. */
void check_references(const std::string &where, state::Constraint &constraint, bool of_domain);
void check_references(const std::string &where, state::Index &index);
void check_partition(const std::string &where, const std::string &key, const state::Expression *expression, const std::string &bound);

} // namespace schemasync::apply
