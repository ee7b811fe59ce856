#!/usr/bin/env python3
"""Loads that last, each with what it cost: endurance.py --bindir DIR [--seconds N] [--rows N] [--transactions N] [--megabytes N] [LOAD...]

    storm       1,000 schema changes in one transaction
    matview     REFRESH MATERIALIZED VIEW CONCURRENTLY each second: nothing may be sent
    streamed    one transaction of ROWS rows with schema changes inside, sent while it runs
    small       TRANSACTIONS transactions of one row: memory at the start and at the end
    value       one value of MEGABYTES, inserted, updated beside it, and copied
    pgbench     pgbench at full speed with a schema change each second for SECONDS: the lag goes back to nothing

After each, contents and catalogs of both sides are compared (of `streamed` and `value`: counts and sums). Memory is what a process has for
itself (RssAnon). Prints the figures, and TAP.
"""
import argparse
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../crash"))
from cluster import Pair    # noqa: E402
import servers                          # noqa: E402

OPTIONS = '{"streaming": "on", "rewrites": "carry"}'


class Memory(threading.Thread):
    """The private memory of the apply worker and its walsender, at the start, at most and at the end, in MB."""

    def __init__(self, pair, database):
        super().__init__(daemon=True)
        self.stop, self.seen = False, {}
        # (not through the process that drains: a fresh look, in case one was started anew)
        self.pids = {"apply worker": pair.sub.pid_of("backend_type LIKE 'schemasync apply%%' AND datname = '%s'" % database),
                     "walsender": pair.pub.pid_of("backend_type = 'walsender' AND datname = '%s'" % database)}
        self.sample()
        self.start()

    def sample(self):
        for name, pid in self.pids.items():
            try:
                with open("/proc/%d/status" % pid, encoding="ascii") as f:
                    now = next(int(line.split()[1]) for line in f if line.startswith("RssAnon")) / 1024
            except (OSError, StopIteration):
                continue
            first, most, _ = self.seen.get(name, (now, 0, 0))
            self.seen[name] = (first, max(most, now), now)

    def run(self):
        while not self.stop:
            self.sample()
            time.sleep(0.2)

    def told(self):
        self.stop = True
        self.sample()
        return "; ".join("%s %.0f MB at first, %.0f at most, %.0f at the end" % (name, *three) for name, three in self.seen.items())


