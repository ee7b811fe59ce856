/*
 * Columns that go away and columns that have another name, by attnum.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

/* Generated columns first: what they are made from cannot be dropped before them without CASCADE. */
void
RelationMerge::drop_columns()
{
	std::vector<const state::Column *> gone;
	for (const state::Column &column : base_->columns)
		if (find_column(*theirs_, column.attnum) == nullptr)
			gone.push_back(&column);
	std::stable_partition(gone.begin(), gone.end(),
	                      [](const state::Column *column) { return column->generated != 0; });
	for (const state::Column *column : gone)
		drop_column(*column);
}

void
RelationMerge::drop_column(const state::Column &column)
{
	LocalColumn *local = local_of(column.attnum);
	std::string name = local != nullptr ? local->name : column.name;
	/* a column in a column list cannot be dropped without the list: it was taken off the list */
	if (theirs_->published_columns) {
		ignore(on_column(Op::UnpublishColumn, name, "column " + sql::shown(name) + " is no longer published"),
		       "The subscriber's column stays as it is.");
		if (local != nullptr)
			local->publisher = 0;
		return;
	}
	Operation &operation = on_column(Op::DropColumn, name, "column " + sql::shown(name) + " was dropped");
	if (local == nullptr)
		return satisfy(operation, "The subscriber has no such column.");

	const state::Column *twin = nullptr;
	for (const state::Column &candidate : theirs_->columns)
		if (find_column(*base_, candidate.attnum) == nullptr && candidate.type.sql == column.type.sql)
			twin = &candidate;
	/* (of a table that is copied afresh the values are copied, whichever it was) */
	if (!command_.captured && twin != nullptr && !input_.resumed && has_rows()) {
		operation.suggested_sql =
		    alter("RENAME COLUMN " + sql::ident(name) + " TO " + sql::ident(twin->name));
		if (twin->name == name)
			operation.suggested_sql.clear();
		refuse(operation, Reason::RenameUnproven,
		       "Column " + sql::shown(name) + " is gone and " + sql::shown(twin->name) +
		           " of the same type is new, but no event trigger recorded the commands that did it.");
		return teach(operation, shown_table());
	}
	if (policy_.drop_column == Choice::Keep) {
		ignore(operation,
		       "The subscription has drop_column = keep: the column stays and is NULL in new rows.");
		bool bars_rows =
		    local->column->not_null && !local->column->default_expr && local->column->generated == 0;
		std::string action = alter_column(name, "DROP NOT NULL");
		local->publisher = 0;
		if (bars_rows)
			on_column(Op::DropNotNull, name, "column " + sql::shown(name) + " gets no more values").sql = {
			    action};
		return;
	}
	/* a sequence that another column owns now must not go with this one */
	if (column.sequence && local->column->sequence)
		for (const state::Column &other : theirs_->columns)
			if (other.sequence && other.sequence->name.oid == column.sequence->name.oid)
				operation.sql.push_back("ALTER SEQUENCE " + sql::qualified(local->column->sequence->name) +
				                        " OWNED BY NONE");
	bool released = release_dependents(operation, local->column->attnum);
	const std::string statement = alter_alone("DROP COLUMN " + sql::ident(name));
	if (policy_.drop_column == Choice::Refuse)
		return refuse_by_policy(operation, statement, "The subscription has drop_column = refuse.");
	if (!released)
		return teach(operation, shown_table());
	operation.sql.push_back(statement);
	local->dropped = true;
}

/*
 * Renames in an order in which each name is free when it is taken; a circle (a swap) is opened with a name
 * that nobody has.
 */
void
RelationMerge::rename_columns()
{
	struct Rename {
		LocalColumn *local;
		const state::Column *theirs;
	};
	std::vector<Rename> waiting;
	for (const state::Column &theirs : theirs_->columns) {
		const state::Column *base = find_column(*base_, theirs.attnum);
		LocalColumn *local = local_of(theirs.attnum);
		if (base == nullptr || base->name == theirs.name)
			continue;
		std::string change =
		    "column " + sql::shown(base->name) + " was renamed to " + sql::shown(theirs.name);
		if (local == nullptr) {
			ignore(on_column(Op::RenameColumn, theirs.name, change),
			       "The subscriber does not keep this column.");
		} else if (local->name == theirs.name) {
			satisfy(on_column(Op::RenameColumn, theirs.name, change),
			        "The subscriber's column has that name.");
		} else if (local->name != base->name) {
			Operation &operation = on_column(Op::RenameColumn, theirs.name, change);
			operation.suggested_sql =
			    alter("RENAME COLUMN " + sql::ident(local->name) + " TO " + sql::ident(theirs.name));
			refuse(operation, Reason::LocalDrift,
			       "The subscriber's column is named " + sql::shown(local->name) + ".");
			teach(operation, shown_table());
		} else {
			waiting.push_back({local, &theirs});
		}
	}

	auto rename = [&](LocalColumn &local, const std::string &to, const std::string &change) {
		Operation &operation = on_column(Op::RenameColumn, to, change);
		operation.sql = {alter("RENAME COLUMN " + sql::ident(local.name) + " TO " + sql::ident(to))};
		local.name = to;
	};
	while (!waiting.empty()) {
		auto ready = std::find_if(waiting.begin(), waiting.end(), [&](const Rename &candidate) {
			return local_named(candidate.theirs->name) == nullptr;
		});
		if (ready != waiting.end()) {
			const state::Column *base = find_column(*base_, ready->theirs->attnum);
			rename(*ready->local, ready->theirs->name,
			       "column " + sql::shown(base->name) + " was renamed to " + sql::shown(ready->theirs->name));
			waiting.erase(ready);
			continue;
		}
		/* every name is taken: by one that waits itself, or by one that stays */
		auto blocked = std::find_if(waiting.begin(), waiting.end(), [&](const Rename &candidate) {
			const LocalColumn *holder = local_named(candidate.theirs->name);
			return std::none_of(waiting.begin(), waiting.end(),
			                    [&](const Rename &other) { return other.local == holder; });
		});
		if (blocked != waiting.end()) {
			Operation &operation = on_column(Op::RenameColumn, blocked->theirs->name,
			                                 "column " + sql::shown(blocked->local->name) +
			                                     " was renamed to " + sql::shown(blocked->theirs->name));
			refuse(operation, Reason::LocalNameTaken,
			       "The subscriber has a column " + sql::shown(blocked->theirs->name) + " of its own.");
			operation.suggested_sql = alter("RENAME COLUMN " + sql::ident(blocked->theirs->name) + " TO " +
			                                sql::ident(name_beside(blocked->theirs->name, "_local", [&](const std::string &other) {
				                                return local_named(other) != nullptr || find_column(*theirs_, other) != nullptr;
			                                })));
			teach(operation, shown_table());
			waiting.erase(blocked);
			continue;
		}
		std::string aside = "schemasync_rename_" + std::to_string(waiting.front().theirs->attnum);
		while (local_named(aside) != nullptr || find_column(*theirs_, aside) != nullptr)
			aside += "_";
		rename(*waiting.front().local, aside, "names are exchanged");
	}
}

} // namespace schemasync::merge
