/*
 * Types (enum, domain, composite, range), by the oids of the type, its labels, constraints and attributes.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

bool
is_check(const state::Constraint &constraint)
{
	return constraint.type == 'c';
}

class TypeMerge {
public:
	TypeMerge(const state::Type *base, const state::Type *theirs, const state::Type *ours,
	          const Command &command, const Policy &policy, const LocalFacts &facts)
	    : base_(base), theirs_(theirs), ours_(ours), command_(command), policy_(policy), facts_(facts)
	{
		name_ = ours != nullptr ? ours->name : theirs != nullptr ? theirs->name : base->name;
	}

	Result run();

private:
	void create();
	bool same_shape(std::string &why) const;
	void drop();
	void names();
	void owner();
	void labels();
	void add_label(std::size_t at);
	void domain();
	void domain_constraints();
	void attributes();

	Operation &
	add(Op op, std::string change)
	{
		return add_operation(result_, op, shown(), std::move(change));
	}
	std::string
	shown() const
	{
		return sql::shown(name_.schema, name_.name);
	}
	std::string
	keyword() const
	{
		return (theirs_ != nullptr ? theirs_ : base_)->typtype == 'd' ? "DOMAIN " : "TYPE ";
	}
	std::string
	alter(const std::string &action) const
	{
		return "ALTER " + keyword() + sql::qualified(name_) + " " + action;
	}
	bool
	same_type(const state::TypeRef &theirs, const state::TypeRef &ours) const
	{
		if (theirs.typmod != ours.typmod || theirs.builtin != ours.builtin)
			return false;
		if (theirs.builtin)
			return theirs.oid == ours.oid;
		Oid mapped = facts_.local_type(theirs.oid);
		return mapped != 0 ? mapped == ours.oid : theirs.schema == ours.schema && theirs.name == ours.name;
	}

	const state::Type *base_, *theirs_, *ours_;
	const Command &command_;
	const Policy &policy_;
	const LocalFacts &facts_;
	state::Name name_; /* of the local type at this point of the plan */
	std::vector<std::string> labels_;
	Result result_;
};

/* CREATE TYPE name; whose only use is in the declaration of the functions that read and write it. */
bool
is_shell(const state::Type &type)
{
	return type.typtype == 'p';
}

Result
TypeMerge::run()
{
	const state::Type *subject = theirs_ != nullptr ? theirs_ : base_;
	if (!subject->extension.empty()) {
		ignore(add(Op::ExtensionMember, "type " + shown() + " of extension " + subject->extension),
		       "Members of an extension are changed by the extension's own scripts on each side.");
	} else if (theirs_ == nullptr) {
		drop();
	} else if (is_shell(*theirs_)) {
		ignore(add(Op::CreateType, "shell type " + shown() + " was created"),
		       "A shell has no values. The type is told of when it is defined.");
	} else if (base_ == nullptr || is_shell(*base_)) {
		create();
	} else if (ours_ == nullptr) {
		Operation &operation = add(Op::AlterType, "type " + shown() + " changed");
		refuse(operation, Reason::MissingObject, "The type is missing on the subscriber.");
		teach(operation, shown());
	} else if (base_->typtype != theirs_->typtype || base_->base.oid != theirs_->base.oid ||
	           base_->base.typmod != theirs_->base.typmod || base_->opclass != theirs_->opclass ||
	           base_->canonical != theirs_->canonical || base_->diff != theirs_->diff) {
		Operation &operation = add(Op::AlterType, "type " + shown() + " is another type now");
		refuse(operation, Reason::UnsupportedObject,
		       "The kind, base or subtype of a type does not change in place.");
		teach(operation, shown());
	} else {
		names();
		owner();
		labels();
		domain();
		attributes();
	}
	apply_schema_changes(result_, policy_);
	return std::move(result_);
}

