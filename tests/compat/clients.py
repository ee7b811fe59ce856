#!/usr/bin/env python3
"""Clients of pgoutput read schemasync_decoder instead, and notice nothing; one of them reads the schema states, too.

    clients.py --bindir DIR [--port N] [--node-modules DIR] [CLIENT...]

Without the option, each client reads the same transactions from a slot of each plugin, and what it got must be the same: pg_recvlogical,
psycopg2 (python3-psycopg2), the JDBC driver (libpostgresql-jdbc-java, default-jdk-headless), the npm package pg-logical-replication (in DIR, or
fetched with npm). The built-in subscriber gets its slot from ours, and has the same rows in the end. With the option, psycopg2 follows the
schema from the JSON states and must know each table as it is in the catalog. A client that is not installed is skipped. Prints TAP.
"""
import argparse
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../crash"))
from cluster import Killable, wait_until    # noqa: E402
import servers                              # noqa: E402

PLUGINS = ("schemasync_decoder", "pgoutput")
JAR = "/usr/share/java/postgresql.jar"
SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE t (id int PRIMARY KEY, v text, m mood, n numeric[], j jsonb);
CREATE TABLE "Ünï ""q"" x" (a int, b text);
ALTER TABLE "Ünï ""q"" x" REPLICA IDENTITY FULL;
CREATE TABLE part (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100);
ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
"""
WORK = (
    """INSERT INTO t SELECT g, 'r' || g, 'ok', ARRAY[g, 1.50], jsonb_build_object('g', g) FROM generate_series(1, 300) g""",
    """BEGIN; INSERT INTO t VALUES (1000, repeat('long', 30000), 'sad', NULL, '{}'); UPDATE t SET m = 'ok' WHERE id = 1000; COMMIT""",
    """INSERT INTO "Ünï ""q"" x" VALUES (1, 'ä€😀'), (NULL, ''); UPDATE "Ünï ""q"" x" SET a = 2 WHERE a = 1; DELETE FROM "Ünï ""q"" x" WHERE a IS NULL""",
    """BEGIN; ALTER TABLE t ADD c int DEFAULT 7; INSERT INTO t (id) VALUES (2000); ALTER TABLE t DROP v; UPDATE t SET c = 8 WHERE id = 2000; COMMIT""",
    """BEGIN; INSERT INTO part VALUES (1, 'a'); SAVEPOINT s; INSERT INTO part VALUES (2, 'no'); ROLLBACK TO s; DELETE FROM part WHERE k = 1; COMMIT""",
    """ALTER TYPE mood ADD VALUE 'fine'; CREATE TABLE late (i int PRIMARY KEY); INSERT INTO late VALUES (1); INSERT INTO t (id, m) VALUES (3000, 'fine')""",
    """ALTER TABLE late RENAME i TO key; INSERT INTO late VALUES (2); TRUNCATE late, part""",
    """INSERT INTO late VALUES (99)""")


class Clients:
    def __init__(self, server, options):
        self.server, self.options, self.end = server, options, None

    def run(self, *command, env=None):
        done = subprocess.run(command, capture_output=True, check=False, timeout=120, env=env or servers.clean_environment(), cwd="/")
        if done.returncode:
            raise AssertionError("%s: %s" % (command[0], done.stderr.decode("utf-8", "replace")[-800:]))
        return done.stdout

    def recvlogical(self, slot):
        with tempfile.NamedTemporaryFile() as f:
            self.run(os.path.join(self.server.bindir, "pg_recvlogical"), "-h", "127.0.0.1", "-p", str(self.server.port), "-U", "postgres", "-d", "d", "-S", slot,
                     "--start", "--no-loop", "-E", self.end, "-o", "proto_version=1", "-o", "publication_names=p", "-f", f.name, "-F", "0")
            return f.read()

    def psycopg2(self, slot, more=None):
        import psycopg2.extras
        connection = psycopg2.connect("host=127.0.0.1 port=%d user=postgres dbname=d" % self.server.port,
                                      connection_factory=psycopg2.extras.LogicalReplicationConnection)
        cursor = connection.cursor()
        cursor.start_replication(slot_name=slot, decode=False, options={"proto_version": "1", "publication_names": "p", **(more or {})})
        high, low = (int(part, 16) for part in self.end.split("/"))
        messages = []

        def enough():
            while True:
                message = cursor.read_message()
                if message is None:
                    return cursor.wal_end >= (high << 32) + low
                messages.append(message.payload)
                cursor.send_feedback(flush_lsn=message.data_start)
        wait_until("psycopg2 did not come to the end", enough, 60, 0.02)
        connection.close()
        return messages

    def jdbc(self, slot):
        return self.run("java", "-cp", JAR, os.path.join(HERE, "Consume.java"), "jdbc:postgresql://127.0.0.1:%d/d" % self.server.port, slot, self.end)

    def npm(self, slot):
        commits = self.server.run("d", "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('%s', NULL, NULL, 'proto_version', '1',"
                                  " 'publication_names', 'p') WHERE get_byte(data, 0) = ascii('C')" % slot).strip()
        return self.run("node", os.path.join(HERE, "consume.js"), "127.0.0.1", str(self.server.port), "d", slot, commits,
                        env=dict(os.environ, NODE_PATH=self.options.node_modules))

    def missing(self, name):
        """Why a client cannot be tried, or None."""
        if name.startswith("psycopg2"):
            try:
                import psycopg2.extras  # noqa: F401
            except ImportError:
                return "python3-psycopg2 is not installed for this python3"
        if name == "jdbc" and not (shutil.which("java") and os.path.exists(JAR)):
            return "libpostgresql-jdbc-java or default-jdk-headless is not installed"
        if name == "npm":
            if not self.options.node_modules and shutil.which("npm"):
                folder = os.path.join(self.server.socket, "npm")
                subprocess.run(["npm", "install", "--prefix", folder, "pg-logical-replication"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.options.node_modules = os.path.join(folder, "node_modules")
            if not glob.glob(str(self.options.node_modules) + "/pg-logical-replication"):
                return "the package pg-logical-replication is not there"
        return None

    def same(self, name):
        ours, theirs = (getattr(self, name)("%s_%s" % (name, plugin)) for plugin in PLUGINS)
        assert len(theirs) > 20, "%s got almost nothing" % name
        assert ours == theirs, "%s gets something else from schemasync_decoder than from pgoutput" % name
        return "%d %s" % (len(ours), "messages" if isinstance(ours, list) else "bytes")

    def builtin(self, _):
        """The built-in subscriber, in another database of the server. (FOR ALL TABLES would have it want the extension's tables.)"""
        self.server.run("postgres", "CREATE DATABASE builtin")
        self.server.run("builtin", SCHEMA + "ALTER TABLE t ADD c int; CREATE TABLE late (i int PRIMARY KEY, key int);"
                        "ALTER TABLE late DROP CONSTRAINT late_pkey, ALTER i DROP NOT NULL; ALTER TYPE mood ADD VALUE 'fine'; CREATE TABLE after_the_end ()")
        self.server.run("builtin", "CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1 port=%d user=postgres dbname=d application_name=builtin' PUBLICATION p_public"
                        " WITH (create_slot = false, slot_name = 'builtin_schemasync_decoder', copy_data = false)" % self.server.port)
        wait_until("the built-in subscriber does not come to the end", lambda: self.server.run(
            "d", "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'builtin' AND replay_lsn >= '%s'" % self.end).strip() == "1", 60)
        queries = ("SELECT id, m, n, j, c FROM t ORDER BY id", 'SELECT * FROM "Ünï ""q"" x" ORDER BY 1', "SELECT * FROM part", "SELECT key FROM late ORDER BY 1")
        for query in queries:
            ours, theirs = self.server.run("builtin", query), self.server.run("d", query)
            if "c FROM t" in query:     # the built-in subscriber knows nothing of the default of rows that were there
                ours, theirs = (text.replace("|7\n", "|\n") for text in (ours, theirs))
            assert ours == theirs, "%s\n%s\nand on the publisher\n%s" % (query, ours[-300:], theirs[-300:])
        rows = self.server.run("builtin", "SELECT count(*) FROM t").strip()
        self.server.run("builtin", "ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s")
        return rows + " rows of t"

    def psycopg2_states(self, _):
        """Follows the schema: each Relation message comes after a state that has its columns."""
        tables, kinds, checked = {}, {}, 0
        for message in self.psycopg2("psycopg2_states_schemasync_decoder", {"schemasync": "1"}):
            if message[:1] == b"M":
                prefix, rest = message[10:].split(b"\0", 1)
                content = json.loads(rest[4:4 + struct.unpack(">I", rest[:4])[0]])
                kinds[prefix.decode()] = kinds.get(prefix.decode(), 0) + 1
                for relation in content.get("relations", []) + [content[k] for k in ("relation",) if k in content]:
                    tables[relation["oid"]] = (relation["schema"], relation["name"], [c["name"] for c in relation["columns"]])
            elif message[:1] == b"R":
                oid = struct.unpack(">I", message[1:5])[0]
                schema, name, rest = message[5:].split(b"\0", 2)
                count, names = struct.unpack(">H", rest[1:3])[0], []
                rest = rest[3:]
                for _ in range(count):
                    column, rest = rest[1:].split(b"\0", 1)
                    rest = rest[8:]
                    names.append(column.decode())
                assert tables.get(oid) == (schema.decode(), name.decode(), names), "rows of %s %s, whose state is %s" % (name, names, tables.get(oid))
                checked += 1
        catalog = self.server.run("d", "SELECT c.oid, string_agg(attname, ',' ORDER BY attnum) FROM pg_class c JOIN pg_attribute ON attrelid = c.oid"
                                  " WHERE relname IN ('t', 'late') AND attnum > 0 AND NOT attisdropped GROUP BY 1")
        for line in catalog.split():
            oid, names = line.split("|")
            assert ",".join(tables[int(oid)][2]) == names, "the last state of %s is %s, and the catalog has %s" % (oid, tables[int(oid)], names)
        assert kinds.get("schemasync.ddl", 0) >= 5 and checked >= 4, "%s, %d relations" % (kinds, checked)
        return ", ".join("%d %s" % (n, kind) for kind, n in sorted(kinds.items())) + ", %d Relation messages agree" % checked


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--port", type=int, default=56390, help="on 127.0.0.1")
    ap.add_argument("--node-modules")
    ap.add_argument("clients", nargs="*")
    options = ap.parse_args()
    folder = tempfile.mkdtemp(prefix="ss-clients-", dir="/tmp")
    os.chmod(folder, 0o755)
    server = Killable(options.bindir, folder, "server", options.port, ["listen_addresses = '127.0.0.1'"])
    names = [n for n in ("recvlogical", "psycopg2", "jdbc", "npm", "builtin", "psycopg2_states") if not options.clients or n in options.clients]
    failed = 0
    try:
        server.start()
        server.run("postgres", "CREATE DATABASE d")
        server.run("d", "CREATE EXTENSION schemasync;" + SCHEMA + "CREATE PUBLICATION p FOR ALL TABLES; CREATE PUBLICATION p_public FOR TABLES IN SCHEMA public")
        for name in names:
            for plugin in PLUGINS:
                server.run("d", "SELECT pg_create_logical_replication_slot('%s_%s', '%s')" % (name, plugin, plugin))
        for sql in WORK:
            server.run("d", sql)
        clients = Clients(server, options)
        clients.end = server.run("d", "SELECT pg_current_wal_flush_lsn()").strip()
        # something after the end, so that a client that waits for more than it sees it
        server.run("d", "CREATE TABLE after_the_end ()")
        for number, name in enumerate(names, 1):
            why = clients.missing(name)
            if why:
                print("ok %d - %s # SKIP %s" % (number, name, why), flush=True)
                continue
            try:
                told = getattr(clients, name)(name) if name in ("builtin", "psycopg2_states") else clients.same(name)
                print("ok %d - %s: %s" % (number, name, told), flush=True)
            except Exception as error:      # noqa: BLE001: the next client is to be tried all the same
                failed += 1
                print("not ok %d - %s" % (number, name))
                print("\n".join("#   " + line for line in str(error).split("\n")), flush=True)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print("1..%d" % len(names))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
