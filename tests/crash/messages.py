#!/usr/bin/env python3
"""The walsender is killed at every kind of message, once before the subscriber has it and once after.

    messages.py --bindir DIR [--kinds LIST] [--keep]

All that leads to the messages is done while the subscription is stopped, so that no kill can touch it. Then the stream is read through a
proxy that knows the messages; at the first of each kind that has not had its turn it kills the walsender with SIGKILL, which restarts the
publisher. At the end both sides must be level, and nothing may have happened twice. Prints TAP.
"""
import argparse
import os
import re
import signal
import struct
import sys
import threading
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster import Pair, wait_until           # noqa: E402

DATABASE = "kinds"
NAMES = {"B": "begin", "C": "commit", "O": "origin", "R": "relation", "Y": "type", "I": "insert", "U": "update", "D": "delete", "T": "truncate",
         "b": "begin prepare", "P": "prepare", "K": "commit prepared", "r": "rollback prepared", "S": "stream start", "E": "stream stop",
         "c": "stream commit", "A": "stream abort", "p": "stream prepare", "Mstate": "state", "Mddl": "schema change",
         "Mrewrite": "rewrite", "k": "keepalive"}

WORK = (
    "INSERT INTO a (id, v) SELECT g, 'w' FROM generate_series(101, 120) g; UPDATE a SET v = 'u' WHERE id < 10; DELETE FROM a WHERE id = 50",
    "ALTER TABLE a ADD COLUMN c int DEFAULT 7; INSERT INTO a (id, m, c) VALUES (130, 'sad', 1); ALTER TABLE a RENAME COLUMN v TO w",
    "TRUNCATE b; INSERT INTO b VALUES (1, 'again')",
    "ALTER TABLE b ADD COLUMN r float8 DEFAULT random()",
    "SELECT pg_replication_origin_session_setup('elsewhere'); INSERT INTO b VALUES (2, 'from elsewhere', 1)",
    "INSERT INTO a (id, w) SELECT g, repeat('s', 60) FROM generate_series(1001, 3000) g; ALTER TABLE a ADD COLUMN big text; SAVEPOINT s;"
    " ALTER TABLE a ADD COLUMN gone int; INSERT INTO a (id, w) SELECT g, repeat('r', 60) FROM generate_series(3001, 5000) g; ROLLBACK TO s;"
    " INSERT INTO a (id, w) SELECT g, repeat('t', 60) FROM generate_series(5001, 7000) g",
)
PREPARED = (
    ("INSERT INTO b VALUES (3, 'prepared', 2); ALTER TABLE b ADD COLUMN q int", "COMMIT"),
    ("INSERT INTO b VALUES (4, 'not', 2)", "ROLLBACK"),
    ("INSERT INTO a (id, w) SELECT g, repeat('p', 60) FROM generate_series(8001, 10000) g; CREATE TABLE within (i int PRIMARY KEY);"
     " INSERT INTO within VALUES (1)", "COMMIT"),
)
LAST = "INSERT INTO a (id, w) VALUES (900001, 'last')"


class Striker:
    """Watches what the publisher sends; see Proxy.make_filter."""

    def __init__(self, kinds):
        self.left = [(kind, when) for kind in kinds for when in ("before", "after")]
        self.struck, self.armed, self.pair, self.lock = [], False, None, threading.Lock()

    def make_filter(self, _link):
        buffer = bytearray()

        def change(to_client, data):
            if not to_client or not self.armed:
                return data
            buffer.extend(data)
            taken = self.whole_messages(buffer)
            return bytes(taken[0]) if taken[1] is None else self.strike(*taken)
        return change

    def whole_messages(self, buffer):
        """Takes what is complete: (bytes to send on, the kind to strike at or None, whether before it)."""
        out = bytearray()
        while True:
            if buffer[:1] == b"N" and (len(buffer) == 1 or buffer[1:2] == b"R"):
                out += buffer[:1]               # the answer to the request for TLS
                del buffer[:1]
                continue
            if len(buffer) < 5:
                return out, None, None
            length = struct.unpack_from("!i", buffer, 1)[0] + 1
            if len(buffer) < length:
                return out, None, None
            message = bytes(buffer[:length])
            del buffer[:length]
            kind = self.kind_of(message)
            with self.lock:
                turn = next((turn for turn in self.left if turn[0] == kind), None)
                if turn:
                    self.left.remove(turn)
                    self.struck.append(turn)
            if turn and turn[1] == "before":
                return out, kind, True
            out += message
            if turn:
                return out, kind, False

    @staticmethod
    def kind_of(message):
        if message[:1] != b"d":
            return None
        if message[5:6] == b"k":
            return "k"
        kind = chr(message[30]) if message[5:6] == b"w" and len(message) > 30 else None
        if kind == "M":
            prefix = re.match(rb".{1,14}schemasync\.(\w+)", message[30:90], re.S)
            return "M" + prefix.group(1).decode() if prefix else "M"
        return kind

    def strike(self, out, _kind, before):
        """Without the message the connection is cut at once; with it the subscriber may still read what was sent."""
        pid = self.pair.pub.pid_of("backend_type = 'walsender' AND datname = '%s'" % DATABASE)
        if pid:
            os.kill(pid, signal.SIGKILL)
        return None if before else bytes(out)


