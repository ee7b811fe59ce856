/*
 * The work on one schema message, shared by the files apply/schema*.cpp: what is known of the boundary, what
 * was decided about it, what was found so far, and how one operation is executed or refused.
 *
 * Zone: server code; functions throw pg::Error and Refused.
 */
#pragma once

#include "core/difference.hpp"
#include "core/merge.hpp"
#include "core/state_json.hpp"

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apply_ext/apply/ddl_execute.hpp"
#include "apply_ext/apply/schema.hpp"
#include "apply_ext/apply/sql_fragment.hpp"
#include "apply_ext/catalog/refusal.hpp"

namespace schemasync::catalog {
struct RelationRow;
}

namespace schemasync::apply {

struct Sides;

/* What an operation has to do after the carried rows. */
struct AfterRows {
	merge::Operation operation; /* with `sql` what is to be done then */
	Oid publisher_oid;
};

struct SchemaWork {
	SchemaWork(const catalog::Subscription &subscription_, const Boundary &boundary_,
	           std::string_view content_)
	    : subscription(subscription_), boundary(boundary_), content(content_)
	{
	}

	const catalog::Subscription &subscription;
	Boundary boundary; /* its ordinal counts the messages that had an effect, so that it is the same at each
	                      attempt */
	std::string_view content;
	merge::Command command;
	const catalog::Decision *decision = nullptr; /* a person's, about this boundary */
	bool decided = false;                        /* the decision's SQL was run */
	bool skipping = false;                       /* the decision is to accept without changing */
	bool may_defer =
	    false; /* what fails for the sake of other objects of the message is tried again after them */
	bool changed = false; /* the local schema */
	const std::vector<state::Document<state::Relation>> *relations =
	    nullptr;                      /* all of the message, parents first */
	std::vector<std::string> changes; /* what the message changes, one line each */
	std::set<std::string>
	    recorded; /* operations in the history, so that a second merge does not repeat them */

	std::set<Oid> told = {};                  /* objects of the opt-in classes whose definitions the message brought */
	std::set<Oid> held_builds = {};           /* publisher oids of relations whose queued indexes wait for the transaction's end */
	std::set<Oid> republished = {};           /* the command put them into a publication, or changed how one has them */
	Session *session = nullptr;           /* of the worker that the message came to */
	std::vector<AfterRows> after_rows = {}; /* what waits for carried rows */
	UnknownSyntax unknown_syntax = {};      /* of the message */

