"""A publisher and a subscriber that may be killed: on top of tests/model/servers.py."""
import os
import re
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../model"))
from servers import Server, ServerError        # noqa: E402
from proxy import Proxy                        # noqa: E402

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools")
PATIENCE = float(os.environ.get("PG_TEST_TIMEOUT_DEFAULT", "180"))


class Stuck(Exception):
    """A condition that did not come true."""


def wait_until(what, condition, patience=None, pause=0.1):
    end = time.time() + (patience or PATIENCE)
    while True:
        found = condition()
        if found:
            return found
        if time.time() > end:
            raise Stuck(what() if callable(what) else what)
        time.sleep(pause)


class Killable(Server):
    def __init__(self, bindir, folder, name, port, settings=()):
        super().__init__(bindir, folder, name, port)
        self.settings = settings

    def start(self):
        super().start()
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as f:
            f.write("\n".join(self.settings) + "\n")
        self.tool("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")
        self.begin()

    def begin(self):
        """Starts it again; the children of a killed postmaster may need a moment to be gone."""
        def tried():
            return self.tool("pg_ctl", "-D", self.data, "-l", self.log, "-w", "start", check=False).returncode == 0
        wait_until("%s does not start" % self.name, tried)

    def postmaster(self):
        with open(os.path.join(self.data, "postmaster.pid"), encoding="utf-8") as f:
            return int(f.readline())

    def kill_postmaster(self):
        os.kill(self.postmaster(), signal.SIGKILL)

    def is_up(self):
        return self.try_run("postgres", "SELECT 1")[0]

    def wait_up(self):
        wait_until("%s does not come up" % self.name, self.is_up)

    def pid_of(self, what):
        """The process id of the backend that a condition over pg_stat_activity names; 0: there is none."""
        fine, out, _ = self.try_run("postgres", "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE %s" % what)
        return int(out) if fine else 0

    # --- injection points (common/pg/injection.hpp)

    def arm(self, point, action):
        hit = os.path.join(self.data, "schemasync_injection.hit")
        if os.path.exists(hit):
            os.unlink(hit)
        wish = os.path.join(self.data, "schemasync_injection")
        with open(wish + ".new", "w", encoding="ascii") as f:
            f.write("%s %s\n" % (point, action))
        os.chmod(wish + ".new", 0o666)
        os.rename(wish + ".new", wish)

    def disarm(self):
        for name in ("schemasync_injection", "schemasync_injection.hit"):
            try:
                os.unlink(os.path.join(self.data, name))
            except FileNotFoundError:
                pass

    def hit(self):
        """The process that came to the point; 0: none yet."""
        try:
            with open(os.path.join(self.data, "schemasync_injection.hit"), encoding="ascii") as f:
                return int(f.readline() or 0)
        except (FileNotFoundError, ValueError):
            return 0

    def wait_hit(self, point):
        return wait_until("point %s was not reached" % point, self.hit, pause=0.02)

    # --- the log

    def log_text(self, since=0):
        with open(self.log, "rb") as f:
            f.seek(since)
            return f.read().decode("utf-8", "replace")

    def log_size(self):
        return os.path.getsize(self.log)

    def crashes(self, since=0):
        """What a log must never have: signals other than our own SIGKILL, panics, failed assertions."""
        found = re.findall(r"^.*(?:terminated by signal (?!9\b|15\b|3\b)|PANIC:|TRAP:|AddressSanitizer|runtime error:).*$",
                           self.log_text(since), re.M)
        return found


