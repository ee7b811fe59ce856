/*
 * Digests of what expressions refer to: equal on two servers when the definition is, whatever the oids are.
 * The text that is hashed holds names only.
 *
 * A type whose state travels by itself (enum, domain, composite, range) is compared by the merge; its digest tells
 * only its kind, so that adding a label to an enum does not look like a change of every default that casts to it.
 *
 * Zone: bridge; leaves. All return sixteen hex digits; an object that is gone has the digest of nothing.
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "nodes/pg_list.h"
}

namespace schemasync::pg::catalog {

char *digest_function(Oid function);
char *digest_operator(Oid opno);
char *digest_type(Oid typid);
char *digest_collation(Oid collation);
char *digest_relation(Oid relid);

/* The parsed CHECK expressions of one domain (not of those below it), in the order of their names. */
List *read_domain_checks(Oid domain);

} // namespace schemasync::pg::catalog
