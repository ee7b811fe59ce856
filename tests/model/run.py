#!/usr/bin/env python3
"""Random migrations against a publisher and its subscriber; both sides must stay equal, or halt for a good reason.

    run.py --bindir DIR [--seeds 1-50] [--steps 30] [--port N] [--options JSON] [--keep] [--no-shrink] [--replay FILE]
           [--coverage FILE]

Each seed is a sequence of DDL and DML in transactions of two sessions. At each drain the full contents and the catalogs
of both sides are compared, or, when the subscription was refused, checker.py must agree with the reason; then
the subscriber is repaired by hand and the subscription resumed. A sequence that fails is made as short as it will go and printed;
it is written to FILE.json as well, for --replay. Prints TAP and, last, how often each operation, verdict and reason was reached and which never;
with --coverage the counts are added to those in FILE, so that many runs have one sum.
"""
import argparse
import collections
import json
import os
import random
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import checker  # noqa: E402
import generate  # noqa: E402
import servers  # noqa: E402
import structures  # noqa: E402
from generate import Input, ident  # noqa: E402

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools")
DRAIN = "-- drain"
COMPARED = "^(?!public[.]v$)"    # views are not followed unless asked for
coverage = collections.Counter()

# Drops, through psql, all that a sequence made.
EVERYTHING = """
SET client_min_messages = warning;
SELECT pg_catalog.format('DROP SCHEMA IF EXISTS %I CASCADE', nspname) FROM pg_catalog.pg_namespace
WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'schemasync', 'public')
UNION ALL
SELECT pg_catalog.format('DROP %s IF EXISTS public.%I CASCADE', CASE relkind WHEN 'v' THEN 'VIEW'
	WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'c' THEN 'TYPE' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, relname)
FROM pg_catalog.pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'c', 'S')
	AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('e', 'i'))
UNION ALL
SELECT pg_catalog.format('DROP TYPE IF EXISTS public.%I CASCADE', typname) FROM pg_catalog.pg_type
WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd')
UNION ALL
SELECT pg_catalog.format('DROP FUNCTION IF EXISTS %s CASCADE', p.oid::regprocedure) FROM pg_catalog.pg_proc p
WHERE pronamespace = 'public'::regnamespace
	AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
\\gexec
"""


