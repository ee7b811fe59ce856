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

/* What the subscription decides, with what was set for the table (by its row; null: nothing) over it. */
Policy policy_of(const catalog::Subscription &subscription, const catalog::RelationRow *row);

/* Who does operations on the relation; the result refers to sides and theirs. */
Place place_of(const SchemaWork &work, const Sides &sides, const state::Relation *theirs);

/* One merge and what it says; Progress::Again asks for another, after the local side was changed. */
Progress merge_relation_once(SchemaWork &work, const Sides &sides, const state::Relation *theirs,
                             std::vector<std::pair<AttrNumber, std::string>> &local_columns);

/*
 * Stores theirs as the new base with the local relation and columns as they are now.
 *
 * local_columns: what the merge says of them; null: by the old map, else by name
 */
void accept_relation(SchemaWork &work, const state::Document<state::Relation> &theirs, const Sides &sides,
                     const std::vector<std::pair<AttrNumber, std::string>> *local_columns);

} // namespace schemasync::apply
