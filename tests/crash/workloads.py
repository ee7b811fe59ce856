"""What is going on while something is killed: each workload leads to some of the injection points.

prepare() makes the database and all that must be there before the point is armed; go() does what leads to the point; after_hit() is
done while the process waits at the point; repair() what a person has to do before all is well again; finish() the last rows.
"""
import threading

from cluster import wait_until


class Workload:
    points = ()
    options = "{}"
    same_history = True     # whether the history must be that of the run without a fault

    def __init__(self, pair, database):
        self.pair, self.pub, self.sub, self.database = pair, pair.pub, pair.sub, database
        self.background = []

    def prepare(self):
        self.pair.make_database(self.database)
        self.tables()
        self.pair.subscribe(self.database, self.options)
        self.pair.wait_applied(self.database)

    def tables(self):
        self.pub.run(self.database, """
            CREATE TYPE mood AS ENUM ('sad', 'ok');
            CREATE TABLE a (id int PRIMARY KEY, v text, m mood DEFAULT 'ok');
            CREATE TABLE b (id serial PRIMARY KEY, a int REFERENCES a, n numeric(8,2));
            CREATE TABLE part (k int, d date, PRIMARY KEY (k, d)) PARTITION BY RANGE (d);
            CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
            CREATE TABLE keyless (x int, y text);
            ALTER TABLE keyless REPLICA IDENTITY FULL;
            INSERT INTO a SELECT g, 'v' || g FROM generate_series(1, 50) g;
            INSERT INTO b (a, n) SELECT g, g * 1.5 FROM generate_series(1, 50) g;
            INSERT INTO part SELECT g, '2020-03-01' FROM generate_series(1, 10) g;
            INSERT INTO keyless SELECT g % 7, 'k' FROM generate_series(1, 30) g;
            CREATE PUBLICATION p FOR ALL TABLES""")

    def go(self, point):
        raise NotImplementedError

    def after_hit(self, point):
        pass

    def repair(self):
        pass

    def finish(self):
        self.pub.run(self.database, "INSERT INTO a (id, v) VALUES (900001, 'last')")

    def later(self, sql):
        """Runs SQL on the publisher beside, as often as it takes: a server that goes down meanwhile undoes it."""
        def attempt():
            wait_until("the publisher did not take: " + sql, lambda: self.pub.try_run(self.database, "BEGIN; %s; COMMIT" % sql)[0])
        thread = threading.Thread(target=attempt)
        thread.start()
        self.background.append(thread)

    def join(self):
        for thread in self.background:
            thread.join()


class Stream(Workload):
    """Rows and DDL in the stream; each point is reached by the first transaction that has DDL."""
    points = ("received", "schema_received", "ddl_executed", "history_written", "before_commit", "after_commit", "feedback")

    def go(self, point):
        for sql in (
                "INSERT INTO a SELECT g, 'w' FROM generate_series(101, 120) g; ALTER TABLE a ADD COLUMN c int DEFAULT 7;"
                " INSERT INTO a SELECT g, 'x', 'sad', g FROM generate_series(121, 140) g; ALTER TABLE a RENAME COLUMN v TO w;"
                " UPDATE a SET w = w || '!' WHERE id < 110",
                "UPDATE b SET n = n + 1 WHERE id % 3 = 0; DELETE FROM keyless WHERE ctid IN (SELECT ctid FROM keyless WHERE x = 3 LIMIT 2)",
                "ALTER TYPE mood ADD VALUE 'happy'",
                "INSERT INTO a (id, w, m) VALUES (200, 'h', 'happy')",
                "CREATE TABLE fresh (i int PRIMARY KEY, t timestamptz DEFAULT '2020-01-01Z'); INSERT INTO fresh SELECT g FROM generate_series(1, 20) g;"
                " CREATE INDEX fresh_t ON fresh (t)",
                "ALTER TABLE b ALTER COLUMN n TYPE numeric(10,2), ALTER COLUMN n SET DEFAULT 3",
                "CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');"
                " INSERT INTO part SELECT g, '2021-03-01' FROM generate_series(1, 10) g; ALTER TABLE part ADD COLUMN note text",
                "ALTER TABLE keyless DROP COLUMN y; UPDATE keyless SET x = x + 1 WHERE x = 2",
                "ALTER TABLE fresh RENAME TO stale; INSERT INTO stale VALUES (77); ALTER TABLE a DROP COLUMN c"):
            self.pub.run(self.database, "BEGIN; %s; COMMIT" % sql if "ADD VALUE" not in sql else sql)

    def finish(self):
        self.pub.run(self.database, "INSERT INTO a (id, w) VALUES (900001, 'last')")


