/*
 * schemasync_check: runs a command in a subtransaction, looks at what it does to the states, and rolls it
 * back.
 *
 * Zone: server code.
 */
#include "core/marker_json.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "apply_ext/capture/class_names.hpp"
#include "apply_ext/capture/classify.hpp"
#include "apply_ext/capture/observe.hpp"
#include "apply_ext/capture/shapes.hpp"
#include "pg/compat.hpp"
#include "pg/guard.hpp"
#include "pg/postgres.hpp"

extern "C" {
#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/cmdtag.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(schemasync_check);
}

namespace schemasync::capture {

namespace {

/* What one call works on; all of it lives in the context of the call. */
struct Check {
	const char *ddl;
	Node *statement;
	Touched named; /* before the command: what it names; at last all that it touches */
	Observation observation;
	const Shapes *before, *after;
	Policies policies;
	MemoryContext context;
	ResourceOwner owner;
};

// ---- leaves: may ereport; plain data only ----

[[noreturn]] void
refuse_concurrent(const char *command)
{
	ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
	                errmsg("schemasync_check cannot run %s, which cannot be rolled back", command),
	                errhint("Leave out CONCURRENTLY: what the command means for subscribers is the same.")));
	pg_unreachable();
}

/* Commands that commit, or that a subtransaction cannot undo. */
void
check_statement(Node *statement)
{
	::CommandTag tag = CreateCommandTag(statement);

	if (!command_tag_event_trigger_ok(tag))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("schemasync_check does not take %s", GetCommandTagName(tag)),
		                errdetail("It takes one DDL command on an object of this database.")));
	if (IsA(statement, IndexStmt) && castNode(IndexStmt, statement)->concurrent)
		refuse_concurrent("CREATE INDEX CONCURRENTLY");
	if (IsA(statement, DropStmt) && castNode(DropStmt, statement)->concurrent)
		refuse_concurrent("DROP INDEX CONCURRENTLY");
	if (IsA(statement, ReindexStmt))
		ereport(ERROR,
		        (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("schemasync_check does not take REINDEX"),
		         errdetail("It changes nothing that a subscriber follows.")));
	if (IsA(statement, AlterTableStmt)) {
		ListCell *cell;
		foreach (cell, castNode(AlterTableStmt, statement)->cmds) {
			auto *command = castNode(AlterTableCmd, lfirst(cell));
			if (command->subtype == AT_DetachPartition && castNode(PartitionCmd, command->def)->concurrent)
				refuse_concurrent("ALTER TABLE ... DETACH CONCURRENTLY");
		}
	}
	if (IsA(statement, CreateSubscriptionStmt) || IsA(statement, AlterSubscriptionStmt) ||
	    IsA(statement, DropSubscriptionStmt))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("schemasync_check does not take %s", GetCommandTagName(tag)),
		                errdetail("It would reach another server.")));
}

void
prepare(FunctionCallInfo fcinfo, Check *check)
{
	if (observation != nullptr)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
		                errmsg("schemasync_check cannot be called by the command that it checks")));
	check->ddl = text_to_cstring(PG_GETARG_TEXT_PP(0));
	read_policies(DatumGetCString(DirectFunctionCall1(jsonb_out, PG_GETARG_DATUM(1))), true, &check->policies);

	List *statements = pg_parse_query(check->ddl);
	if (list_length(statements) != 1)
		ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR),
		                errmsg("schemasync_check takes one command, not %d", list_length(statements))));
	check->statement = linitial_node(RawStmt, statements)->stmt;
	check_statement(check->statement);
	note_named(&check->named, check->statement);
	note_descendants(&check->named);
	check->observation.context = CurrentMemoryContext;
	InitMaterializedSRF(fcinfo, 0);
}

bool
add_all(List **to, const List *from)
{
	int before = list_length(*to);

	*to = list_concat_unique_oid(*to, from);
	return list_length(*to) > before;
}

bool
add_touched(Touched *to, const Touched *from)
{
	bool grown = add_all(&to->relations, from->relations);

	grown |= add_all(&to->types, from->types);
	grown |= add_all(&to->schemas, from->schemas);
	return grown;
}

void
begin_subtransaction(Check *check)
{
	check->context = CurrentMemoryContext;
	check->owner = CurrentResourceOwner;
	BeginInternalSubTransaction(nullptr);
	MemoryContextSwitchTo(check->context);
}

void
roll_back(Check *check)
{
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(check->context);
	CurrentResourceOwner = check->owner;
}

/* Runs the command and reads the states that it leaves. */
void
execute(Check *check)
{
	SPI_connect();
	int result = SPI_execute(check->ddl, false, 0);
	SPI_finish();
	if (result < 0)
		elog(ERROR, "the command could not be run: %s", SPI_result_code_string(result));
	MemoryContextSwitchTo(check->context);

	add_touched(&check->named, &check->observation.touched);
	note_descendants(&check->named);
	check->after = read_shapes(&check->named, check->context);
}

