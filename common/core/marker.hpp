/*
 * The content of a marker (docs/wire.md, "Marker"), which the event triggers write, as the decoder needs it.
 *
 * Oids and flags are parsed; what only travels on to the subscriber stays JSON, in plain ASCII, so that it can be put
 * into a message of any encoding.
 *
 * Zone: core.
 */
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/pure.hpp"

namespace schemasync::marker {

using Oid = std::uint32_t;

/* Texts that end in _json are JSON values ("null" where there is none). */
struct Object {
	Oid classid = 0;
	Oid objid = 0;
	std::int32_t objsubid = 0;
	std::string type_json;
	std::string schema_json;
	std::string identity_json;
	bool in_extension = false;
	bool own = false; /* lies in schema schemasync */
};

struct Dropped {
	Oid classid = 0;
	Oid objid = 0;
	std::int32_t objsubid = 0;
	std::string type_json;
	std::string schema_json;
	std::string name_json;
	std::string identity_json;
	bool original = false;
	bool normal = false;
	bool own = false;
};

struct Using {
	Oid relid = 0;
	std::int32_t attnum = 0;
	bool given = false;
	std::vector<Oid> casts;
	std::string expr_json;
};

struct DefaultSet {
	Oid relid = 0;
	std::int32_t attnum = 0;
};

struct Rewrite {
	Oid relid = 0;
	std::int32_t reason = 0;
};

/* A definition of an opt-in class, and what it belongs to. */
struct Definition {
	Oid of_table = 0;
	Oid in_schema = 0;
	std::string object_class;
	std::string json;
};

struct Marker {
	std::uint32_t xid = 0;    /* of the top-level transaction */
	std::uint32_t subxid = 0; /* of the subtransaction, the same where there is none */
	std::string tag;
	std::string tag_json;
	std::string statement_json;
	std::string user_json;
	std::string settings_json;
	std::string subcommands_json;
	bool has_subcommands = false;
	std::vector<Object> objects;
	std::vector<Dropped> dropped;
	std::vector<Using> usings;
	std::vector<Rewrite> rewrites;
	std::vector<DefaultSet> defaults;
	std::vector<Definition> definitions;
};

/*
 * Parses the content of a marker.
 *
 * in:      UTF-8 JSON
 * returns: nothing when it is not a marker of a version that is known here, whatever is wrong with it
 */
std::optional<Marker> parse(std::string_view content);

} // namespace schemasync::marker
