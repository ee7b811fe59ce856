#include "decoder/relation_cache.hpp"

#include "decoder/announce.hpp"
#include "decoder/publication.hpp"

extern "C" {
#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
}

namespace schemasync::decoder {

struct RelationCache {
	HTAB *entries;
	RelationEntry *latest; /* changes come in runs of one relation */
	RelationEntry *held;   /* not to be rebuilt now */
	List *publications;    /* Publication *, in publication_context */
	bool publications_valid;
};

namespace {

/*
 * The session that invalidations are for. The server calls back for as long as the process lives, while a
 * session can end by an error, too: detach() runs when its memory goes.
 */
RelationCache *active = nullptr;
std::uint64_t generation = 0;
bool distrusting = false;

// ---- leaves: may ereport; plain data only ----

void
detach(void *cache)
{
	if (active == cache)
		active = nullptr;
}

void
mark_stale(RelationEntry *entry)
{
	entry->valid = false;
	entry->changed = entry->changed || !distrusting;
}

void
mark_all_stale()
{
	HASH_SEQ_STATUS scan;

	hash_seq_init(&scan, active->entries);
	while (auto *entry = static_cast<RelationEntry *>(hash_seq_search(&scan)))
		mark_stale(entry);
}

/* A relation's definition or, from 18, its publication changed; InvalidOid stands for all relations. */
void
on_relation_change(Datum, Oid relid)
{
	++generation;
	if (active == nullptr)
		return;
	if (!OidIsValid(relid)) {
		mark_all_stale();
		return;
	}
	auto *entry = static_cast<RelationEntry *>(hash_search(active->entries, &relid, HASH_FIND, nullptr));
	if (entry != nullptr)
		mark_stale(entry);
}

void
on_membership_change(Datum, pg::compat::SyscacheId, uint32)
{
	if (active != nullptr)
		mark_all_stale();
}

void
on_publication_change(Datum, pg::compat::SyscacheId, uint32)
{
	if (active == nullptr)
		return;
	active->publications_valid = false;
	if (!pg::compat::publication_change_names_relations)
		mark_all_stale();
}

/* Output and send functions of a type may have been exchanged. */
void
on_function_change(Datum, pg::compat::SyscacheId, uint32)
{
	++generation;
}

void
register_callbacks()
{
	static bool registered = false;
	constexpr Datum no_argument = 0;

	if (registered)
		return;
	CacheRegisterRelcacheCallback(on_relation_change, no_argument);
	CacheRegisterSyscacheCallback(PUBLICATIONOID, on_publication_change, no_argument);
	CacheRegisterSyscacheCallback(TYPEOID, on_function_change, no_argument);
	CacheRegisterSyscacheCallback(PROCOID, on_function_change, no_argument);
	if (pg::compat::publication_change_names_relations)
		pg::compat::register_publication_change_callback(on_relation_change);
	else {
		CacheRegisterSyscacheCallback(PUBLICATIONRELMAP, on_membership_change, no_argument);
		CacheRegisterSyscacheCallback(PUBLICATIONNAMESPACEMAP, on_membership_change, no_argument);
	}
	if (pg::compat::namespace_change_invalidates)
		CacheRegisterSyscacheCallback(NAMESPACEOID, on_membership_change, no_argument);
	registered = true;
}

/* The entry of relid, made if there is none. */
RelationEntry *
enter_relation(Session *session, Oid relid)
{
	bool found;
	auto *entry =
	    static_cast<RelationEntry *>(hash_search(session->relations->entries, &relid, HASH_ENTER, &found));

	if (!found) {
		*entry = RelationEntry{};
		entry->relid = relid;
	}
	return entry;
}

/* Empties an entry before it is rebuilt; should that fail, it is left empty and stale. */
void
clear_entry(Session *session, RelationEntry *entry)
{
	RelationEntry cleared{};

	/* slots, filters and format hold nothing but memory of entry->context */
	if (entry->changed)
		list_free(entry->schema_sent_in_stream);
	else {
		cleared.schema_sent = entry->schema_sent;
		cleared.schema_sent_in_stream = entry->schema_sent_in_stream;
	}
	cleared.relid = entry->relid;
	cleared.announced = entry->announced;
	cleared.state_due = true;
	cleared.context = entry->context;
	*entry = cleared;
	if (entry->context != nullptr)
		MemoryContextReset(entry->context);
	else
		entry->context = AllocSetContextCreate(session->cache_context, "schemasync decoder relation",
		                                       ALLOCSET_SMALL_SIZES);
}

void
reload_publications(Session *session)
{
	RelationCache *cache = session->relations;

	MemoryContextReset(session->publication_context);
	cache->publications = nullptr;
	MemoryContext caller = MemoryContextSwitchTo(session->publication_context);
	cache->publications = load_publications(session->options.publication_names);
	MemoryContextSwitchTo(caller);
	cache->publications_valid = true;
}

} // namespace

void
open_relation_cache(Session *session)
{
	HASHCTL control{};

	/* an error may have left it set */
	distrusting = false;
	auto *cache =
	    static_cast<RelationCache *>(MemoryContextAllocZero(session->cache_context, sizeof(RelationCache)));
	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(RelationEntry);
	control.hcxt = session->cache_context;
	cache->entries =
	    hash_create("schemasync decoder relations", 128, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	auto *callback = static_cast<MemoryContextCallback *>(
	    MemoryContextAllocZero(session->cache_context, sizeof(MemoryContextCallback)));
	callback->func = detach;
	callback->arg = cache;
	MemoryContextRegisterResetCallback(session->cache_context, callback);

	register_callbacks();
	session->relations = cache;
	active = cache;
}

void
close_relation_cache(Session *session)
{
	if (session->relations != nullptr)
		detach(session->relations);
}

List *
session_publications(Session *session)
{
	if (!session->relations->publications_valid)
		reload_publications(session);
	return session->relations->publications;
}

RelationEntry *
find_relation(Session *session, Relation relation)
{
	RelationCache *cache = session->relations;
	Oid relid = RelationGetRelid(relation);

	if (cache->latest != nullptr && cache->latest->relid == relid && cache->latest->valid)
		return cache->latest;

	RelationEntry *entry = enter_relation(session, relid);
	if (!entry->valid && entry != cache->held) {
		clear_entry(session, entry);
		if (is_publishable_relation(relation)) {
			/* in pgoutput's order, which shows when a publication is missing */
			RelationMembership membership = read_membership(relation);
			settle_publication(session, relation, membership, session_publications(session), entry);
		}
		entry->valid = true;
	}
	cache->latest = entry;
	return entry;
}

RelationEntry *
hold_relation(Session *session, Relation relation)
{
	RelationCache *cache = session->relations;

	cache->held = nullptr;
	cache->held = find_relation(session, relation);
	return cache->held;
}

void
release_relation(Session *session)
{
	session->relations->held = nullptr;
}

void
distrust_caches()
{
	distrusting = true;
	InvalidateSystemCaches();
	distrusting = false;
}

std::uint64_t
catalog_generation()
{
	return generation;
}

bool
is_schema_sent(const RelationEntry *entry, bool in_streaming, TransactionId top_xid)
{
	if (in_streaming)
		return list_member_oid(entry->schema_sent_in_stream, top_xid);
	return entry->schema_sent;
}

void
note_schema_sent(Session *session, RelationEntry *entry, bool in_streaming, TransactionId top_xid)
{
	if (!in_streaming) {
		entry->schema_sent = true;
		return;
	}
	MemoryContext caller = MemoryContextSwitchTo(session->cache_context);
	/* a list of oids serves for xids: both are 32 bits wide */
	entry->schema_sent_in_stream = lappend_oid(entry->schema_sent_in_stream, top_xid);
	MemoryContextSwitchTo(caller);
}

void
forget_streamed_schemas(Session *session, TransactionId top_xid, bool committed)
{
	HASH_SEQ_STATUS scan;

	hash_seq_init(&scan, session->relations->entries);
	while (auto *entry = static_cast<RelationEntry *>(hash_seq_search(&scan))) {
		if (!list_member_oid(entry->schema_sent_in_stream, top_xid))
			continue;
		if (committed)
			entry->schema_sent = true;
		entry->schema_sent_in_stream = list_delete_oid(entry->schema_sent_in_stream, top_xid);
	}
}

} // namespace schemasync::decoder
