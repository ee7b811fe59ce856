/*
 * What a column that stays has beside name and type: default, identity, generation, NOT NULL, sequence,
 * storage.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

bool
same_text(const std::optional<state::Expression> &a, const std::optional<state::Expression> &b)
{
	return a.has_value() == b.has_value() && (!a || a->sql == b->sql);
}

/* From 17 on a partition shares it, sequence and all; before, an identity of a partition was its own. */
bool
has_parents_identity(const state::Relation &relation, const state::Column &column)
{
	return !relation.partition_bound.empty() && column.inhcount > 0 && column.identity != 0 &&
	       !column.sequence;
}

} // namespace

/* Only columns that the subscriber had: one added by this plan has all of it already. */
void
RelationMerge::column_attributes()
{
	for (const state::Column &theirs : theirs_->columns) {
		const LocalColumn *local = local_of(theirs.attnum);
		if (local == nullptr || local->column == nullptr)
			continue;
		const state::Column *base =
		    local->adopted || base_ == nullptr ? nullptr : find_column(*base_, theirs.attnum);
		generated(base, theirs, *local);
		identity(base, theirs, *local);
		owned_sequence(base, theirs, *local);
		default_value(base, theirs, *local);
		/* an owned sequence that was dropped while its column stays; its default went before */
		if (base != nullptr && base->sequence && base->identity == 0 && theirs.identity == 0 && !theirs.sequence &&
		    local->column->sequence && local->column->identity == 0 &&
		    std::any_of(command_.dropped.begin(), command_.dropped.end(), [&](const DroppedObject &dropped) {
			    return dropped.class_name == "pg_class" && dropped.oid == base->sequence->name.oid;
		    })) {
			const state::Name &own = local->column->sequence->name;
			add(Op::AlterSequence, sql::shown(own.schema, own.name),
			    "sequence " + sql::shown(base->sequence->name.schema, base->sequence->name.name) + " of column " +
			        sql::shown(local->name) + " was dropped")
			    .sql = {"DROP SEQUENCE " + sql::qualified(own)};
		}
		not_null(base, theirs, *local);
		if (base != nullptr)
			physical(base, theirs, *local);
	}
}

void
RelationMerge::generated(const state::Column *base, const state::Column &theirs, const LocalColumn &local)
{
	char before = base != nullptr ? base->generated : local.column->generated;
	if (before == 0 && theirs.generated == 0)
		return;
	if (before != 0 && theirs.generated == 0)
		return base == nullptr ? drop_expression(local) : void();
	/* one that was made by hand on a server without virtual columns may store what the publisher computes */
	bool adopted = base == nullptr && before != 0;
	if (before != theirs.generated && !adopted) {
		Operation &operation =
		    on_column(Op::Unsupported, local.name, "column " + sql::shown(local.name) + " became generated");
		refuse(operation, Reason::UnsupportedObject, "A column does not become generated in place.");
		return teach(operation, shown_table());
	}
	if (base == nullptr || same_expression(base->default_expr, theirs.default_expr) || !theirs.default_expr)
		return;
	/* the text also differs when a function in it was renamed; that is not a change of this column */
	if (command_.captured && !has_subcommand("AT_SetExpression"))
		return;
	Operation &operation =
	    on_column(Op::SetExpression, local.name,
	              "column " + sql::shown(local.name) + " is generated as " + theirs.default_expr->sql);
	if (same_text(local.column->default_expr, theirs.default_expr) &&
	    local.column->generated == theirs.generated)
		return satisfy(operation, "The subscriber's column has that expression.");
	if (!prove(operation, theirs.default_expr, true, true))
		return teach(operation, shown_table());
	if (facts_.server_version() != 0 && facts_.server_version() < 170000) {
		refuse(operation, Reason::UnsupportedObject, "The subscriber's server has no SET EXPRESSION.");
		return teach(operation, shown_table());
	}
	operation.sql = {alter_column(local.name, "SET EXPRESSION AS (" + theirs.default_expr->sql + ")")};
}

/* Before anything that an expression reads goes away or changes. */
void
RelationMerge::drop_expressions()
{
	for (const state::Column &theirs : theirs_->columns) {
		const LocalColumn *local = local_of(theirs.attnum);
		const state::Column *base = find_column(*base_, theirs.attnum);
		if (local != nullptr && local->column != nullptr && base != nullptr && base->generated != 0 &&
		    theirs.generated == 0)
			drop_expression(*local);
	}
}

