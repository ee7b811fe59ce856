/*
 * Types, schemas, and the objects that schemasync does not follow.
 */
#include "apply_ext/apply/schema_work.hpp"

#include "core/definition.hpp"

#include <cctype>
#include <optional>
#include <stdexcept>
#include <string>

#include "apply_ext/apply/local_facts.hpp"
#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/catalog/object.hpp"
#include "apply_ext/catalog/relation.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
}

namespace schemasync::apply {

namespace {

constexpr char type_class[] = "pg_type";
constexpr char schema_class[] = "pg_namespace";

const catalog::ObjectRow *
load(const SchemaWork &work, const char *class_name, Oid publisher_oid)
{
	return pg::call([&] { return catalog::load_object(work.subscription.subid, class_name, publisher_oid); });
}

void
save(const SchemaWork &work, const char *class_name, Oid publisher_oid, Oid local_oid,
     const std::string &base)
{
	const catalog::ObjectRow row{class_name, publisher_oid, local_oid, base.c_str()};

	pg::call([&] { catalog::save_object(work.subscription.subid, &row); });
}

void
forget(const SchemaWork &work, const char *class_name, Oid publisher_oid)
{
	pg::call([&] { catalog::delete_object(work.subscription.subid, class_name, publisher_oid); });
}

/* Objects to remember when the transaction at work has been prepared, in a list in TopMemoryContext. */
struct Postponed {
	Postponed *next;
	const char *class_name;
	Oid publisher_oid, local_oid;
	char *base;
};

Postponed *postponed = nullptr;

void
postpone(const char *class_name, Oid publisher_oid, Oid local_oid, const std::string &base)
{
	pg::call([&] {
		auto *one = static_cast<Postponed *>(MemoryContextAlloc(TopMemoryContext, sizeof(Postponed)));
		*one = {postponed, class_name, publisher_oid, local_oid, MemoryContextStrdup(TopMemoryContext, base.c_str())};
		postponed = one;
	});
}

/* The statements that gave an enum a label in the publisher's transaction at work, the last first; in TopMemoryContext. */
struct NewLabel {
	NewLabel *next;
	char *sql;
	Oid run_as;
};

NewLabel *new_labels = nullptr;

template <typename T>
std::optional<T>
stored(state::Parsed<T> parsed)
{
	if (auto *error = std::get_if<state::ParseError>(&parsed))
		throw std::runtime_error("stored state of an object cannot be read: " + error->where + ": " +
		                         error->what);
	return std::get<T>(std::move(parsed));
}

/* The local type: what the publisher's is mapped to, else the one of the new name, else of the old. */
Oid
find_type(const catalog::ObjectRow *row, const state::Type *base, const state::Type *theirs)
{
	if (row != nullptr && OidIsValid(row->local_oid) && local_type_exists(row->local_oid))
		return row->local_oid;
	for (const state::Type *type : {theirs, base})
		if (type != nullptr)
			if (Oid oid = find_local_type(type->name.schema, type->name.name); OidIsValid(oid))
				return oid;
	return InvalidOid;
}

/*
 * Whether what was found the same here is not to be remembered by the transaction itself. A row that a prepared transaction writes is locked
 * until that is decided, and the transactions that come before its end may touch the same schema or use the same type. It is remembered
 * behind the PREPARE, since the publisher does not tell of it again.
 */
bool
can_wait(const SchemaWork &work, const catalog::ObjectRow *row, const merge::Result &result, Oid publisher_oid)
{
	if (!work.boundary.prepares || row != nullptr || work.skipping)
		return false;
	for (const merge::Operation &operation : result.operations)
		if (operation.verdict != Verdict::Satisfied && operation.verdict != Verdict::Ignore)
			return false;
	/* the command's own object is locked on the publisher too */
	for (const merge::TouchedObject &object : work.command.objects)
		if (object.oid == publisher_oid)
			return false;
	return true;
}

/* Merges one type; theirs null: dropped. */
bool
merge_one_type(SchemaWork &work, Oid publisher_oid, const state::Document<state::Type> *theirs)
{
	for (;;) {
		const catalog::ObjectRow *row = load(work, type_class, publisher_oid);
		std::optional<state::Type> base, ours;
		if (row != nullptr)
			base = stored(state::parse_type(row->base));
		else if (theirs == nullptr)
			return true;
		const state::Type *value = theirs != nullptr ? &theirs->value : nullptr;
		Oid local = find_type(row, base ? &*base : nullptr, value);
		if (OidIsValid(local))
			ours = read_local_type(local);

		const CatalogFacts facts(work.subscription.subid);
		merge::Result result = merge::merge_type(base ? &*base : nullptr, value, ours ? &*ours : nullptr,
		                                         work.command, work.subscription.options.policy, &facts);
		note_changes(work, result);
		Place place;
		place.publisher_oid = publisher_oid;
		place.run_as = ours ? owner_of_type(local)
		                    : creation_role(work, value != nullptr ? value->owner : std::string());
		Progress progress = work.skipping ? Progress::Skip : do_operations(work, result, place);
		if (progress == Progress::Later)
			return false;
		if (progress == Progress::Again)
			continue;
		if (theirs == nullptr)
			forget(work, type_class, publisher_oid);
		else {
			if (!OidIsValid(local) || !local_type_exists(local))
				local = find_local_type(value->name.schema, value->name.name);
			if (can_wait(work, row, result, publisher_oid)) {
				postpone(type_class, publisher_oid, local, base_of(work, theirs->text));
				return true;
			}
			save(work, type_class, publisher_oid, local, base_of(work, theirs->text));
		}
		work.changed = true;
		return true;
	}
}

/* "CREATE VIEW" -> "create_view". */
std::string
operation_of(const std::string &tag)
{
	std::string text;
	for (char letter : tag)
		text += letter == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
	return text.empty() ? "change" : text;
}

/* The classes whose changes show in the states of relations, types and schemas. */
bool
is_followed_class(const std::string &class_name, const std::string &type)
{
	if (class_name == "pg_class")
		return type.find("view") == std::string::npos && type != "foreign table";
	return class_name == "pg_type" || class_name == "pg_namespace" || class_name == "pg_constraint" ||
	       class_name == "pg_attrdef" || class_name == "pg_attribute";
}

/* What a command on a publication touches: the tables that come and go with it have lines of their own. */
bool
is_publication_class(const std::string &class_name)
{
	return class_name.starts_with("pg_publication");
}

/* The opt-in class that a command on the object belongs to. */
std::string
class_of_touched(const SchemaWork &work, const merge::TouchedObject &object)
{
	if (work.command.tag == "COMMENT")
		return "comments";
	if (work.command.tag == "GRANT" || work.command.tag == "REVOKE" || work.command.tag == "ALTER DEFAULT PRIVILEGES")
		return "privileges";
	return std::string(merge::class_of(object.class_name, object.type));
}

std::string
not_followed(const std::string &object_class)
{
	return "The option ddl_classes does not name the class " + object_class + ".";
}

} // namespace

// ---- leaves: may ereport; plain data only ----

void
save_postponed(std::int64_t subid)
{
	if (postponed == nullptr)
		return;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	for (const Postponed *one = postponed; one != nullptr; one = one->next) {
		const catalog::ObjectRow row{one->class_name, one->publisher_oid, one->local_oid, one->base};
		if (catalog::load_object(subid, one->class_name, one->publisher_oid) == nullptr)
			catalog::save_object(subid, &row);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	forget_postponed();
}

void
forget_postponed()
{
	while (postponed != nullptr) {
		Postponed *gone = postponed;
		postponed = gone->next;
		pfree(gone->base);
		pfree(gone);
	}
}

void
note_label(const char *sql, Oid run_as)
{
	auto *one = static_cast<NewLabel *>(MemoryContextAlloc(TopMemoryContext, sizeof(NewLabel)));

	*one = {new_labels, MemoryContextStrdup(TopMemoryContext, sql), run_as};
	new_labels = one;
}

bool
has_new_labels()
{
	return new_labels != nullptr;
}

void
forget_new_labels()
{
	while (new_labels != nullptr) {
		NewLabel *gone = new_labels;
		new_labels = gone->next;
		pfree(gone->sql);
		pfree(gone);
	}
}

void
commit_new_labels(const catalog::Subscription &subscription)
{
	NewLabel *inverse = nullptr;
	ErrorData *failed = nullptr;
	bool added = false;

	/* each may stand beside the one before it */
	while (new_labels != nullptr) {
		NewLabel *one = new_labels;
		new_labels = one->next;
		one->next = inverse;
		inverse = one;
	}
	new_labels = inverse;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	for (const NewLabel *one = new_labels; one != nullptr; one = one->next) {
		const Execution execution{.sql = one->sql,
		                          .run_as = one->run_as,
		                          .checked = true,
		                          .restricted = true,
		                          .search_path = "",
		                          .waits_for = InvalidOid,
		                          .settings = nullptr,
		                          .nsettings = 0,
		                          .lock_timeout = subscription.options.ddl_lock_timeout,
		                          .lock_retries = subscription.options.ddl_lock_retries};
		const Executed executed = execute_ddl(execution);
		if (executed.outcome == Outcome::Done)
			added = true;
		else
			failed = executed.error;
	}
	if (!added && failed != nullptr)
		ReThrowError(failed);
	PopActiveSnapshot();
	CommitTransactionCommand();
	forget_new_labels();
}

// ---- C++ ----

void
record_ignored_object(SchemaWork &work, const std::string &type, const std::string &identity, const char *why)
{
	merge::Operation operation;

	operation.operation = operation_of(work.command.tag);
	operation.object_type = type;
	operation.object_identity = identity;
	operation.verdict = Verdict::Ignore;
	operation.change = work.command.tag + " " + identity;
	operation.detail = why;
	record_history(work, operation, "", 0);
}

bool
is_current(const SchemaWork &work, const state::Type &theirs)
{
	const catalog::ObjectRow *row = load(work, type_class, theirs.name.oid);

	/* beside the stream and in its second reading: the stream itself brings the types on */
	if (work.boundary.pass == Pass::CatchUp || (work.boundary.pass == Pass::Beside && row != nullptr))
		return true;
	return row != nullptr && !theirs.fingerprint.empty() && has_fingerprint(row->base, theirs.fingerprint);
}

bool
apply_type(SchemaWork &work, const state::Document<state::Type> &theirs)
{
	if (is_current(work, theirs.value))
		return true;
	const catalog::ObjectRow *row = load(work, type_class, theirs.value.name.oid);
	return (row != nullptr && is_older(theirs.text, row->base)) ||
	       merge_one_type(work, theirs.value.name.oid, &theirs);
}

bool
apply_dropped_type(SchemaWork &work, Oid publisher_oid)
{
	return merge_one_type(work, publisher_oid, nullptr);
}

/*
 * The schema as it was before ALTER SCHEMA RENAME, for one that was there before the subscription and so has no base: the command names
 * it by its oid, and its tables, known by theirs, were in a schema of another name.
 */
static std::optional<state::Schema>
before_rename(const SchemaWork &work, const state::Schema &theirs)
{
	std::string old;

	if (work.command.tag != "ALTER SCHEMA" || work.relations == nullptr)
		return std::nullopt;
	for (const auto &relation : *work.relations) {
		if (relation.value.name.schema != theirs.name.name)
			continue;
		const auto *row = pg::call([&] { return catalog::load_relation(work.subscription.subid, relation.value.name.oid); });
		if (row == nullptr || theirs.name.name == row->publisher_schema)
			continue;
		/* a table that lies elsewhere here has another schema, which the rename does not concern */
		if (!OidIsValid(row->relid) || find_local_relation(row->publisher_schema, row->publisher_name) != row->relid)
			continue;
		if (!old.empty() && old != row->publisher_schema)
			return std::nullopt;
		old = row->publisher_schema;
	}
	if (old.empty())
		return std::nullopt;
	state::Schema base = theirs;
	base.name.name = old;
	return base;
}

bool
apply_schema(SchemaWork &work, const state::Document<state::Schema> &theirs)
{
	const state::Schema &schema = theirs.value;

	for (;;) {
		const catalog::ObjectRow *row = load(work, schema_class, schema.name.oid);
		std::optional<state::Schema> base;
		if (row != nullptr) {
			if (theirs.text == row->base)
				return true;
			base = stored(state::parse_schema(row->base));
		} else
			base = before_rename(work, schema);
		Oid local = find_local_schema(schema.name.name);
		Oid old_local = base ? find_local_schema(base->name.name) : InvalidOid;
		merge::Result result = merge::merge_schema(base ? &*base : nullptr, schema, OidIsValid(local),
		                                           work.subscription.options.policy, OidIsValid(old_local));
		note_changes(work, result);
		Place place;
		place.publisher_oid = schema.name.oid;
		place.run_as = OidIsValid(old_local) ? owner_of_schema(old_local) : creation_role(work, schema.owner);
		Progress progress = work.skipping ? Progress::Skip : do_operations(work, result, place);
		if (progress == Progress::Later)
			return false;
		if (progress == Progress::Again)
			continue;
		if (can_wait(work, row, result, schema.name.oid)) {
			postpone(schema_class, schema.name.oid, find_local_schema(schema.name.name), theirs.text);
			return true;
		}
		save(work, schema_class, schema.name.oid, find_local_schema(schema.name.name), theirs.text);
		work.changed = true;
		return true;
	}
}

bool
apply_dropped_schema(SchemaWork &work, const merge::DroppedObject &dropped, bool followed)
{
	if (!followed && load(work, schema_class, dropped.oid) == nullptr)
		return true;
	const Policy &policy = work.subscription.options.policy;
	for (;;) {
		Oid local = find_local_schema(dropped.name);
		merge::Result result;
		merge::Operation operation;
		operation.operation = "drop_schema";
		operation.object_type = "schema";
		operation.object_identity = quote_name(dropped.name);
		operation.change = "drop schema " + operation.object_identity;
		operation.verdict = Verdict::Forward;
		if (!OidIsValid(local))
			operation.verdict = Verdict::Satisfied;
		else if (policy.schema_changes == SchemaChanges::Ignore || policy.drop_table == Choice::Keep)
			operation.verdict = Verdict::Ignore;
		else if (policy.schema_changes == SchemaChanges::Refuse || policy.drop_table == Choice::Refuse) {
			operation.verdict = Verdict::Refuse;
			operation.reason = Reason::PolicyRefuse;
		}
		if (OidIsValid(local))
			operation.sql.push_back("DROP SCHEMA " + operation.object_identity);
		result.operations.push_back(operation);
		note_changes(work, result);
		Place place;
		place.publisher_oid = dropped.oid;
		place.run_as = OidIsValid(local) ? owner_of_schema(local) : work.subscription.owner;
		Progress progress = work.skipping ? Progress::Skip : do_operations(work, result, place);
		if (progress == Progress::Later)
			return false;
		if (progress == Progress::Again)
			continue;
		forget(work, schema_class, dropped.oid);
		return true;
	}
}

void
record_ignored(SchemaWork &work)
{
	bool nothing = work.recorded.empty(), with_extension = false;

	for (const merge::TouchedObject &object : work.command.objects)
		with_extension = with_extension || object.type == "extension";
	for (const merge::TouchedObject &object : work.command.objects) {
		const std::string object_class = class_of_touched(work, object);
		if (!object_class.empty() && work.told.count(object.oid) > 0)
			continue; /* its definition was dealt with */
		if (object.extension) {
			if (!with_extension)
				record_ignored_object(work, object.type, object.identity, "member of an extension");
		} else if (!object_class.empty() && !follows_class(work, object_class))
			record_ignored_object(work, object.type, object.identity, not_followed(object_class).c_str());
		else if (object_class.empty() && !is_followed_class(object.class_name, object.type) &&
		         !is_publication_class(object.class_name))
			record_ignored_object(work, object.type, object.identity,
			                      "this class of objects is not followed");
		else if (object_class == merge::sequence_class && !nothing)
			continue; /* a column owns it now, and the table's state told of it */
		else if (!object_class.empty() && object.oid != 0)
			record_ignored_object(work, object.type, object.identity,
			                      "The publisher sent no definition of it: it is not published as a whole, was dropped again, or could "
			                      "not be read, which the publisher's log says.");
		else if (nothing)
			record_ignored_object(work, object.type, object.identity, "changes nothing that is followed");
	}
	for (const merge::DroppedObject &object : work.command.dropped) {
		const std::string object_class(merge::class_of(object.class_name, object.type));
		/* default privileges that are again those of the server */
		if (object.class_name == "pg_default_acl" && work.command.tag == "ALTER DEFAULT PRIVILEGES")
			continue;
		if (is_publication_class(object.class_name) || merge::is_rule_of_view(object) || (!object_class.empty() && work.told.count(object.oid) > 0))
			continue;
		if (!object_class.empty() && !follows_class(work, object_class)) {
			if (object.original || object.normal)
				record_ignored_object(work, object.type, object.identity, not_followed(object_class).c_str());
		} else if (object.original && object_class.empty() && !is_followed_class(object.class_name, object.type))
			record_ignored_object(work, object.type, object.identity,
			                      "this class of objects is not followed");
	}
	if (work.recorded.empty() && work.command.captured)
		record_ignored_object(work, "", "", "changes nothing that is followed");
}

} // namespace schemasync::apply
