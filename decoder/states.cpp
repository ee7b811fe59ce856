#include "decoder/announcer.hpp"

#include <cstring>

#include "decoder/publication.hpp"
#include "pg/catalog/json.hpp"

extern "C" {
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
}

namespace schemasync::decoder {

namespace catalog = pg::catalog;
namespace json = pg::json;

namespace {

/* To be remembered when the message was sent. */
struct Note {
	Oid classid;
	Oid oid;
	catalog::Facts facts;
	const char *json;
};

// ---- leaves: may ereport; plain data only ----

void
add_note(Outgoing *outgoing, Oid classid, Oid oid, const catalog::Facts &facts, const char *text)
{
	auto *note = static_cast<Note *>(palloc(sizeof(Note)));

	*note = Note{classid, oid, facts, text};
	outgoing->notes = lappend(outgoing->notes, note);
}

/* The columns of a partition that its root's column list names. */
Bitmapset *
columns_by_name(const Bitmapset *columns, Oid from, Oid to)
{
	Bitmapset *mapped = nullptr;

	for (int attnum = -1; (attnum = bms_next_member(columns, attnum)) >= 0;) {
		const char *name = get_attname(from, static_cast<AttrNumber>(attnum), true);
		AttrNumber there = name != nullptr ? get_attnum(to, name) : InvalidAttrNumber;
		if (there > 0)
			mapped = bms_add_member(mapped, there);
	}
	return mapped;
}

} // namespace

void
begin_outgoing(Outgoing *outgoing)
{
	initStringInfo(&outgoing->json);
	outgoing->notes = NIL;
	outgoing->news = false;
	json::begin_object(&outgoing->json);
	json::number(&outgoing->json, "v", 1);
}

bool
read_published(Session *session, Oid relid, catalog::Published *published)
{
	Relation relation = RelationIdGetRelation(relid);

	if (relation == nullptr)
		return false;
	const RelationEntry *entry = find_relation(session, relation);
	bool as_root = OidIsValid(entry->publish_as) && entry->publish_as != relid;
	bool partitioned = relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
	bool rows = entry->actions.pubinsert || entry->actions.pubupdate || entry->actions.pubdelete;

	published->columns = as_root ? columns_by_name(entry->columns, entry->publish_as, relid) : entry->columns;
	published->filter = entry->filter_executor != nullptr;
	published->via_root = as_root || (partitioned && rows);
	published->inserts_only = !entry->actions.pubupdate && !entry->actions.pubdelete;
	RelationClose(relation);
	return true;
}

bool
append_relation_state(const Place &place, Oid relid, Include include, Outgoing *outgoing, catalog::Facts *facts)
{
	SentStates *sent = place.session->announcer->sent;
	catalog::Published published;
	catalog::Reading reading = place.reading;
	StringInfoData text;

	*facts = catalog::Facts{};
	if (!read_published(place.session, relid, &published))
		return false;
	reading.published = &published;
	initStringInfo(&text);
	if (!catalog::append_relation(&text, relid, &reading, facts))
		return false;

	News news = judge_state(sent, place, RelationRelationId, relid, *facts);
	if (news == News::older || (news == News::same && include == Include::news))
		return false;
	outgoing->news = outgoing->news || news != News::same;
	json::separate(&outgoing->json);
	appendBinaryStringInfo(&outgoing->json, text.data, text.len);
	add_note(outgoing, RelationRelationId, relid, *facts, nullptr);
	return true;
}

void
append_type_states(const Place &place, List *types, Outgoing *outgoing)
{
	Announcer *announcer = place.session->announcer;
	ListCell *cell;

	json::begin_array(&outgoing->json, "types");
	foreach(cell, types) {
		Oid typid = lfirst_oid(cell);
		catalog::Facts facts{};
		StringInfoData text;

		initStringInfo(&text);
		if (!catalog::append_type(&text, typid, &place.reading, &facts))
			continue;
		News news = judge_state(announcer->sent, place, TypeRelationId, typid, facts);
		const char *later =
		    news == News::older ? recall_state(announcer->sent, place, TypeRelationId, typid) : nullptr;
		json::separate(&outgoing->json);
		appendStringInfoString(&outgoing->json, later != nullptr ? later : text.data);
		depend_on_type(announcer->dependencies, typid);
		if (news == News::older)
			continue;
		outgoing->news = outgoing->news || news != News::same;
		add_note(outgoing, TypeRelationId, typid, facts, text.data);
	}
	json::end_array(&outgoing->json);
}

List *
published_types(const Place &place, Oid relid, List **known)
{
	catalog::Published published;

	if (!read_published(place.session, relid, &published))
		return NIL;
	return catalog::collect_relation_types(relid, published.columns, known);
}

void
send_outgoing(const Place &place, const char *prefix, Outgoing *outgoing)
{
	ListCell *cell;

	json::end_object(&outgoing->json);
	send_json(place, prefix, &outgoing->json);
	foreach(cell, outgoing->notes) {
		auto *note = static_cast<const Note *>(lfirst(cell));
		note_state_sent(place.session->announcer->sent, place, note->classid, note->oid, note->facts, note->json);
	}
}

} // namespace schemasync::decoder