void
RelationMerge::drop_expression(const LocalColumn &local)
{
	Operation &operation =
	    on_column(Op::DropExpression, local.name, "column " + sql::shown(local.name) + " is no longer generated");
	if (local.column->generated == 0)
		satisfy(operation, "The subscriber's column is not generated.");
	else
		operation.sql = {alter_column(local.name, "DROP EXPRESSION")};
}

void
RelationMerge::identity(const state::Column *base, const state::Column &theirs, const LocalColumn &local)
{
	char before = base != nullptr ? base->identity : local.column->identity;
	if (before == theirs.identity)
		return;
	std::string column = "column " + sql::shown(local.name);
	Op op = theirs.identity == 0 ? Op::DropIdentity : before == 0 ? Op::AddIdentity : Op::AlterIdentity;
	std::string kind = theirs.identity == 'a' ? "GENERATED ALWAYS" : "GENERATED BY DEFAULT";
	Operation &operation = on_column(op, local.name,
	                                 theirs.identity == 0 ? column + " is no longer an identity"
	                                                      : column + " is an identity, " + kind);
	if (local.column->identity == theirs.identity)
		return satisfy(operation, "The subscriber's column is so.");
	/* what is attached may have none of its own, what is detached loses it */
	if (has_parents_identity(*theirs_, theirs) || (base != nullptr && has_parents_identity(*base_, *base)))
		return ignore(operation, "A partition has the identity of the table it is a partition of.");
	if (theirs.identity == 0) {
		operation.sql = {alter_column(local.name, "DROP IDENTITY")};
	} else if (local.column->identity != 0) {
		operation.sql = {alter_column(local.name, "SET " + kind)};
	} else {
		if (local.column->default_expr)
			operation.sql.push_back(alter_column(local.name, "DROP DEFAULT"));
		/* a serial's sequence stays, unless its name is the identity's now, on the publisher too */
		if (local.column->sequence && theirs.sequence && local.column->sequence->name.name == theirs.sequence->name.name &&
		    local.column->sequence->name.schema == ours_->name.schema)
			operation.sql.push_back("DROP SEQUENCE " + sql::qualified(local.column->sequence->name));
		std::string why, not_null = local.column->not_null ? "" : set_not_null(theirs, local.name, why);
		if (!not_null.empty())
			operation.sql.push_back(not_null);
		operation.sql.push_back(alter_column(local.name, "ADD " + default_sql(theirs)));
	}
}

/* The sequence that a column owns: made, renamed, given to the column, altered. */
void
RelationMerge::owned_sequence(const state::Column *base, const state::Column &theirs,
                              const LocalColumn &local)
{
	/* an identity's comes and goes with it; a serial's may be there beside it */
	bool comes = theirs.identity != 0 && local.column->identity == 0;
	bool goes = theirs.identity == 0 && local.column->identity != 0;
	const std::optional<state::Sequence> ours = goes ? std::nullopt : local.column->sequence;
	if (!theirs.sequence || comes)
		return;
	const state::Sequence &wanted = *theirs.sequence;
	bool same_as_base = base != nullptr && base->sequence && base->sequence->name == wanted.name &&
	                    base->sequence->same_as(wanted);
	if (same_as_base)
		return;
	std::string shown = sql::shown(wanted.name.schema, wanted.name.name);
	std::vector<std::string> statements;
	if (!ours) {
		if (!facts_.relation_exists(wanted.name.schema, wanted.name.name))
			statements.push_back(create_sequence(wanted));
		statements.push_back(sequence_owned_by(wanted, table(), local.name));
	} else {
		if (ours->name.schema != wanted.name.schema && wanted.name.schema != schema_)
			statements.push_back("ALTER SEQUENCE " + sql::qualified(ours->name) + " SET SCHEMA " +
			                     sql::ident(wanted.name.schema));
		/* a sequence moves with its table */
		bool moved = ours->name.schema != schema_ && wanted.name.schema == schema_;
		std::string schema = moved ? schema_ : ours->name.schema;
		if (ours->name.name != wanted.name.name)
			statements.push_back("ALTER SEQUENCE " + sql::qualified(schema, ours->name.name) + " RENAME TO " +
			                     sql::ident(wanted.name.name));
		if (base != nullptr && base->sequence && !base->sequence->same_as(wanted) &&
		    !ours->same_as(wanted))
			statements.push_back("ALTER SEQUENCE " + sql::qualified(wanted.name) + " AS " + wanted.type +
			                     " " + sequence_options(wanted));
	}
	if (base == nullptr && statements.empty())
		return;
	Operation &operation =
	    add(Op::AlterSequence, shown, "sequence " + shown + " of column " + sql::shown(local.name));
	if (statements.empty())
		return satisfy(operation, "The subscriber's sequence is so.");
	operation.sql = std::move(statements);
}

