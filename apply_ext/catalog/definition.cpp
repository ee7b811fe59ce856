#include "apply_ext/catalog/definition.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/results.hpp"

#include <cstring>

#include "pg/catalog/catalog.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "executor/spi.h"
#include "utils/memutils.h"
}

namespace schemasync::catalog {

namespace {

// ---- leaves: may ereport; plain data only ----

const char *
statement_of(Aspect aspect)
{
	switch (aspect) {
	case Aspect::Comment:
		return "SELECT schemasync.comment_definition($1, $2, $3)::pg_catalog.text";
	case Aspect::Privileges:
		return "SELECT schemasync.privileges_definition($1, $2)::pg_catalog.text";
	case Aspect::Refreshed:
		return "SELECT (schemasync.definition_of($1, $2) || '{\"refresh\": \"plain\"}')::pg_catalog.text";
	case Aspect::RefreshedConcurrently:
		return "SELECT (schemasync.definition_of($1, $2) || '{\"refresh\": \"concurrently\"}')::pg_catalog.text";
	default:
		return "SELECT schemasync.definition_of($1, $2)::pg_catalog.text";
	}
}

void
find_object_leaf(const char *type, const char *const *names, const char *const *args, ObjectAddress *address)
{
	Size length = strlen(type);
	constexpr Size suffix = sizeof(" column") - 1;
	Internal internal = begin_internal();

	/* the server finds columns of views by this name too, but not by their own */
	if (length > suffix && strcmp(type + length - suffix, " column") == 0)
		type = "table column";
	if (run("SELECT classid, objid, objsubid FROM pg_catalog.pg_get_object_address($1, $2, $3)",
	        {as_text(type), as_text_array(names), as_text_array(args)}) > 0) {
		bool isnull = false;
		ObjectAddressSubSet(*address, result_oid(0, 1), result_oid(0, 2), DatumGetInt32(result(0, 3, &isnull)));
	}
	end_internal(internal);
}

} // namespace

const char *
read_definition(Aspect aspect, const ObjectAddress *address)
{
	MemoryContext caller = CurrentMemoryContext;
	const char *text = nullptr;
	Internal internal = begin_internal();
	int level = pg::catalog::begin_pinned_settings();

	std::uint64_t rows =
	    aspect == Aspect::Comment
	        ? run(statement_of(aspect),
	              {as_oid(address->classId), as_oid(address->objectId), as_int4(address->objectSubId)})
	        : run(statement_of(aspect), {as_oid(address->classId), as_oid(address->objectId)});
	if (rows > 0)
		text = result_text(0, 1, caller);
	pg::catalog::end_pinned_settings(level);
	end_internal(internal);
	return text;
}

const char *
read_default_privileges(Oid role, Oid schema, char kind)
{
	MemoryContext caller = CurrentMemoryContext;
	const char *text = nullptr;
	const char letter[] = {kind, '\0'};
	Internal internal = begin_internal();
	int level = pg::catalog::begin_pinned_settings();

	if (run("SELECT schemasync.default_privileges($1, $2, $3)::pg_catalog.text", {as_oid(role), as_oid(schema), as_text(letter)}) > 0)
		text = result_text(0, 1, caller);
	pg::catalog::end_pinned_settings(level);
	end_internal(internal);
	return text;
}

bool
find_object(const char *type, const char *const *names, const char *const *args, ObjectAddress *address)
{
	*address = InvalidObjectAddress;
	/* a name that is not there is an error */
	return pg::try_in_subtransaction([&] { find_object_leaf(type, names, args, address); }) == nullptr &&
	       OidIsValid(address->objectId);
}

bool
is_version_available(const char *extension, const char *version)
{
	Internal internal = begin_internal();
	bool there = run("SELECT FROM pg_catalog.pg_available_extension_versions() WHERE name = $1 AND version = $2",
	                 {as_text(extension), as_text(version)}) > 0;
	end_internal(internal);
	return there;
}

Definitions
read_all_definitions(bool all_classes)
{
	MemoryContext caller = CurrentMemoryContext;
	Internal internal = begin_internal();
	int level = pg::catalog::begin_pinned_settings();
	auto rows = static_cast<int>(run(all_classes ? "SELECT d::pg_catalog.text FROM schemasync.all_definitions() d"
	                                             : "SELECT d::pg_catalog.text FROM schemasync.sequence_definitions() d"));
	Definitions all{static_cast<const char **>(MemoryContextAllocZero(caller, sizeof(char *) * static_cast<Size>(rows + 1))),
	                rows};

	for (int i = 0; i < rows; i++)
		all.texts[i] = result_text(static_cast<std::uint64_t>(i), 1, caller);
	pg::catalog::end_pinned_settings(level);
	end_internal(internal);
	return all;
}

} // namespace schemasync::catalog
