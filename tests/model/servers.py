"""Throwaway servers and psql sessions, with nothing but Python's standard library.

Used by the model tests. Servers listen on sockets in a temporary folder only; started as root they run as postgres.
"""
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import queue


def server_account():
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("postgres")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": os.getgrouplist("postgres", entry.pw_gid)}


ACCOUNT = server_account()


def clean_environment():
    env = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    env.update({"LC_ALL": "C", "PGCLIENTENCODING": "UTF8"})
    return env


class ServerError(Exception):
    pass


class Server:
    """One cluster in FOLDER/NAME. Use start(), database(), then sessions and run().

    enter: what to put in front of the server's own executables when they do not run just so; it also sees to the user
    that they run as. clients: the folder of psql, when that is another one.
    """

    def __init__(self, bindir, folder, name, port, enter=(), clients=None):
        self.bindir, self.name, self.port = bindir, name, port
        self.enter, self.clients = list(enter), clients or bindir
        self.socket = os.path.join(folder, name)
        self.data = os.path.join(self.socket, "data")
        self.log = os.path.join(self.socket, "log")

    def tool(self, *arguments, check=True, **more):
        own = {} if self.enter else {"cwd": "/", **ACCOUNT}
        # (not a pipe: the server that is started would keep it open)
        with tempfile.TemporaryFile("w+", errors="replace") as out:
            done = subprocess.run([*self.enter, os.path.join(self.bindir, arguments[0]), *arguments[1:]], stdout=out,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=clean_environment(), **own, **more)
            out.seek(0)
            done.stdout = done.stderr = out.read()
        if check and done.returncode != 0:
            raise ServerError("%s on %s: %s" % (arguments[0], self.name, (done.stderr or done.stdout).strip()))
        return done

    def start(self):
        os.makedirs(self.socket)
        if ACCOUNT:
            os.chown(self.socket, ACCOUNT["user"], ACCOUNT["group"])
        self.tool("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "-N")
        settings = [
            "port = %d" % self.port, "unix_socket_directories = '%s'" % self.socket, "listen_addresses = ''",
            "fsync = off", "full_page_writes = off", "wal_level = logical", "max_replication_slots = 100",
            "max_wal_senders = 100", "max_worker_processes = 100", "max_connections = 100",
            "max_prepared_transactions = 10", "shared_preload_libraries = 'schemasync'", "shared_buffers = 64MB",
            "autovacuum = off", "log_min_messages = log", "log_line_prefix = '%m [%p] %a '"]
        known = self.tool("postgres", "--describe-config").stdout
        if "\noutput_plugin_libraries\t" in known:
            settings.append("output_plugin_libraries = 'pgoutput, test_decoding, schemasync_decoder'")
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as f:
            f.write("\n".join(settings) + "\n")
        self.tool("pg_ctl", "-D", self.data, "-l", self.log, "-w", "start")

    def stop(self):
        self.tool("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop", check=False)

    def psql(self, database, *options):
        return [os.path.join(self.clients, "psql"), "-X", "-q", "-A", "-t", "-h", self.socket, "-p", str(self.port),
                "-U", "postgres", "-d", database, *options]

    def conninfo(self, database):
        return "host=%s port=%d dbname=%s user=postgres" % (self.socket, self.port, database)

    def try_run(self, database, sql, timeout=120):
        """Runs a script through psql; returns (whether all of it succeeded, what it printed, its errors)."""
        done = subprocess.run(self.psql(database, "-v", "ON_ERROR_STOP=1", "-f", "-"), input=sql, capture_output=True,
                              text=True, errors="surrogateescape", cwd="/", env=clean_environment(),
                              timeout=timeout, **ACCOUNT)
        return done.returncode == 0, done.stdout, done.stderr.strip()

    def run(self, database, sql, check=True, timeout=120):
        """The same; returns what it printed, or raises ServerError."""
        fine, out, errors = self.try_run(database, sql, timeout)
        if check and not fine:
            raise ServerError("%s: %s\n%s" % (self.name, errors, sql if len(sql) < 2000 else ""))
        return out


class Session:
    """One psql that stays connected: statements are sent one by one, so transactions can be left open."""

    MARK = "~~done~~"

    def __init__(self, server, database, settings=""):
        options = "-c client_min_messages=error -c lock_timeout=150ms -c statement_timeout=60s " + settings    # (the last one wins)
        env = clean_environment()
        env["PGOPTIONS"] = options
        self.process = subprocess.Popen(server.psql(database), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="surrogateescape", cwd="/",
                                        env=env, **ACCOUNT)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def send(self, sql, timeout=90):
        """Sends one input of psql (may hold several statements). Returns (lines printed, error text or None)."""
        self.process.stdin.write("%s\n;\n\\echo %s :ERROR :LAST_ERROR_SQLSTATE\n" % (sql, self.MARK))
        self.process.stdin.flush()
        printed = []
        while True:
            try:
                line = self.lines.get(timeout=timeout)
            except queue.Empty:
                raise ServerError("no answer within %d s to: %s" % (timeout, sql)) from None
            if line is None:
                raise ServerError("the session ended: %s" % "\n".join(printed[-5:]))
            if line.startswith(self.MARK):
                break
            printed.append(line)
        failed = [l for l in printed if "ERROR:  " in l or "FATAL:  " in l]
        return printed, "\n".join(failed) if failed else None

    def must(self, sql):
        """send(), for what may not fail; returns what it printed."""
        printed, error = self.send(sql)
        if error:
            raise ServerError("%s\n%s" % (error, sql if len(sql) < 2000 else ""))
        return "\n".join(printed)

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()


class Pair:
    """Publisher and subscriber in a temporary folder; a context manager that leaves nothing."""

    def __init__(self, bindir, port, keep=False):
        self.folder = tempfile.mkdtemp(prefix="ss-model-", dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.keep = keep
        self.publisher = Server(bindir, self.folder, "pub", port)
        self.subscriber = Server(bindir, self.folder, "sub", port + 1)

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: os._exit(self.close() or 143))
        try:
            self.publisher.start()
            self.subscriber.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for server in (self.publisher, self.subscriber):
            try:
                server.stop()
            except OSError:      # no such pg_ctl: then nothing was started either
                pass
        if self.keep:
            print("kept: " + self.folder)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