void
RelationMerge::default_value(const state::Column *base, const state::Column &theirs, const LocalColumn &local)
{
	/* what is generated here alone stays so; what is no longer generated on either side has no default yet */
	bool was_generated = (base != nullptr ? base->generated : local.column->generated) != 0;
	if (theirs.generated != 0 || theirs.identity != 0 || (local.column->generated != 0 && !was_generated))
		return;
	if (base != nullptr && base->generated == 0 && base->identity == 0 &&
	    same_expression(base->default_expr, theirs.default_expr))
		return;
	bool already = local.column->generated != 0 ? !theirs.default_expr
	                                            : same_text(local.column->default_expr, theirs.default_expr);
	if (base == nullptr && already)
		return;
	if (!theirs.default_expr) {
		if (local.column->identity != 0 || was_generated || (base != nullptr && !base->default_expr))
			return;
		Operation &operation = on_column(Op::DropDefault, local.name,
		                                 "default of column " + sql::shown(local.name) + " was dropped");
		if (already)
			satisfy(operation, "The subscriber's column has no default.");
		else
			operation.sql = {alter_column(local.name, "DROP DEFAULT")};
		return;
	}
	Operation &operation =
	    on_column(Op::SetDefault, local.name,
	              "default of column " + sql::shown(local.name) + " is " + theirs.default_expr->sql);
	if (already)
		return satisfy(operation, "The subscriber's column has that default.");
	/* its own sequence is made with it, and no row is touched: that the rest is there is enough */
	std::optional<state::Expression> others = theirs.default_expr;
	if (theirs.sequence)
		std::erase_if(others->refs,
		              [](const state::Reference &reference) { return reference.kind == "relation"; });
	if (!prove(operation, others, false))
		return teach(operation, shown_table());
	operation.sql = {alter_column(local.name, "SET DEFAULT " + default_sql(theirs))};
}

void
RelationMerge::not_null(const state::Column *base, const state::Column &theirs, const LocalColumn &local)
{
	bool before = base != nullptr ? base->not_null : local.column->not_null;
	if (before == theirs.not_null)
		return;
	std::string column = "column " + sql::shown(local.name);
	if (!theirs.not_null) {
		Operation &operation = on_column(Op::DropNotNull, local.name, column + " may be NULL");
		if (!local.column->not_null)
			satisfy(operation, "The subscriber's column may be NULL.");
		else
			operation.sql = {alter_column(local.name, "DROP NOT NULL")};
		return;
	}
	Operation &operation = on_column(Op::SetNotNull, local.name, column + " is NOT NULL");
	if (local.column->not_null)
		return satisfy(operation, "The subscriber's column is NOT NULL.");
	/* it is made with the parent's, by the parent's command, and has its name from there */
	const state::Constraint *constraint = find_not_null(*theirs_, theirs.attnum);
	if (constraint != nullptr && !constraint->local && constraint->inhcount > 0 && has_followed_parent())
		return ignore(operation, "It comes with the parent table's constraint.");
	std::string why, statement = set_not_null(theirs, local.name, why);
	if (statement.empty())
		return ignore(operation, why);
	operation.sql = {statement};
}

/* What makes a column that is there NOT NULL, under the publisher's name where the subscriber's server has names;
 * empty, with the reason, when that server cannot have it so. */
