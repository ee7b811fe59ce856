/*
 * The opt-in classes, and sequences of their own, when a subscription starts: what the publisher has is made here, or is found and kept as it is.
 */
#include "apply_ext/apply/schema_work.hpp"

#include "core/definition.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apply_ext/apply/ddl_execute.hpp"
#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/catalog/object.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "access/transam.h"
#include "utils/timestamp.h"
}

namespace schemasync::apply {

namespace {

using Documents = std::vector<state::Document<state::Definition>>;

/* Whether nothing is known of the object yet. What is said of an object (a comment, privileges) is as new as that. */
bool
is_new(const SchemaWork &work, const state::Definition &definition, std::set<std::pair<std::string, Oid>> &found)
{
	const std::pair<std::string, Oid> object{definition.catalog, definition.oid};

	if (definition.object_class == "comments" || definition.object_class == "privileges")
		return found.count(object) > 0;
	const auto *row = pg::call(
	    [&] { return catalog::load_object(work.subscription.subid, definition.catalog.c_str(), definition.oid); });
	if (row != nullptr)
		return false;
	found.insert(object);
	return true;
}

/* Those that are wanted of the classes that the subscription, or the table that they lie on, names. */
Documents
read_followed(SchemaWork &work, const char *const *texts, int count, const Adopted &which)
{
	Documents documents;
	std::set<std::pair<std::string, Oid>> found;

	for (int i = 0; i < count; i++) {
		auto parsed = state::parse_definition(texts[i]);
		if (auto *error = std::get_if<state::ParseError>(&parsed))
			pg::call([&] {
				ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
				                errmsg("a definition of the publisher cannot be read"),
				                errdetail("%s: %s", error->where.c_str(), error->what.c_str())));
			});
		auto &definition = std::get<state::Definition>(parsed);
		if (!which.all && (definition.of_table == 0
		                       ? !is_new(work, definition, found)
		                       : std::find(which.tables, which.tables + which.count, definition.of_table) ==
		                             which.tables + which.count))
			continue;
		if (!follows_class(work, definition.object_class, definition.of_table))
			continue;
		check_fragments(definition, work.unknown_syntax);
		documents.push_back({std::move(definition), texts[i]});
	}
	return documents;
}

/*
 * Of the documents those that come before the tables. What is said of an object that only a later copy makes comes with it: afterwards nothing
 * shows that it was made by this one.
 */
void
keep_what_comes_first(Documents &documents, const Adopted &which)
{
	std::set<std::pair<std::string, Oid>> first;

	std::erase_if(documents, [&](const auto &document) {
		const state::Definition &definition = document.value;
		const std::string &object_class = definition.object_class;
		if (object_class == "comments" || object_class == "privileges")
			return which.all || definition.of_table != 0 || first.count({definition.catalog, definition.oid}) == 0;
		if (object_class != "extensions" && object_class != "functions" && object_class != merge::sequence_class)
			return true;
		first.insert({definition.catalog, definition.oid});
		return false;
	});
}

void
ensure_schema(const SchemaWork &work, const std::string &schema)
{
	if (schema.empty() || OidIsValid(find_local_schema(schema)))
		return;
	const std::string sql = "CREATE SCHEMA " + quote_name(schema);
	const Execution execution{.sql = sql.c_str(),
	                          .run_as = work.subscription.owner,
	                          .checked = true,
	                          .restricted = true,
	                          .search_path = "",
	                          .waits_for = InvalidOid,
	                          .settings = nullptr,
	                          .nsettings = 0,
	                          .lock_timeout = work.subscription.options.ddl_lock_timeout,
	                          .lock_retries = work.subscription.options.ddl_lock_retries};
	pg::call([&] {
		Executed executed = execute_ddl(execution);
		if (executed.outcome != Outcome::Done)
			ReThrowError(executed.error);
	});
}

/* One try. Returns whether it is done; else, unless it may be tried again, why not. */
bool
adopt(SchemaWork &work, const state::Document<state::Definition> &theirs, std::string *misfit)
{
	try {
		return adopt_definition(work, theirs);
	} catch (const Refused &refused) {
		*misfit = refused.changes != nullptr ? refused.changes : refused.reason;
		return false;
	}
}

struct Misfit {
	merge::Operation operation;
	std::string why;
};

/* Makes what can be made, in as many rounds as help; then says what could not. */
std::vector<Misfit>
adopt_all(SchemaWork &work, Documents documents)
{
	std::vector<Misfit> misfits;

	for (bool last = false; !documents.empty();) {
		Documents left;
		misfits.clear();
		work.may_defer = !last;
		for (auto &document : documents) {
			std::string misfit;
			work.changes.clear();
			if (!adopt(work, document, &misfit)) {
				merge::Operation operation;
				operation.op = merge::Op::CreateObject;
				operation.operation = std::string(merge::info(operation.op).code);
				operation.object_type = document.value.type;
				operation.object_identity = document.value.identity;
				operation.verdict = Verdict::Ignore;
				operation.detail = "It was there before it was followed, and could not be made here: " + misfit;
				misfits.push_back({std::move(operation), std::move(misfit)});
				left.push_back(std::move(document));
			}
		}
		if (last)
			break;
		last = left.size() == documents.size();
		documents = std::move(left);
	}
	return misfits;
}

} // namespace

void
adopt_definitions(const catalog::Subscription &subscription, const char *const *texts, int count, bool before_tables,
                  XLogRecPtr position, bool strict, const Adopted &which)
{
	pg::entry([&] {
		const Boundary boundary{.commit_lsn = position,
		                        .commit_time = GetCurrentTimestamp(),
		                        .xid = InvalidTransactionId,
		                        .ordinal = 0,
		                        .pass = strict ? Pass::Copy : Pass::Beside};
		SchemaWork work(subscription, boundary, {});
		Documents documents = read_followed(work, texts, count, which);

		if (before_tables) {
			keep_what_comes_first(documents, which);
			if (subscription.copy_schema)
				for (const auto &document : documents)
					ensure_schema(work, document.value.name.schema);
			/* a function over a table's row type comes after the table */
			(void) adopt_all(work, std::move(documents));
			return;
		}
		if (subscription.copy_schema)
			for (const auto &document : documents)
				if (document.value.object_class == "views")
					ensure_schema(work, document.value.name.schema);
		std::vector<Misfit> misfits = adopt_all(work, std::move(documents));
		if (misfits.empty())
			return;
		std::string lines;
		for (const Misfit &misfit : misfits) {
			lines += (lines.empty() ? "" : "\n") + misfit.why;
			if (!strict)
				record_history(work, misfit.operation, "", 0);
		}
		pg::call([&] {
			ereport(strict ? ERROR : WARNING, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			                errmsg("objects of the classes that subscription \"%s\" follows cannot be made here",
			                       subscription.name),
			                errdetail("%s", lines.c_str()),
			                errhint("%s", strict ? "Make what is missing, or take the class out of the option ddl_classes; the copy goes on by itself."
			                                    : "Make them by hand; the next change of each on the publisher brings it too.")));
		});
	});
}

} // namespace schemasync::apply