class Streamed(Stream):
    """The same in transactions so large that they are sent before they end, with a rolled back part."""
    points = ("stream_block", "replayed", "ddl_executed", "before_commit", "after_commit")
    options = '{"streaming": "on"}'

    def go(self, point):
        self.pub.run(self.database, """
            BEGIN;
            INSERT INTO a SELECT g, repeat('s', 60) FROM generate_series(1001, 3000) g;
            ALTER TABLE a ADD COLUMN big text;
            SAVEPOINT s;
            ALTER TABLE a ADD COLUMN gone int;
            INSERT INTO a SELECT g, repeat('r', 60) FROM generate_series(3001, 5000) g;
            ROLLBACK TO s;
            INSERT INTO a SELECT g, repeat('t', 60), 'sad', 'b' FROM generate_series(5001, 7000) g;
            CREATE TABLE within (i int PRIMARY KEY);
            INSERT INTO within SELECT g FROM generate_series(1, 2000) g;
            COMMIT""")
        super().go(point)


class Prepared(Workload):
    points = ("before_prepare", "after_prepare", "before_commit_prepared", "commit_prepared_finished", "after_commit_prepared", "history_written")
    options = '{"two_phase": true}'

    def go(self, point):
        self.pub.run(self.database, "BEGIN; INSERT INTO a (id) VALUES (301); ALTER TABLE a ADD COLUMN q int; INSERT INTO a (id, q) VALUES (302, 1);"
                                    " PREPARE TRANSACTION '%s'" % self.database)
        self.pub.run(self.database, "INSERT INTO keyless VALUES (9, 'between')")
        self.pub.run(self.database, "COMMIT PREPARED '%s'" % self.database)
        self.pub.run(self.database, "BEGIN; INSERT INTO a (id) VALUES (303); PREPARE TRANSACTION '%s'" % self.database)
        self.pub.run(self.database, "ROLLBACK PREPARED '%s'" % self.database)
        self.pub.run(self.database, "ALTER TABLE keyless ADD COLUMN z int DEFAULT 4")


class Refused(Workload):
    points = ("refusal_aborted", "refusal_written", "refusal_recorded")

    def prepare(self):
        super().prepare()
        self.sub.run(self.database, "CREATE TABLE taken (other text)")

    def go(self, point):
        self.pub.run(self.database, "INSERT INTO a (id) VALUES (401)")
        self.pub.run(self.database, "BEGIN; INSERT INTO a (id) VALUES (402); CREATE TABLE taken (i int PRIMARY KEY); INSERT INTO taken VALUES (1); COMMIT")

    def repair(self):
        state = "SELECT state FROM schemasync_subscriptions"
        wait_until("the subscription is not refused", lambda: self.sub.try_run(self.database, state)[1].strip() == "refused")
        found = self.sub.run(self.database, "SELECT count(*), min(reason), bool_and(status = 'open') FROM schemasync_refusals").strip()
        if found != "1|local_name_taken|t":
            raise AssertionError("refusals: " + found)
        if self.sub.run(self.database, "SELECT count(*) FROM a WHERE id IN (401, 402)").strip() != "1":
            raise AssertionError("the refused transaction is there in part")
        self.sub.run(self.database, "DROP TABLE taken; SELECT schemasync_resume('s')")


class Conflict(Workload):
    """A row that is already here: an error that is tried again until somebody removes it."""
    points = ("aborted",)

    def prepare(self):
        super().prepare()
        self.sub.run(self.database, "INSERT INTO a (id) VALUES (501)")

    def go(self, point):
        self.pub.run(self.database, "BEGIN; ALTER TABLE a ADD COLUMN e int; INSERT INTO a (id, e) VALUES (500, 1), (501, 2); COMMIT")

    def repair(self):
        wait_until("no error is told", lambda: self.sub.try_run(
            self.database, "SELECT 1 FROM schemasync_errors WHERE sqlstate = '23505' AND resolved_at IS NULL")[1].strip() == "1")
        self.sub.run(self.database, "DELETE FROM a WHERE id = 501")