bool
TypeMerge::same_shape(std::string &why) const
{
	if (ours_->typtype != theirs_->typtype)
		return why = "it is another kind of type", false;
	/* labels of its own between ours are no harm, another order is */
	auto at = ours_->labels.begin();
	for (const state::EnumLabel &label : theirs_->labels) {
		at = std::find_if(at, ours_->labels.end(),
		                  [&](const state::EnumLabel &other) { return other.label == label.label; });
		if (at == ours_->labels.end())
			return why = "the label " + sql::literal(label.label) + " is missing or stands elsewhere", false;
	}
	if ((theirs_->typtype == 'd' || theirs_->typtype == 'r') && !same_type(theirs_->base, ours_->base))
		return why = "it is over " + ours_->base.sql + ", not " + theirs_->base.sql, false;
	if (theirs_->typtype == 'c') {
		if (theirs_->attributes.size() != ours_->attributes.size())
			return why = "it has another number of attributes", false;
		for (std::size_t i = 0; i < theirs_->attributes.size(); i++)
			if (theirs_->attributes[i].name != ours_->attributes[i].name ||
			    !same_type(theirs_->attributes[i].type, ours_->attributes[i].type))
				return why = "the attribute " + sql::shown(theirs_->attributes[i].name) + " differs", false;
	}
	return true;
}

void
TypeMerge::create()
{
	Operation &operation = add(Op::CreateType, "type " + shown() + " was created");
	if (ours_ != nullptr && !(is_shell(*ours_) && theirs_->typtype == 'b')) {
		std::string why;
		if (same_shape(why))
			return satisfy(operation, "The subscriber has this type.");
		/* the row type of a table is renamed with that */
		if (ours_->row_type_of) {
			refuse_taken(operation, name_.schema, name_.name, facts_);
			return teach(operation, shown());
		}
		const std::string aside = name_beside(name_.name, "_local", [&](const std::string &other) {
			return facts_.type_kind(name_.schema, other) != 0 || facts_.relation_exists(name_.schema, other);
		});
		/* whatever kind it is here: ALTER TYPE renames domains too */
		operation.suggested_sql = "ALTER TYPE " + sql::qualified(name_) + " RENAME TO " + sql::ident(aside);
		refuse(operation, Reason::LocalNameTaken,
		       "The subscriber has another type of that name: " + why + ".");
		return teach(operation, shown());
	}
	bool proven = true;
	if (!facts_.schema_exists(theirs_->name.schema)) {
		refuse(operation, Reason::MissingObject,
		       "The schema " + sql::shown(theirs_->name.schema) + " is missing on the subscriber.");
		proven = false;
	}
	if (theirs_->typtype == 'd' || theirs_->typtype == 'r')
		proven = proven && prove_type(operation, theirs_->base, theirs_->collation, facts_);
	for (const state::Attribute &attribute : theirs_->attributes)
		proven = proven && prove_type(operation, attribute.type, attribute.collation, facts_);
	proven = proven && prove(operation, theirs_->default_expr, false, facts_);
	for (const state::Constraint &constraint : theirs_->constraints) {
		proven = proven && prove(operation, constraint.expr, true, facts_);
		if (proven && !sql::is_one_clause(constraint.definition)) {
			refuse(operation, Reason::UnsupportedObject, "The definition of a constraint is not one clause.");
			proven = false;
		}
	}
	std::vector<std::string> statements = render_create_type(*theirs_);
	if (proven && statements.empty()) {
		refuse(operation, Reason::UnsupportedObject, "This kind of type is made by an extension or by hand.");
		proven = false;
	}
	if (!proven)
		return teach(operation, shown());
	operation.sql = std::move(statements);
	if (policy_.owners_same && !theirs_->owner.empty() && facts_.role_exists(theirs_->owner))
		operation.sql.push_back(alter("OWNER TO " + sql::ident(theirs_->owner)));
}

void
TypeMerge::drop()
{
	Operation &operation = add(Op::DropType, "type " + shown() + " was dropped");
	if (ours_ == nullptr)
		return satisfy(operation, "The subscriber has no such type.");
	/* a type that is finished here was never the publisher's */
	if (is_shell(*base_))
		return ignore(operation, "It was a shell, of which nothing was made here.");
	std::vector<std::string> standing;
	for (const Dependent &dependent : facts_.type_dependents(name_.schema, name_.name))
		standing.push_back(dependent.type + " " + dependent.identity);
	std::string statement = "DROP " + keyword() + sql::qualified(name_);
	if (!standing.empty()) {
		operation.suggested_sql = statement;
		refuse(operation, Reason::LocalDependents,
		       "These objects of the subscriber use it: " + sql::join(standing, ", ") + ".");
		return teach(operation, shown());
	}
	operation.sql = {statement};
}

