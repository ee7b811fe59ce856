/*
 * What a marker of the event triggers says of a command (docs/wire.md, `schemasync.ddl`): hints beside the
 * states.
 *
 * Zone: core.
 */
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/state.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

using state::AttrNumber;
using state::Oid;

/* One column whose type a command changed: whether there was a USING clause, and what it (or the implied
 * cast) was. */
struct UsingHint {
	Oid relation = 0;
	AttrNumber attnum = 0;
	bool given = false;
	std::optional<state::Expression> expr;
	/* without USING: types that a cast of the publisher's own, by a function, takes to the new type or what is below it */
	std::vector<Oid> casts = {};
};
/* A column that got another default by SET DEFAULT or lost it: that is not the default it was added with. */
struct DefaultHint {
	Oid relation = 0;
	AttrNumber attnum = 0;
};
struct RewriteHint {
	Oid relation = 0;
	int reason = 0; /* AT_REWRITE_* of the server: 1 persistence, 2 default value, 4 type, 8 access method */
	std::int64_t rows = 0;
	bool carried = false;
};
struct DroppedObject {
	std::string class_name, type, schema, name, identity;
	Oid oid = 0;
	int subid = 0;
	bool original = false;
	bool normal = false; /* by cascade, and not as a part of something */
};
struct TouchedObject {
	std::string class_name, type, schema, identity;
	Oid oid = 0;
	int subid = 0;
	bool extension = false;
};
struct Command {
	bool captured = false; /* false: only inferred from a state, everything below is empty */
	std::string tag, statement, user;
	std::vector<std::pair<std::string, std::string>> settings;
	std::vector<std::string> subcommands;
	std::vector<UsingHint> using_hints;
	std::vector<RewriteHint> rewrites;
	std::vector<DefaultHint> set_defaults;
	std::vector<TouchedObject> objects;
	std::vector<DroppedObject> dropped;
};

} // namespace schemasync::merge
