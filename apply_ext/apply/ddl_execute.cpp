#include "apply_ext/apply/ddl_execute.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/results.hpp"
#include "apply_ext/worker/index_builds.hpp"
#include "apply_ext/worker/meeting.hpp"
#include "apply_ext/worker/shared.hpp"

#include "pg/injection.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/wait_event.h"
}

namespace schemasync::apply {

namespace {

// ---- leaves: may ereport; plain data only ----

/*
 * The kinds of statements that the merge renders. Nothing here reads or writes rows or runs a program; CREATE FUNCTION may
 * name a library, for those who may do that.
 */
bool
kind_is_expected(const Node *statement)
{
	switch (nodeTag(statement)) {
	case T_DropStmt:
		return reinterpret_cast<const DropStmt *>(statement)->behavior != DROP_CASCADE;
	case T_CreateTableAsStmt:
		return reinterpret_cast<const CreateTableAsStmt *>(statement)->objtype == OBJECT_MATVIEW;
	case T_DefineStmt:
		return reinterpret_cast<const DefineStmt *>(statement)->kind == OBJECT_AGGREGATE;
	case T_AlterTableStmt:
	case T_RenameStmt:
	case T_AlterObjectSchemaStmt:
	case T_AlterOwnerStmt:
	case T_CreateStmt:
	case T_IndexStmt:
	case T_CreateSchemaStmt:
	case T_CreateEnumStmt:
	case T_AlterEnumStmt:
	case T_CreateDomainStmt:
	case T_AlterDomainStmt:
	case T_CompositeTypeStmt:
	case T_CreateRangeStmt:
	case T_CreateSeqStmt:
	case T_AlterSeqStmt:
	case T_CreateStatsStmt:
	case T_AlterStatsStmt:
	case T_LockStmt:
	case T_ViewStmt:
	case T_RefreshMatViewStmt:
	case T_CreateFunctionStmt:
	case T_CreateTrigStmt:
	case T_RuleStmt:
	case T_CreatePolicyStmt:
	case T_AlterPolicyStmt:
	case T_CommentStmt:
	case T_GrantStmt:
	case T_AlterDefaultPrivilegesStmt:
	case T_CreateExtensionStmt:
	case T_AlterExtensionStmt:
		return true;
	default:
		return false;
	}
}


void
set_parameter(const char *name, const char *value)
{
	set_config_option(name, value, PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

void
execute_once(const Execution &execution, int lock_timeout)
{
	Oid saved_user;
	int saved_context;
	char timeout[16];
	int level = NewGUCNestLevel();

	if (execution.checked) {
		const char *wrong = check_statement(execution.sql);
		if (wrong != nullptr)
			ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
			                errmsg("statement of schema is not executed: %s", wrong),
			                errdetail("The statement was: %s", execution.sql)));
	}
	set_parameter("search_path", execution.search_path);
	set_parameter("session_replication_role", "replica");
	/* what the error says of dependents is read, which has no SQLSTATE of its own */
	set_parameter("lc_messages", "C");
	snprintf(timeout, sizeof(timeout), "%d", lock_timeout);
	set_parameter("lock_timeout", timeout);
	for (int i = 0; i < execution.nsettings; i++)
		set_parameter(execution.settings[i].name, execution.settings[i].value);

	GetUserIdAndSecContext(&saved_user, &saved_context);
	SetUserIdAndSecContext(execution.run_as,
	                       saved_context | (execution.restricted ? SECURITY_RESTRICTED_OPERATION
	                                                             : SECURITY_LOCAL_USERID_CHANGE));
	SPI_connect();
	int code = SPI_execute(execution.sql, false, 0);
	if (code < 0)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
		                errmsg("statement cannot be executed here: %s", SPI_result_code_string(code))));
	SPI_finish();
	SetUserIdAndSecContext(saved_user, saved_context);
	AtEOXact_GUC(false, level);
	CommandCounterIncrement();
}

/* Who holds a lock on the relation now, one line each. Without the text of their statements: it may hold
 * data. */