void
TypeMerge::names()
{
	bool moved = base_->name.schema != theirs_->name.schema;
	bool renamed = base_->name.name != theirs_->name.name;
	if (!moved && !renamed)
		return;
	std::string is = sql::shown(theirs_->name.schema, theirs_->name.name);
	std::string change = "type " + sql::shown(base_->name.schema, base_->name.name) +
	                     (moved ? " was moved to " : " was renamed to ") + is;
	Operation &operation = add_operation(result_, moved ? Op::SetTypeSchema : Op::RenameType, is, change);
	if (name_.schema == theirs_->name.schema && name_.name == theirs_->name.name)
		return satisfy(operation, "The subscriber's type has that name.");
	if (name_.schema != base_->name.schema || name_.name != base_->name.name) {
		refuse(operation, Reason::LocalDrift, "The subscriber's type is named " + shown() + ".");
		return teach(operation, shown());
	}
	if (moved && !facts_.schema_exists(theirs_->name.schema)) {
		refuse(operation, Reason::MissingObject,
		       "The schema " + sql::shown(theirs_->name.schema) + " is missing on the subscriber.");
		return teach(operation, shown());
	}
	if (moved && renamed) {
		std::string aside = "schemasync_rename_" + std::to_string(theirs_->name.oid);
		operation.sql.push_back(alter("RENAME TO " + sql::ident(aside)));
		name_.name = aside;
	}
	if (moved) {
		operation.sql.push_back(alter("SET SCHEMA " + sql::ident(theirs_->name.schema)));
		name_.schema = theirs_->name.schema;
	}
	if (name_.name != theirs_->name.name) {
		operation.sql.push_back(alter("RENAME TO " + sql::ident(theirs_->name.name)));
		name_.name = theirs_->name.name;
	}
}

void
TypeMerge::owner()
{
	if (base_->owner == theirs_->owner || theirs_->owner.empty() || base_->owner.empty())
		return;
	Operation &operation =
	    add(Op::ChangeTypeOwner, "owner of type " + shown() + " is " + sql::shown(theirs_->owner));
	if (!policy_.owners_same)
		ignore(operation, "The subscription has owners = subscription.");
	else if (ours_->owner == theirs_->owner)
		satisfy(operation, "The subscriber's type has that owner.");
	else if (facts_.role_exists(theirs_->owner))
		operation.sql = {alter("OWNER TO " + sql::ident(theirs_->owner))};
	else {
		refuse(operation, Reason::MissingObject,
		       "The role " + sql::shown(theirs_->owner) + " is missing on the subscriber.");
		teach(operation, shown());
	}
}

