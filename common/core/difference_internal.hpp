/*
 * What the parts of the comparison share: the base that is made for it, and how things of two sides are matched. Included by the sources of
 * the comparison only.
 *
 * Zone: core.
 */
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/difference.hpp"
#include "core/merge_internal.hpp"

namespace schemasync::merge {

/* Objects that only the subscriber has get identities of this range in the base; the publisher has none there. */
constexpr Oid own_oids = 0xF0000000;
constexpr AttrNumber own_attnums = 20000;

template <typename T>
const T *
find_named(const std::vector<T> &all, std::string_view name)
{
	auto found = std::find_if(all.begin(), all.end(), [&](const T &one) { return one.name == name; });
	return found == all.end() ? nullptr : &*found;
}

/* A definition without what ALTER and VALIDATE CONSTRAINT change. */
std::string meaning(const state::Constraint &constraint);

/* The subscriber's relation in the publisher's identities, as if it were an earlier state of the publisher's. */
struct Earlier {
	state::Relation relation;
	ColumnMap map;
	bool retyped = false; /* a column has another type there */
};

Earlier earlier_of(const RelationInput &input, const LocalFacts &facts);

} // namespace schemasync::merge