class Pair:
    """Publisher and subscriber, with a proxy in between; a context manager that leaves nothing."""

    def __init__(self, bindir, port, keep=False, make_filter=None, prefix="ss-crash-", subscriber_settings=(), publisher_settings=()):
        self.folder = tempfile.mkdtemp(prefix=prefix, dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.keep, self.make_filter, self.proxy = keep, make_filter, None
        common = ["wal_receiver_timeout = 3s", "max_prepared_transactions = 20", "logical_decoding_work_mem = 64kB", "wal_writer_delay = 50ms"]
        self.pub = Killable(bindir, self.folder, "pub", port, [*common, *publisher_settings])
        self.sub = Killable(bindir, self.folder, "sub", port + 1, [*common, *subscriber_settings])

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: os._exit(self.close() or 143))
        try:
            self.pub.start()
            self.sub.start()
            for server in (self.pub, self.sub):
                server.run("postgres", "CREATE DATABASE master")
                server.run("master", "CREATE EXTENSION schemasync")
                server.run("postgres", "ALTER DATABASE master ALLOW_CONNECTIONS false")
        except BaseException:
            self.close()
            raise
        self.proxy = Proxy(os.path.join(self.pub.socket, ".s.PGSQL.%d" % self.pub.port), self.make_filter)
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.proxy:
            self.proxy.close()
        for server in (self.pub, self.sub):
            try:
                server.stop()
            except OSError:
                pass
        if self.keep:
            print("# kept: " + self.folder)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- a database on both sides, with a subscription

    def make_database(self, name):
        for server in (self.pub, self.sub):
            server.run("postgres", "CREATE DATABASE %s TEMPLATE master ALLOW_CONNECTIONS true" % name)

    def drop_database(self, name, patience=30):
        """Drops what is there; says what would not go."""
        def gone(server, sql):
            return lambda: server.try_run("postgres", sql)[0]
        wait_until("the subscriptions of %s cannot be dropped" % name, lambda: self.sub.try_run(
            name, "SELECT schemasync_drop_subscription(name) FROM schemasync_subscriptions")[0], patience)
        self.pub.run("postgres", "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = '%s' AND active" % name)
        for server in (self.sub, self.pub):
            wait_until("database %s cannot be dropped" % name, gone(server, "DROP DATABASE IF EXISTS %s WITH (FORCE)" % name), patience)

    def conninfo(self, database, proxied=True):
        if proxied:
            return "host=127.0.0.1 port=%d dbname=%s user=postgres" % (self.proxy.port, database)
        return self.pub.conninfo(database)

    def subscribe(self, database, options="{}", proxied=True, more=""):
        self.sub.run(database, "SELECT schemasync_create_subscription('s', '%s', ARRAY['p'], options => '%s'%s)"
                     % (self.conninfo(database, proxied), options, more))

    def describe(self, database):
        fine, out, errors = self.sub.try_run(database, r"""
            \echo states
            SELECT name, state, worker_pid, last_error, received_lsn, applied_lsn FROM schemasync_subscriptions;
            \echo tables
            SELECT relation, publisher_relation, state, sync_lsn FROM schemasync_tables WHERE state <> 'ready';
            \echo refusals
            SELECT reason, object_identity, changes, hint FROM schemasync_refusals WHERE status = 'open';
            \echo errors
            SELECT sqlstate, worker, message, detail, context, attempts FROM schemasync_errors WHERE resolved_at IS NULL""")
        return out if fine else errors

    def flushed(self, database):
        return self.pub.run(database, "SELECT pg_current_wal_flush_lsn()").strip()

    def wait_applied(self, database, patience=None, lsn=None):
        """Until everything up to lsn, or that the publisher has now (none, when it is down), is applied and the subscription is in order."""
        lsn = lsn or (self.flushed(database) if self.pub.is_up() else "0/0")
        # (a commit whose WAL is not flushed yet is not sent: synchronous_commit is on there)

        def level():
            fine, out, _ = self.sub.try_run(database, "SELECT (applied_lsn >= '%s' AND state = 'streaming') IS TRUE AND NOT EXISTS"
                                            " (SELECT FROM schemasync_tables WHERE state NOT IN ('ready', 'removed')) FROM schemasync_subscriptions" % lsn)
            if fine and out.strip() == "t":
                return True
            # a wait makes an idle publisher say how far it is
            self.sub.try_run(database, "SET statement_timeout = 300; SELECT schemasync_wait('s', '%s', interval '200 ms')" % lsn)
            return False
        wait_until(lambda: "not level after %s s:\n%s" % (patience or PATIENCE, self.describe(database)), level, patience)

    def tool(self, server, database, name):
        with open(os.path.join(TOOLS, name), encoding="utf-8") as f:
            return server.run(database, f.read())

    def differences(self, database):
        """Lines of contents and catalogs that only one side has."""
        found = []
        for name in ("contents.sql", "catalog.sql"):
            left = self.tool(self.pub, database, name).split("\n")
            right = self.tool(self.sub, database, name).split("\n")
            count = {}
            for line in left:
                count[line] = count.get(line, 0) + 1
            for line in right:
                count[line] = count.get(line, 0) - 1
            found += ["%s only: %s" % ("publisher" if n > 0 else "subscriber", line) for line, n in count.items() if n]
        return found[:40]

    HISTORY = ("SELECT operation, object_type, object_identity, verdict, coalesce(reason, '-'), coalesce(applied_sql, '-')"
               " FROM schemasync.ddl_history ORDER BY publisher_lsn, ordinal, history_id")

    def history(self, database):
        return self.sub.run(database, self.HISTORY)

    def repeated_history(self, database):
        return self.sub.run(database, "SELECT publisher_lsn, ordinal, operation, object_identity, applied_sql, detail, count(*)"
                            " FROM schemasync.ddl_history GROUP BY 1, 2, 3, 4, 5, 6 HAVING count(*) > 1").strip()

    def loose_ends(self, database, patience=15):
        """What must not be there when all is well again; [] when nothing is."""
        def ends():
            found = []
            for server, what, sql in (
                    (self.sub, "open errors", "SELECT sqlstate, worker, message FROM schemasync_errors WHERE resolved_at IS NULL"),
                    (self.sub, "open refusals", "SELECT reason, object_identity FROM schemasync_refusals WHERE status = 'open'"),
                    (self.sub, "tables", "SELECT relation, state FROM schemasync_tables WHERE state NOT IN ('ready', 'removed')"),
                    (self.sub, "prepared", "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"),
                    (self.sub, "state", "SELECT state, last_error FROM schemasync_subscriptions WHERE state <> 'streaming'"),
                    (self.sub, "copy workers", "SELECT pid, backend_type FROM pg_stat_activity WHERE backend_type LIKE 'schemasync copy%'"
                                               " AND datname = current_database()"),
                    (self.pub, "slots", "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
                                        " AND (temporary OR slot_name NOT LIKE 'schemasync%_1_%')")):
                fine, out, errors = server.try_run(database, sql)
                if not fine or out.strip():
                    found.append("%s: %s" % (what, (out if fine else errors).strip()))
            return found
        try:
            wait_until("", lambda: not ends(), patience)
        except Stuck:
            return ends()
        return []


def free_port():
    """Two neighbouring numbers: they only name sockets in a folder of our own."""
    return 5432


__all__ = ["Killable", "Pair", "Proxy", "ServerError", "Stuck", "free_port", "wait_until", "PATIENCE"]