class Loads:
    def __init__(self, pair, options):
        self.pair, self.pub, self.sub, self.options = pair, pair.pub, pair.sub, options

    def begin(self, database, sql, options=OPTIONS):
        self.pair.make_database(database)
        self.pub.run(database, sql, timeout=3600)
        self.pub.run(database, "CREATE PUBLICATION p FOR ALL TABLES")
        self.pair.subscribe(database, options, proxied=False)
        self.pair.wait_applied(database, 600)
        return Memory(self.pair, database)

    def timed(self, database, sql, patience=3600):
        """Seconds that the publisher took, and seconds until it was all applied, from the start."""
        begun = time.time()
        self.pub.run(database, sql, timeout=patience)
        ran = time.time() - begun
        self.pair.wait_applied(database, patience)
        return ran, time.time() - begun

    def equal(self, database):
        differences = self.pair.differences(database)
        assert not differences, "\n".join(differences)

    def storm(self, database):
        memory = self.begin(database, "CREATE TABLE t0 (id int PRIMARY KEY, v text); INSERT INTO t0 SELECT g, 'v' FROM generate_series(1, 1000) g")
        commands = []
        for n in range(100):
            commands += ["CREATE TABLE s%d (id int PRIMARY KEY, v text)" % n, "ALTER TABLE s%d ADD a int DEFAULT %d" % (n, n), "ALTER TABLE s%d RENAME v TO w" % n,
                         "CREATE INDEX ON s%d (a)" % n, "INSERT INTO s%d SELECT g FROM generate_series(1, 5) g" % n, "ALTER TABLE s%d ALTER a TYPE bigint" % n,
                         "ALTER TABLE s%d ADD CHECK (a >= 0)" % n, "ALTER TABLE t0 ADD c%d int DEFAULT %d" % (n, n), "UPDATE t0 SET c%d = 5 WHERE id = %d" % (n, n + 1),
                         "ALTER TABLE t0 ALTER c%d SET NOT NULL" % n, "ALTER TABLE s%d ADD r int REFERENCES t0" % n,
                         "DROP TABLE s%d" % n if n % 2 else "ALTER TABLE s%d SET SCHEMA public" % n]
        ddl = sum(not command.startswith(("INSERT", "UPDATE")) for command in commands)
        ran, applied = self.timed(database, "BEGIN; %s; COMMIT" % ";\n".join(commands))
        history = self.sub.run(database, "SELECT count(*) FROM schemasync_ddl_history").strip()
        self.equal(database)
        return "%d commands in one transaction: %.1f s on the publisher, applied after %.1f s, %s rows of history; %s" % (ddl, ran, applied, history, memory.told())

    def matview(self, database):
        memory = self.begin(database, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, g %% 10 FROM generate_series(1, 20000) g;"
                            "CREATE MATERIALIZED VIEW m AS SELECT v, count(*) FROM t GROUP BY v; CREATE UNIQUE INDEX ON m (v)".replace("%%", "%"))
        self.pub.run(database, "SELECT pg_create_logical_replication_slot('look', 'schemasync_decoder')")
        wal = self.pub.run(database, "SELECT pg_current_wal_lsn()").strip()
        times = min(self.options.seconds, 120)
        for _ in range(times):
            self.pub.run(database, "REFRESH MATERIALIZED VIEW CONCURRENTLY m")
            time.sleep(1)
        self.pub.run(database, "REFRESH MATERIALIZED VIEW m")
        self.pair.wait_applied(database)
        rows = self.sub.run(database, "SELECT count(*) FROM schemasync_ddl_history").strip()
        applied = self.sub.run(database, "SELECT applied_transactions FROM schemasync_subscriptions").strip()
        sent = self.pub.run(database, "SELECT count(*) FROM pg_logical_slot_get_binary_changes('look', NULL, NULL, 'proto_version', '1',"
                            " 'publication_names', 'p', 'schemasync', '1', 'rewrites', 'carry')").strip()
        self.pub.run(database, "SELECT pg_drop_replication_slot('look')")
        bytes_ = self.pub.run(database, "SELECT pg_current_wal_lsn() - '%s'" % wal).strip()
        assert sent == rows == "0", "%s messages for the client, %s rows of history" % (sent, rows)
        return "%d refreshes, %s bytes of WAL: no message, %s transactions applied in all; %s" % (times + 1, bytes_, applied, memory.told())

    def streamed(self, database):
        n = self.options.rows
        memory = self.begin(database, "CREATE TABLE t (id bigint PRIMARY KEY, v text, n int); CREATE TABLE u (id bigint PRIMARY KEY)")
        quarter = n // 4
        ran, applied = self.timed(database, "BEGIN; INSERT INTO t SELECT g, 'row ' || g, g %% 100 FROM generate_series(1, %d) g;"
                                  "ALTER TABLE t ADD c int DEFAULT 3; INSERT INTO t SELECT g, 'row ' || g, 1, 4 FROM generate_series(%d, %d) g;"
                                  "ALTER TABLE t DROP COLUMN n; CREATE INDEX ON t (c); INSERT INTO t SELECT g, 'row ' || g FROM generate_series(%d, %d) g;"
                                  "INSERT INTO u SELECT generate_series(1, %d); ALTER TABLE u ADD d text DEFAULT 'd'; COMMIT"
                                  % (quarter, quarter + 1, 2 * quarter, 2 * quarter + 1, 3 * quarter, quarter))
        for query in ("SELECT count(*), sum(id), sum(c), md5(string_agg(v, '' ORDER BY id)) FROM t", "SELECT count(*), sum(id), min(d) FROM u"):
            left, right = (server.run(database, query) for server in (self.pub, self.sub))
            assert left == right, "%s: %s and %s" % (query, left, right)
        return "%d rows and 4 schema changes in one transaction: %.1f s on the publisher, applied after %.1f s; %s" % (4 * quarter, ran, applied, memory.told())

    def small(self, database):
        n = self.options.transactions
        memory = self.begin(database, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 1000) g")
        # procedures commit without a client between: as fast as a server goes
        self.pub.run(database, "CREATE PROCEDURE many(n int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..n LOOP"
                     " UPDATE t SET v = i WHERE id = 1 + i % 1000; COMMIT; END LOOP; END $$")
        parts, figures, begun = 10, [], time.time()
        for _ in range(parts):
            self.pub.run(database, "CALL many(%d)" % (n // parts), timeout=3600)
            self.pair.wait_applied(database, 3600)
            memory.sample()
            figures.append("/".join("%.1f" % memory.seen[name][2] for name in memory.pids))
        self.equal(database)
        return "%d transactions in %.0f s; private memory in MB (apply worker/walsender) after each tenth: %s; %s" % (
            n, time.time() - begun, ", ".join(figures), memory.told())

    def value(self, database):
        size = self.options.megabytes
        memory = self.begin(database, "CREATE TABLE t (id int PRIMARY KEY, v text, n int); ALTER TABLE t ALTER v SET STORAGE EXTERNAL", '{"streaming": "on"}')
        ran, applied = self.timed(database, "INSERT INTO t SELECT 1, repeat('0123456789abcdef', %d * 65536), 0" % size)
        _, beside = self.timed(database, "ALTER TABLE t ADD c int DEFAULT 1; UPDATE t SET n = 1")
        sizes = [server.run(database, "SELECT id, n, c, length(v), md5(v) FROM t") for server in (self.pub, self.sub)]
        assert sizes[0] == sizes[1], sizes
        begun = time.time()
        self.sub.run(database, "SELECT schemasync_resync('s', 't')")
        self.pair.wait_applied(database, 600)
        copied = time.time() - begun
        assert self.sub.run(database, "SELECT id, n, c, length(v), md5(v) FROM t") == sizes[0]
        return "one value of %d MB: inserted in %.1f s, applied after %.1f s; an update beside it and a new column %.1f s; copied afresh in %.1f s; %s" % (
            size, ran, applied, beside, copied, memory.told())

    def pgbench(self, database):
        bindir, seconds = self.pub.bindir, self.options.seconds
        self.pair.make_database(database)
        arguments = [os.path.join(bindir, "pgbench"), "-h", self.pub.socket, "-p", str(self.pub.port), "-U", "postgres"]
        subprocess.run([*arguments, "-i", "-s", "5", "-q", database], check=True, capture_output=True, env=servers.clean_environment(), cwd="/")
        self.pub.run(database, "ALTER TABLE pgbench_history ADD h bigserial PRIMARY KEY; CREATE PUBLICATION p FOR ALL TABLES")
        self.pair.subscribe(database, OPTIONS, proxied=False)
        self.pair.wait_applied(database, 600)
        memory = Memory(self.pair, database)
        bench = subprocess.Popen([*arguments, "-n", "-c", "4", "-T", str(seconds), database], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env=servers.clean_environment(), cwd="/")
        changes, lags, number = 0, [], 0
        while bench.poll() is None:
            number += 1
            fine = self.pub.try_run(database, "SET lock_timeout = '2s'; " + (
                "ALTER TABLE pgbench_tellers ADD x%d int DEFAULT %d" % (number, number), "ALTER TABLE pgbench_tellers DROP COLUMN x%d" % (number - 1),
                "CREATE TABLE extra%d (i int PRIMARY KEY); INSERT INTO extra%d VALUES (1)" % (number, number),
                "DROP TABLE extra%d" % (number - 1))[(number - 1) % 4])[0]
            changes += fine
            lags.append(int(self.sub.run(database, "SELECT coalesce(lag_bytes, 0) FROM schemasync_subscriptions") or 0) / 1048576)
            time.sleep(1)
        tps = [line for line in bench.communicate()[0].split("\n") if line.startswith(("tps", "number of transactions actually"))]
        begun = time.time()
        self.pair.wait_applied(database, 3600)
        drained = time.time() - begun
        self.equal(database)
        history = self.sub.run(database, "SELECT count(*) FROM schemasync_ddl_history WHERE verdict = 'forward'").strip()
        return "%d s, %s; %d schema changes committed, %s operations forwarded; received but not applied at most %.1f MB; level %.1f s after the end; %s" % (
            seconds, ", ".join(tps), changes, history, max(lags), drained, memory.told())


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--port", type=int, default=5432, help="only names sockets in a folder of its own")
    ap.add_argument("--seconds", type=int, default=60)
    ap.add_argument("--rows", type=int, default=1000000)
    ap.add_argument("--transactions", type=int, default=1000000)
    ap.add_argument("--megabytes", type=int, default=200)
    ap.add_argument("loads", nargs="*")
    options = ap.parse_args()
    names = options.loads or ["storm", "matview", "streamed", "small", "value", "pgbench"]
    settings = ["logical_decoding_work_mem = 64MB", "wal_receiver_timeout = 60s", "shared_buffers = 256MB", "max_wal_size = 8GB"]
    failed = 0
    with Pair(options.bindir, options.port, publisher_settings=settings, subscriber_settings=settings, prefix="ss-load-") as pair:
        loads = Loads(pair, options)
        for number, name in enumerate(names, 1):
            database = "l%d" % number
            try:
                print("ok %d - %s: %s" % (number, name, getattr(loads, name)(database)), flush=True)
                pair.drop_database(database)
            except Exception as error:      # noqa: BLE001: the next one is to be tried all the same
                failed += 1
                print("not ok %d - %s" % (number, name))
                print("\n".join("#   " + line for line in str(error).split("\n")[:60]), flush=True)
    print("1..%d" % len(names))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
