#include "core/definition_internal.hpp"

#include <algorithm>

#include "core/sql.hpp"

#include "core/pure.hpp"

namespace schemasync::state {

bool
Privilege::same_as(const Privilege &other) const
{
	return role == other.role && column == other.column && privilege == other.privilege && owner == other.owner;
}

} // namespace schemasync::state

namespace schemasync::merge {

/* Comments and privileges are of something that must be there. */
bool
DefinitionMerge::target_is_there(Op op, const std::string &change)
{
	if (ours_ != nullptr)
		return true;
	Operation &operation = add(op, {}, change);
	if (input_.target_followed) {
		refuse_last(Reason::MissingObject, theirs_->type + " " + theirs_->identity + " is not here.");
		result_.operations.back().hint = "Create it, then: SELECT schemasync_resume('{subscription}');";
	} else {
		operation.verdict = Verdict::Ignore;
		operation.detail = theirs_->catalog == "pg_default_acl"
		                       ? "The role or schema is not here, or the role is none that the subscription's owner may act as."
		                       : theirs_->type + " " + theirs_->identity + " is not here, and is of no class that is followed.";
	}
	return false;
}

namespace {

/* What stands after COMMENT ON; empty for what has no word here. */
std::string
comment_target(const Definition &object)
{
	if (object.type.ends_with(" column"))
		return "COLUMN " + object.identity;
	if (object.type == "domain constraint" && object.names.size() == 1 && object.args.size() == 1)
		return "CONSTRAINT " + sql::ident(object.args[0]) + " ON DOMAIN " + object.names[0];
	const Keyword *keyword = find_keyword(object.type);
	return keyword == nullptr ? std::string() : std::string(keyword->object) + " " + object.identity;
}

} // namespace

void
DefinitionMerge::set_comment()
{
	std::string change = "comment on " + theirs_->type + " " + theirs_->identity;

	if (!target_is_there(Op::SetComment, change))
		return;
	std::string target = comment_target(*ours_);
	if (target.empty()) {
		Operation &operation = add(Op::SetComment, {}, change);
		operation.verdict = Verdict::Ignore;
		operation.detail = "Objects of this kind are not followed.";
	} else if (theirs_->text != ours_->text) {
		add(Op::SetComment,
		    {"COMMENT ON " + target + " IS " + (theirs_->text ? sql::literal(*theirs_->text) : std::string("NULL"))}, change);
	}
}

namespace {

bool
contains(const std::vector<Privilege> &list, const Privilege &wanted)
{
	return std::any_of(list.begin(), list.end(), [&](const Privilege &one) { return one.same_as(wanted); });
}

const Privilege *
find_grant(const std::vector<Privilege> &list, const Privilege &wanted)
{
	for (const Privilege &one : list)
		if (one.same_as(wanted))
			return &one;
	return nullptr;
}

/* The statements of one kind for a list of grants, one for each role, in the order of the list: that of the publisher. */
std::vector<std::string>
grant_statements(const std::vector<Privilege> &grants, const std::string &target, const std::string &owner,
                 std::string_view begin, std::string_view preposition)
{
	bool grants_options = begin.ends_with("GRANT ");
	std::vector<std::string> statements;
	std::vector<const Privilege *> left;

	for (const Privilege &grant : grants)
		left.push_back(&grant);
	while (!left.empty()) {
		const Privilege first = *left.front();
		std::vector<std::string> parts;
		std::erase_if(left, [&](const Privilege *grant) {
			if (grant->role != first.role || grant->owner != first.owner ||
			    (grants_options && grant->grantable != first.grantable))
				return false;
			parts.push_back(grant->privilege + (grant->column.empty() ? "" : " (" + sql::ident(grant->column) + ")"));
			return true;
		});
		std::string role = first.owner ? sql::ident(owner) : first.role.empty() ? "PUBLIC" : sql::ident(first.role);
		statements.push_back(std::string(begin) + sql::join(parts, ", ") + " ON " + target + " " + std::string(preposition) +
		                     " " + role + (grants_options && first.grantable ? " WITH GRANT OPTION" : ""));
	}
	return statements;
}

void
append(std::vector<std::string> &to, std::vector<std::string> from)
{
	to.insert(to.end(), from.begin(), from.end());
}

} // namespace

void
DefinitionMerge::set_privileges()
{
	std::string change = "privileges on " + theirs_->type + " " + theirs_->identity;

	if (!target_is_there(Op::SetPrivileges, change))
		return;
	const Keyword *keyword = find_keyword(ours_->type);
	if (keyword == nullptr || keyword->granted.empty())
		return;
	std::string target = std::string(keyword->granted) + " " + ours_->identity;
	const std::vector<Privilege> &base = input_.base != nullptr ? input_.base->acl : theirs_->default_acl;
	std::vector<Privilege> now = ours_->acl, revoked, narrowed, granted;
	auto is_known = [&](const Privilege &grant) {
		/* MAINTAIN came with 17 */
		return grant.privilege != "MAINTAIN" || input_.server_version == 0 || input_.server_version >= 170000;
	};

	for (const Privilege &own : ours_->acl)
		if (contains(base, own) && !contains(theirs_->acl, own))
			revoked.push_back(own);
	for (const Privilege &gone : revoked)
		/* a privilege on the whole takes those on columns with it */
		std::erase_if(now, [&](const Privilege &own) {
			return own.role == gone.role && own.owner == gone.owner && own.privilege == gone.privilege &&
			       (gone.column.empty() || own.column == gone.column);
		});
	for (const Privilege &wanted : theirs_->acl) {
		const Privilege *own = find_grant(now, wanted);
		const Privilege *was = find_grant(base, wanted);
		if (own != nullptr && own->grantable && !wanted.grantable && was != nullptr && was->grantable)
			narrowed.push_back(wanted);
		else if ((own == nullptr || (wanted.grantable && !own->grantable)) && is_known(wanted))
			granted.push_back(wanted);
	}
	std::vector<std::string> statements = grant_statements(revoked, target, ours_->owner, "REVOKE ", "FROM");
	append(statements, grant_statements(narrowed, target, ours_->owner, "REVOKE GRANT OPTION FOR ", "FROM"));
	append(statements, grant_statements(granted, target, ours_->owner, "GRANT ", "TO"));
	if (!statements.empty())
		add(Op::SetPrivileges, std::move(statements), change);
}

/*
 * What a role gives to new objects, wholly as on the publisher: what it gave to an object here is a matter of that object's own
 * privileges, which are told with it.
 */
void
DefinitionMerge::set_default_privileges()
{
	struct {
		std::string_view letter, objects;
	} const kinds[] = {{"r", "TABLES"}, {"S", "SEQUENCES"}, {"f", "FUNCTIONS"}, {"T", "TYPES"}, {"n", "SCHEMAS"}};
	std::string change = "default privileges " + theirs_->identity, objects;

	if (!target_is_there(Op::SetPrivileges, change))
		return;
	for (const auto &kind : kinds)
		if (theirs_->args.size() == 1 && theirs_->args[0] == kind.letter)
			objects = kind.objects;
	if (objects.empty() || theirs_->names.empty() || theirs_->names.size() > 2)
		return;
	std::string begin = "ALTER DEFAULT PRIVILEGES FOR ROLE " + sql::ident(theirs_->names[0]) +
	                    (theirs_->names.size() == 2 ? " IN SCHEMA " + sql::ident(theirs_->names[1]) : "");
	std::vector<Privilege> revoked, narrowed, granted;
	for (const Privilege &own : ours_->acl)
		if (!contains(theirs_->acl, own))
			revoked.push_back(own);
	for (const Privilege &wanted : theirs_->acl) {
		const Privilege *own = find_grant(ours_->acl, wanted);
		bool known = wanted.privilege != "MAINTAIN" || input_.server_version == 0 || input_.server_version >= 170000;
		if (own != nullptr && own->grantable && !wanted.grantable)
			narrowed.push_back(wanted);
		else if ((own == nullptr || (wanted.grantable && !own->grantable)) && known)
			granted.push_back(wanted);
	}
	std::vector<std::string> statements = grant_statements(revoked, objects, ours_->owner, begin + " REVOKE ", "FROM");
	append(statements, grant_statements(narrowed, objects, ours_->owner, begin + " REVOKE GRANT OPTION FOR ", "FROM"));
	append(statements, grant_statements(granted, objects, ours_->owner, begin + " GRANT ", "TO"));
	if (!statements.empty())
		add(Op::SetPrivileges, std::move(statements), change);
}

} // namespace schemasync::merge