/* Renames first, in an order that keeps labels apart; then each new label beside the one before it. */
void
TypeMerge::labels()
{
	if (theirs_->typtype != 'e')
		return;
	for (const state::EnumLabel &label : ours_->labels)
		labels_.push_back(label.label);
	auto has = [&](const std::string &label) {
		return std::find(labels_.begin(), labels_.end(), label) != labels_.end();
	};
	struct Rename {
		std::string from, to;
	};
	std::vector<Rename> waiting;
	for (const state::EnumLabel &base : base_->labels) {
		auto now = std::find_if(theirs_->labels.begin(), theirs_->labels.end(),
		                        [&](const auto &label) { return label.oid == base.oid; });
		if (now == theirs_->labels.end()) {
			Operation &operation =
			    add(Op::AlterType, "label " + sql::literal(base.label) + " of " + shown() + " is gone");
			refuse(operation, Reason::UnsupportedObject, "A label is not dropped in place.");
			teach(operation, shown());
		} else if (now->label != base.label) {
			waiting.push_back({base.label, now->label});
		}
	}
	auto rename = [&](const std::string &from, const std::string &to) {
		Operation &operation = add(Op::RenameEnumValue, "label " + sql::literal(from) + " of " + shown() +
		                                                    " was renamed to " + sql::literal(to));
		operation.sql = {alter("RENAME VALUE " + sql::literal(from) + " TO " + sql::literal(to))};
		std::replace(labels_.begin(), labels_.end(), from, to);
	};
	while (!waiting.empty()) {
		auto missing = std::find_if(waiting.begin(), waiting.end(),
		                            [&](const Rename &candidate) { return !has(candidate.from); });
		if (missing != waiting.end()) {
			Operation &operation =
			    add(Op::RenameEnumValue, "label " + sql::literal(missing->from) + " of " + shown() +
			                                 " was renamed to " + sql::literal(missing->to));
			if (has(missing->to)) {
				satisfy(operation, "The subscriber's type has that label.");
			} else {
				refuse(operation, Reason::LocalDrift, "The subscriber's type has neither label.");
				teach(operation, shown());
			}
			waiting.erase(missing);
			continue;
		}
		auto ready = std::find_if(waiting.begin(), waiting.end(),
		                          [&](const Rename &candidate) { return !has(candidate.to); });
		if (ready != waiting.end()) {
			rename(ready->from, ready->to);
			waiting.erase(ready);
			continue;
		}
		bool circle = std::all_of(waiting.begin(), waiting.end(), [&](const Rename &candidate) {
			return std::any_of(waiting.begin(), waiting.end(),
			                   [&](const Rename &other) { return other.from == candidate.to; });
		});
		if (!circle) {
			Operation &operation = add(Op::RenameEnumValue, "labels of " + shown() + " were renamed");
			refuse(operation, Reason::LocalNameTaken,
			       "The subscriber's type has a label of that name of its own.");
			teach(operation, shown());
			return;
		}
		std::string aside = "schemasync_rename";
		while (has(aside))
			aside += "_";
		rename(waiting.front().from, aside);
		waiting.front().from = aside;
	}
	for (std::size_t i = 0; i < theirs_->labels.size(); i++)
		if (std::none_of(base_->labels.begin(), base_->labels.end(),
		                 [&](const auto &label) { return label.oid == theirs_->labels[i].oid; }))
			add_label(i);
}

void
TypeMerge::add_label(std::size_t at)
{
	const std::string &label = theirs_->labels[at].label;
	Operation &operation = add(Op::AddEnumValue, "label " + sql::literal(label) + " was added to " + shown());
	if (std::find(labels_.begin(), labels_.end(), label) != labels_.end())
		return satisfy(operation, "The subscriber's type has that label.");
	std::string place;
	auto position = labels_.end();
	if (at > 0) {
		/* all labels before this one have been seen to */
		position = std::find(labels_.begin(), labels_.end(), theirs_->labels[at - 1].label);
		if (position != labels_.end()) {
			place = " AFTER " + sql::literal(*position);
			++position;
		}
	} else if (!labels_.empty()) {
		for (std::size_t next = 1; next < theirs_->labels.size() && place.empty(); next++) {
			position = std::find(labels_.begin(), labels_.end(), theirs_->labels[next].label);
			if (position != labels_.end())
				place = " BEFORE " + sql::literal(*position);
		}
	}
	if (place.empty() && !labels_.empty()) {
		refuse(operation, Reason::LocalDrift, "The subscriber's type lacks the labels beside it.");
		return teach(operation, shown());
	}
	operation.sql = {alter("ADD VALUE " + sql::literal(label) + place)};
	labels_.insert(position, label);
}

void
TypeMerge::domain()
{
	if (theirs_->typtype != 'd')
		return;
	auto text = [](const std::optional<state::Expression> &expression) {
		return expression ? expression->sql : std::string();
	};
	if (text(base_->default_expr) != text(theirs_->default_expr)) {
		Operation &operation =
		    add(Op::SetDomainDefault, "default of domain " + shown() + " is " +
		                                  (theirs_->default_expr ? theirs_->default_expr->sql : "dropped"));
		if (text(ours_->default_expr) == text(theirs_->default_expr))
			satisfy(operation, "The subscriber's domain is so.");
		else if (!prove(operation, theirs_->default_expr, false, facts_))
			teach(operation, shown());
		else
			operation.sql = {
			    alter(theirs_->default_expr ? "SET DEFAULT " + theirs_->default_expr->sql : "DROP DEFAULT")};
	}
	if (base_->not_null != theirs_->not_null) {
		Operation &operation =
		    add(Op::SetDomainNotNull,
		        "domain " + shown() + (theirs_->not_null ? " is NOT NULL" : " may be NULL"));
		if (ours_->not_null == theirs_->not_null)
			satisfy(operation, "The subscriber's domain is so.");
		else
			operation.sql = {alter(theirs_->not_null ? "SET NOT NULL" : "DROP NOT NULL")};
	}
	domain_constraints();
}

