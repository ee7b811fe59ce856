"""docs/cutover.md as a move to a newer version: each block of the page is run where it says, word for word, while
sessions write and migrate the old server until the page ends them.

play(pair, folder) raises Fault when a comparison of the page is not as the page says, or both sides differ at the end.
"""
import itertools
import os
import re
import subprocess
import threading
import time

import servers

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "cutover.md")
PATIENCE = int(os.environ.get("PG_TEST_TIMEOUT_DEFAULT", "180"))

SHOP = """
CREATE TYPE status AS ENUM ('open', 'paid');
CREATE TABLE customer (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, at timestamptz DEFAULT now());
CREATE TABLE purchase (id serial PRIMARY KEY, customer_id int REFERENCES customer, amount numeric CHECK (amount >= 0), status status DEFAULT 'open');
CREATE TABLE log (id bigserial, day date NOT NULL, what text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE log_2024 PARTITION OF log FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE log_2025 PARTITION OF log FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE SEQUENCE invoice START 500 INCREMENT 5;
INSERT INTO customer (name) SELECT 'c' || i FROM generate_series(1, 2000) i;
INSERT INTO purchase (customer_id, amount) SELECT i, i * 1.5 FROM generate_series(1, 2000) i;
SELECT nextval('invoice');
"""


class Fault(Exception):
    pass


def rows(number):
    """What applications do."""
    for i in itertools.count(1):
        yield ("INSERT INTO customer (name) VALUES ('n%d_%d'); "
               "INSERT INTO purchase (customer_id, amount) SELECT max(id), %d FROM customer; "
               "UPDATE purchase SET amount = amount + 1, status = 'paid' WHERE id = %d; "
               "DELETE FROM purchase WHERE id = %d; "
               "INSERT INTO log (day, what) VALUES (date '2024-01-01' + %d, 'w%d')"
               % (number, i, i, i * 2 + number, 1000 + i * 2 + number, i % 700, i))


def migrations(application):
    """Somebody migrates, each time after the application has done some work."""
    for statement in endless_migrations():
        application.await_more(60)
        yield statement


def endless_migrations():
    for i in itertools.count(1):
        yield "ALTER TABLE purchase ADD COLUMN extra_%d int NOT NULL DEFAULT %d" % (i, i)
        yield "ALTER TABLE purchase RENAME COLUMN extra_%d TO more_%d" % (i, i)
        yield "CREATE INDEX purchase_more_%d ON purchase (more_%d)" % (i, i)
        yield "CREATE TABLE made_%d (id int PRIMARY KEY, v varchar(10)); INSERT INTO made_%d SELECT g, 'm' || g FROM generate_series(1, 20) g" % (i, i)
        yield "ALTER TABLE made_%d ALTER v TYPE varchar(100), ADD at timestamptz NOT NULL DEFAULT now(); UPDATE made_%d SET v = v || v" % (i, i)
        yield "ALTER TABLE log ADD column_%d text DEFAULT 'l'" % i
        yield "ALTER TYPE status ADD VALUE 'status_%d'" % i
        if i > 1:
            yield "ALTER TABLE purchase DROP COLUMN more_%d" % (i - 1)
            yield "DROP TABLE made_%d" % (i - 1)


class Writer(threading.Thread):
    """A session that does one thing after another until somebody ends it."""

    def __init__(self, server, statements):
        super().__init__(daemon=True)
        self.server, self.statements, self.done, self.errors = server, statements, 0, []
        self.start()

    def run(self):
        session = servers.Session(self.server, "shop", "-c lock_timeout=0")
        try:
            for sql in self.statements:
                _, error = session.send(sql)
                if error and "terminating connection" not in error and "deadlock detected" not in error:
                    self.errors.append("%s: %s" % (sql, error))
                self.done += 1
        except (servers.ServerError, OSError, Fault):
            pass    # it was ended
        finally:
            session.close()

    def await_more(self, count):
        """Until it has done so many things more."""
        wanted, end = self.done + count, time.monotonic() + PATIENCE
        while self.done < wanted:
            if time.monotonic() > end or not self.is_alive():
                raise Fault("a writer stands still: %s" % (self.errors or self.done))
            time.sleep(0.02)


