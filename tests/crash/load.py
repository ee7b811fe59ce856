#!/usr/bin/env python3
"""Kills and cuts at random moments under load with DDL, from a seed; at the end of each round both sides must be level.

    load.py --bindir DIR [--seed N] [--rounds N] [--moments N] [--seconds N] [--keep]

Several sessions write rows and change the schema without pause. In a round MOMENTS things are killed or cut, a random while apart; then the
writers stop, and both sides are compared in full. Every command of DDL has a number, written into a table by its own transaction:
what is in the history was committed, nothing is there twice, and in the rounds that begin after the copy each addition of a column
to a published table is there. The others begin with the copy. With a server that has injection points every third moment is at one of them.
Needs no injection points otherwise. Prints TAP.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster import Pair, Stuck, wait_until    # noqa: E402
import matrix                                  # noqa: E402
import servers                                 # noqa: E402

OPTIONS = ('{"rewrites": "carry", "auto_refresh": true}', '{"rewrites": "carry", "auto_refresh": true, "streaming": "on"}',
           '{"rewrites": "carry", "auto_refresh": true, "binary": true, "streaming": "on", "group_commit_delay": 0}')
TYPES = ("int DEFAULT 1", "text", "text DEFAULT 'x'", "numeric(8,2)", "timestamptz DEFAULT now()", "float8 DEFAULT random()", "mood DEFAULT 'ok'", "serial",
         "int GENERATED ALWAYS AS (id + 1) STORED", "bool NOT NULL DEFAULT false")
STREAM_POINTS = ("received", "schema_received", "ddl_executed", "history_written", "before_commit", "after_commit", "feedback", "stream_block")
COPY_POINTS = ("replayed", "beside_snapshot", "beside_adopted", "beside_table_begun", "beside_rows", "beside_table_done", "catch_up_begun",
               "catch_up_before_commit", "catch_up_after_commit", "catch_up_end", "catch_up_done", "resync_emptied", "resync_filled")
FAULTS = ("apply_worker", "apply_worker", "launcher", "subscriber", "subscriber", "walsender", "publisher", "both", "reset", "refuse", "stall", "delay",
          "terminate", "copy_worker", "resync")


class Writer(threading.Thread):
    """Transactions, several to a psql: what is killed takes with it what was not committed."""

    def __init__(self, play, number, seed):
        super().__init__(daemon=True)
        self.play, self.number, self.random = play, number, random.Random(seed)
        self.stop, self.done, self.failed, self.errors = False, 0, 0, {}
        self.serial = 0

    def table(self):
        return "t%d" % self.random.randrange(6)

    def rows(self):
        r, t = self.random, self.table()
        key = r.randrange(400)
        return r.choice((
            "INSERT INTO %s (id, v) SELECT g, 'n' FROM generate_series(%d, %d) g ON CONFLICT DO NOTHING" % (t, key, key + r.randrange(30)),
            "UPDATE %s SET v = v || 'u' WHERE id %% 50 = %d AND length(v) < 200" % (t, key % 50),
            "DELETE FROM %s WHERE id %% 40 = %d" % (t, key % 40),
            "INSERT INTO keyless VALUES (%d, 'k')" % (key % 9),
            "UPDATE keyless SET y = y || '+' WHERE x = %d AND length(y) < 40" % (key % 9),
            "DELETE FROM keyless WHERE ctid IN (SELECT ctid FROM keyless WHERE x = %d LIMIT 3)" % (key % 9),
            "INSERT INTO part SELECT (random() * 1000000)::int, date '2020-01-01' + %d, 'p' ON CONFLICT DO NOTHING" % (key % 300),
            "INSERT INTO %s (id, v) SELECT g, repeat('s', 50) FROM generate_series(1000, 2500) g ON CONFLICT (id) DO UPDATE SET v = 'again'" % t
            if r.random() < 0.15 else "SELECT 1",
            "TRUNCATE keyless" if r.random() < 0.05 else "SELECT 1"))

    def ddl(self):
        """One command, or several, that end with the number's comment."""
        r, t = self.random, self.table()
        self.serial += 1
        number = self.number * 1000000 + self.serial
        c = "c%d" % number
        old = "(SELECT min(attname) FROM pg_attribute WHERE attrelid = '%s'::regclass AND attname LIKE 'c%%' AND attnum > 0 AND NOT attisdropped)" % t
        mark = "/* ddl-%d- */" % number

        def on_old(command):
            # names a column that is there now, if there is one
            return "DO $$ DECLARE n name := %s; BEGIN IF n IS NOT NULL THEN EXECUTE format('%s', n); END IF; END $$ %s" % (old, command, mark)
        sql = r.choice((
            "ALTER TABLE %s ADD COLUMN %s %s %s" % (t, c, r.choice(TYPES), mark),
            "ALTER TABLE %s ADD COLUMN %s %s %s" % (t, c, r.choice(TYPES), mark),
            on_old("ALTER TABLE %s DROP COLUMN %%I" % t),
            on_old("ALTER TABLE %s DROP COLUMN %%I" % t),
            on_old("ALTER TABLE %s RENAME COLUMN %%I TO c%d" % (t, number)),
            "CREATE TABLE n%d (i int PRIMARY KEY, t text) %s; INSERT INTO n%d SELECT g, 'n' FROM generate_series(1, 30) g" % (number, mark, number),
            "CREATE INDEX i%d ON %s (v) %s" % (number, t, mark),
            "ALTER TABLE %s ALTER COLUMN v TYPE %s %s" % (t, r.choice(("text", "varchar(300)")), mark),
            "ALTER TABLE part ADD COLUMN p%d int DEFAULT 2 %s" % (number, mark),
            "ALTER TYPE mood ADD VALUE 'm%d' %s" % (number, mark),
            "CREATE TABLE k%d (id int PRIMARY KEY, r int REFERENCES %s ON DELETE CASCADE) %s; DROP TABLE k%d" % (number, t, mark, number),
            "ALTER TABLE part ADD COLUMN q%d text DEFAULT 'q' %s" % (number, mark) if self.play.seed % 2
            else "ALTER PUBLICATION p %s TABLE extra %s" % (r.choice(("ADD", "DROP")), mark),
            "ALTER TABLE extra ADD COLUMN e%d int DEFAULT 1 %s" % (number, mark)))
        # (t1 and t2 may be resynchronised, which reads their definition anew: what came before is not a change then)
        sure = "ADD COLUMN" in sql and t not in ("t1", "t2") and " extra " not in sql
        return number, sure, sql

    def transaction(self):
        r = self.random
        parts = [self.rows() for _ in range(r.randrange(1, 4))]
        if r.random() < self.play.ddl_share:
            number, sure, sql = self.ddl()
            log = "INSERT INTO ddl_log VALUES (%d, %s)" % (number, sure)
            if "ADD VALUE" in sql:
                parts = [log, sql]
            else:
                parts.insert(r.randrange(len(parts) + 1), "%s; %s" % (log, sql))
        if r.random() < 0.2:
            parts.insert(r.randrange(len(parts) + 1), "SAVEPOINT s; %s; ROLLBACK TO s" % self.rows())
        return "BEGIN; %s; COMMIT; SELECT 'done'" % ";\n".join(parts)

    def run(self):
        r = self.random
        while not self.stop:
            batch = [self.transaction() for _ in range(self.play.batch)]
            done = subprocess.run(self.play.pub.psql(self.play.database, "-f", "-"), capture_output=True, text=True, errors="replace", cwd="/",
                                  input="SET lock_timeout = '500ms';\n" + ";\n".join(batch) + ";\n", env=servers.clean_environment(),
                                  check=False, **servers.ACCOUNT)
            fine = done.stdout.count("done")
            self.done += fine
            self.failed += len(batch) - fine
            for error in re.findall(r"(?:ERROR|FATAL|PANIC|error): +(.*)", done.stderr):
                if "current transaction is aborted" not in error:
                    error = re.sub(r'"[^"]*"|\d+', "_", error)
                    self.errors[error] = self.errors.get(error, 0) + 1
            time.sleep(r.random() * self.play.pace)


