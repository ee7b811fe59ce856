/*
 * Schemas, by their oid.
 */
#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

Result
merge_schema(const state::Schema *base, const state::Schema &theirs, bool exists, const Policy &policy,
             bool base_exists)
{
	Result result;
	const std::string &name = theirs.name.name;
	if (!theirs.extension.empty()) {
		ignore(add_operation(result, Op::ExtensionMember, sql::shown(name),
		                     "schema " + sql::shown(name) + " of extension " + theirs.extension),
		       "Members of an extension are changed by the extension's own scripts on each side.");
		return result;
	}
	if (base != nullptr && base->name.name != name) {
		Operation &operation =
		    add_operation(result, Op::RenameSchema, sql::shown(name),
		                  "schema " + sql::shown(base->name.name) + " was renamed to " + sql::shown(name));
		if (exists && base_exists) {
			refuse(operation, Reason::LocalNameTaken, "The subscriber has a schema of that name.");
			teach(operation, sql::shown(name));
		} else if (exists) {
			satisfy(operation, "The subscriber's schema has that name.");
		} else if (base_exists) {
			operation.sql = {"ALTER SCHEMA " + sql::ident(base->name.name) + " RENAME TO " +
			                 sql::ident(name)};
		} else {
			operation.sql = {"CREATE SCHEMA " + sql::ident(name)};
		}
	} else if (base == nullptr || !exists) {
		Operation &operation = add_operation(result, Op::CreateSchema, sql::shown(name),
		                                     "schema " + sql::shown(name) + " was created");
		if (exists)
			satisfy(operation, "The subscriber has this schema.");
		else
			operation.sql = {"CREATE SCHEMA " + sql::ident(name)};
	}
	if (base != nullptr && base->owner != theirs.owner && !theirs.owner.empty()) {
		Operation &operation =
		    add_operation(result, Op::ChangeSchemaOwner, sql::shown(name),
		                  "owner of schema " + sql::shown(name) + " is " + sql::shown(theirs.owner));
		if (policy.owners_same)
			operation.sql = {"ALTER SCHEMA " + sql::ident(name) + " OWNER TO " + sql::ident(theirs.owner)};
		else
			ignore(operation, "The subscription has owners = subscription.");
	}
	apply_schema_changes(result, policy);
	return result;
}

} // namespace schemasync::merge
