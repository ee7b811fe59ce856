/*
 * Digests of what expressions refer to: equal on two servers when the definition is, whatever the oids are.
 * The text that is hashed holds names only.
 *
 * Of an enum it tells only the kind, so that adding a label does not look like a change of every default that casts to it: the merge sees to
 * it that the publisher's labels are here in their order. A composite type, which that of a table's rows is too, counts with its attributes.
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
/* Of the database's own for DEFAULT_COLLATION_OID. */
char *digest_collation(Oid collation);
/* What takes a value from one type to the other: a cast made in the database, by a function; otherwise what the server does.
 * InvalidOid for source: by the text of the value. */
char *digest_cast(Oid source, Oid target);
/* Whether there is such a cast. */
bool is_own_cast(Oid source, Oid target);
char *digest_relation(Oid relid);

/* The parsed CHECK expressions of one domain (not of those below it), in the order of their names. */
List *read_domain_checks(Oid domain);

} // namespace schemasync::pg::catalog