class Play:
    def __init__(self, pair, database, seed, options):
        self.pair, self.pub, self.sub, self.database = pair, pair.pub, pair.sub, database
        self.random = random.Random(seed)
        self.seed = seed
        self.ddl_share, self.pace, self.batch = 0.3, 0.2, 8
        self.copied = seed % 3 != 0     # the round begins after the copy
        self.moments = options.moments
        self.points = os.path.exists(os.path.join(options.bindir, "../lib/schemasync.so")) and \
            b"schemasync_injection" in open(os.path.join(options.bindir, "../lib/schemasync.so"), "rb").read()
        self.told = []

    def begin(self):
        self.pair.make_database(self.database)
        self.pub.run(self.database, "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE ddl_log (n bigint PRIMARY KEY, sure bool);"
                     "CREATE TABLE keyless (x int, y text); ALTER TABLE keyless REPLICA IDENTITY FULL;"
                     "CREATE TABLE part (k int, d date, v text, PRIMARY KEY (k, d)) PARTITION BY RANGE (d);"
                     "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM ('2020-01-01') TO ('2020-06-01');"
                     "CREATE TABLE part_2 PARTITION OF part DEFAULT; CREATE TABLE extra (i int PRIMARY KEY);"
                     "INSERT INTO extra SELECT generate_series(1, 2000);"
                     + "".join("CREATE TABLE t%d (id int PRIMARY KEY, v text); INSERT INTO t%d SELECT g, 'v' FROM generate_series(1, 300) g;" % (i, i)
                               for i in range(6))
                     + ("CREATE PUBLICATION p FOR ALL TABLES" if self.seed % 2 else
                        "CREATE PUBLICATION p FOR TABLE ddl_log, keyless, part, t0, t1, t2, t3, t4, t5"))
        self.pair.subscribe(self.database, self.random.choice(OPTIONS))
        if self.copied:
            self.pair.wait_applied(self.database)

    def strike(self):
        r = self.random
        fault = r.choice(FAULTS)
        point = r.choice(STREAM_POINTS if r.random() < 0.75 else COPY_POINTS) if self.points and r.random() < 0.4 else None
        pid = 0
        self.told.append("%s%s" % (fault, " at " + point if point else ""))
        if fault == "resync":
            self.sub.try_run(self.database, "SELECT schemasync_resync('s', '%s')" % r.choice(("keyless", "t1", "t2")))
            return
        if point:
            action = r.choice(("kill", "error", "wait"))
            self.sub.arm(point, action)
            try:
                pid = wait_until("", self.sub.hit, 2, 0.02)
            except Stuck:
                self.told[-1] += " (not reached)"
                self.sub.disarm()
                return
            self.told[-1] += " " + action
            if action != "wait":
                self.sub.wait_up()
                self.sub.disarm()
                return
        try:
            if fault == "copy_worker":
                matrix.kill(self.sub.pid_of("backend_type LIKE 'schemasync copy%'"))
                self.sub.wait_up()
            elif fault == "terminate":
                matrix.kill(pid or self.sub.pid_of("backend_type LIKE 'schemasync apply%'"), matrix.signal.SIGTERM)
            elif fault == "apply_worker":
                matrix.kill(self.sub.pid_of("backend_type LIKE 'schemasync apply%'"))
                self.sub.wait_up()
            else:
                matrix.FAULTS[fault](self.pair, self.database, pid)
        except ProcessLookupError:
            pass
        self.sub.disarm()

    def check(self):
        wrong = []
        try:
            self.pair.wait_applied(self.database)
        except Stuck as error:
            return [str(error)]
        if self.seed % 2 == 0:
            # what was taken out and not dropped stays as it was here
            self.pub.run(self.database, "ALTER PUBLICATION p SET TABLE %s, extra" % self.pub.run(
                self.database, "SELECT string_agg(tablename, ', ') FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'extra'"
                " AND tablename !~ '^part_'").strip())
            self.sub.run(self.database, "SELECT schemasync_refresh('s')")
            try:
                self.pair.wait_applied(self.database)
            except Stuck as error:
                return [str(error)]
        wrong += self.pair.differences(self.database)
        wrong += self.pair.loose_ends(self.database)
        repeated = self.pair.repeated_history(self.database)
        if repeated:
            wrong.append("in the history more than once: " + repeated)
        logged = set(self.pub.run(self.database, "SELECT n FROM ddl_log").split())
        seen = set(re.findall(r"ddl-(\d+)-", self.sub.run(self.database, "SELECT statement FROM schemasync_ddl_history")))
        self.told.append("%d DDL committed, %d in the history" % (len(logged), len(seen)))
        if seen - logged:
            wrong.append("in the history but never committed: %s" % sorted(seen - logged)[:10])
        # a command that found no column did nothing, one for an unpublished table is not told, and one before the copy is in it
        sure = set(self.pub.run(self.database, "SELECT n FROM ddl_log WHERE sure").split())
        if self.copied and sure - seen:
            wrong.append("committed but not in the history: %s" % sorted(sure - seen)[:10])
        return wrong

    def round(self):
        writers = [Writer(self, n, self.seed * 100 + n) for n in range(1, 4)]
        marks = self.sub.log_size(), self.pub.log_size()
        wrong = []
        for writer in writers:
            writer.start()
        try:
            for _ in range(self.moments):
                time.sleep(self.random.random() * 1.5)
                self.strike()
        except Exception:       # noqa: BLE001
            wrong.append(traceback.format_exc())
        for writer in writers:
            writer.stop = True
        for writer in writers:
            writer.join()
        self.pair.proxy.heal()
        self.sub.disarm()
        self.pub.wait_up()
        self.sub.wait_up()
        self.told.append("%d transactions, %d failed" % (sum(w.done for w in writers), sum(w.failed for w in writers)))
        errors = {}
        for writer in writers:
            for error, n in writer.errors.items():
                errors[error] = errors.get(error, 0) + n
        self.told.append(", ".join("%d x %s" % (n, error) for error, n in sorted(errors.items(), key=lambda e: -e[1])[:6]))
        try:
            wrong += self.check()
        except Exception:       # noqa: BLE001
            wrong.append(traceback.format_exc())
        wrong += self.sub.crashes(marks[0]) + self.pub.crashes(marks[1])
        if wrong:
            wrong.append("log of the subscriber:\n" + "\n".join(self.sub.log_text(marks[0]).split("\n")[-60:]))
        return wrong


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--rounds", type=int, default=10)
    ap.add_argument("--moments", type=int, default=10)
    ap.add_argument("--seconds", type=int, default=1 << 30)
    ap.add_argument("--port", type=int, default=5432, help="only names sockets in a folder of its own")
    ap.add_argument("--keep", action="store_true")
    options = ap.parse_args()
    count = failed = 0
    end = time.time() + options.seconds
    with Pair(options.bindir, options.port, options.keep) as pair:
        for seed in range(options.seed, options.seed + options.rounds):
            if time.time() > end:
                break
            play = Play(pair, "r%d" % seed, seed, options)
            begun = time.time()
            try:
                play.begin()
                wrong = play.round()
            except Exception:       # noqa: BLE001
                wrong = [traceback.format_exc()]
            count += 1
            failed += bool(wrong)
            print("%s %d - seed %d (%.0f s): %s" % ("not ok" if wrong else "ok", count, seed, time.time() - begun, "; ".join(play.told)), flush=True)
            for text in wrong:
                print("\n".join("#   " + line for line in text.split("\n")), flush=True)
            if wrong and options.keep:
                break
            try:
                pair.drop_database(play.database)
            except Exception:       # noqa: BLE001
                matrix.Matrix(pair).clean_up(play.database)
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