/* What the dropped objects belonged to, now that they are there again. Returns whether that is news. */
bool
add_cascaded(Check *check)
{
	Touched cascaded;
	ListCell *cell;

	if (check->observation.contents == NIL)
		ereport(
		    ERROR,
		    (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		     errmsg("the event triggers of schemasync did not see the command"),
		     errhint(
		         "They are created with the extension; ALTER EVENT TRIGGER ... DISABLE keeps them from running.")));
	foreach (cell, check->observation.dropped)
		note_address(&cascaded, static_cast<ObjectAddress *>(lfirst(cell)));
	note_descendants(&cascaded);
	return add_touched(&check->named, &cascaded);
}

void
read_before(Check *check)
{
	ListCell *cell;

	check->before = read_shapes(&check->named, CurrentMemoryContext);
	foreach (cell, check->observation.contents) {
		auto *content = static_cast<char *>(lfirst(cell));
		lfirst(cell) = pg_server_to_any(content, static_cast<int>(strlen(content)), PG_UTF8);
	}
}

constexpr int column_count = 14;
constexpr int rewrite_column = 6;

/* One row; nullptr is null, an empty text is null too. */
void
put_row(FunctionCallInfo fcinfo, const char *const *texts, bool rewrite)
{
	auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	Datum values[column_count];
	bool nulls[column_count];

	for (int i = 0; i < column_count; i++) {
		const char *text = texts[i];
		nulls[i] = i != rewrite_column && (text == nullptr || *text == '\0');
		values[i] = Datum{0};
		if (i == rewrite_column)
			values[i] = BoolGetDatum(rewrite);
		else if (!nulls[i])
			values[i] = CStringGetTextDatum(pg_any_to_server(text, static_cast<int>(strlen(text)), PG_UTF8));
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

// ---- C++ ----

/* The command's own error is the answer, but the subtransaction must not outlive it: the server would take it
 * for a savepoint of the session's. */
void
run_once(Check &check)
{
	check.observation.contents = NIL;
	pg::call([&] { begin_subtransaction(&check); });
	try {
		ObservationScope scope(&check.observation);
		pg::call([&] { execute(&check); });
	} catch (...) {
		pg::call([&] { roll_back(&check); });
		throw;
	}
	pg::call([&] { roll_back(&check); });
}

/*
 * The states before and after. What the command reached by a cascade is only known afterwards, by the
 * addresses of what was dropped, and what that belonged to only once it is there again: then the command is
 * run a second time.
 */
void
run(Check &check)
{
	run_once(check);
	if (pg::call([&] { return add_cascaded(&check); }))
		run_once(check);
	pg::call([&] { read_before(&check); });
}

std::string
join(const std::vector<std::string> &statements)
{
	std::string result;
	for (const std::string &statement : statements)
		result += (result.empty() ? "" : ";\n") + statement;
	return result;
}

/* There is no subscription here to name. */
std::string
with_placeholder(std::string text)
{
	constexpr std::string_view mark = "{subscription}";
	for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;)
		text.replace(at, mark.size(), "SUBSCRIPTION");
	return text;
}

void
put_finding(FunctionCallInfo fcinfo, const Finding &finding)
{
	const merge::Operation &operation = finding.operation;
	std::string verdict(name(operation.verdict));
	std::string reason(operation.reason == Reason::None ? std::string_view() : info(operation.reason).name);
	std::vector<std::string> statements = operation.sql;
	statements.insert(statements.end(), operation.sql_after.begin(), operation.sql_after.end());
	std::string sql = join(statements);
	std::string suggested = with_placeholder(operation.suggested_sql),
	            hint = with_placeholder(operation.hint);
	const char *texts[column_count] = {operation.operation.c_str(),
	                                   operation.object_type.c_str(),
	                                   operation.object_identity.c_str(),
	                                   verdict.c_str(),
	                                   reason.c_str(),
	                                   finding.lock.c_str(),
	                                   nullptr,
	                                   finding.cost.c_str(),
	                                   finding.severity.c_str(),
	                                   operation.change.c_str(),
	                                   operation.detail.c_str(),
	                                   sql.c_str(),
	                                   suggested.c_str(),
	                                   hint.c_str()};
	pg::call([&] { put_row(fcinfo, texts, finding.rewrite); });
}

merge::Command
read_command(const Check &check)
{
	merge::Command command;
	for (int i = 0; i < list_length(check.observation.contents); i++)
		add_marker(command, static_cast<char *>(list_nth(check.observation.contents, i)), class_name);
	estimate_rows(command, check.before);
	for (merge::RewriteHint &hint : command.rewrites)
		hint.carried = options_of(check.policies, check.before, check.after, hint.relation).policy.rewrites == Choice::Carry;
	return command;
}

void
check_command(FunctionCallInfo fcinfo)
{
	Check check{};
	pg::call([&] { prepare(fcinfo, &check); });
	run(check);
	for (const Finding &finding : classify(check.before, check.after, read_command(check), check.policies))
		put_finding(fcinfo, finding);
}

} // namespace

} // namespace schemasync::capture

/* Any role may call it; the command runs as the caller, and fails as it would if the caller ran it. */
SCHEMASYNC_EXPORT Datum
schemasync_check(PG_FUNCTION_ARGS)
{
	return schemasync::pg::entry([&]() -> Datum {
		schemasync::capture::check_command(fcinfo);
		return Datum{0};
	});
}
