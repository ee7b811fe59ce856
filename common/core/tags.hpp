/*
 * Every command tag that fires event triggers, and what schemasync does with it. The capture asks whether a command is
 * marked, schemasync_operations shows the table, and a test compares it with the server's own list of tags.
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

enum class TagPolicy : std::uint8_t {
	Structure,   /* followed by the merge of states */
	Definition,  /* an opt-in class: followed by definition text when ddl_classes names it, else ignored */
	Publication, /* followed by auto_refresh */
	Dependency,  /* not followed; an object that needs it and finds it missing is refused */
	Local,       /* a matter of this server alone: shown as ignored */
	Silent,      /* no change of anything: never marked */
};

struct CommandTag {
	std::string_view tag;
	std::string_view object_class; /* of the opt-in class, the name in ddl_classes */
	TagPolicy policy;
};

/* In the order of their names. */
inline constexpr std::array command_tags{
    CommandTag{"ALTER ACCESS METHOD", "access_methods", TagPolicy::Dependency},
    CommandTag{"ALTER AGGREGATE", "functions", TagPolicy::Definition},
    CommandTag{"ALTER CAST", "casts", TagPolicy::Dependency},
    CommandTag{"ALTER COLLATION", "collations", TagPolicy::Dependency},
    CommandTag{"ALTER CONSTRAINT", "tables", TagPolicy::Structure},
    CommandTag{"ALTER CONVERSION", "conversions", TagPolicy::Dependency},
    CommandTag{"ALTER DEFAULT PRIVILEGES", "privileges", TagPolicy::Definition},
    CommandTag{"ALTER DOMAIN", "types", TagPolicy::Structure},
    CommandTag{"ALTER EXTENSION", "extensions", TagPolicy::Definition},
    CommandTag{"ALTER FOREIGN DATA WRAPPER", "foreign_servers", TagPolicy::Local},
    CommandTag{"ALTER FOREIGN TABLE", "foreign_tables", TagPolicy::Structure},
    CommandTag{"ALTER FUNCTION", "functions", TagPolicy::Definition},
    CommandTag{"ALTER INDEX", "indexes", TagPolicy::Structure},
    CommandTag{"ALTER LANGUAGE", "languages", TagPolicy::Dependency},
    CommandTag{"ALTER LARGE OBJECT", "large_objects", TagPolicy::Local},
    CommandTag{"ALTER MATERIALIZED VIEW", "views", TagPolicy::Definition},
    CommandTag{"ALTER OPERATOR", "operators", TagPolicy::Dependency},
    CommandTag{"ALTER OPERATOR CLASS", "operators", TagPolicy::Dependency},
    CommandTag{"ALTER OPERATOR FAMILY", "operators", TagPolicy::Dependency},
    CommandTag{"ALTER POLICY", "policies", TagPolicy::Definition},
    CommandTag{"ALTER PROCEDURE", "functions", TagPolicy::Definition},
    CommandTag{"ALTER PROPERTY GRAPH", "property_graphs", TagPolicy::Dependency},
    CommandTag{"ALTER PUBLICATION", "publications", TagPolicy::Publication},
    CommandTag{"ALTER ROUTINE", "functions", TagPolicy::Definition},
    CommandTag{"ALTER RULE", "rules", TagPolicy::Definition},
    CommandTag{"ALTER SCHEMA", "schemas", TagPolicy::Structure},
    CommandTag{"ALTER SEQUENCE", "sequences", TagPolicy::Structure},
    CommandTag{"ALTER SERVER", "foreign_servers", TagPolicy::Local},
    CommandTag{"ALTER STATISTICS", "statistics", TagPolicy::Definition},
    CommandTag{"ALTER SUBSCRIPTION", "subscriptions", TagPolicy::Local},
    CommandTag{"ALTER TABLE", "tables", TagPolicy::Structure},
    CommandTag{"ALTER TEXT SEARCH CONFIGURATION", "text_search", TagPolicy::Dependency},
    CommandTag{"ALTER TEXT SEARCH DICTIONARY", "text_search", TagPolicy::Dependency},
    CommandTag{"ALTER TEXT SEARCH PARSER", "text_search", TagPolicy::Dependency},
    CommandTag{"ALTER TEXT SEARCH TEMPLATE", "text_search", TagPolicy::Dependency},
    CommandTag{"ALTER TRANSFORM", "languages", TagPolicy::Dependency},
    CommandTag{"ALTER TRIGGER", "triggers", TagPolicy::Definition},
    CommandTag{"ALTER TYPE", "types", TagPolicy::Structure},
    CommandTag{"ALTER USER MAPPING", "foreign_servers", TagPolicy::Local},
    CommandTag{"ALTER VIEW", "views", TagPolicy::Definition},
    CommandTag{"COMMENT", "comments", TagPolicy::Definition},
    CommandTag{"CREATE ACCESS METHOD", "access_methods", TagPolicy::Dependency},
    CommandTag{"CREATE AGGREGATE", "functions", TagPolicy::Definition},
    CommandTag{"CREATE CAST", "casts", TagPolicy::Dependency},
    CommandTag{"CREATE COLLATION", "collations", TagPolicy::Dependency},
    CommandTag{"CREATE CONSTRAINT", "tables", TagPolicy::Structure},
    CommandTag{"CREATE CONVERSION", "conversions", TagPolicy::Dependency},
    CommandTag{"CREATE DOMAIN", "types", TagPolicy::Structure},
    CommandTag{"CREATE EXTENSION", "extensions", TagPolicy::Definition},
    CommandTag{"CREATE FOREIGN DATA WRAPPER", "foreign_servers", TagPolicy::Local},
    CommandTag{"CREATE FOREIGN TABLE", "foreign_tables", TagPolicy::Structure},
    CommandTag{"CREATE FUNCTION", "functions", TagPolicy::Definition},
    CommandTag{"CREATE INDEX", "indexes", TagPolicy::Structure},
    CommandTag{"CREATE LANGUAGE", "languages", TagPolicy::Dependency},
    CommandTag{"CREATE MATERIALIZED VIEW", "views", TagPolicy::Definition},
    CommandTag{"CREATE OPERATOR", "operators", TagPolicy::Dependency},
    CommandTag{"CREATE OPERATOR CLASS", "operators", TagPolicy::Dependency},
    CommandTag{"CREATE OPERATOR FAMILY", "operators", TagPolicy::Dependency},
    CommandTag{"CREATE POLICY", "policies", TagPolicy::Definition},
    CommandTag{"CREATE PROCEDURE", "functions", TagPolicy::Definition},
    CommandTag{"CREATE PROPERTY GRAPH", "property_graphs", TagPolicy::Dependency},
    CommandTag{"CREATE PUBLICATION", "publications", TagPolicy::Publication},
    CommandTag{"CREATE ROUTINE", "functions", TagPolicy::Definition},
    CommandTag{"CREATE RULE", "rules", TagPolicy::Definition},
    CommandTag{"CREATE SCHEMA", "schemas", TagPolicy::Structure},
    CommandTag{"CREATE SEQUENCE", "sequences", TagPolicy::Structure},
    CommandTag{"CREATE SERVER", "foreign_servers", TagPolicy::Local},
    CommandTag{"CREATE STATISTICS", "statistics", TagPolicy::Definition},
    CommandTag{"CREATE SUBSCRIPTION", "subscriptions", TagPolicy::Local},
    CommandTag{"CREATE TABLE", "tables", TagPolicy::Structure},
    CommandTag{"CREATE TABLE AS", "tables", TagPolicy::Structure},
    CommandTag{"CREATE TEXT SEARCH CONFIGURATION", "text_search", TagPolicy::Dependency},
    CommandTag{"CREATE TEXT SEARCH DICTIONARY", "text_search", TagPolicy::Dependency},
    CommandTag{"CREATE TEXT SEARCH PARSER", "text_search", TagPolicy::Dependency},
    CommandTag{"CREATE TEXT SEARCH TEMPLATE", "text_search", TagPolicy::Dependency},
    CommandTag{"CREATE TRANSFORM", "languages", TagPolicy::Dependency},
    CommandTag{"CREATE TRIGGER", "triggers", TagPolicy::Definition},
    CommandTag{"CREATE TYPE", "types", TagPolicy::Structure},
    CommandTag{"CREATE USER MAPPING", "foreign_servers", TagPolicy::Local},
    CommandTag{"CREATE VIEW", "views", TagPolicy::Definition},
    CommandTag{"DROP ACCESS METHOD", "access_methods", TagPolicy::Dependency},
    CommandTag{"DROP AGGREGATE", "functions", TagPolicy::Definition},
    CommandTag{"DROP CAST", "casts", TagPolicy::Dependency},
    CommandTag{"DROP COLLATION", "collations", TagPolicy::Dependency},
    CommandTag{"DROP CONSTRAINT", "tables", TagPolicy::Structure},
    CommandTag{"DROP CONVERSION", "conversions", TagPolicy::Dependency},
    CommandTag{"DROP DOMAIN", "types", TagPolicy::Structure},
    CommandTag{"DROP EXTENSION", "extensions", TagPolicy::Definition},
    CommandTag{"DROP FOREIGN DATA WRAPPER", "foreign_servers", TagPolicy::Structure},
    CommandTag{"DROP FOREIGN TABLE", "foreign_tables", TagPolicy::Structure},
    CommandTag{"DROP FUNCTION", "functions", TagPolicy::Definition},
    CommandTag{"DROP INDEX", "indexes", TagPolicy::Structure},
    CommandTag{"DROP LANGUAGE", "languages", TagPolicy::Dependency},
    CommandTag{"DROP MATERIALIZED VIEW", "views", TagPolicy::Definition},
    CommandTag{"DROP OPERATOR", "operators", TagPolicy::Dependency},
    CommandTag{"DROP OPERATOR CLASS", "operators", TagPolicy::Dependency},
    CommandTag{"DROP OPERATOR FAMILY", "operators", TagPolicy::Dependency},
    CommandTag{"DROP OWNED", "tables", TagPolicy::Structure},
    CommandTag{"DROP POLICY", "policies", TagPolicy::Definition},
    CommandTag{"DROP PROCEDURE", "functions", TagPolicy::Definition},
    CommandTag{"DROP PROPERTY GRAPH", "property_graphs", TagPolicy::Dependency},
    CommandTag{"DROP PUBLICATION", "publications", TagPolicy::Publication},
    CommandTag{"DROP ROUTINE", "functions", TagPolicy::Definition},
    CommandTag{"DROP RULE", "rules", TagPolicy::Definition},
    CommandTag{"DROP SCHEMA", "schemas", TagPolicy::Structure},
    CommandTag{"DROP SEQUENCE", "sequences", TagPolicy::Structure},
    CommandTag{"DROP SERVER", "foreign_servers", TagPolicy::Structure},
    CommandTag{"DROP STATISTICS", "statistics", TagPolicy::Definition},
    CommandTag{"DROP SUBSCRIPTION", "subscriptions", TagPolicy::Local},
    CommandTag{"DROP TABLE", "tables", TagPolicy::Structure},
    CommandTag{"DROP TEXT SEARCH CONFIGURATION", "text_search", TagPolicy::Dependency},
    CommandTag{"DROP TEXT SEARCH DICTIONARY", "text_search", TagPolicy::Dependency},
    CommandTag{"DROP TEXT SEARCH PARSER", "text_search", TagPolicy::Dependency},
    CommandTag{"DROP TEXT SEARCH TEMPLATE", "text_search", TagPolicy::Dependency},
    CommandTag{"DROP TRANSFORM", "languages", TagPolicy::Dependency},
    CommandTag{"DROP TRIGGER", "triggers", TagPolicy::Definition},
    CommandTag{"DROP TYPE", "types", TagPolicy::Structure},
    CommandTag{"DROP USER MAPPING", "foreign_servers", TagPolicy::Local},
    CommandTag{"DROP VIEW", "views", TagPolicy::Definition},
    CommandTag{"GRANT", "privileges", TagPolicy::Definition},
    CommandTag{"IMPORT FOREIGN SCHEMA", "foreign_tables", TagPolicy::Structure},
    CommandTag{"LOGIN", "sessions", TagPolicy::Silent},
    CommandTag{"REFRESH MATERIALIZED VIEW", "views", TagPolicy::Definition},
    CommandTag{"REINDEX", "indexes", TagPolicy::Local},
    CommandTag{"REPACK", "tables", TagPolicy::Local},
    CommandTag{"REVOKE", "privileges", TagPolicy::Definition},
    CommandTag{"SECURITY LABEL", "security_labels", TagPolicy::Dependency},
    CommandTag{"SELECT INTO", "tables", TagPolicy::Structure},
};

