/*
 * Reads the content of a marker (docs/wire.md, "Marker") as the command that the merge takes.
 *
 * The content comes from the event triggers of the same process, so it is trusted.
 *
 * Zone: core.
 */
#pragma once

#include <string_view>

#include "core/command.hpp"

#include "core/pure.hpp"

namespace schemasync {

/*
 * Adds what a marker says to a command: a command during which further ones ran has several, the outermost
 * last.
 *
 * class_name: gives the name of a catalog by its oid ("pg_class"); empty when it is of no interest
 * returns:    false when it is no marker
 */
bool add_marker(merge::Command &command, std::string_view content,
                std::string_view (*class_name)(state::Oid));

} // namespace schemasync
