/*
 * One operation of the merge: executed, accepted, ignored or refused, each with its row of history.
 */
#include "apply_ext/apply/schema_work.hpp"

#include "core/reason.hpp"

#include <charconv>
#include <string>

#include "apply_ext/apply/ddl_execute.hpp"
#include "apply_ext/apply/index_queue.hpp"
#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/catalog/history.hpp"
#include "apply_ext/catalog/relation.hpp"
#include "apply_ext/worker/beside.hpp"
#include "apply_ext/worker/index_builds.hpp"

#include "pg/compat.hpp"
#include "pg/guard.hpp"

extern "C" {
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
}

namespace schemasync::apply {

namespace {

const char *
or_null(const std::string &text)
{
	return text.empty() ? nullptr : text.c_str();
}

std::string
or_empty(const char *text)
{
	return text == nullptr ? std::string() : std::string(text);
}

/* What the server's error says of the change. */
Reason
classify(const ErrorData *error)
{
	switch (error->sqlerrcode) {
	case ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST:
		return Reason::LocalDependents;
	case ERRCODE_FEATURE_NOT_SUPPORTED:
		/* "cannot alter type of a column used by a view or rule" names what depends in its detail */
		return error->detail != nullptr && strstr(error->detail, " depends on ") != nullptr
		           ? Reason::LocalDependents
		           : Reason::ApplyFailed;
	case ERRCODE_DUPLICATE_TABLE:
	case ERRCODE_DUPLICATE_OBJECT:
	case ERRCODE_DUPLICATE_COLUMN:
	case ERRCODE_DUPLICATE_SCHEMA:
	case ERRCODE_DUPLICATE_FUNCTION:
		return Reason::LocalNameTaken;
	case ERRCODE_UNDEFINED_OBJECT:
	case ERRCODE_UNDEFINED_TABLE:
	case ERRCODE_UNDEFINED_FUNCTION:
	case ERRCODE_UNDEFINED_COLUMN:
	case ERRCODE_INVALID_SCHEMA_NAME:
	case ERRCODE_UNDEFINED_FILE: /* the library of a function in C */
		return Reason::MissingObject;
	case ERRCODE_SYNTAX_ERROR: /* the publisher took it */
		return Reason::UnsupportedObject;
	default:
		return Reason::ApplyFailed;
	}
}

/* The condition that the rows which violate a constraint fulfil; empty when the error is no such violation.
 */
std::string
violation_of(const ErrorData *error, const Place &place)
{
	if (error->sqlerrcode == ERRCODE_NOT_NULL_VIOLATION && error->column_name != nullptr)
		return quote_name(error->column_name) + " IS NULL";
	if (error->sqlerrcode != ERRCODE_CHECK_VIOLATION || error->constraint_name == nullptr ||
	    place.theirs == nullptr)
		return {};
	for (const state::Constraint &constraint : place.theirs->constraints)
		if (constraint.name == error->constraint_name && constraint.expr)
			return "NOT (" + constraint.expr->sql + ")";
	return {};
}

void
add_sentence(std::string &text, const std::string &sentence)
{
	if (sentence.empty())
		return;
	if (!text.empty())
		text += "; ";
	text += sentence;
}

/* What a newer server wrote and this one cannot read. */
void
explain_syntax(merge::Operation &operation, const std::string &message)
{
	operation.verdict = Verdict::Refuse;
	operation.reason = Reason::UnsupportedObject;
	operation.detail = "PostgreSQL " PG_MAJORVERSION " of the subscriber cannot read it: " + message;
	operation.suggested_sql.clear();
	operation.sql.clear();
	operation.sql_after.clear();
	operation.hint = "Make the change on the subscriber in the words of its version, as far as it has it, and accept that: "
	                 "SELECT schemasync_resolve(refusal_id, 'skip') FROM schemasync_refusals WHERE subscription = "
	                 "'{subscription}' AND status = 'open';\n"
	                 "Or, when it can be as on the publisher: SELECT schemasync_resume('{subscription}');";
}

/* Whether a statement of the operation has a piece in it that this server cannot read; then it is refused. */
bool
has_unknown_syntax(const SchemaWork &work, merge::Operation &operation)
{
	for (const std::vector<std::string> *statements : {&operation.sql, &operation.sql_after})
		for (const std::string &sql : *statements)
			if (const UnknownText *unknown = find_unknown(work.unknown_syntax, sql)) {
				explain_syntax(operation, unknown->message);
				return true;
			}
	return false;
}

/* A change runs as the owner of the object, whom the subscription's owner must be able to become, as for
 * rows. */
void
forbid(const SchemaWork &work, merge::Operation &operation, const Place &place)
{
	const char *owner = pg::call([&] { return GetUserNameFromId(place.run_as, true); });
	const char *self = pg::call([&] { return GetUserNameFromId(work.subscription.owner, true); });

	operation.verdict = Verdict::Refuse;
	operation.reason = Reason::ApplyFailed;
	operation.detail = "it would run as role \"" + or_empty(owner) +
	                   "\", which the owner of the subscription, \"" + or_empty(self) + "\", may not become";
	operation.hint = "GRANT " + quote_name(or_empty(owner)) + " TO " + quote_name(or_empty(self)) +
	                 ";\nSELECT schemasync_resume('{subscription}');";
}

/* The settings that an operation must run under, as the plain array that the executor takes. */
std::vector<Setting>
settings_of(const merge::Operation &operation)
{
	std::vector<Setting> settings;

	for (const auto &[name, value] : operation.settings)
		settings.push_back({name.c_str(), value.c_str()});
	return settings;
}

/* Runs what a person decided at this boundary. Failure refuses again with what the server said. */
void
run_decision(SchemaWork &work, merge::Operation &operation, const Place &place)
{
	const catalog::Decision &decision = *work.decision;
	bool suggested = strcmp(decision.resolution, "apply") == 0;
	const char *sql = suggested ? decision.suggested_sql : decision.resolution_sql;

	if (sql == nullptr) {
		operation.detail +=
		    suggested ? "; there is no suggested SQL to apply" : "; there is no SQL to execute";
		refuse(work, operation, place);
	}
	const catalog::Options &options = work.subscription.options;
	/* What schemasync wrote runs as the table's owner, what a person wrote as the subscription's. */
	bool as_owner = suggested && OidIsValid(place.run_as);
	const Execution execution{.sql = sql,
	                          .run_as = as_owner ? place.run_as : work.subscription.owner,
	                          .checked = false,
	                          .restricted = suggested,
	                          .search_path = suggested ? "" : "\"$user\", public",
	                          .waits_for = place.relid,
	                          .settings = nullptr,
	                          .nsettings = 0,
	                          .lock_timeout = options.ddl_lock_timeout,
	                          .lock_retries = options.ddl_lock_retries};
	TimestampTz start = GetCurrentTimestamp();
	Executed executed = pg::call([&] {
		if (OidIsValid(place.relid))
			worker::hold_index_build(place.relid);
		return execute_ddl(execution);
	});
	if (executed.outcome != Outcome::Done) {
		operation.reason =
		    executed.outcome == Outcome::LockTimeout ? Reason::LockTimeout : Reason::ApplyFailed;
		operation.detail = "the SQL of the resolution failed: " + or_empty(executed.error->message);
		refuse(work, operation, place);
	}
	work.decided = true;
	work.changed = true;
	merge::Operation resolved = operation;
	resolved.verdict = Verdict::Forward;
	resolved.reason = Reason::None;
	resolved.detail = std::string("resolution: ") + decision.resolution;
	resolved.operation = "resolve";
	record_history(work, resolved, sql, GetCurrentTimestamp() - start);
}

/* Rows that follow carry all published columns: each must have a place, or skipping would lose them. */
void
check_skip(const SchemaWork &work, merge::Operation &operation, const Place &place)
{
	if (place.theirs == nullptr)
		return;
	if (place.ours == nullptr) {
		operation.detail += "; it cannot be skipped: the rows that follow have no table to go to";
		refuse(work, operation, place);
	}
	std::string missing;
	for (const state::Column &column : place.theirs->columns) {
		bool found = column.generated != 0;
		if (place.columns != nullptr)
			for (const auto &[publisher, local] : place.columns->pairs)
				found = found || publisher == column.attnum;
		for (const state::Column &own : place.ours->columns)
			found = found || own.name == column.name;
		if (!found)
			missing += (missing.empty() ? "" : ", ") + column.name;
	}
	if (!missing.empty()) {
		operation.detail +=
		    "; it cannot be skipped: the rows that follow have values for columns that are not here: " +
		    missing;
		refuse(work, operation, place);
	}
}

/* What is missing may be a table that is just being copied, or its rows: the worker then tries again after that. */
void
wait_for_copy(const SchemaWork &work, const merge::Operation &operation)
{
	if (work.boundary.pass != Pass::Stream ||
	    !pg::call([&] { return catalog::is_any_copying(work.subscription.subid); }))
		return;
	pg::call([&] {
		keep_waiting_tables(work.subscription.subid);
		ereport(ERROR, (errcode(worker::waits_for_copy),
		                errmsg("a schema change waits for the copy of a table: %s", operation.change.c_str()),
		                errdetail("%s", operation.detail.c_str())));
	});
}

/* A default that this server cannot have: no row gets it here, and a person who resumed has set what can be. Whether it
 * is one. */
bool
leave_default(SchemaWork &work, merge::Operation &operation)
{
	if (operation.op != merge::Op::SetDefault || !work.resumed() ||
	    (operation.reason != Reason::UnsupportedObject && operation.reason != Reason::MissingObject))
		return false;
	operation.verdict = Verdict::Ignore;
	operation.reason = Reason::None;
	record_history(work, operation, "", 0);
	return true;
}

/* An operation that cannot be done: as a person decided, later, or not at all. */
Progress
settle(SchemaWork &work, merge::Operation &operation, const Place &place)
{
	if (work.may_defer &&
	    (operation.reason == Reason::LocalDependents || operation.reason == Reason::MissingObject))
		return Progress::Later;
	const char *resolution = work.decision != nullptr && !work.decided ? work.decision->resolution : nullptr;
	if (resolution == nullptr && (operation.reason == Reason::MissingObject || operation.reason == Reason::ApplyFailed))
		wait_for_copy(work, operation);
	if (resolution == nullptr || strcmp(resolution, "resumed") == 0 || strcmp(resolution, "satisfied") == 0)
		refuse(work, operation, place);
	if (strcmp(resolution, "skip") == 0) {
		check_skip(work, operation, place);
		operation.verdict = Verdict::Ignore;
		operation.detail = "resolution: skip";
		record_history(work, operation, "", 0);
		return Progress::Skip;
	}
	run_decision(work, operation, place);
	return Progress::Again;
}

} // namespace

bool
SchemaWork::resumed() const
{
	return decided || (decision != nullptr && decision->resolution != nullptr &&
	                   strcmp(decision->resolution, "resumed") == 0);
}

std::vector<const state::Relation *>
SchemaWork::descendants_of(const state::Relation *relation) const
{
	std::vector<const state::Relation *> below;
	std::set<Oid> oids;

	if (relation == nullptr || relations == nullptr)
		return below;
	oids.insert(relation->name.oid);
	for (const state::Document<state::Relation> &other : *relations)
		for (const state::Name &parent : other.value.parents)
			if (oids.count(parent.oid) > 0 && oids.insert(other.value.name.oid).second)
				below.push_back(&other.value);
	return below;
}

static bool
is_own(std::string_view state)
{
	return state.rfind("\"own\":true") != std::string_view::npos;
}

bool
is_older(std::string_view theirs, std::string_view base)
{
	auto position_of = [](std::string_view text) {
		constexpr std::string_view key = "\"as_of\":";
		std::size_t at = text.rfind(key);
		std::uint64_t position = 0;

		if (at != std::string_view::npos)
			std::from_chars(text.data() + at + key.size(), text.data() + text.size(), position);
		return position;
	};
	std::uint64_t position = position_of(theirs);

	return position != 0 && position < position_of(base) && !is_own(theirs);
}

std::string
base_of(const SchemaWork &work, const std::string &theirs)
{
	if (XLogRecPtrIsInvalid(work.boundary.commit_lsn) || !is_own(theirs))
		return theirs;
	return pg::call([&] { return state_as_of(theirs.c_str(), work.boundary.commit_lsn + 1); });
}

bool
has_fingerprint(std::string_view base, const std::string &fingerprint)
{
	for (const std::string before : {"\"fingerprint\":\"", "\"fingerprint\": \""})
		if (base.find(before + fingerprint + '"') != std::string_view::npos)
			return true;
	return false;
}

std::int64_t
record_history(SchemaWork &work, const merge::Operation &operation, const std::string &applied_sql,
               std::int64_t duration)
{
	if (!work.recorded
	         .insert(operation.operation + '\n' + operation.object_identity + '\n' + operation.change)
	         .second)
		return 0;
	const std::string_view verdict = name(operation.verdict);
	const char *reason = operation.reason == Reason::None ? nullptr : info(operation.reason).name.data();
	const catalog::HistoryRow row{.publisher_lsn = work.boundary.commit_lsn,
	                              .commit_time = work.boundary.commit_time,
	                              .ordinal = work.boundary.ordinal,
	                              .operation = operation.operation.c_str(),
	                              .object_type = or_null(operation.object_type),
	                              .object_identity = or_null(operation.object_identity),
	                              .verdict = verdict.data(),
	                              .reason = reason,
	                              .applied_sql = or_null(applied_sql),
	                              .statement = or_null(work.command.statement),
	                              .publisher_user = or_null(work.command.user),
	                              .detail = or_null(operation.detail),
	                              .duration = duration};

	return pg::call([&] { return catalog::add_history(work.subscription.subid, work.subscription.name, &row); });
}

void
note_changes(SchemaWork &work, const merge::Result &result)
{
	for (const merge::Operation &operation : result.operations) {
		if (operation.change.empty() || operation.verdict == Verdict::Satisfied)
			continue;
		bool known = false;
		for (const std::string &line : work.changes)
			known = known || line == operation.change;
		if (!known)
			work.changes.push_back(operation.change);
	}
}

void
explain_failure(merge::Operation &operation, const Executed &executed, const Place &place)
{
	const ErrorData *error = executed.error;
	std::string statements;

	for (const std::string &sql : operation.sql)
		statements += sql + ";\n";
	operation.verdict = Verdict::Refuse;
	operation.suggested_sql = statements;
	operation.detail = or_empty(error->message);
	add_sentence(operation.detail, or_empty(error->detail));
	if (executed.outcome == Outcome::LockTimeout) {
		operation.reason = Reason::LockTimeout;
		operation.hint = "End what holds the lock";
		if (executed.blockers[0] != '\0')
			operation.hint += ":\n" + std::string(executed.blockers);
		operation.hint += "\nThen go on: SELECT schemasync_resume('{subscription}');";
		return;
	}
	operation.reason = classify(error);
	if (operation.reason == Reason::UnsupportedObject)
		return explain_syntax(operation, or_empty(error->message));
	/* "extension ... is not available" */
	if (operation.object_type == "extension" && error->sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED)
		operation.reason = Reason::MissingObject;
	add_sentence(operation.detail, or_empty(error->hint));
	if (operation.reason == Reason::MissingObject)
		operation.hint = "Create what is missing, then: SELECT schemasync_resume('{subscription}');";
	std::string violation = OidIsValid(place.relid) ? violation_of(error, place) : std::string();
	if (!violation.empty()) {
		std::int64_t count = count_rows_where(place.relid, violation);
		if (count >= 0)
			add_sentence(operation.detail,
			             std::to_string(count) + (count == 1 ? " row violates it" : " rows violate it"));
		operation.hint = "Repair the subscriber's rows where " + violation +
		                 ", then: SELECT schemasync_resume('{subscription}');";
	}
}

Executed
execute_statement(const SchemaWork &work, const merge::Operation &operation, const std::string &sql,
                  const Place &place)
{
	const std::vector<Setting> settings = settings_of(operation);
	const catalog::Options &options = work.subscription.options;
	const Execution execution{.sql = sql.c_str(),
	                          .run_as = place.run_as,
	                          .checked = true,
	                          .restricted = place.restricted && operation.restricted,
	                          .search_path = "",
	                          .waits_for = place.relid,
	                          .settings = settings.data(),
	                          .nsettings = static_cast<int>(settings.size()),
	                          .lock_timeout = options.ddl_lock_timeout,
	                          .lock_retries = options.ddl_lock_retries};

	return pg::call([&] {
		if (OidIsValid(place.relid))
			worker::hold_index_build(place.relid);
		return execute_ddl(execution);
	});
}

Progress
do_operation(SchemaWork &work, merge::Operation &operation, const Place &place)
{
	if (operation.verdict == Verdict::Refuse)
		return settle(work, operation, place);
	if (operation.verdict == Verdict::Satisfied || operation.verdict == Verdict::Ignore ||
	    (operation.sql.empty() && operation.sql_after.empty())) {
		record_history(work, operation, "", 0);
		return Progress::Done;
	}
	if (has_unknown_syntax(work, operation))
		return leave_default(work, operation) ? Progress::Done : settle(work, operation, place);
	if (!may_become(work, place.run_as)) {
		forbid(work, operation, place);
		return settle(work, operation, place);
	}
	if (operation.background) {
		queue_build(work, operation, place);
		return Progress::Done;
	}
	TimestampTz start = GetCurrentTimestamp();
	std::string applied;
	for (const std::string &sql : operation.sql) {
		Executed executed = execute_statement(work, operation, sql, place);
		if (executed.outcome != Outcome::Done) {
			explain_failure(operation, executed, place);
			return leave_default(work, operation) ? Progress::Done : settle(work, operation, place);
		}
		work.changed = true;
		if (operation.op == merge::Op::AddEnumValue)
			pg::call([&] { note_label(sql.c_str(), place.run_as); });
		applied += (applied.empty() ? "" : ";\n") + sql;
	}
	if (!operation.sql_after.empty()) {
		AfterRows after{operation, place.publisher_oid};
		after.operation.sql = std::move(after.operation.sql_after);
		after.operation.sql_after.clear();
		work.after_rows.push_back(std::move(after));
	}
	for (const std::string &sql : operation.sql_after)
		applied += (applied.empty() ? "" : ";\n") + sql;
	record_history(work, operation, applied, GetCurrentTimestamp() - start);
	return Progress::Done;
}

Progress
do_operations(SchemaWork &work, merge::Result &result, const Place &place)
{
	for (merge::Operation &operation : result.operations) {
		Progress progress = do_operation(work, operation, place);
		if (progress != Progress::Done)
			return progress;
	}
	return Progress::Done;
}

bool
may_become(const SchemaWork &work, Oid role)
{
	return pg::call([&] { return pg::compat::member_can_set_role(work.subscription.owner, role); });
}

Oid
creation_role(const SchemaWork &work, const std::string &publisher_owner)
{
	if (!work.subscription.options.policy.owners_same)
		return work.subscription.owner;
	Oid role = find_role(publisher_owner);
	return OidIsValid(role) && may_become(work, role) ? role : work.subscription.owner;
}

} // namespace schemasync::apply
