/*
 * Refusals: making one from an operation, and recording it.
 */
#include "apply_ext/apply/schema_work.hpp"

#include "core/reason.hpp"
#include "core/sql.hpp"

#include <string>

#include "apply_ext/catalog/notify.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
}

namespace schemasync::apply {

namespace {

/* Holds the text of the last refusal, which outlives the transaction that was refused. */
MemoryContext refusal_context = nullptr;

const char *
keep(const std::string &text)
{
	if (text.empty())
		return nullptr;
	return pg::call([&] { return MemoryContextStrdup(refusal_context, text.c_str()); });
}

std::string
join(const std::vector<std::string> &lines)
{
	std::string text;
	for (const std::string &line : lines) {
		if (!text.empty())
			text += '\n';
		text += line;
	}
	return text;
}

/* The lines of change, with the reason behind the one that was refused. */
std::string
explain_changes(const SchemaWork &work, const merge::Operation &operation)
{
	std::vector<std::string> lines;
	bool marked = false;

	for (const std::string &line : work.changes) {
		bool this_one = !marked && line == operation.change;
		marked = marked || this_one;
		lines.push_back(this_one && !operation.detail.empty() ? line + " -- refused: " + operation.detail
		                                                      : line);
	}
	if (!marked)
		lines.push_back((operation.change.empty() ? operation.operation : operation.change) +
		                " -- refused: " + operation.detail);
	return join(lines);
}

/* The hint's steps with the subscription's name in them, and always the one that goes on. */
std::string
explain_way_out(const SchemaWork &work, const merge::Operation &operation)
{
	constexpr std::string_view placeholder = "{subscription}";
	const std::string name = sql::literal(work.subscription.name);
	std::string text = operation.hint;

	for (std::size_t at; (at = text.find(placeholder)) != std::string::npos;) {
		bool quoted = at > 0 && text[at - 1] == '\'' && at + placeholder.size() < text.size() &&
		              text[at + placeholder.size()] == '\'';
		if (quoted)
			text.replace(at - 1, placeholder.size() + 2, name);
		else
			text.replace(at, placeholder.size(), work.subscription.name);
	}
	if (text.find("schemasync_resume") == std::string::npos) {
		if (!text.empty())
			text += '\n';
		text += "When the subscriber's object is as the publisher's: SELECT schemasync_resume(" + name + ");";
	}
	return text;
}

} // namespace

void
refuse(const SchemaWork &work, const merge::Operation &operation, const Place &place)
{
	pg::call([] {
		if (refusal_context == nullptr)
			refusal_context =
			    AllocSetContextCreate(TopMemoryContext, "schemasync refusal", ALLOCSET_SMALL_SIZES);
		MemoryContextReset(refusal_context);
	});
	std::string drift;
	if (place.theirs != nullptr && place.ours != nullptr)
		drift = merge::describe_drift(*place.theirs, *place.ours,
		                              place.columns != nullptr
		                                  ? *place.columns
		                                  : merge::map_columns_by_name(*place.theirs, *place.ours));
	else if (place.theirs != nullptr)
		drift = "the subscriber has no such relation";

	Refused refused{};
	refused.reason = info(operation.reason).name.data();
	refused.object_type = keep(operation.object_type);
	refused.object_identity = keep(operation.object_identity);
	refused.statement = keep(work.command.statement);
	refused.changes = keep(explain_changes(work, operation));
	refused.drift = keep(drift);
	refused.suggested_sql = keep(operation.suggested_sql);
	refused.hint = keep(explain_way_out(work, operation));
	refused.theirs = keep(std::string(work.content));
	refused.publisher_oid = place.publisher_oid;
	refused.boundary = work.boundary;
	throw refused;
}

// ---- leaves: may ereport; plain data only ----

static int
sqlstate_of(const char *reason)
{
	for (const ReasonInfo &row : reasons)
		if (row.name == reason)
			return MAKE_SQLSTATE(row.sqlstate[0], row.sqlstate[1], row.sqlstate[2], row.sqlstate[3],
			                     row.sqlstate[4]);
	return ERRCODE_INTERNAL_ERROR;
}

static const char *
summary_of(const char *reason)
{
	for (const ReasonInfo &row : reasons)
		if (row.name == reason)
			return row.summary.data();
	return "";
}

static void
log_refusal(const catalog::Subscription &subscription, const Refused &refused)
{
	const char *reason = refused.reason;
	XLogRecPtr lsn = refused.boundary.commit_lsn;

	ereport(LOG, (errcode(sqlstate_of(reason)),
	              errmsg("subscription \"%s\" refused a schema change of %s: %s (%s)", subscription.name,
	                     refused.object_identity != nullptr ? refused.object_identity : "the publisher",
	                     reason, summary_of(reason)),
	              errdetail("%s", refused.changes != nullptr ? refused.changes : ""),
	              errhint("%s", refused.hint != nullptr ? refused.hint : ""),
	              errcontext("transaction %u of the publisher, committed at %X/%X%s%s", refused.boundary.xid,
	                         static_cast<uint32>(lsn >> 32), static_cast<uint32>(lsn),
	                         refused.statement != nullptr ? ", statement: " : "",
	                         refused.statement != nullptr ? refused.statement : "")));
}

void
record_refusal(const catalog::Subscription &subscription, const Refused &refused)
{
	const catalog::RefusalRow row{refused.boundary.commit_lsn,
	                              refused.boundary.commit_time,
	                              refused.boundary.xid,
	                              refused.boundary.ordinal,
	                              refused.publisher_oid,
	                              refused.reason,
	                              refused.object_type,
	                              refused.object_identity,
	                              refused.statement,
	                              refused.changes,
	                              refused.drift,
	                              refused.suggested_sql,
	                              refused.hint,
	                              refused.theirs};
	bool news = catalog::save_refusal(subscription.subid, subscription.name, &row);

	catalog::save_state(subscription.subid, "refused",
	                    psprintf("%s: %s", refused.reason,
	                             refused.object_identity != nullptr ? refused.object_identity : ""));
	if (news) {
		catalog::notify("refused", subscription.name, {{"reason", refused.reason}, {"object", refused.object_identity}, {"hint", refused.hint}});
		log_refusal(subscription, refused);
	}
}

} // namespace schemasync::apply