std::string
RelationMerge::set_not_null(const state::Column &theirs, std::string_view name, std::string &why) const
{
	const state::Constraint *constraint = find_not_null(*theirs_, theirs.attnum);
	if (constraint != nullptr && facts_.server_version() >= 180000)
		return alter("ADD CONSTRAINT " + sql::ident(constraint->name) + " NOT NULL " + sql::ident(name) +
		             (constraint->no_inherit ? " NO INHERIT" : "") + (constraint->validated ? "" : " NOT VALID"));
	if (constraint != nullptr && !constraint->validated)
		why = "The subscriber's server has no NOT NULL that is NOT VALID; the column becomes NOT NULL "
		      "when the publisher validates the constraint.";
	else if (constraint != nullptr && constraint->no_inherit)
		why = "The subscriber's server has no NOT NULL that is NO INHERIT: tables that inherit from "
		      "this one would have it too.";
	else
		return alter_column(name, "SET NOT NULL");
	return "";
}

/* Whether a parent of the publisher's table is followed and is the parent of the subscriber's table too. */
bool
RelationMerge::has_followed_parent() const
{
	return std::any_of(theirs_->parents.begin(), theirs_->parents.end(), [&](const state::Name &parent) {
		std::optional<state::Name> local = facts_.local_relation(parent.oid);
		return local && std::any_of(ours_->parents.begin(), ours_->parents.end(), [&](const state::Name &ours) {
			       return ours.schema == local->schema && ours.name == local->name;
		       });
	});
}

/* What has no effect on rows. */
void
RelationMerge::physical(const state::Column *base, const state::Column &theirs, const LocalColumn &local)
{
	const state::Column &ours = *local.column;
	std::string column = " of column " + sql::shown(local.name);
	/* ALTER TYPE gives what the type has, on both sides; what the same command sets comes after that */
	bool retyped = base->type.oid != theirs.type.oid || base->type.typmod != theirs.type.typmod ||
	               base->collation != theirs.collation;
	bool altered = retyped || using_hint(theirs.attnum) != nullptr;
	/* a wider type that stays here has its own */
	bool stays = takes_every_value(ours.type, theirs.type) && !same_local_type(base->type, ours.type) &&
	             !same_local_type(theirs.type, ours.type);
	bool given = altered && !stays;
	auto says = [&](std::string_view subcommand, bool differs) {
		return given && (command_.captured ? has_subcommand(subcommand) : differs);
	};
	bool stored = says("AT_SetStorage", base->storage != theirs.storage) ||
	              (!retyped && base->storage != theirs.storage && theirs.storage != ours.storage);
	if (stored && theirs.storage != 0) {
		std::string word = theirs.storage == 'p'   ? "PLAIN"
		                   : theirs.storage == 'e' ? "EXTERNAL"
		                   : theirs.storage == 'm' ? "MAIN"
		                                           : "EXTENDED";
		on_column(Op::SetStorage, local.name, "storage" + column + " is " + word).sql = {
		    alter_column(local.name, "SET STORAGE " + word)};
	}
	if (says("AT_SetCompression", base->compression != theirs.compression) ||
	    (!retyped && base->compression != theirs.compression && theirs.compression != ours.compression)) {
		std::string word = theirs.compression == 'l' ? "lz4" : theirs.compression == 'p' ? "pglz" : "default";
		on_column(Op::SetCompression, local.name, "compression" + column + " is " + word).sql = {
		    alter_column(local.name, "SET COMPRESSION " + word)};
	}
	if (base->statistics != theirs.statistics && theirs.statistics != ours.statistics)
		on_column(Op::SetStatistics, local.name,
		          "statistics target" + column + " is " + std::to_string(theirs.statistics))
		    .sql = {alter_column(local.name, "SET STATISTICS " + std::to_string(theirs.statistics))};
	if (base->options != theirs.options && theirs.options != ours.options) {
		std::vector<std::string> gone;
		for (const std::string &option : ours.options) {
			std::string name = option.substr(0, option.find('='));
			if (std::none_of(theirs.options.begin(), theirs.options.end(),
			                 [&](const std::string &kept) { return kept.substr(0, kept.find('=')) == name; }))
				gone.push_back(sql::ident(name));
		}
		Operation &operation = on_column(Op::SetColumnOptions, local.name, "options" + column + " changed");
		if (!gone.empty())
			operation.sql.push_back(alter_column(local.name, "RESET (" + sql::join(gone, ", ") + ")"));
		if (!theirs.options.empty())
			operation.sql.push_back(alter_column(local.name, "SET " + options_sql(theirs.options)));
	}
}

} // namespace schemasync::merge
