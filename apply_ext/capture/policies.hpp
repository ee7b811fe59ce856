/*
 * What schemasync_check and the guard take for the policy of subscribers: options as those of a subscription, and under
 * "tables" those that single tables have otherwise (schemasync_set_table_policy on the subscriber).
 *
 * Zone: server code; plain data.
 */
#pragma once

#include "core/policy.hpp"

#include "apply_ext/capture/shapes.hpp"
#include "apply_ext/catalog/subscription.hpp"

namespace schemasync::capture {

struct TablePolicy {
	Oid relid;
	catalog::Options options; /* the table's own over those of all */
};

struct Policies {
	catalog::Options all;
	TablePolicy *tables;
	int count;
};

/*
 * Reads them; tables are found by name, as they are called now. A leaf.
 *
 * json:   text of a JSON object; "tables" is an object of names, as regclass reads them, and options as
 *         schemasync_set_table_policy takes them
 * strict: a table that is not there is an error; else it is passed over, so that a parameter that outlives a table does
 *         no harm
 * errors: as catalog::read_options
 */
void read_policies(const char *json, bool strict, Policies *policies);

/*
 * What holds for a relation: its own, or those of the nearest partitioned table above it that has some, or those of all.
 *
 * shape: of the relation before the command, or after it when it was made by it; nullptr: not known
 */
const catalog::Options &policy_for(const Policies &policies, Oid relid, const Shape *shape);

} // namespace schemasync::capture