namespace detail {
constexpr bool
tags_are_sorted()
{
	for (std::size_t i = 1; i < command_tags.size(); i++) {
		if (!(command_tags[i - 1].tag < command_tags[i].tag))
			return false;
	}
	return true;
}
} // namespace detail
static_assert(detail::tags_are_sorted());

/* returns: nullptr for a tag that is not known, which a newer server may have */
constexpr const CommandTag *
find_tag(std::string_view tag)
{
	std::size_t low = 0, high = command_tags.size();
	while (low < high) {
		std::size_t middle = (low + high) / 2;
		if (command_tags[middle].tag < tag)
			low = middle + 1;
		else
			high = middle;
	}
	return low < command_tags.size() && command_tags[low].tag == tag ? &command_tags[low] : nullptr;
}

/* Whether a command of this tag writes a marker; one that is not known does. */
constexpr bool
is_marked(std::string_view tag)
{
	const CommandTag *found = find_tag(tag);
	return found == nullptr || found->policy != TagPolicy::Silent;
}

/* Whether the text of a command of this tag may hold passwords and the like, and so stays where it was written. */
constexpr bool
is_secret(std::string_view tag)
{
	const CommandTag *found = find_tag(tag);
	return found != nullptr && (found->object_class == "foreign_servers" || found->object_class == "subscriptions");
}

} // namespace schemasync
