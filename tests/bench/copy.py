#!/usr/bin/env python3
"""The initial copy beside built-in logical replication's: tests/bench/copy.py --bindir BINDIR [--scale 1.0] [--rounds 2] [--workers 2]

The same tables (four of 500,000 rows and one of 3,000,000, times the scale; each with a primary key and one more index) are copied to an empty
subscriber in turns by
  builtin     CREATE SUBSCRIPTION, the schema by pg_dump before
  indexed     schemasync into tables that pg_dump made too (copy_schema => false)
  schemasync  schemasync that makes the tables, and their indexes after the rows (copy_schema => true)
with as many workers each (max_sync_workers_per_subscription, copy_workers). Shown: seconds until all tables are ready, and the CPU seconds that both
servers spent, which other work on the machine hardly changes. The rows of both sides are compared each time.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))
from servers import ACCOUNT, Server, clean_environment  # noqa: E402


def postmaster(server):
    with open(os.path.join(server.data, "postmaster.pid"), encoding="utf-8") as f:
        return int(f.readline())


def cpu(server):
    """Seconds of all of the server's processes that have ended."""
    with open("/proc/%d/stat" % postmaster(server), encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return sum(int(fields[i]) for i in (11, 12, 13, 14)) / os.sysconf("SC_CLK_TCK")


def wait(server, database, query, seconds=3600):
    end = time.time() + seconds
    while server.run(database, query).strip() != "t":
        if time.time() > end:
            raise SystemExit("never true: " + query)
        time.sleep(0.05)


def make(server, scale):
    tables = [("small_%d" % i, int(500000 * scale)) for i in range(1, 5)] + [("large", int(3000000 * scale))]
    for name, rows in tables:
        server.run("app", "CREATE TABLE %s (id bigint, customer int, amount numeric(10,2), note text, at timestamptz);"
                          "INSERT INTO %s SELECT i, i %% 10000, i / 7.0, 'note number ' || i, '2026-01-01'::timestamptz + i * interval '1 s'"
                          " FROM generate_series(1, %d) i; ALTER TABLE %s ADD PRIMARY KEY (id); CREATE INDEX ON %s (customer);" %
                   (name, name, rows, name, name), timeout=3600)
    server.run("app", "CREATE PUBLICATION pub FOR TABLE " + ", ".join(t for t, _ in tables) + "; VACUUM ANALYZE", timeout=3600)
    return [t for t, _ in tables]


def digest(server, tables):
    return [server.run("app", "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM %s t" % t, timeout=3600).strip() for t in tables]


def one(kind, pub, sub, tables, schema, workers):
    sub.run("postgres", "DROP DATABASE IF EXISTS app")
    sub.run("postgres", "CREATE DATABASE app")
    sub.run("app", "CREATE EXTENSION schemasync; CHECKPOINT")
    pub.run("app", "CHECKPOINT")
    if kind != "schemasync":
        sub.run("app", schema)
    spent = cpu(pub) + cpu(sub)
    begun = time.time()
    if kind == "builtin":
        sub.run("app", "CREATE SUBSCRIPTION bench CONNECTION '%s' PUBLICATION pub" % pub.conninfo("app"))
        wait(sub, "app", "SELECT bool_and(srsubstate IN ('r', 's')) FROM pg_subscription_rel")
    else:
        sub.run("app", "SELECT schemasync_create_subscription('bench', '%s', '{pub}', copy_schema => %s, options => '{\"copy_workers\": %d}')" %
                (pub.conninfo("app"), "true" if kind == "schemasync" else "false", workers))
        wait(sub, "app", "SELECT state = 'streaming' AND (SELECT bool_and(state = 'ready') FROM schemasync_tables)"
                         " FROM schemasync_subscriptions")
    seconds = time.time() - begun
    if kind == "builtin":
        sub.run("app", "DROP SUBSCRIPTION bench")
    else:
        sub.run("app", "SELECT schemasync_drop_subscription('bench')")
    spent = cpu(pub) + cpu(sub) - spent
    if digest(pub, tables) != digest(sub, tables):
        raise SystemExit("%s: the rows are not equal" % kind)
    return seconds, spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", required=True)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--port", type=int, default=24100)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="copy", dir=options.folder)
    os.chmod(folder, 0o755)
    pub = Server(options.bindir, folder, "pub", options.port)
    sub = Server(options.bindir, folder, "sub", options.port + 1)
    try:
        for server in (pub, sub):
            server.start()
            server.run("postgres", "ALTER SYSTEM SET shared_buffers = '256MB'; ALTER SYSTEM SET max_wal_size = '8GB';")
            server.run("postgres", "ALTER SYSTEM SET max_sync_workers_per_subscription = %d;" % options.workers)
            server.run("postgres", "ALTER SYSTEM SET max_logical_replication_workers = 16;")
            server.tool("pg_ctl", "-D", server.data, "-l", server.log, "-w", "restart")
        pub.run("postgres", "CREATE DATABASE app")
        pub.run("app", "CREATE EXTENSION schemasync")
        tables = make(pub, options.scale)
        schema = subprocess.run([os.path.join(options.bindir, "pg_dump"), "-s", "-h", pub.socket, "-p", str(pub.port), "-U", "postgres",
                                 "--no-publications", *[a for t in tables for a in ("-t", t)], "app"], capture_output=True, text=True,
                                check=True, cwd="/", env=clean_environment(), **ACCOUNT).stdout
        seen = {}
        for _ in range(options.rounds):
            for kind in ("builtin", "indexed", "schemasync"):
                seconds, spent = one(kind, pub, sub, tables, schema, options.workers)
                seen.setdefault(kind, []).append((seconds, spent))
                print("%-11s %7.1f s  %7.1f s CPU" % (kind, seconds, spent), flush=True)
        print("median of %d:" % options.rounds)
        for kind, figures in seen.items():
            print("%-11s %7.1f s  %7.1f s CPU" % (kind, statistics.median(f[0] for f in figures), statistics.median(f[1] for f in figures)))
    finally:
        for server in (pub, sub):
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
