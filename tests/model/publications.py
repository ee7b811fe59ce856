#!/usr/bin/env python3
"""Random changes of publications between rows and commands: tables taken in and given up, lists and filters that change, roots that stand
for their partitions and cease to.

A sequence comes from its seed. After every few steps both sides are compared: each published table has the rows that its filter lets through,
with the values of its published columns, and no others.

    publications.py --bindir DIR --port N --seeds 1-20 [--steps 40] [--keep] [--verbose]
"""
import argparse
import random
import re
import sys
import time

import servers

# what publications say of one table adds up: a row comes that one of the filters lets through
PUBLISHED = """SELECT pg_catalog.format('%I.%I', schemaname, tablename) || chr(9) || array_to_string(ARRAY(
	SELECT quote_ident(a) FROM unnest(min(attnames)) a ORDER BY a), ', ') || chr(9)
	|| CASE WHEN bool_or(rowfilter IS NULL) THEN 'true' ELSE string_agg(rowfilter, ' OR ') END
	FROM pg_catalog.pg_publication_tables WHERE pubname IN ('one', 'two') GROUP BY schemaname, tablename ORDER BY 1"""

# an error of the publisher's own, with its own words
DIFFERENT_LISTS = "cannot use different column lists for table"


class Fault(Exception):
    pass


class Over(Exception):
    """The publications contradict each other: the publisher sends nothing more."""