	/* A person said that the subscriber is as it should be now. */
	bool resumed() const;
	/* The relations of the message that are below this one, at any depth. */
	std::vector<const state::Relation *> descendants_of(const state::Relation *relation) const;
};

/* Where an operation is executed: what it belongs to, as far as it is there. */
struct Place {
	Oid run_as = InvalidOid;
	Oid relid = InvalidOid; /* the local relation */
	Oid publisher_oid = InvalidOid;
	const state::Relation *theirs = nullptr;
	const state::Relation *ours = nullptr;
	const merge::ColumnMap *columns = nullptr;
	bool restricted = true; /* in a security-restricted context */
};

enum class Progress {
	Done,
	Again, /* the decision's SQL was run: read and merge again */
	Later, /* try again after the other objects of the message */
	Skip,  /* accept without changing */
};

/* Does one operation as its verdict says, with its row of history. Throws Refused. */
Progress do_operation(SchemaWork &work, merge::Operation &operation, const Place &place);

/* The same for all of a result, until one is not done. */
Progress do_operations(SchemaWork &work, merge::Result &result, const Place &place);

/* Runs one statement of an operation, as the owner of what it is about. */
Executed execute_statement(const SchemaWork &work, const merge::Operation &operation, const std::string &sql,
                                  const Place &place);
/* Turns what the server said into a refusal of the operation. */
void explain_failure(merge::Operation &operation, const Executed &executed, const Place &place);

/* Adds the lines of change of a result, which a refusal of any of the message's objects shows. */
void note_changes(SchemaWork &work, const merge::Result &result);

/* returns: the row's history_id; 0 when the boundary has this row already */
std::int64_t record_history(SchemaWork &work, const merge::Operation &operation, const std::string &applied_sql,
                            std::int64_t duration);

/* Whether a stored state has the fingerprint: as it came in the stream, or as jsonb prints it after the
 * initial copy. */
bool has_fingerprint(std::string_view base, const std::string &fingerprint);

/*
 * Whether a state (its text) is an older one than the base: its transaction began before that which brought the base and
 * is decoded, or applied, after it, and did not itself change the object (docs/wire.md, as_of and own).
 */
bool is_older(std::string_view theirs, std::string_view base);

/*
 * The text that is stored for a state that is accepted: what the transaction itself changed is of its commit, which the publisher did not
 * know when it sent the state of a streamed transaction.
 */
std::string base_of(const SchemaWork &work, const std::string &theirs);

/* The role that new objects belong to. */
Oid creation_role(const SchemaWork &work, const std::string &publisher_owner);

/* Whether the subscription's owner may become the role. */
bool may_become(const SchemaWork &work, Oid role);

// ---- schema.cpp ----

/* Numbers the boundary and loads what was decided about it, if it was refused before. */
void begin_boundary(SchemaWork &work);
/* The boundary passed: a refusal that was open is resolved now. */
void end_boundary(const SchemaWork &work);

// ---- schema_unsettled.cpp ----

bool on_rewrite(SchemaWork &work);
/* A marker explains the rewrite. Whether there was one, so that at least one row went by. */
bool forget_rewrite(TransactionId xid, Oid relation);
/*
 * Whether a command left a table without a replica identity that had one: refused at the end of the transaction unless another command
 * gives it one, drops it or takes it out of the publications (theirs: nullptr).
 */
void note_identity(const SchemaWork &work, Oid publisher_oid, const state::Relation *theirs, bool lost);

// ---- schema_relation.cpp ----

/* Whether the relation's base is the state already. */
bool is_current(const SchemaWork &work, const state::Relation &theirs);
/* Merges one relation and does what follows; false: try again after the other objects of the message. */
bool apply_relation(SchemaWork &work, const state::Document<state::Relation> &theirs);
bool apply_dropped_relation(SchemaWork &work, Oid publisher_oid);

// ---- schema_publication.cpp ----

/* Whether rows and states of the relation come with a copy, or wait for one (init, copying, catchup, needs_refresh). */
bool is_waiting(const catalog::RelationRow &row);
/* Whether the relation was followed until a publication gave it up. */
bool is_removed(const catalog::RelationRow &row);
/* Whether the message does not count for the relation: what it says came with a copy, or will. */
bool is_passed_over(const SchemaWork &work, Oid publisher_oid);
/* Whether a table above it is not here yet, because it is to be copied. */
bool has_waiting_parent(const SchemaWork &work, const state::Relation &theirs);
/* Before the transaction is given up to wait for a copy: see save_waiting_tables(). Leaf. */
void keep_waiting_tables(std::int64_t subid);
/* A table whose rows from before are not in the stream: it is copied, or waits for schemasync_refresh(). Throws Refused. */
void follow_unknown(SchemaWork &work, const state::Relation &theirs, const catalog::RelationRow *row);
/* A table that is published in another way, so that its rows have to be copied afresh. returns: whether it is one */
bool republish(SchemaWork &work, const state::Relation &theirs, const Sides &sides);
/* What a command on publications took in and gave up. Throws Refused. */
void apply_membership(SchemaWork &work, const state::DdlMessage &message);

// ---- schema_object.cpp ----

bool is_current(const SchemaWork &work, const state::Type &theirs);
bool apply_type(SchemaWork &work, const state::Document<state::Type> &theirs);
bool apply_dropped_type(SchemaWork &work, Oid publisher_oid);
bool apply_schema(SchemaWork &work, const state::Document<state::Schema> &theirs);
bool apply_dropped_schema(SchemaWork &work, const merge::DroppedObject &dropped, bool followed);
/* Objects of the command that nothing else told of get a row of history with the verdict ignore. */
void record_ignored(SchemaWork &work);
/* type, identity: of an object; why: one sentence */
void record_ignored_object(SchemaWork &work, const std::string &type, const std::string &identity, const char *why);

/* A statement gave an enum a label: see has_new_labels(). Leaf. */
void note_label(const char *sql, Oid run_as);

// ---- schema_definition.cpp ----

/* Whether the option ddl_classes names the class, of the table that the object is of (its oid on the publisher) or of the subscription. */
bool follows_class(const SchemaWork &work, std::string_view object_class, Oid of_table = InvalidOid);
/* An ERROR when a text in it is not what it should be. */
void check_fragments(const state::Definition &definition, UnknownSyntax &unknown);
/* false: try again after the other objects of the message */
bool apply_definition(SchemaWork &work, const state::Document<state::Definition> &theirs);
bool apply_dropped_definition(SchemaWork &work, const merge::DroppedObject &dropped);
/* The same for one that the publisher had when the subscription started: what is here already stays as it is. */
bool adopt_definition(SchemaWork &work, const state::Document<state::Definition> &theirs);
/* What differs here, if the class is followed; publisher_version as server_version_num. */
std::vector<merge::Difference> definition_differences(SchemaWork &work, const state::Definition &theirs, int publisher_version);

// ---- schema_refusal.cpp ----

/* Throws Refused for the operation. */
[[noreturn]] void refuse(const SchemaWork &work, const merge::Operation &operation, const Place &place);

} // namespace schemasync::apply