class Fault(Exception):
    """kind: what shrinking must keep; text: what is told."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind, self.text = kind, text


class Play:
    """One sequence on a database of its own on both servers."""

    def __init__(self, pair, database, options):
        self.pub, self.sub, self.database, self.options = pair.publisher, pair.subscriber, database, options
        self.classes = "ddl_classes" in json.loads(options)
        self.sessions = {}
        self.readers = {}          # a connection to each side that looks at it: a new one for each look costs most of the time
        self.pending = []          # accepted by the publisher since both sides were last found equal
        self.undecided = []        # of the open transactions
        self.script = []           # everything that was sent

    def __enter__(self):
        for server in (self.pub, self.sub):
            server.run("postgres", 'CREATE DATABASE "%s"' % self.database)
            server.run(self.database, "CREATE EXTENSION schemasync")
        self.pub.run(self.database, "CREATE PUBLICATION model FOR ALL TABLES")
        self.sessions = {s: servers.Session(self.pub, self.database) for s in ("A", "B")}
        self.readers = {s: servers.Session(s, self.database, "-c lock_timeout=0") for s in (self.pub, self.sub)}
        return self

    def __exit__(self, kind, *_):
        for session in (*self.sessions.values(), *self.readers.values()):
            session.close()
        if kind is None or kind is Fault:
            self.count()
        self.sub.run(self.database, "SELECT schemasync_drop_subscription('model')", check=False)
        for server in (self.sub, self.pub):
            server.run("postgres", 'DROP DATABASE IF EXISTS "%s" WITH (FORCE)' % self.database, check=False)

    def count(self):
        rows = self.sub.run(self.database, "SELECT operation, verdict, coalesce(nullif(reason, 'none'), '') FROM schemasync_ddl_history",
                            check=False)
        for row in rows.splitlines():
            coverage[row] += 1

    # --- sending ---

    def send(self, item):
        self.script.append(item)
        _, error = self.sessions[item.session].send(item.sql)
        if not error:
            self.undecided.append(item)
        return error

    def catalog(self):
        """As session A sees it; ends A's transaction when that was aborted."""
        for session in ("A", "B", "A"):     # B may hold a lock that the catalog's functions wait for
            found = {}
            for query in structures.Structures.queries:
                lines, error = self.sessions["A"].send(query)
                if error:
                    self.send(Input("ROLLBACK", session=session))
                    break
                found.update(generate.parse_catalog(lines))
            else:
                return found
        raise Fault("harness", "the catalog cannot be read: " + error)

    # --- the subscription ---

    def subscribe(self):
        # A copy makes what the tables need; what no table uses is there beforehand, so that the dumps can be equal.
        if self.classes:
            for item in self.script:
                if item.sql.startswith(("CREATE SCHEMA", "CREATE TYPE")):
                    self.sub.run(self.database, item.sql)
        self.sub.run(self.database, "SELECT schemasync_create_subscription('model', '%s', ARRAY['model'], options => '%s')" % (
            self.pub.conninfo(self.database), self.options))
        self.undecided = []
        self.drain()

    def wait(self):
        """'applied', or the reason of the refusal."""
        lsn = self.readers[self.pub].must("SELECT pg_current_wal_lsn()").strip()
        _, errors = self.readers[self.sub].send("SELECT schemasync_wait('model', '%s', interval '40 s')" % lsn)
        if not errors:
            return "applied"
        state = self.sub.run(self.database, "SELECT state FROM schemasync_subscriptions WHERE name = 'model'").strip()
        if state == "refused":
            return self.sub.run(self.database, "SELECT reason FROM schemasync_refusals WHERE status = 'open' ORDER BY refusal_id DESC LIMIT 1").strip()
        error = self.sub.run(self.database, "SELECT last_error FROM schemasync_subscriptions WHERE name = 'model'").strip()
        raise Fault("stuck " + state + " " + error[:40], "the subscriber did not follow: state %s, %s\n%s" % (state, error, errors))

    def refusal(self):
        return self.sub.run(self.database, "SELECT pg_catalog.jsonb_pretty(pg_catalog.jsonb_strip_nulls(pg_catalog.to_jsonb(r) - 'drift')) "
                                           "FROM schemasync_refusals r WHERE status = 'open'")

    def described(self, server, what):
        if what == "dump":     # lines, in whatever order they came
            lines = server.tool("pg_dump", "--schema-only", "--no-publications", "-N", "schemasync", "-d", server.conninfo(self.database)).stdout
            return "\n".join(sorted(l for l in lines.split("\n") if l and not l.startswith(("--", "SET ", "\\", "SELECT pg_catalog"))))
        with open(os.path.join(TOOLS, what + ".sql"), encoding="utf-8") as f:
            return self.readers[server].must("BEGIN;\nSET schemasync_test.pattern = '%s';\n%s;\nROLLBACK;" % (COMPARED, f.read()))

    def compare(self):
        for what in ("contents", "catalog") + (("dump",) if self.classes else ()):
            left, right = (self.described(server, what) for server in (self.pub, self.sub))
            if left != right:
                a, b = collections.Counter(left.splitlines()), collections.Counter(right.splitlines())
                text = "".join("publisher only:  %s\n" % l[:300] for l in list((a - b).elements())[:8])
                text += "".join("subscriber only: %s\n" % l[:300] for l in list((b - a).elements())[:8])
                raise Fault("unequal " + what, "%s not equal:\n%s" % (what, text))

    def drain(self):
        """Ends the transactions, waits, judges."""
        self.script.append(Input(DRAIN))
        for session in self.sessions.values():
            session.send("COMMIT")
        self.pending += self.undecided
        self.undecided = []
        for _ in range(30):
            outcome = self.wait()
            if outcome == "applied":
                self.compare()
                self.pending = []
                return
            wrong = checker.judge(self.pending, outcome, json.loads(self.options).get("rewrites") == "carry")
            if wrong:
                raise Fault("wrong refusal " + outcome, wrong + "\n" + self.refusal())
            coverage["refused||" + outcome] += 1
            if not self.repair():
                return
        raise Fault("endless", "30 refusals in a row\n" + self.refusal())

    def repair(self):
        """Brings the subscriber level by hand and resumes. False when it had to be subscribed anew."""
        effective = [i for i in self.pending if i.sql not in ("BEGIN", "COMMIT")]
        if len(effective) == 1 and "copyable" in effective[0].traits:
            self.sub.run(self.database, effective[0].sql + ";\n" + self.refill())
            self.sub.run(self.database, "SELECT schemasync_resume('model')")
            coverage["repaired and resumed||"] += 1
            return True
        self.sub.run(self.database, "SELECT schemasync_drop_subscription('model')")
        self.sub.run(self.database, EVERYTHING)
        coverage["subscribed anew||"] += 1
        self.classes = False     # (of the dump, what no table uses would be missing)
        self.sub.run(self.database, "SELECT schemasync_create_subscription('model', '%s', ARRAY['model'], options => '%s')" % (
            self.pub.conninfo(self.database), self.options))
        if self.wait() != "applied":
            raise Fault("refused at the start", "a new subscription is refused\n" + self.refusal())
        self.compare()
        self.pending = []
        return False

    def refill(self):
        """A script that gives the subscriber's tables the publisher's rows."""
        parts = ["SET session_replication_role = replica;"]
        tables = self.pub.run(self.database, """
            SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) || E'\\t' || pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY a.attname)
            FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
            WHERE c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'schemasync')
            GROUP BY 1, n.nspname, c.relname""")
        for line in tables.split("\n"):
            if "\t" not in line:
                continue
            table, columns = line.rsplit("\t", 1)
            rows = self.pub.run(self.database, "COPY (SELECT %s FROM ONLY %s) TO STDOUT" % (columns, table))
            parts.append("TRUNCATE %s;\nCOPY %s (%s) FROM STDIN;\n%s\\.\n" % (table, table, columns, rows))
        return "\n".join(parts)

    # --- a whole sequence ---

    def generated(self, seed, steps):
        gen = structures.Structures(seed, self.classes)
        rng = random.Random(seed * 7919)
        for item in gen.setup(self.catalog()):
            self.send(item)
        for _ in range(2):
            for item in gen.create_table(self.catalog()):
                self.send(item)
        for _ in range(4):
            for item in gen.dml(self.catalog()):
                self.send(item)
        self.script.append(Input("-- subscribe"))
        self.subscribe()
        self.script.pop()
        drain_in = rng.randrange(1, 8)
        for _ in range(steps):
            inputs = gen.step(self.catalog())
            # what may be refused is tried alone half the time, so that the refusal can be laid to it and repaired
            alone = any(i.may for i in inputs) and not any(gen.in_transaction.values()) and rng.randrange(2) == 0
            if alone:
                self.drain()
            for item in inputs:
                self.send(item)
            drain_in -= 1
            if alone or drain_in <= 0:
                gen.in_transaction = {"A": False, "B": False}
                gen.depth = 0
                self.drain()
                drain_in = rng.randrange(1, 12)
        self.drain()

    def replayed(self, script):
        subscribed = False
        for item in script:
            if item.sql == "-- subscribe":
                self.script.append(item)
                self.subscribe()
                self.script.pop()
                subscribed = True
            elif item.sql == DRAIN:
                if subscribed:
                    self.drain()
            else:
                self.send(item)
        if not subscribed:
            self.subscribe()
        self.drain()


