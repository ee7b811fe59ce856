/*
 * What a refusal tells the person who has to act: the steps that go on from here.
 *
 * Every command in a hint is one that exists; "{subscription}" and "{table}" stand for names that the caller
 * knows.
 */
#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

/* As prove() begins. */
constexpr std::string_view default_collation = "The collation default,";
constexpr std::string_view resume = "SELECT schemasync_resume('{subscription}');";

std::string
with_carry()
{
	return "Or have the publisher send the rewritten rows, now and from now on: SELECT "
	       "schemasync_alter_subscription('{subscription}', options => '{\"rewrites\": \"carry\"}'); " +
	       std::string(resume);
}

std::string
with_resync(std::string_view table)
{
	return "Or copy the table afresh: SELECT schemasync_resync('{subscription}', " + sql::literal(table) +
	       ");";
}

/* Rows can be copied afresh of a table, or of what is part of one; a type or a function has none. */
bool
has_rows(const Operation &operation)
{
	std::string_view kind = info(operation.op).object_type;
	return kind == "table" || kind == "column" || kind == "constraint" || kind == "index";
}

std::string
run(const Operation &operation)
{
	if (!operation.suggested_sql.empty())
		return "On the subscriber run the suggested SQL.";
	return "Bring the subscriber's " + std::string(has_rows(operation) ? "table" : info(operation.op).object_type) +
	       " to the publisher's state by hand.";
}

std::vector<std::string>
steps(const Operation &operation, std::string_view table)
{
	if (operation.op == Op::PublishColumn)
		return {"Copy the table afresh, which brings the column's values: SELECT "
		        "schemasync_resync('{subscription}', " +
		        sql::literal(table) + ");"};
	switch (operation.reason) {
	case Reason::VolatileDefault:
	case Reason::DefaultUnreadable:
		return {"On the subscriber run the suggested SQL, which adds the column without a default.",
		        "Fill it with the publisher's values as of this change, by key; then set its default and NOT "
		        "NULL as on the "
		        "publisher.",
		        std::string(resume), with_resync(table), with_carry()};
	case Reason::TypeChangeUnproven:
	case Reason::RewriteUnproven:
		if (operation.op == Op::SetPersistence)
			return {run(operation),
			        "Bring in the rows that were written on the publisher while the table was unlogged: they are not in the stream.",
			        std::string(resume), with_resync(table), with_carry()};
		return {"On the subscriber make the same change to the values of existing rows: run the suggested "
		        "SQL where there is one, "
		        "under the settings that the command had.",
		        "Where it gives other values than on the publisher (it is computed anew), write the publisher's as of this change, "
		        "by key.",
		        std::string(resume), with_resync(table), with_carry()};
	case Reason::RenameUnproven:
		return {"If it was a rename, run the suggested SQL on the subscriber; if not, drop the one column "
		        "and add the other.",
		        std::string(resume),
		        "Enable the event triggers of schemasync on the publisher, so that commands are recorded."};
	case Reason::LocalNameTaken:
		if (operation.suggested_sql.empty())
			return {"On the subscriber rename or drop by hand what has the name of " + operation.object_identity + ".", std::string(resume)};
		return {run(operation), "Or rename or drop the subscriber's object by hand.", std::string(resume)};
	case Reason::LocalDependents:
		return {"Drop or rewrite the objects that are named; they are made again as you like afterwards.",
		        std::string(resume)};
	case Reason::LocalDrift:
		if (operation.detail.starts_with(default_collation))
			return {"The locale of a database does not change. Make the change by hand, and write the publisher's values where they "
			        "differ and the column takes them.",
			        std::string(resume), with_carry()};
		return {"Bring the subscriber's object to the publisher's state by hand.", std::string(resume),
		        with_resync(table)};
	case Reason::MissingObject:
		return {"Make the object that is named on the subscriber, with the publisher's definition.",
		        std::string(resume)};
	case Reason::PolicyRefuse:
		return {run(operation), std::string(resume),
		        "Or accept it without a change of the subscriber: SELECT schemasync_resolve(refusal_id, "
		        "'skip') FROM "
		        "schemasync_refusals WHERE subscription = '{subscription}' AND status = 'open';"};
	default:
		return {run(operation), std::string(resume), with_resync(table)};
	}
}

} // namespace

void
teach(Operation &operation, std::string_view table, std::string_view next_time)
{
	std::vector<std::string> lines = steps(operation, table);
	if (!has_rows(operation))
		std::erase(lines, with_resync(table));
	if (!next_time.empty())
		lines.push_back("A safe way to write it: " + std::string(next_time));
	operation.hint = sql::join(lines, "\n");
}

Operation
unexplained_rewrite(const state::Relation &relation, const RewriteHint &rewrite)
{
	const OperationInfo &entry = info(Op::RewriteRows);
	std::string table = sql::shown(relation.name.schema, relation.name.name);
	Operation operation;
	operation.op = Op::RewriteRows;
	operation.operation = entry.code;
	operation.object_type = entry.object_type;
	operation.object_identity = table;
	operation.change = "table " + table + " was rewritten" + (rewrite.rows > 0 ? " (" + std::to_string(rewrite.rows) + " rows)" : "");
	refuse(operation, Reason::RewriteUnproven,
	       "The publisher rewrote the rows of " + table +
	           ", but no event trigger recorded the command that did it.");
	teach(operation, table);
	/* without a command they have no place */
	if (const std::size_t at = operation.hint.find("\n" + with_carry()); at != std::string::npos)
		operation.hint.erase(at, with_carry().size() + 1);
	return operation;
}

Operation
lost_identity(const std::string &table)
{
	const OperationInfo &entry = info(Op::SetReplicaIdentity);
	Operation operation;

	operation.op = Op::SetReplicaIdentity;
	operation.operation = entry.code;
	operation.object_type = entry.object_type;
	operation.object_identity = table;
	operation.change = "table " + table + " has no replica identity any more";
	refuse(operation, Reason::UnsupportedObject,
	       "Rows of it that are updated or deleted could not be found here; the publisher rejects such commands.");
	operation.hint = "On the publisher give the table a replica identity: a key that is not deferrable, or ALTER TABLE " + table +
	                 " REPLICA IDENTITY FULL;\nSELECT schemasync_resume('{subscription}');";
	return operation;
}

bool
has_identity(const state::Relation &relation)
{
	return relation.inserts_only || relation.replica_identity == 'f' || relation.replica_identity == 'n' || !relation.identity_columns.empty();
}

} // namespace schemasync::merge