const char *
describe_blockers(Oid relid)
{
	MemoryContext caller = CurrentMemoryContext;
	const char *text;
	catalog::Internal internal = catalog::begin_internal();

	catalog::run(
	    "SELECT pg_catalog.string_agg(CASE WHEN p.gid IS NOT NULL"
	    " THEN pg_catalog.format('prepared transaction %L of %s since %s holds %s: COMMIT PREPARED %1$L; or ROLLBACK PREPARED %1$L;',"
	    "  p.gid, p.owner, p.prepared, l.modes)"
	    " ELSE pg_catalog.format('process %s (%s, user %s, %s since %s) holds %s: SELECT pg_terminate_backend(%1$s);', l.pid,"
	    "  COALESCE(NULLIF(a.application_name, ''), a.backend_type), a.usename, COALESCE(a.state, 'active'),"
	    "  COALESCE(a.xact_start, a.backend_start), l.modes) END, E'\\n' ORDER BY COALESCE(p.prepared, a.xact_start))"
	    " FROM (SELECT pid, virtualtransaction, pg_catalog.string_agg(DISTINCT mode, ', ') AS modes"
	    "        FROM pg_catalog.pg_locks WHERE locktype = 'relation' AND relation = $1 AND granted"
	    "         AND pid IS DISTINCT FROM pg_catalog.pg_backend_pid() AND database = (SELECT oid"
	    "          FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())"
	    "        GROUP BY pid, virtualtransaction) l"
	    " LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid"
	    " LEFT JOIN pg_catalog.pg_prepared_xacts p"
	    "  ON l.pid IS NULL AND EXISTS (SELECT FROM pg_catalog.pg_locks t WHERE t.locktype = 'transactionid'"
	    "   AND t.pid IS NULL AND t.virtualtransaction = l.virtualtransaction AND t.transactionid = p.transaction)",
	    {catalog::as_oid(relid)});
	text = catalog::result_text(0, 1, caller);
	catalog::end_internal(internal);
	return text == nullptr ? "" : text;
}

/* Waits before the next try, longer each time: 100 ms, 200 ms, ... 5 s. Interruptible. */
void
wait_before_retry(int failures)
{
	long delay = failures >= 6 ? 5000L : 100L << failures;

	(void)WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, delay, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

} // namespace

bool
is_no_verdict(int sqlstate)
{
	/* a library or an extension's script that is not installed here: of the statement */
	if (sqlstate == ERRCODE_UNDEFINED_FILE)
		return false;
	/* it is tried again when the label is committed */
	if (sqlstate == ERRCODE_UNSAFE_NEW_ENUM_VALUE_USAGE)
		return has_new_labels();
	switch (ERRCODE_TO_CATEGORY(sqlstate)) {
	case MAKE_SQLSTATE('0', '8', '0', '0', '0'): /* connection exception */
	case MAKE_SQLSTATE('5', '3', '0', '0', '0'): /* insufficient resources */
	case MAKE_SQLSTATE('5', '7', '0', '0', '0'): /* operator intervention */
	case MAKE_SQLSTATE('5', '8', '0', '0', '0'): /* system error */
	case MAKE_SQLSTATE('X', 'X', '0', '0', '0'): /* internal error, e.g. tuple concurrently updated */
		return true;
	default:
		return false;
	}
}

const char *
check_statement(const char *sql)
{
	List *statements = raw_parser(sql, RAW_PARSE_DEFAULT);

	if (list_length(statements) != 1)
		return psprintf("it is %d statements, not one", list_length(statements));
	if (!kind_is_expected(castNode(RawStmt, linitial(statements))->stmt))
		return "it is of a kind that schemasync does not make";
	return nullptr;
}

Executed
execute_ddl(const Execution &execution)
{
	Executed result{Outcome::Done, nullptr, ""};
	constexpr int patience = 1000; /* ms */
	bool waiting = false;

	for (int failures = 0;; failures++) {
		/* who is to wait for ever shall not wait for an index that is built on a table which this takes along, nor for a comparison of rows */
		bool building = failures == 0 && (worker::is_building_indexes() || worker::is_verifying());
		int lock_timeout = building && execution.lock_timeout == 0 ? patience : execution.lock_timeout;
		result.error = pg::try_in_subtransaction([&] { execute_once(execution, lock_timeout); });
		if (result.error == nullptr) {
			result.outcome = Outcome::Done;
			pg::at_point("ddl_executed");
			break;
		}
		int sqlstate = result.error->sqlerrcode;
		if (is_no_verdict(sqlstate))
			ReThrowError(result.error);
		if (sqlstate != ERRCODE_LOCK_NOT_AVAILABLE && sqlstate != ERRCODE_T_R_DEADLOCK_DETECTED) {
			result.outcome = Outcome::Failed;
			break;
		}
		result.outcome = Outcome::LockTimeout;
		if (OidIsValid(execution.waits_for))
			result.blockers = describe_blockers(execution.waits_for);
		bool ended = failures == 0 && worker::interrupt_index_builds();
		ended = (failures == 0 && worker::interrupt_verification(execution.waits_for)) || ended;
		if (failures >= execution.lock_retries && !ended && lock_timeout == execution.lock_timeout)
			break;
		waiting = true;
		worker::set_state(worker::State::WaitingLock);
		pg::at_point("waiting_lock");
		wait_before_retry(failures);
	}
	if (waiting && result.outcome == Outcome::Done)
		worker::set_state(worker::State::Streaming);
	return result;
}

} // namespace schemasync::apply