def blocks():
    """(where, SQL) of each block of the page."""
    with open(PAGE, encoding="utf-8") as f:
        return re.findall(r"^```sql (publisher|subscriber)[^\n]*\n(.*?)^```$", f.read(), re.M | re.S)


def statements(sql):
    return [s.strip() for s in re.split(r";\s*\n", sql + "\n") if s.strip()]


def run_page(pair, writers):
    sides = {"publisher": pair.publisher, "subscriber": pair.subscriber}
    there = "host=%s port=%d dbname=shop" % (pair.publisher.socket, pair.publisher.port)
    verified = switched = False
    for where, block in blocks():
        if "default_transaction_read_only = off" in block:    # the way back: it is one session's
            sides[where].run("shop", block)
            continue
        for statement in statements(block.replace("host=publisher dbname=shop", there)):
            if "schemasync_create_subscription" in statement or "schemasync_verify" in statement and not verified:
                for writer in writers:
                    writer.await_more(3)
            try:
                out = sides[where].run("shop", statement, timeout=PATIENCE).strip()
            except subprocess.TimeoutExpired:
                raise Fault("no end of: %s\n%s" % (statement, pair.subscriber.run(
                    "shop", "SELECT name, state, last_error, lag_bytes FROM schemasync_subscriptions; "
                            "SELECT worker, message, count FROM schemasync_errors", check=False))) from None
            if "schemasync_preflight" in statement and re.search(r"\|error\|", out):
                raise Fault("preflight finds errors: " + out)
            if "schemasync_verify" in statement and "IS NOT TRUE" not in statement:
                verified = True
                unequal = [line for line in out.splitlines() if line.split("|")[1] != "t"]
                if unequal or not out:
                    raise Fault("rehearsed comparison: " + "\n".join(unequal or ["no table was compared"]))
            if ("IS NOT TRUE" in statement or "verdict <> 'ignore'" in statement) and out:
                raise Fault("%s\nfinds: %s" % (statement, out))
            if "pg_terminate_backend" in statement:
                for writer in writers:
                    writer.join(PATIENCE)
                    if writer.is_alive():
                        raise Fault("a writer goes on after its session was ended")
            if "schemasync_drop_subscription" in statement:
                switched = True
    if not (verified and switched):
        raise Fault("the page does not compare, or does not switch")


def compare(pair, read):
    for what in ("contents", "catalog"):
        left, right = read(pair.publisher, what), read(pair.subscriber, what)
        if left != right:
            a, b = set(left.splitlines()), set(right.splitlines())
            raise Fault("%s not equal after the move:\n%s" % (what, "\n".join(sorted(a ^ b)[:10])))


def play(pair, read):
    """read(server, "contents" | "catalog"): what the database shop holds there, as text."""
    old, new = pair.publisher, pair.subscriber
    old.run("postgres", "DROP ROLE IF EXISTS replicator")
    old.run("postgres", "CREATE ROLE replicator LOGIN SUPERUSER")
    for server in (old, new):
        server.run("postgres", "CREATE DATABASE shop")
    writers = []
    try:
        old.run("shop", SHOP)
        new.run("shop", "CREATE SEQUENCE invoice START 500 INCREMENT 5")
        writers = [Writer(old, rows(0)), Writer(old, rows(1))]
        writers.append(Writer(old, migrations(writers[0])))
        run_page(pair, writers)
        errors = [e for writer in writers for e in writer.errors]
        if errors:
            raise Fault("the writers were hindered: " + "\n".join(errors[:5]))
        compare(pair, read)
        last = old.run("shop", "SELECT max(id) FROM purchase").strip()
        given = new.run("shop", "INSERT INTO purchase (customer_id, amount) VALUES (1, 1) RETURNING id").strip()
        if int(given) <= int(last):
            raise Fault("the new server gives out %s again" % given)
    finally:
        old.run("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'shop' AND usename <> 'replicator'")
        for writer in writers:
            writer.join(10)
        new.run("shop", "SELECT schemasync_drop_subscription(name) FROM schemasync_subscriptions", check=False)
        for server in (old, new):
            server.run("postgres", "DROP DATABASE IF EXISTS shop WITH (FORCE)", check=False)
