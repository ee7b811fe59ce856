#include "decoder/dependencies.hpp"

extern "C" {
#include "catalog/pg_type.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
}

namespace schemasync::decoder {

namespace {

constexpr int max_touched = 512;

/* A type by the hash value that the server names it with, or a composite type's relation by its oid. */
struct Watched {
	enum Kind : std::uint32_t { type_hash, relation } kind;
	std::uint32_t value;
};

} // namespace

struct Dependencies {
	HTAB *watched;
	bool uses_enum;
	std::uint64_t generation;
	int touched_count; /* max_touched + 1: too many */
	Oid touched[max_touched];
};

namespace {

/* As in relation_cache.cpp: the server calls back for as long as the process lives. */
Dependencies *active = nullptr;

// ---- leaves: may ereport; plain data only. The callbacks also run while a transaction is aborted: they neither
// ---- allocate nor raise.

void
detach(void *dependencies)
{
	if (active == dependencies)
		active = nullptr;
}

bool
is_watched(const Dependencies *dependencies, Watched key)
{
	return hash_search(dependencies->watched, &key, HASH_FIND, nullptr) != nullptr;
}

void
on_relation_change(Datum, Oid relid)
{
	if (active == nullptr)
		return;
	if (!OidIsValid(relid)) {
		active->generation++;
		active->touched_count = max_touched + 1;
		return;
	}
	if (is_watched(active, Watched{Watched::relation, relid}))
		active->generation++;
	for (int i = 0; i < active->touched_count && i < max_touched; i++)
		if (active->touched[i] == relid)
			return;
	if (active->touched_count < max_touched)
		active->touched[active->touched_count] = relid;
	if (active->touched_count <= max_touched)
		active->touched_count++;
}

/* hash 0 stands for all. A new temporary table makes new types: only those in use count. */
void
on_type_change(Datum, pg::compat::SyscacheId, uint32 hash)
{
	if (active != nullptr && (hash == 0 || is_watched(active, Watched{Watched::type_hash, hash})))
		active->generation++;
}

void
on_enum_change(Datum, pg::compat::SyscacheId, uint32)
{
	if (active != nullptr && active->uses_enum)
		active->generation++;
}

/* Rare things, which any state may have in it. */
void
on_other_change(Datum, pg::compat::SyscacheId, uint32)
{
	if (active != nullptr)
		active->generation++;
}

void
register_callbacks()
{
	static bool registered = false;
	constexpr Datum no_argument = 0;

	if (registered)
		return;
	CacheRegisterRelcacheCallback(on_relation_change, no_argument);
	CacheRegisterSyscacheCallback(TYPEOID, on_type_change, no_argument);
	CacheRegisterSyscacheCallback(ENUMTYPOIDNAME, on_enum_change, no_argument);
	CacheRegisterSyscacheCallback(PROCOID, on_other_change, no_argument);
	CacheRegisterSyscacheCallback(OPEROID, on_other_change, no_argument);
	CacheRegisterSyscacheCallback(COLLOID, on_other_change, no_argument);
	CacheRegisterSyscacheCallback(NAMESPACEOID, on_other_change, no_argument);
	CacheRegisterSyscacheCallback(AUTHOID, on_other_change, no_argument);
	registered = true;
}

} // namespace

Dependencies *
watch_dependencies(Session *session)
{
	auto *dependencies =
	    static_cast<Dependencies *>(MemoryContextAllocZero(session->cache_context, sizeof(Dependencies)));
	HASHCTL control{};

	control.keysize = sizeof(Watched);
	control.entrysize = sizeof(Watched);
	control.hcxt = session->cache_context;
	dependencies->watched =
	    hash_create("schemasync decoder types in use", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	auto *callback = static_cast<MemoryContextCallback *>(
	    MemoryContextAllocZero(session->cache_context, sizeof(MemoryContextCallback)));
	callback->func = detach;
	callback->arg = dependencies;
	MemoryContextRegisterResetCallback(session->cache_context, callback);

	register_callbacks();
	active = dependencies;
	return dependencies;
}

void
depend_on_type(Dependencies *dependencies, Oid typid)
{
	Watched type{Watched::type_hash, GetSysCacheHashValue1(TYPEOID, ObjectIdGetDatum(typid))};
	Oid relid = get_typ_typrelid(typid);

	hash_search(dependencies->watched, &type, HASH_ENTER, nullptr);
	if (OidIsValid(relid)) {
		Watched relation{Watched::relation, relid};
		hash_search(dependencies->watched, &relation, HASH_ENTER, nullptr);
	}
	if (get_typtype(typid) == TYPTYPE_ENUM)
		dependencies->uses_enum = true;
}

std::uint64_t
dependency_generation(const Dependencies *dependencies)
{
	return dependencies->generation;
}

List *
take_touched_relations(Dependencies *dependencies, bool *complete)
{
	List *relids = NIL;

	*complete = dependencies->touched_count <= max_touched;
	for (int i = 0; i < dependencies->touched_count && i < max_touched; i++)
		relids = lappend_oid(relids, dependencies->touched[i]);
	dependencies->touched_count = 0;
	return relids;
}

} // namespace schemasync::decoder