def make_work(pair):
    pub = pair.pub
    pair.make_database(DATABASE)
    pub.run(DATABASE, """
        CREATE TYPE mood AS ENUM ('sad', 'ok');
        CREATE TABLE a (id int PRIMARY KEY, v text, m mood DEFAULT 'ok');
        CREATE TABLE b (id int PRIMARY KEY, v text);
        INSERT INTO a SELECT g, 'v' || g FROM generate_series(1, 50) g;
        CREATE PUBLICATION p FOR ALL TABLES;
        SELECT pg_replication_origin_create('elsewhere')""")
    pair.subscribe(DATABASE, '{"streaming": "on", "two_phase": true, "rewrites": "carry"}')
    pair.wait_applied(DATABASE)
    pair.sub.run(DATABASE, "SELECT schemasync_stop('s', drain => true)")
    for sql in WORK:
        pub.run(DATABASE, "BEGIN; %s; COMMIT" % sql)
    for number, (sql, end) in enumerate(PREPARED):
        pub.run(DATABASE, "BEGIN; %s; PREPARE TRANSACTION 'x%d'" % (sql, number))
        pub.run(DATABASE, "%s PREPARED 'x%d'" % (end, number))
    pub.run(DATABASE, LAST)


def run(options):
    """Yields (whether it is well, what was tested, what is wrong)."""
    kinds = options.kinds.split(",") if options.kinds else list(NAMES)
    striker = Striker(kinds)
    with Pair(options.bindir, options.port, options.keep, striker.make_filter, "ss-kinds-") as pair:
        striker.pair = pair
        make_work(pair)
        marks = pair.sub.log_size(), pair.pub.log_size()
        # asked before the first kill: for a moment after the last the publisher is down
        end = pair.flushed(DATABASE)
        striker.armed = True
        pair.sub.run(DATABASE, "SELECT schemasync_start('s')")
        wait_until(lambda: "not struck: %s\n%s" % (striker.left, pair.describe(DATABASE)),
                   lambda: not [turn for turn in striker.left if turn[0] != "k"], options.patience, 0.5)
        striker.armed = False
        pair.pub.wait_up()
        pair.wait_applied(DATABASE, options.patience, end)
        for kind, when in striker.struck:
            yield True, "the walsender was killed %s the first message: %s" % (when, NAMES[kind]), []
        repeated = pair.repeated_history(DATABASE)
        for what, wrong in (("contents and catalogs are equal", pair.differences(DATABASE)),
                            ("no change happened twice", [repeated] if repeated else []),
                            ("nothing is left behind", pair.loose_ends(DATABASE)),
                            ("no server crashed otherwise", pair.sub.crashes(marks[0]) + pair.pub.crashes(marks[1]))):
            yield not wrong, what, wrong


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--kinds", help="letters of the protocol, Mstate, Mddl, Mrewrite, k, with commas")
    ap.add_argument("--keep", action="store_true")
    ap.add_argument("--patience", type=float, default=420)
    ap.add_argument("--port", type=int, default=5432, help="only names sockets in a folder of its own")
    options = ap.parse_args()
    count = failed = 0
    try:
        for fine, what, wrong in run(options):
            count += 1
            failed += not fine
            print("%s %d - %s" % ("ok" if fine else "not ok", count, what), flush=True)
            for text in wrong:
                print("\n".join("#   " + line for line in text.split("\n")), flush=True)
    except Exception:       # noqa: BLE001: whatever it was, the test has not passed
        count += 1
        failed += 1
        print("not ok %d - came to its end" % count)
        print("\n".join("#   " + line for line in traceback.format_exc().split("\n")), flush=True)
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
