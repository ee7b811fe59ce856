/*
 * The decisions of a subscription that the verdict depends on: its schema_changes and options (DESIGN 7).
 *
 * Zone: core.
 */
#pragma once

#include <cstdint>

#include "core/pure.hpp"

namespace schemasync {

enum class SchemaChanges : std::uint8_t { Forward, Refuse, Ignore };
enum class Choice : std::uint8_t { Forward, Keep, Refuse, Ignore, Background, Pin, Carry };

struct Policy {
	SchemaChanges schema_changes = SchemaChanges::Forward;
	Choice rewrites = Choice::Refuse;     /* Refuse, Carry */
	Choice stable_defaults = Choice::Pin; /* Pin, Refuse */
	Choice drop_column = Choice::Forward; /* Forward, Keep, Refuse */
	Choice drop_table = Choice::Forward;  /* Forward, Keep, Refuse */
	Choice indexes = Choice::Forward;     /* Forward, Background, Ignore */
	Choice constraints = Choice::Forward; /* Forward, Ignore */
	bool owners_same = false;             /* owners = same */
};

} // namespace schemasync