void
TypeMerge::domain_constraints()
{
	auto find = [](const std::vector<state::Constraint> &all, auto matches) -> const state::Constraint * {
		auto found = std::find_if(all.begin(), all.end(),
		                          [&](const state::Constraint &c) { return is_check(c) && matches(c); });
		return found == all.end() ? nullptr : &*found;
	};
	auto ours_named = [&](const std::string &name) {
		return find(ours_->constraints, [&](const auto &c) { return c.name == name; });
	};
	for (const state::Constraint &base : base_->constraints) {
		if (!is_check(base) || find(theirs_->constraints, [&](const auto &c) { return c.oid == base.oid; }))
			continue;
		Operation &operation = add(Op::DropDomainConstraint, "constraint " + sql::shown(base.name) +
		                                                         " of domain " + shown() + " was dropped");
		if (ours_named(base.name) == nullptr)
			satisfy(operation, "The subscriber's domain has no such constraint.");
		else
			operation.sql = {alter("DROP CONSTRAINT " + sql::ident(base.name))};
	}
	for (const state::Constraint &theirs : theirs_->constraints) {
		if (!is_check(theirs))
			continue;
		std::string what = "constraint " + sql::shown(theirs.name) + " of domain " + shown();
		const state::Constraint *base =
		    find(base_->constraints, [&](const auto &c) { return c.oid == theirs.oid; });
		if (base == nullptr) {
			Operation &operation = add(Op::AddDomainConstraint, what + " was added: " + theirs.definition);
			const state::Constraint *ours = ours_named(theirs.name);
			if (ours != nullptr && ours->definition == theirs.definition)
				satisfy(operation, "The subscriber's domain has this constraint.");
			else if (!prove(operation, theirs.expr, true, facts_))
				teach(operation, shown());
			else if (!sql::is_one_clause(theirs.definition)) {
				refuse(operation, Reason::UnsupportedObject, "Its definition is not one clause.");
				teach(operation, shown());
			} else
				operation.sql = {
				    alter("ADD CONSTRAINT " + sql::ident(theirs.name) + " " + theirs.definition)};
			continue;
		}
		const state::Constraint *ours = ours_named(base->name);
		if (base->name != theirs.name) {
			Operation &operation =
			    add(Op::RenameDomainConstraint, what + " was named " + sql::shown(base->name));
			if (ours == nullptr)
				satisfy(operation, "The subscriber's domain has no constraint of the old name.");
			else
				operation.sql = {
				    alter("RENAME CONSTRAINT " + sql::ident(base->name) + " TO " + sql::ident(theirs.name))};
		}
		if (!base->validated && theirs.validated) {
			Operation &operation = add(Op::ValidateDomainConstraint, what + " was validated");
			if (ours != nullptr && ours->validated)
				satisfy(operation, "The subscriber's constraint is validated.");
			else
				operation.sql = {alter("VALIDATE CONSTRAINT " + sql::ident(theirs.name))};
		}
	}
}

