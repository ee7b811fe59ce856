/*
 * What differs between a publisher's object and the subscriber's, with the SQL that levels it and the verdict it would get in the
 * stream.
 *
 * There is one judge of changes, the merge: here it is given the subscriber's object in the publisher's identities as the base, so that
 * each difference is an operation that leads from the subscriber's state to the publisher's.
 *
 * Called by schemasync_diff. Zone: core.
 */
#pragma once

#include <string>
#include <vector>

#include "core/definition.hpp"
#include "core/merge.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

struct Difference {
	std::string operation, object_type, object_identity;
	std::string difference; /* one line, for people */
	std::string publisher, subscriber; /* what each side has; empty: nothing */
	std::string suggested_sql;         /* statements separated by semicolons; empty: there is none */
	Verdict verdict = Verdict::Refuse;
	Reason reason = Reason::None;
	std::string detail;
};

/*
 * theirs against ours, in an order in which the SQL can be run.
 *
 * input:   theirs, ours (null: missing), columns (the publisher's attnum to the subscriber's) and has_rows; base, the state last
 *          accepted, only tells whether the publisher's table was rewritten since, and what the subscriber once had
 * returns: nothing when they are equal but for what may differ: owners (unless owners = same), oids
 */
std::vector<Difference> relation_differences(const RelationInput &input, const Policy &policy, const LocalFacts *facts = nullptr);
std::vector<Difference> type_differences(const state::Type &theirs, const state::Type *ours, const Policy &policy,
                                         const LocalFacts *facts = nullptr);

/*
 * The same for an object of the opt-in classes, for what is said of one, or for a sequence of its own. What only the subscriber has is not looked at.
 *
 * input:         as for merge_definition; base, where one is known, is what was accepted last
 * other_version: the servers are of different major versions, which may write the same definition in different ways
 * returns:       nothing for comments on, and privileges of, what is not here: that has a difference of its own. Where the name
 *                differs, that alone: what else does can be told when the object bears it
 */
std::vector<Difference> definition_differences(const DefinitionInput &input, const Policy &policy, bool other_version);

} // namespace schemasync::merge