class Copy(Workload):
    points = ("copy_slot_made", "copy_before_adopted", "copy_adopted", "copy_table_begun", "copy_rows", "copy_table_done", "copy_end")
    same_history = False

    def prepare(self):
        self.pair.make_database(self.database)
        self.tables()

    def go(self, point):
        self.pair.subscribe(self.database, self.options)

    def after_hit(self, point):
        self.pub.run(self.database, "INSERT INTO a (id, v) VALUES (601, 'beside'); UPDATE b SET n = 0 WHERE id = 7; DELETE FROM keyless WHERE x = 1")
        self.later("ALTER TABLE a ADD COLUMN during int DEFAULT 3; INSERT INTO a (id, during) VALUES (602, 4)")
        self.later("ALTER TABLE keyless RENAME COLUMN y TO z; CREATE TABLE newcomer (i int PRIMARY KEY); INSERT INTO newcomer VALUES (1)")
        self.later("ALTER TABLE b DROP COLUMN n")


class Beside(Workload):
    """A table comes into the publication when it has rows already; the stream goes on, and so does DDL."""
    points = ("beside_snapshot", "beside_adopted", "beside_table_begun", "beside_rows", "beside_table_done", "catch_up_begun",
              "catch_up_before_commit", "catch_up_after_commit", "catch_up_end", "catch_up_done")
    options = '{"auto_refresh": true}'
    same_history = False

    def tables(self):
        super().tables()
        self.pub.run(self.database, "DROP PUBLICATION p; CREATE PUBLICATION p FOR TABLE a, b, part, keyless;"
                                    " CREATE TABLE extra (i int PRIMARY KEY, a int REFERENCES a, t text);"
                                    " INSERT INTO extra SELECT g, g, 'e' FROM generate_series(1, 40) g")

    def go(self, point):
        late = point.startswith("catch_up")
        if late:
            self.sub.arm("beside_rows", "wait")
        self.pub.run(self.database, "ALTER PUBLICATION p ADD TABLE extra")
        if late:
            self.sub.wait_hit("beside_rows")
            self.more()
            lsn = self.pub.run(self.database, "SELECT pg_current_wal_lsn()").strip()
            wait_until("the stream does not go on beside the copy", lambda: self.sub.try_run(
                self.database, "SELECT applied_lsn >= '%s' FROM schemasync_subscriptions" % lsn)[1].strip() == "t")
        return late

    def more(self):
        self.pub.run(self.database, "INSERT INTO a (id, v) VALUES (701, 'beside'); INSERT INTO extra VALUES (701, 701, 'x')")
        self.pub.run(self.database, "BEGIN; UPDATE extra SET t = 'u' WHERE i < 5; ALTER TABLE a ADD COLUMN f int; COMMIT")
        self.pub.run(self.database, "DELETE FROM extra WHERE i = 6; UPDATE a SET f = 3 WHERE id < 9")

    def after_hit(self, point):
        if not point.startswith("catch_up"):
            self.more()
        self.later("ALTER TABLE extra ADD COLUMN g int DEFAULT 5; INSERT INTO extra VALUES (702, 1, 'y', 6)")
        self.later("UPDATE extra SET t = 'z' WHERE i = 30")