def attempt(pair, name, options, what):
    """Runs what(play); returns (fault or None, script)."""
    play = Play(pair, name, options)
    try:
        with play:
            what(play)
        return None, play.script
    except Fault as fault:
        return fault, play.script
    except servers.ServerError as error:
        return Fault("harness " + str(error)[:60], str(error)), play.script


def shrink(pair, script, fault, options, seconds):
    """The shortest script found in that time that fails in the same way."""
    until = time.monotonic() + seconds
    size, number = max(1, len(script) // 2), 0
    while size >= 1 and time.monotonic() < until:
        start, removed = 0, False
        while start < len(script) and time.monotonic() < until:
            shorter = [i for n, i in enumerate(script) if not start <= n < start + size or i.sql == "-- subscribe"]
            number += 1
            if len(shorter) < len(script):
                again, _ = attempt(pair, "s%d" % number, options, lambda play: play.replayed(shorter))
                if again is not None and again.kind == fault.kind:
                    script, fault, removed = shorter, again, True
                    continue
            start += size
        if not removed or size > 1:
            size //= 2
    return script, fault


def show(script):
    return "\n".join("%s: %s" % (i.session, i.sql) for i in script)


def never_reached(server):
    """Lines that say what of the operation catalog, the verdicts and the reasons is not in `coverage`."""
    server.run("postgres", "CREATE EXTENSION IF NOT EXISTS schemasync")
    rows = [row.split("|") for row in coverage]
    with open(os.path.join(TOOLS, "../../common/core/reason.hpp"), encoding="utf-8") as f:
        reasons = set(re.findall(r'\{Reason::\w+, "(\w+)"', f.read())) - {"none"}
    wanted = {"operations": (0, set(server.run("postgres", "SELECT DISTINCT operation FROM schemasync_operations").split())),
              "verdicts": (1, {"forward", "satisfied", "ignore", "carry"}), "reasons": (2, reasons)}
    for what, (place, names) in wanted.items():
        missing = sorted(names - {row[place] for row in rows if len(row) == 3})
        yield "%d of %d %s reached%s" % (len(names) - len(missing), len(names), what, "; never " + ", ".join(missing) if missing else "")


def add_coverage(path):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            coverage.update(json.load(f))
    with open(path, "w", encoding="utf-8") as f:
        json.dump(coverage, f, indent=1, sort_keys=True)


def seeds_of(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-50")
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--port", type=int, default=5432)
    ap.add_argument("--options", default="{}")
    ap.add_argument("--keep", action="store_true")
    ap.add_argument("--no-shrink", action="store_true")
    ap.add_argument("--shrink-seconds", type=int, default=180)
    ap.add_argument("--replay")
    ap.add_argument("--coverage", metavar="FILE")
    ap.add_argument("--out", default=".", help="where failing sequences are written")
    args = ap.parse_args()

    failed = 0
    with servers.Pair(os.path.abspath(args.bindir), args.port, args.keep) as pair:
        if args.replay:
            with open(args.replay, encoding="utf-8") as f:
                wanted = [("replay", [Input.from_json(j) for j in json.load(f)])]
        else:
            wanted = [(seed, None) for seed in seeds_of(args.seeds)]
        for number, (seed, script) in enumerate(wanted, 1):
            fault, played = attempt(pair, "m%s" % seed, args.options, lambda play: play.replayed(script) if script else
                                    play.generated(seed, args.steps))
            print("%s %d - seed %s, %d inputs" % ("ok" if fault is None else "not ok", number, seed, len(played)), flush=True)
            if fault is None:
                continue
            failed += 1
            if not args.no_shrink and not fault.kind.startswith("harness"):
                played, fault = shrink(pair, played, fault, args.options, args.shrink_seconds)
            path = os.path.join(args.out, "seed%s.json" % seed)
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as f:
                json.dump([i.as_json() for i in played], f, indent=1, ensure_ascii=False)
            for line in (fault.text + "\n" + show(played) + "\nwritten to " + path).split("\n"):
                print("# " + line, flush=True)
        print("1..%d" % len(wanted))
        if args.coverage:
            add_coverage(args.coverage)
        never = list(never_reached(pair.subscriber))
    for row, times in sorted(coverage.items()):
        print("# %6d  %s" % (times, row))
    for line in never:
        print("# " + line)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
