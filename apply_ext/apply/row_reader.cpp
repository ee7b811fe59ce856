#include "apply_ext/apply/row_reader.hpp"

#include "apply_ext/apply/session.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "executor/executor.h"
#include "utils/acl.h"
}

namespace schemasync::apply {

// ---- leaves: may ereport; plain data only ----

void
check_width(const Target *target, Row row)
{
	if (row.size() != static_cast<std::size_t>(target->ncolumns))
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
		                errmsg("the publisher sent a row of %zu columns for table \"%s.%s\", which has %d",
		                       row.size(), target->schema, target->name, target->ncolumns)));
}

Datum
read_column(Session *session, Target *target, Column *column, const protocol::Value &value)
{
	session->position.column = column->name;
	Datum datum = read_value(&column->reader, value, target->mapping);
	session->position.column = nullptr;
	return datum;
}

void
read_new_row(Session *session, Target *target, Row row, TupleTableSlot *slot)
{
	ExecClearTuple(slot);
	if (!target->plain)
		memset(slot->tts_isnull, true, static_cast<Size>(target->local->desc->natts));
	for (int i = 0; i < target->ncolumns; i++) {
		Column *column = &target->columns[i];
		const protocol::Value &value = row[static_cast<std::size_t>(i)];
		if (column->local == 0)
			continue;
		if (value.is_unchanged())
			ereport(ERROR,
			        (errcode(ERRCODE_PROTOCOL_VIOLATION),
			         errmsg("the publisher sent no value for column \"%s\" of a new row", column->name)));
		slot->tts_isnull[column->local - 1] = value.is_null();
		slot->tts_values[column->local - 1] =
		    value.is_null() ? Datum{0} : read_column(session, target, column, value);
	}
	if (target->ndefaults > 0) {
		ExprContext *context = GetPerTupleExprContext(target->local->estate);
		act_for(session->relations->locals, target->local, ACL_INSERT);
		need_snapshot(session->relations->locals);
		for (int i = 0; i < target->ndefaults; i++) {
			AttrNumber column = target->defaults[i].column;
			slot->tts_values[column - 1] =
			    ExecEvalExpr(target->defaults[i].expression, context, &slot->tts_isnull[column - 1]);
		}
	}
	ExecStoreVirtualTuple(slot);
}

void
read_search_row(Session *session, Target *target, Row row, TupleTableSlot *slot)
{
	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, static_cast<Size>(target->local->desc->natts));
	for (int i = 0; i < target->ncolumns; i++) {
		Column *column = &target->columns[i];
		const protocol::Value &value = row[static_cast<std::size_t>(i)];
		if (!column->key || column->local == 0 || value.is_null())
			continue;
		if (value.is_unchanged())
			ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
			                errmsg("the publisher sent no value for column \"%s\" of the replica identity",
			                       column->name)));
		slot->tts_isnull[column->local - 1] = false;
		slot->tts_values[column->local - 1] = read_column(session, target, column, value);
	}
	ExecStoreVirtualTuple(slot);
}

void
convert_row(TupleTableSlot *from, const AttrNumber *attnum_of, TupleTableSlot *to)
{
	int columns = to->tts_tupleDescriptor->natts;

	slot_getallattrs(from);
	ExecClearTuple(to);
	for (int i = 0; i < columns; i++) {
		int source = attnum_of == nullptr ? i : attnum_of[i + 1] - 1;
		to->tts_isnull[i] = source < 0 || from->tts_isnull[source];
		to->tts_values[i] = source < 0 ? Datum{0} : from->tts_values[source];
	}
	ExecStoreVirtualTuple(to);
}

} // namespace schemasync::apply