class Resync(Workload):
    points = ("resync_emptied", "resync_filled", "resync_done", "catch_up_begun", "catch_up_done")
    same_history = False

    def prepare(self):
        super().prepare()
        self.sub.run(self.database, "DELETE FROM a WHERE id % 2 = 0 AND id NOT IN (SELECT a FROM b); UPDATE keyless SET y = 'wrong';"
                                    " INSERT INTO keyless VALUES (99, 'invented')")

    def go(self, point):
        late = point.startswith("catch_up")
        if late:
            self.sub.arm("resync_filled", "wait")
        self.sub.run(self.database, "SELECT schemasync_resync('s', 'keyless')")
        if late:
            self.sub.wait_hit("resync_filled")
            self.after_hit("")
            lsn = self.pub.run(self.database, "SELECT pg_current_wal_lsn()").strip()
            wait_until("the stream does not go on beside the copy", lambda: self.sub.try_run(
                self.database, "SELECT applied_lsn >= '%s' FROM schemasync_subscriptions" % lsn)[1].strip() == "t")
        return late

    def after_hit(self, point):
        self.pub.run(self.database, "INSERT INTO keyless VALUES (50, 'new'); UPDATE keyless SET y = 'upd' WHERE x = 3")
        if not point:
            return
        self.later("ALTER TABLE keyless ADD COLUMN h int DEFAULT 8; DELETE FROM keyless WHERE x = 4")


class Drain(Workload):
    points = ("drained",)

    def go(self, point):
        self.pub.run(self.database, "ALTER TABLE a ADD COLUMN dr int; INSERT INTO a (id, dr) VALUES (801, 1)")
        self.sub.try_run(self.database, "SET statement_timeout = 500; SELECT schemasync_stop('s', drain => true)")

    def repair(self):
        wait_until("it is not drained", lambda: self.sub.try_run(
            self.database, "SELECT state IN ('drained', 'draining') FROM schemasync_subscriptions")[1].strip() == "t")
        wait_until("it cannot be started", lambda: self.sub.try_run(self.database, "SELECT schemasync_start('s')")[0])


class Verify(Workload):
    """Somebody compares both sides while the stream goes on; the worker stands for a moment."""
    points = ("verify_held",)

    def go(self, point):
        self.verifier = threading.Thread(target=lambda: self.sub.try_run(self.database, "SELECT * FROM schemasync_verify('s')"))
        self.verifier.start()

    def after_hit(self, point):
        self.pub.run(self.database, "INSERT INTO a (id) VALUES (811)")
        self.later("ALTER TABLE a ADD COLUMN ve int")       # waits for the locks of the comparison

    def repair(self):
        self.verifier.join()


class Lock(Workload):
    points = ("waiting_lock",)
    options = '{"ddl_lock_timeout": "50ms", "ddl_lock_retries": 1000}'

    def go(self, point):
        self.holder = threading.Thread(target=lambda: self.sub.try_run(
            self.database, "BEGIN; SELECT count(*) FROM a; SELECT pg_sleep(1.5); COMMIT"))
        self.holder.start()
        wait_until("nobody holds the lock", lambda: self.sub.pid_of("query LIKE '%%pg_sleep(1.5)%%' AND datname = '%s' AND pid <> pg_backend_pid()"
                                                                     % self.database))
        self.pub.run(self.database, "ALTER TABLE a ADD COLUMN lo int; INSERT INTO a (id, lo) VALUES (821, 1)")

    def repair(self):
        self.holder.join()


class Indexes(Workload):
    """Indexes that are built beside the stream, while rows come and their tables are altered."""
    points = ("index_begun", "index_noted", "index_built", "index_ended")
    options = '{"indexes": "background"}'
    same_history = False

    def go(self, point):
        self.pub.run(self.database, "CREATE INDEX a_v ON a (v); CREATE UNIQUE INDEX keyless_u ON keyless (x, y) WHERE x < 0")

    def after_hit(self, point):
        self.pub.run(self.database, "INSERT INTO a (id, v) VALUES (831, 'beside'); UPDATE keyless SET y = 'i' WHERE x = 2")
        if point:
            # waits for the build, or ends it
            self.later("ALTER TABLE a ADD COLUMN ix int DEFAULT 2; INSERT INTO a (id, ix) VALUES (832, 1)")

    def finish(self):
        super().finish()

        def built():
            # (what failed is tried again at once)
            self.sub.try_run(self.database, "SELECT schemasync_start('s') FROM schemasync.index_build WHERE state = 'failed' LIMIT 1")
            return self.sub.try_run(self.database, "SELECT count(*) FROM schemasync.index_build")[1].strip() == "0"
        self.pair.wait_applied(self.database)
        wait_until("the indexes are not built", built)


WORKLOADS = (Stream, Streamed, Prepared, Refused, Conflict, Copy, Beside, Resync, Drain, Verify, Lock, Indexes)