class Sequence:
    def __init__(self, pair, seed, steps, verbose):
        self.pub, self.sub, self.seed, self.steps, self.verbose = pair.publisher, pair.subscriber, seed, steps, verbose
        self.random = random.Random(seed)
        self.database = "pub%d" % seed
        self.names = 0
        self.sent = []
        self.open = {}

    # --- what may be sent; the publisher refuses what makes no sense ---

    def choose(self, what):
        return self.random.choice(what)

    def name(self, prefix):
        self.names += 1
        return "%s%d" % (prefix, self.names)

    def tables(self, kinds="rp"):
        out = self.pub.run(self.database, "SELECT oid::regclass FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'whole'::regnamespace) "
                                          "AND relkind = ANY (string_to_array('%s', NULL)) ORDER BY 1" % kinds).split()
        return out or ["nothing"]

    def columns(self, table):
        return self.pub.run(self.database, "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('%s') AND attnum > 0 "
                                           "AND NOT attisdropped ORDER BY attnum" % table).split()

    def published_as(self, table):
        text = table
        others = [c for c in self.columns(table) if c not in ("id", "k")]
        keys = [c for c in self.columns(table) if c in ("id", "k")]
        if self.random.random() < 0.5:
            listed = keys + self.random.sample(others, self.random.randint(0, len(others)))
            self.random.shuffle(listed)
            if listed:
                text += " (%s)" % ", ".join(listed)
        if self.random.random() < 0.4 and keys:
            text += " WHERE (%s)" % self.choose(["id %% %d <> 0" % self.random.randint(2, 4), "id > %d" % self.random.randint(0, 30),
                                                 "id < %d" % self.random.randint(10, 60)])
        return text

    def publication_change(self):
        table = self.choose(self.tables())
        publication = self.choose(["one", "one", "two"])
        return self.choose([
            "ALTER PUBLICATION %s ADD TABLE %s" % (publication, self.published_as(table)),
            "ALTER PUBLICATION %s ADD TABLE %s" % (publication, self.published_as(table)),
            "ALTER PUBLICATION %s DROP TABLE %s" % (publication, table),
            "ALTER PUBLICATION %s SET TABLE %s" % (publication, ", ".join(self.published_as(t) for t in self.random.sample(
                self.tables("rp"), min(3, len(self.tables("rp")))))),
            "ALTER PUBLICATION two SET (publish_via_partition_root = %s)" % self.choose(["true", "false"]),
            "ALTER PUBLICATION one ADD TABLES IN SCHEMA whole",
            "ALTER PUBLICATION one DROP TABLES IN SCHEMA whole",
        ])

    def command(self):
        table = self.choose(self.tables())
        others = [c for c in self.columns(table) if c not in ("id", "k")] or ["nothing"]
        column = self.choose(others)
        return self.choose([
            "ALTER TABLE %s ADD COLUMN %s %s" % (table, self.name("c"), self.choose(["int", "text DEFAULT 'd'", "int DEFAULT 5", "bigint NOT NULL DEFAULT 1"])),
            "ALTER TABLE %s DROP COLUMN %s" % (table, column),
            "ALTER TABLE %s RENAME COLUMN %s TO %s" % (table, column, self.name("r")),
            "ALTER TABLE %s ALTER COLUMN %s TYPE bigint" % (table, column),
            "ALTER TABLE %s RENAME TO %s" % (table, self.name("t")),
            "CREATE TABLE %s%s (id int PRIMARY KEY, v int)" % (self.choose(["", "whole."]), self.name("n")),
            "CREATE TABLE %s PARTITION OF p FOR VALUES IN (%d)" % (self.name("p"), self.random.randint(1, 6)),
            "ALTER TABLE p DETACH PARTITION %s" % self.choose(self.tables("r")),
            "ALTER TABLE p ATTACH PARTITION %s FOR VALUES IN (%d)" % (self.choose(self.tables("r")), self.random.randint(1, 6)),
            "ALTER TABLE %s REPLICA IDENTITY %s" % (table, self.choose(["FULL", "DEFAULT"])),
            "DROP TABLE %s" % table if self.random.random() < 0.3 else "TRUNCATE %s" % table,
            "ALTER TABLE %s SET SCHEMA %s" % (table, self.choose(["whole", "public"])),
        ])

    def rows(self):
        table = self.choose(self.tables())
        columns = self.columns(table)
        first = self.random.randint(1, 60)
        if self.random.random() < 0.4:
            return "INSERT INTO %s SELECT %s FROM generate_series(%d, %d) i ON CONFLICT DO NOTHING" % (
                table, ", ".join("i" if c == "id" else "i % 3 + 1" if c == "k" else "CAST(i AS text)::%s" % self.type_of(table, c)
                                 for c in columns) or "1", first, first + self.random.randint(0, 8))
        condition = "id BETWEEN %d AND %d" % (first, first + 10) if "id" in columns else "true"
        if self.random.random() < 0.3:
            return "DELETE FROM %s WHERE %s" % (table, condition)
        column = self.choose(columns or ["nothing"])
        value = {"id": "id + 7", "k": "k % 3 + 1"}.get(column, "(%d)::text::%s" % (self.random.randint(1, 99), self.type_of(table, column)))
        return "UPDATE %s SET %s = %s WHERE %s" % (table, column, value, condition)

    def type_of(self, table, column):
        return self.pub.run(self.database, "SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = to_regclass('%s') AND attname = '%s'" % (
            table, column)).strip() or "int"

    # --- running it ---

    def send(self, session, sql):
        _, error = session.send(sql)
        self.sent.append("%s%s: %s" % ("-- refused: " if error else "", "A" if session is self.a else "B", sql))
        if error and session in self.open:
            session.send("ROLLBACK")
            self.sent.append("%s: ROLLBACK" % ("A" if session is self.a else "B"))
            del self.open[session]

    def step(self):
        session = self.choose([self.a, self.a, self.b])
        chance = self.random.random()
        if session in self.open and chance < 0.25:
            self.send(session, self.choose(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
            self.open.pop(session, None)
        elif session not in self.open and chance < 0.25:
            self.send(session, "BEGIN")
            self.open[session] = True
        else:
            self.send(session, self.choose([self.rows, self.rows, self.rows, self.publication_change, self.command])())

    def level(self):
        for session in list(self.open):
            self.send(session, "COMMIT")
        self.open.clear()
        self.sent.append("-- compared")
        deadline = time.time() + 90
        while True:
            lsn = self.pub.run(self.database, "SELECT pg_current_wal_lsn()").strip()
            fine, _, errors = self.sub.try_run(self.database, "SELECT schemasync_wait('s', '%s', interval '30 s')" % lsn)
            if not fine and DIFFERENT_LISTS in self.sub.run(self.database, "SELECT message FROM schemasync_errors"):
                raise Over
            if not fine:
                raise Fault("not applied: %s\n%s%s" % (errors, self.sub.run(self.database, "SELECT * FROM schemasync_subscriptions"), self.sub.run(
                    self.database, "SELECT pg_catalog.jsonb_pretty(pg_catalog.to_jsonb(r) - 'drift') FROM schemasync_refusals r")))
            waiting = self.sub.run(self.database, "SELECT publisher_relation, state FROM schemasync_tables WHERE state NOT IN ('ready', 'removed')").strip()
            if not waiting:
                break
            if time.time() > deadline:
                raise Fault("never ready: %s\n%s" % (waiting, self.sub.run(self.database, "SELECT * FROM schemasync_errors ORDER BY 1 DESC LIMIT 3")))
            time.sleep(0.2)
        for line in self.pub.run(self.database, PUBLISHED).splitlines():
            table, columns, condition = line.split("\t")
            query = "SELECT (%s)::text FROM %s WHERE %s ORDER BY 1" % (
                "ROW(%s)" % columns if columns else "ROW()", table, condition)
            fine, theirs, _ = self.pub.try_run(self.database, query)
            good, ours, errors = self.sub.try_run(self.database, query.replace(" WHERE " + condition, ""))
            if not fine:
                raise Fault("harness: " + query)
            if not good:
                raise Fault("%s: %s" % (table, errors))
            if theirs != ours:
                raise Fault("%s (%s) WHERE %s differs\n%s" % (table, columns, condition, difference(theirs, ours)))

    def play(self):
        for server in (self.pub, self.sub):
            server.run("postgres", 'CREATE DATABASE "%s"' % self.database)
            server.run(self.database, "CREATE EXTENSION schemasync")
        self.pub.run(self.database, """
            CREATE SCHEMA whole;
            CREATE TABLE a (id int PRIMARY KEY, v int, w text);
            CREATE TABLE b (id int PRIMARY KEY, v int, w text DEFAULT 'w');
            CREATE TABLE whole.c (id int PRIMARY KEY, v int);
            CREATE TABLE p (id int, k int, v int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
            CREATE TABLE p_one PARTITION OF p FOR VALUES IN (1);
            CREATE TABLE p_two PARTITION OF p FOR VALUES IN (2, 3);
            INSERT INTO a SELECT i, i, 'a' FROM generate_series(1, 20) i;
            INSERT INTO b SELECT i, i FROM generate_series(1, 20) i;
            INSERT INTO whole.c SELECT i, i FROM generate_series(1, 20) i;
            INSERT INTO p SELECT i, i % 3 + 1, i FROM generate_series(1, 20) i;
            CREATE PUBLICATION one FOR TABLE a; CREATE PUBLICATION two FOR TABLE p;""")
        self.a, self.b = (servers.Session(self.pub, self.database) for _ in range(2))
        self.sub.run(self.database, "SELECT schemasync_create_subscription('s', '%s', '{one,two}')" % self.pub.conninfo(self.database))
        try:
            self.level()
            for number in range(1, self.steps + 1):
                self.step()
                if number % 10 == 0:
                    self.level()
        except Over:
            pass
        finally:
            self.a.close()
            self.b.close()
            self.sub.run(self.database, "SELECT schemasync_drop_subscription('s')", check=False)
            if self.verbose:
                print("\n".join(self.sent))


def difference(theirs, ours):
    left, right = theirs.splitlines(), ours.splitlines()
    return "publisher only: %s\nsubscriber only: %s" % ([l for l in left if l not in right][:8], [l for l in right if l not in left][:8])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--port", type=int, required=True)
    ap.add_argument("--seeds", default="1-3")
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--keep", action="store_true")
    ap.add_argument("--verbose", action="store_true")
    options = ap.parse_args()
    first, last = re.fullmatch(r"(\d+)(?:-(\d+))?", options.seeds).groups()
    faults = 0
    with servers.Pair(options.bindir, options.port, options.keep) as pair:
        for seed in range(int(first), int(last or first) + 1):
            sequence = Sequence(pair, seed, options.steps, options.verbose)
            try:
                sequence.play()
                print("ok %d" % seed, flush=True)
            except (Fault, servers.ServerError) as fault:
                faults += 1
                print("not ok %d\n%s\n%s" % (seed, "\n".join(sequence.sent), fault), flush=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
