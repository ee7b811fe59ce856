#include "core/tags.hpp"

#include <algorithm>
#include <cstring>

#include "apply_ext/capture/marker.hpp"

#include "pg/compat.hpp"
#include "pg/marker.hpp"
#include "pg/postgres.hpp"

extern "C" {
#include "access/xact.h"
#include "catalog/namespace.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "parser/scansup.h"
#include "storage/lmgr.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
}

namespace schemasync::capture {

namespace {

/* A statement is for people; whole dumps arrive as one. */
constexpr int max_statement_bytes = 64 * 1024;

/* The server takes longer records than a decoder can allocate; a command with so many objects is left to
 * inference. */
constexpr int max_content_bytes = 256 * 1024 * 1024;

/* What changes the meaning of the text of expressions and values in a command. */
constexpr const char *settings[] = {
    "TimeZone",
    "DateStyle",
    "IntervalStyle",
    "search_path",
    "bytea_output",
    "extra_float_digits",
    "xmloption",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "default_table_access_method",
    "check_function_bodies",
    "standard_conforming_strings",
};

// ---- leaves: may ereport; plain data only ----

/* The database's key, unless somebody holds its table exclusively: a user's command must not wait for that.
 */
bool
try_read_key(pg::MarkerKey *key)
{
	Oid schema = get_namespace_oid("schemasync", true);
	Oid relid = OidIsValid(schema) ? get_relname_relid("capture_key", schema) : InvalidOid;

	if (!OidIsValid(relid) || !ConditionalLockRelationOid(relid, AccessShareLock))
		return false;
	bool found = pg::read_marker_key(key);
	UnlockRelationOid(relid, AccessShareLock);
	return found;
}

/*
 * Finds the text of the statement that the client asked for: of several in one string only the one that runs,
 * so that a marker shows no other's secrets; inside a function or DO block that of the outermost statement.
 */
const char *
find_statement(int *length)
{
	const char *text = debug_query_string == nullptr ? "" : debug_query_string;

	if (ActivePortal != nullptr && ActivePortal->sourceText != nullptr)
		text = ActivePortal->sourceText;
	Size rest = strlen(text);
	if (ActivePortal != nullptr && text == ActivePortal->sourceText &&
	    list_length(ActivePortal->stmts) == 1) {
		auto *statement = linitial_node(PlannedStmt, ActivePortal->stmts);
		/* -1: not known; a length of 0: the rest of the text */
		if (statement->stmt_location >= 0 && static_cast<Size>(statement->stmt_location) <= rest) {
			text += statement->stmt_location;
			rest -= static_cast<Size>(statement->stmt_location);
			if (statement->stmt_len > 0)
				rest = std::min<Size>(rest, static_cast<Size>(statement->stmt_len));
		}
	}
	while (rest > 0 && scanner_isspace(*text)) {
		text++;
		rest--;
	}
	*length = static_cast<int>(std::min<Size>(rest, max_statement_bytes));
	return text;
}

void
append_statement(StringInfo json, const char *tag)
{
	int length;

	if (is_secret(tag)) {
		append_text_field(json, "statement", tag);
		return;
	}
	const char *statement = find_statement(&length);

	if (length == max_statement_bytes)
		length = pg_mbcliplen(statement, length, max_statement_bytes);
	append_text_field(json, "statement", pnstrdup(statement, static_cast<Size>(length)));
}

void
append_settings(StringInfo json)
{
	appendStringInfoString(json, "\"settings\":{");
	const char *separator = "";
	for (const char *name : settings) {
		const char *value = GetConfigOption(name, true, false);
		if (value == nullptr)
			continue;
		appendStringInfoString(json, separator);
		append_text_field(json, name, value);
		separator = ",";
	}
	appendStringInfoChar(json, '}');
}

/* elements: each followed by a comma */
void
append_array(StringInfo json, const char *name, const StringInfoData *elements)
{
	appendStringInfo(json, ",\"%s\":[", name);
	if (elements->len > 0)
		appendBinaryStringInfo(json, elements->data, elements->len - 1);
	appendStringInfoChar(json, ']');
}

} // namespace

void
append_content(StringInfo content, const char *tag, const Collected *collected, const Command *command)
{
	appendStringInfo(content, "{\"v\":1,\"xid\":%u,\"subxid\":%u,", GetTopTransactionId(),
	                 GetCurrentTransactionId());
	append_text_field(content, "tag", tag);
	appendStringInfoChar(content, ',');
	append_statement(content, tag);
	appendStringInfoChar(content, ',');
	append_text_field(content, "user", GetUserNameFromId(GetUserId(), true));
	appendStringInfoChar(content, ',');
	append_settings(content);
	append_array(content, "subcommands", &collected->subcommands);
	append_array(content, "objects", &collected->objects);
	append_array(content, "dropped", &command->dropped);
	append_array(content, "using", &collected->using_hints);
	append_array(content, "rewrites", &command->rewrites);
	append_array(content, "defaults", &collected->defaults);
	append_array(content, "definitions", &collected->definitions);
	appendStringInfoChar(content, '}');
}

void
write_marker(const char *tag, const Collected *collected, const Command *command)
{
	pg::MarkerKey key;
	Size length = static_cast<Size>(collected->objects.len) + collected->subcommands.len +
	              collected->using_hints.len + collected->defaults.len + collected->definitions.len + command->dropped.len + command->rewrites.len;

	if (length > max_content_bytes) {
		ereport(LOG, (errmsg("a DDL command touches too many objects for a marker of schemasync")));
		return;
	}
	if (!try_read_key(&key))
		return;

	StringInfoData content, sealed;
	initStringInfo(&content);
	append_content(&content, tag, collected, command);
	initStringInfo(&sealed);
	pg::seal_marker(&key, content.data, static_cast<Size>(content.len), &sealed);
	pg::compat::log_logical_message(pg::marker_prefix, sealed.data, static_cast<Size>(sealed.len), true,
	                                false);
}

} // namespace schemasync::capture
