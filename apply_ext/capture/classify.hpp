/*
 * What a subscriber would make of a command: the merge with the publisher itself in the subscriber's place,
 * as it was before the command.
 *
 * Called by schemasync_check and by the guard.
 *
 * Zone: server code; plain C++, asks the catalog for types through pg::call.
 */
#pragma once

#include "core/merge.hpp"

#include <string>
#include <vector>

#include "apply_ext/capture/policies.hpp"
#include "apply_ext/capture/shapes.hpp"

namespace schemasync::capture {

struct Finding {
	merge::Operation operation;
	std::string lock;     /* the catalog's: taken on the subscriber's table */
	std::string cost;     /* the catalog's: "", "scan", "rewrite", "build" */
	std::string severity; /* "info", "warn", "critical" */
	bool rewrite = false; /* the publisher's table was rewritten by it */
};

/* Gives the rewrites of a command the number of rows that were there before, about; at least one where there
 * may be any. */
void estimate_rows(merge::Command &command, const Shapes *before);

/* What holds for a relation before the command, or after it when it was made by it. */
const catalog::Options &options_of(const Policies &policies, const Shapes *before, const Shapes *after, Oid relid);

/*
 * before, after: the states of the same objects; those of which nothing is known before are taken as new
 * policies:      what holds for all tables and for single ones; their ddl_classes is JSON text of the array of opt-in
 *                classes, "all" (with or without quotes), or nullptr
 */
std::vector<Finding> classify(const Shapes *before, const Shapes *after, const merge::Command &command,
                              const Policies &policies);

} // namespace schemasync::capture