void
TypeMerge::attributes()
{
	if (theirs_->typtype != 'c')
		return;
	auto find = [](const std::vector<state::Attribute> &all, AttrNumber attnum) -> const state::Attribute * {
		auto found = std::find_if(all.begin(), all.end(), [&](const auto &a) { return a.attnum == attnum; });
		return found == all.end() ? nullptr : &*found;
	};
	std::vector<std::string> names;
	for (const state::Attribute &attribute : ours_->attributes)
		names.push_back(attribute.name);
	/*
	 * A typed table has the columns of its type. DROP ATTRIBUTE ... CASCADE would also drop what stands on those columns, so
	 * the tables leave the type for it.
	 */
	std::string with_tables;
	std::vector<std::string> tables;
	for (const Dependent &dependent : facts_.type_dependents(ours_->name.schema, ours_->name.name))
		if (dependent.type == "table")
			tables.push_back("ALTER TABLE " + dependent.identity);
	if (!tables.empty())
		with_tables = " CASCADE";
	auto has = [&](const std::string &name) {
		return std::find(names.begin(), names.end(), name) != names.end();
	};
	for (const state::Attribute &base : base_->attributes) {
		if (find(theirs_->attributes, base.attnum) != nullptr)
			continue;
		Operation &operation =
		    add(Op::DropAttribute, "attribute " + sql::shown(base.name) + " of " + shown() + " was dropped");
		if (!has(base.name)) {
			satisfy(operation, "The subscriber's type has no such attribute.");
		} else {
			for (const std::string &table : tables) {
				operation.sql.push_back(table + " NOT OF");
				operation.sql.push_back(table + " DROP COLUMN " + sql::ident(base.name));
			}
			operation.sql.push_back(alter("DROP ATTRIBUTE " + sql::ident(base.name)));
			for (const std::string &table : tables)
				operation.sql.push_back(table + " OF " + sql::qualified(ours_->name));
			std::erase(names, base.name);
		}
	}
	for (const state::Attribute &theirs : theirs_->attributes) {
		const state::Attribute *base = find(base_->attributes, theirs.attnum);
		if (base == nullptr || base->name == theirs.name)
			continue;
		Operation &operation =
		    add(Op::RenameAttribute, "attribute " + sql::shown(base->name) + " of " + shown() +
		                                 " was renamed to " + sql::shown(theirs.name));
		if (has(base->name) && !has(theirs.name)) {
			operation.sql = {
			    alter("RENAME ATTRIBUTE " + sql::ident(base->name) + " TO " + sql::ident(theirs.name) + with_tables)};
			std::replace(names.begin(), names.end(), base->name, theirs.name);
		} else if (!has(base->name) && has(theirs.name)) {
			satisfy(operation, "The subscriber's attribute has that name.");
		} else {
			refuse(operation, Reason::LocalNameTaken, "The subscriber's type has attributes of other names.");
			teach(operation, shown());
		}
	}
	for (const state::Attribute &theirs : theirs_->attributes) {
		const state::Attribute *base = find(base_->attributes, theirs.attnum);
		auto ours = std::find_if(ours_->attributes.begin(), ours_->attributes.end(), [&](const auto &a) {
			return a.name == (base != nullptr ? base->name : theirs.name);
		});
		bool there = ours != ours_->attributes.end() && same_type(theirs.type, ours->type);
		if (base == nullptr) {
			Operation &operation = add(Op::AddAttribute, "attribute " + sql::shown(theirs.name) + " " +
			                                                 theirs.type.sql + " was added to " + shown());
			if (there && has(theirs.name))
				satisfy(operation, "The subscriber's type has this attribute.");
			else if (has(theirs.name)) {
				refuse(operation, Reason::LocalNameTaken,
				       "The subscriber's type has an attribute of that name.");
				teach(operation, shown());
			} else if (!prove_type(operation, theirs.type, theirs.collation, facts_))
				teach(operation, shown());
			else
				operation.sql = {alter("ADD ATTRIBUTE " + attribute_clause(theirs) + with_tables)};
		} else if (base->type.oid != theirs.type.oid || base->type.typmod != theirs.type.typmod ||
		           base->collation != theirs.collation) {
			Operation &operation =
			    add(Op::AlterAttributeType,
			        "attribute " + sql::shown(theirs.name) + " of " + shown() + " is " + theirs.type.sql);
			if (there)
				satisfy(operation, "The subscriber's attribute is so.");
			else if (!prove_type(operation, theirs.type, theirs.collation, facts_))
				teach(operation, shown());
			else
				operation.sql = {alter("ALTER ATTRIBUTE " + sql::ident(theirs.name) + " TYPE " +
				                       theirs.type.sql +
				                       (theirs.collation.empty() ? "" : " COLLATE " + theirs.collation) + with_tables)};
		}
	}
}

} // namespace

Result
merge_type(const state::Type *base, const state::Type *theirs, const state::Type *ours,
           const Command &command, const Policy &policy, const LocalFacts *facts)
{
	if (base == nullptr && theirs == nullptr)
		return {};
	/* the row type of a table comes, changes and goes with the table */
	if ((theirs != nullptr ? theirs : base)->row_type_of)
		return {};
	return TypeMerge(base, theirs, ours, command, policy, facts != nullptr ? *facts : no_facts()).run();
}

} // namespace schemasync::merge
