/*
 * The three sides of one relation as the merge needs them.
 *
 * Zone: server code; functions throw pg::Error.
 */
#pragma once

#include "core/merge.hpp"

#include <optional>

#include "apply_ext/apply/schema_work.hpp"
#include "apply_ext/catalog/relation.hpp"

namespace schemasync::apply {

struct Sides {
	const catalog::RelationRow *row = nullptr;
	std::optional<state::Relation> base, ours;
	bool mapped = false;      /* ours is what the row maps it to; else it was found by name */
	merge::ColumnMap columns; /* of base (without a base: of theirs) and ours */
};

/* theirs: null when it was dropped. */
Sides load_sides(const SchemaWork &work, Oid publisher_oid, const state::Relation *theirs);

/* Who does operations on the relation; the result refers to sides and theirs. */
Place place_of(const SchemaWork &work, const Sides &sides, const state::Relation *theirs);

} // namespace schemasync::apply
