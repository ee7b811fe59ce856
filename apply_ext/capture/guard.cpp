#include "core/marker_json.hpp"

#include <string>
#include <vector>

#include "apply_ext/capture/class_names.hpp"
#include "apply_ext/capture/classify.hpp"
#include "apply_ext/capture/guard.hpp"
#include "apply_ext/capture/marker.hpp"
#include "apply_ext/capture/shapes.hpp"
#include "pg/compat.hpp"
#include "pg/guard.hpp"
#include "pg/postgres.hpp"

extern "C" {
#include "commands/trigger.h"
#include "mb/pg_wchar.h"
#include "utils/elog.h"
#include "utils/guc.h"
}

namespace schemasync::capture {

namespace {

enum GuardLevel : int { guard_off, guard_warn, guard_error };

int guard_level = guard_off;
char *guard_policy = nullptr;

const config_enum_entry guard_levels[] = {{"off", guard_off, false},
                                          {"warn", guard_warn, false},
                                          {"error", guard_error, false},
                                          {nullptr, 0, false}};

// ---- leaves: may ereport; plain data only ----

/* What the comparison starts from. */
struct Compared {
	const char *content;
	const Shapes *before, *after;
	const Policies *policies;
};

Policies *
read_guard_policies()
{
	auto *policies = static_cast<Policies *>(palloc0(sizeof(Policies)));

	*policies = Policies{};
	read_policies(guard_policy, false, policies);
	return policies;
}

void
read_after(const char *tag, const Collected *collected, const Touched *touched, const Command *command,
           Compared *compared)
{
	StringInfoData content;
	Touched all = *touched;

	initStringInfo(&content);
	append_content(&content, tag, collected, command);
	compared->content = pg_server_to_any(content.data, content.len, PG_UTF8);
	compared->before = command->before;
	for (int i = 0; command->before != nullptr && i < command->before->count; i++) {
		const Shape *shape = &command->before->items[i];
		List **list = shape->kind == ShapeKind::Relation ? &all.relations
		              : shape->kind == ShapeKind::Type   ? &all.types
		                                                 : &all.schemas;
		*list = list_append_unique_oid(*list, shape->oid);
	}
	note_descendants(&all);
	compared->after = read_shapes(&all, CurrentMemoryContext);
	compared->policies = command->policies != nullptr ? command->policies : read_guard_policies();
}

void
report(const char *sqlstate, const char *reason, const char *changes)
{
	ereport(guard_level == guard_error ? ERROR : WARNING,
	        (errcode(MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2], sqlstate[3], sqlstate[4])),
	         errmsg("a subscriber of schemasync would refuse this command: %s", reason),
	         errdetail_internal("%s", pg_any_to_server(changes, static_cast<int>(strlen(changes)), PG_UTF8)),
	         errhint("schemasync_check shows what each part of a command means for subscribers.")));
}

} // namespace

void
define_guard()
{
	DefineCustomEnumVariable(
	    "schemasync.guard",
	    "Whether a DDL command that a subscriber would refuse gets a warning or an error.", nullptr,
	    &guard_level, guard_off, guard_levels, PGC_SUSET, 0, nullptr, nullptr, nullptr);
	DefineCustomStringVariable(
	    "schemasync.guard_policy",
	    "The options of the subscriptions that schemasync.guard thinks of, as a JSON object; \"tables\" holds those of single tables.", nullptr,
	    &guard_policy, "{}", PGC_SUSET, 0, nullptr, nullptr, nullptr);
}

bool
guard_is_on()
{
	/* what an apply worker runs was decided by the publisher: rejecting it here would only halt the subscription */
	return guard_level != guard_off && SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA;
}

void
guard_before(Command *command, const Node *parsetree)
{
	Touched named;

	note_named(&named, parsetree);
	note_descendants(&named);
	command->before = read_shapes(&named, command->context);
	MemoryContext caller = MemoryContextSwitchTo(command->context);
	command->policies = read_guard_policies();
	MemoryContextSwitchTo(caller);
}

void
guard_after(const char *tag, const Collected *collected, const Touched *touched, const Command *command)
{
	Compared compared{};
	pg::call([&] { read_after(tag, collected, touched, command, &compared); });

	merge::Command merged;
	if (!add_marker(merged, compared.content, class_name))
		return;
	estimate_rows(merged, compared.before);
	std::string changes;
	const ReasonInfo *first = nullptr;
	for (const Finding &finding : classify(compared.before, compared.after, merged, *compared.policies)) {
		if (finding.operation.verdict != Verdict::Refuse)
			continue;
		if (first == nullptr)
			first = &info(finding.operation.reason);
		changes += (changes.empty() ? "" : "\n") + finding.operation.object_identity + ": " +
		           finding.operation.change +
		           (finding.operation.detail.empty() ? "" : ". " + finding.operation.detail);
	}
	if (first != nullptr) {
		std::string sqlstate(first->sqlstate), name(first->name);
		pg::call([&] { report(sqlstate.c_str(), name.c_str(), changes.c_str()); });
	}
}

} // namespace schemasync::capture
