#!/usr/bin/env python3
"""What many tables cost: tests/load/many_tables.py --bindir BINDIR [--tables 200,1000,10000]

For each number: tables with a primary key, an index and a few rows are published (FOR ALL TABLES), and a subscriber makes and copies them. Shown: seconds until the
subscription streams, the largest memory of the apply worker and of its walsender (VmHWM, MB), and the milliseconds from the commit of an ALTER TABLE, of a row of
a table that the session has not seen yet and of a row of one that it has, on the publisher until it is applied (median of several).
"""
import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))
from servers import Server  # noqa: E402


def memory(pid):
    with open("/proc/%s/status" % pid, encoding="utf-8") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0


def make(server, count):
    for first in range(1, count + 1, 500):
        server.run("app", "DO $$BEGIN FOR i IN %d..%d LOOP EXECUTE format('CREATE TABLE t%%s (id int PRIMARY KEY, v int, note text)', i);"
                          " EXECUTE format('CREATE INDEX ON t%%s (v)', i); EXECUTE format('INSERT INTO t%%s SELECT g, g, g FROM generate_series(1, 10) g', i);"
                          " END LOOP; END$$" % (first, min(first + 499, count)), timeout=3600)


def applied(pub, sub, sql):
    """Milliseconds from the statement's end to its being applied."""
    lsn = pub.run("app", sql + "; SELECT pg_current_wal_lsn()").strip()
    begun = time.time()
    sub.run("app", "SELECT schemasync_wait('load', '%s')" % lsn)
    return (time.time() - begun) * 1000


def measure(pub, sub, count, workers):
    for server in (pub, sub):
        server.run("postgres", "DROP DATABASE IF EXISTS app WITH (FORCE)", timeout=3600)
        server.run("postgres", "CREATE DATABASE app")
        server.run("app", "CREATE EXTENSION schemasync")
    make(pub, count)
    pub.run("app", "CREATE PUBLICATION pub FOR ALL TABLES")
    begun = time.time()
    sub.run("app", "SELECT schemasync_create_subscription('load', '%s', '{pub}', options => '{\"copy_workers\": %d}')" % (pub.conninfo("app"), workers),
            timeout=3600)
    while True:
        state = sub.run("app", "SELECT state, last_error, (SELECT count(*) FROM schemasync_tables WHERE state = 'ready') FROM schemasync_subscriptions").strip()
        if state == "streaming||%d" % count:
            break
        if time.time() - begun > 3600 or state.startswith("failed"):
            raise SystemExit("not streaming: " + state)
        time.sleep(0.2)
    seconds = time.time() - begun
    sub.run("app", "SELECT schemasync_wait('load')", timeout=3600)
    ddl = [applied(pub, sub, "ALTER TABLE t%d ADD c int" % i) for i in range(1, 8)]
    fresh = [applied(pub, sub, "INSERT INTO t%d VALUES (100)" % i) for i in range(11, 18)]
    known = [applied(pub, sub, "INSERT INTO t11 VALUES (%d)" % i) for i in range(101, 108)]
    worker = sub.run("app", "SELECT worker_pid FROM schemasync_subscriptions").strip()
    walsender = pub.run("app", "SELECT active_pid FROM pg_replication_slots WHERE active").strip()
    print("%6d tables: %7.1f s to copy, %5.0f MB worker, %5.0f MB walsender, ALTER TABLE %5.0f ms, new table's row %5.0f ms, row %5.0f ms" %
          (count, seconds, memory(worker), memory(walsender), statistics.median(ddl), statistics.median(fresh), statistics.median(known)), flush=True)
    sub.run("app", "SELECT schemasync_drop_subscription('load')", timeout=3600)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", required=True)
    parser.add_argument("--tables", default="200,1000,10000")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--port", type=int, default=24200)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="load")
    os.chmod(folder, 0o755)
    pub = Server(options.bindir, folder, "pub", options.port)
    sub = Server(options.bindir, folder, "sub", options.port + 1)
    try:
        for server in (pub, sub):
            server.start()
        for count in options.tables.split(","):
            measure(pub, sub, int(count), options.workers)
    finally:
        for server in (pub, sub):
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
