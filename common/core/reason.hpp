/*
 * Verdicts and the stable reason codes of refusals (DESIGN 5).
 *
 * Zone: core.
 */
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/pure.hpp"

namespace schemasync {

/* What is done with one change. */
enum class Verdict : std::uint8_t { Forward, Satisfied, Ignore, Carry, Refuse };

/* Why a change was refused; the names are stored, logged and documented. */
enum class Reason : std::uint8_t {
	None,
	RenameUnproven,
	VolatileDefault,
	DefaultUnreadable,
	TypeChangeUnproven,
	RewriteUnproven,
	MultiShapeUnordered,
	LocalDrift,
	LocalNameTaken,
	LocalDependents,
	MissingObject,
	UnsupportedObject,
	IdentityLost,
	PolicyRefuse,
	LockTimeout,
	ApplyFailed,
};

struct ReasonInfo {
	Reason reason;
	std::string_view name;     /* as stored */
	std::string_view sqlstate; /* class SS */
	std::string_view summary;  /* one clause, for the primary message */
};

inline constexpr std::array<ReasonInfo, 16> reasons{{
    {Reason::None, "none", "00000", ""},
    {Reason::RenameUnproven, "rename_unproven", "SS001", "a rename cannot be told from a drop and an add"},
    {Reason::VolatileDefault, "volatile_default", "SS002", "every existing row got a value of its own"},
    {Reason::DefaultUnreadable, "default_unreadable", "SS003",
     "the value that existing rows got cannot be read"},
    {Reason::TypeChangeUnproven, "type_change_unproven", "SS004",
     "the effect of a type change on existing rows is not proven"},
    {Reason::RewriteUnproven, "rewrite_unproven", "SS005",
     "the table was rewritten and what became of its rows is not proven"},
    {Reason::MultiShapeUnordered, "multi_shape_unordered", "SS006",
     "several changes interact and their order is not known"},
    {Reason::LocalDrift, "local_drift", "SS007",
     "the subscriber's object differs from what the publisher's was"},
    {Reason::LocalNameTaken, "local_name_taken", "SS008", "the name is taken on the subscriber"},
    {Reason::LocalDependents, "local_dependents", "SS009",
     "objects of the subscriber depend on what would be dropped"},
    {Reason::MissingObject, "missing_object", "SS010",
     "an object that the change needs is missing on the subscriber"},
    {Reason::UnsupportedObject, "unsupported_object", "SS011", "this kind of change is not known to be safe"},
    {Reason::IdentityLost, "identity_lost", "SS012",
     "object identities of the publisher cannot be relied on"},
    {Reason::PolicyRefuse, "policy_refuse", "SS013", "the subscription's policy refuses it"},
    {Reason::LockTimeout, "lock_timeout", "SS014", "the lock on the subscriber was not to be had in time"},
    {Reason::ApplyFailed, "apply_failed", "SS015", "the change failed on the subscriber"},
}};

constexpr const ReasonInfo &
info(Reason reason)
{
	return reasons[static_cast<std::size_t>(reason)];
}

constexpr std::string_view
name(Verdict verdict)
{
	constexpr std::array<std::string_view, 5> names{"forward", "satisfied", "ignore", "carry", "refuse"};
	return names[static_cast<std::size_t>(verdict)];
}

} // namespace schemasync
