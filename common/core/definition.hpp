/*
 * The opt-in classes of ddl_classes: objects that are followed by their definition as text (views, functions, triggers,
 * rules, policies, statistics, extensions), and what is said of any object (comments, privileges). Sequences of their own
 * are told in the same way and always followed.
 *
 * The capture reads a definition when the command ends and puts it into the sealed marker; the decoder passes on those of
 * what is published; the subscriber compares it with its own side and gets here what is to be done. The publisher's
 * definition wins: what stands between the base and it is of no interest, since no row depends on it. Only privileges
 * have a base, by which a grant that is the subscriber's own is told from one that the publisher revoked.
 *
 * Zone: core.
 */
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/merge.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

inline constexpr std::array<std::string_view, 9> definition_classes{
    "views", "functions", "triggers", "rules", "policies", "comments", "privileges", "statistics", "extensions"};

/* Sequences that no column owns: told like the opt-in classes, but always followed. */
inline constexpr std::string_view sequence_class = "sequences";

/*
 * Whether the option ddl_classes names a class.
 *
 * option: JSON text of the array, "all" (with or without quotes), or empty
 */
bool names_class(std::string_view option, std::string_view object_class);

/*
 * The class that a changed or dropped object belongs to; empty for what the merge of states follows, and for what is of
 * no class.
 *
 * catalog: pg_class, ...; type: as pg_identify_object has it
 */
std::string_view class_of(std::string_view catalog, std::string_view type);

/* The rule that makes a view one, which goes with it. */
bool is_rule_of_view(const DroppedObject &dropped);

/* Whether something dropped has to be looked at: it is of a class, or an index, which may have been a materialized view's. */
bool may_be_of_class(const DroppedObject &dropped);

struct DefinitionInput {
	const state::Definition *base = nullptr;   /* privileges only */
	const state::Definition *theirs = nullptr; /* null: dropped */
	const state::Definition *ours = nullptr;
	bool mapped = false; /* ours is what the publisher's object was mapped to, or its like by name is as good */
	/* Whom a new object would belong to here. */
	std::string creator;
	bool creator_is_superuser = false;
	/* Comments and privileges: objects of this kind are followed, so that a missing one is a fault. */
	bool target_followed = true;
	/* Extensions: the version can be installed here. */
	bool version_available = true;
	int server_version = 0; /* of the subscriber, server_version_num; 0: not known */
};

/*
 * What makes ours like theirs.
 *
 * again: set when ours has to be read again and merged once more after the operations (its name changed)
 */
Result merge_definition(const DefinitionInput &input, const Policy &policy, bool *again);

} // namespace schemasync::merge
