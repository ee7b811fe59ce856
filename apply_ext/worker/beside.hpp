/*
 * Copies beside the stream: tables that a publication took in, or that are to be copied afresh, are copied by a second worker
 * while the apply worker goes on with the stream for all other tables.
 *
 *   1. The apply worker holds back what it confirms to the publisher and starts the copy worker (beside_main.cpp).
 *   2. The copy worker takes a snapshot at a position P. Each table's rows are committed together with its state 'catchup' and P.
 *      Meanwhile the stream has come to A, and passed over the rows of these tables.
 *   3. When the copy worker has ended, the apply worker reads the stream once more from P to A, for these tables alone (the decoder's
 *      option `relations`); each of its commits advances P. Then the tables are 'ready', the stream goes on at A, and the publisher
 *      may forget what was held back.
 *
 * At whatever point either of them ends, a table is either 'init' again, with what was in it before, or 'catchup' with the
 * position from which it goes on; the slot still has that, because nothing later was confirmed.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/apply/session.hpp"

namespace schemasync::worker {

/* At the start of the apply worker, before the stream: what an earlier run left half done. Runs a transaction. */
void begin_beside(apply::Session *session);

/*
 * To be called when no transaction is open: looks after the copy worker, starts one when something is due.
 *
 * returns: whether the stream is to be opened anew, because it has to be read once more (session->catch_up)
 */
bool tend_beside(apply::Session *session);

/* Whether copies run or have to be caught up: what is confirmed is held back. */
bool is_copying_beside(const apply::Session *session);

/* The stream was read once more, up to where it had come; its last transaction is committed. */
void end_catch_up(apply::Session *session);

/* From where it is to be read once more. Runs a transaction. */
XLogRecPtr catch_up_from(const apply::Session *session);

/* Whether the local transaction cannot go on before the copies are there, and they may soon be. */
bool may_wait_for_copies(const apply::Session *session);

/* Starts the copy worker if one is due, and waits until none runs. No transaction and no stream is open. */
void wait_for_copies(apply::Session *session);

/* How a change says that it must wait for a copy: the SQLSTATE of its ERROR. */
constexpr int waits_for_copy = MAKE_SQLSTATE('S', 'S', '0', 'C', '1');

} // namespace schemasync::worker
