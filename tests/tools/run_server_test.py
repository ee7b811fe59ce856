#!/usr/bin/env python3
"""Runs one test that starts servers: in a fresh folder, as a user who may run a server, leaving nothing running.

    run_server_test.py --rundir DIR --bindir DIR [--portlock DIR] [--regress CONF] -- COMMAND...

PG* variables of the caller are dropped, bindir leads PATH, and the variables that PostgreSQL's test modules read are
set (TESTDIR for 15, TESTDATADIR and TESTLOGDIR from 16 on). Started as root, it changes to user postgres, since initdb
refuses root. Servers that the command leaves behind in DIR are ended, also when this script is terminated.

--regress CONF: COMMAND is pg_regress. It gets a server with that further configuration, whose superuser is always called
postgres (one that pg_regress makes itself is called as whoever runs it, and so expected output would depend on that).
Its report is turned into TAP where it is not (that of 15), and differences are shown.
"""
import argparse
import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def server_user():
    """The account to run servers as when started as root; None when the caller's own will do."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        sys.exit("run_server_test: a server refuses to run as root and there is no user postgres to change to")


def as_user(user):
    return {} if user is None else {
        "user": user.pw_uid, "group": user.pw_gid, "extra_groups": os.getgrouplist("postgres", user.pw_gid)}


def check_reachable(path, user):
    if subprocess.run(["test", "-x", path], cwd="/", **as_user(user)).returncode != 0:
        sys.exit("run_server_test: user postgres cannot reach %s; build in a folder that every user may enter" % path)


def servers_in(rundir):
    """The process ids of the servers whose data directories lie in rundir."""
    for pidfile in glob.glob(os.path.join(glob.escape(rundir), "**", "postmaster.pid"), recursive=True):
        try:
            with open(pidfile, encoding="utf-8") as f:
                pid = int(f.readline())
            if os.path.realpath("/proc/%d/cwd" % pid) == os.path.realpath(os.path.dirname(pidfile)):
                yield pid
        except (OSError, ValueError):
            continue


def end_servers(rundir):
    """Ends them the way of an immediate shutdown, and the hard way when that takes more than five seconds."""
    for attempt in range(51):
        pids = list(servers_in(rundir))
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL if attempt == 50 else signal.SIGQUIT)
            except ProcessLookupError:
                pass
        time.sleep(0.1)


def environment(args, scratch):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PG") or k.startswith("PG_")}
    for name in ("LANG", "LANGUAGE"):
        env.pop(name, None)
    env.update({
        "PATH": args.bindir + ":" + env.get("PATH", "/usr/bin:/bin"),
        "LC_ALL": "C",
        "HOME": args.rundir,
        "TMPDIR": scratch,
        "TESTDIR": args.rundir,
        "TESTDATADIR": os.path.join(args.rundir, "data"),
        "TESTLOGDIR": os.path.join(args.rundir, "log"),
        "PG_TEST_TIMEOUT_DEFAULT": env.get("PG_TEST_TIMEOUT_DEFAULT", "180"),
        "PG_TEST_PORT_DIR": args.portlock,
    })
    return env


def show_logs(rundir, lines=40):
    """The ends of the logs that PostgreSQL's test modules write: what a test died of is only told there."""
    for log in sorted(glob.glob(os.path.join(glob.escape(rundir), "**", "regress_log_*"), recursive=True)):
        print("--- end of %s" % log, file=sys.stderr)
        with open(log, encoding="utf-8", errors="replace") as f:
            sys.stderr.writelines(f.readlines()[-lines:])


def start_instance(args, scratch, env, user):
    """A server for pg_regress; returns pg_regress' arguments for reaching it."""
    data = os.path.join(args.rundir, "data", "instance")
    log = os.path.join(args.rundir, "log", "postmaster.log")

    def tool(*command):
        done = subprocess.run(command, cwd=args.rundir, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              **as_user(user))
        if done.returncode != 0:
            print("Bail out! %s failed" % command[0])
            print(done.stdout, file=sys.stderr)
            if os.path.exists(log):
                with open(log, encoding="utf-8", errors="replace") as f:
                    sys.stderr.writelines(f.readlines()[-20:])
            sys.exit(1)

    tool("initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "-N")
    with open(args.regress, encoding="utf-8") as more, open(os.path.join(data, "postgresql.conf"), "a", encoding="utf-8") as f:
        f.write("\nlisten_addresses = ''\nunix_socket_directories = '%s'\nport = 5432\n" % scratch + more.read())
    # not a pipe: the server would keep it open
    tool("sh", "-c", 'exec pg_ctl -w -D "$1" -l "$2" start >/dev/null', "sh", data, log)
    return ["--host", scratch, "--port", "5432", "--user", "postgres"]


class RegressReport:
    """Reads what pg_regress prints line by line and writes TAP."""

    LINE = re.compile(r"^(?:test| {4,})\s*(\S+)\s+\.\.\. (ok|FAILED|failed)\b")

    def __init__(self):
        self.count = 0
        self.is_tap = False

    def line(self, text):
        if re.match(r"^(ok|not ok|1\.\.|Bail out)", text):
            self.is_tap = True
        if self.is_tap or text.startswith("#"):
            print(text, end="", flush=True)
            return
        found = self.LINE.match(text)
        if found:
            self.count += 1
            print("%s %d - %s" % ("ok" if found[2] == "ok" else "not ok", self.count, found[1]), flush=True)
        else:
            print("# " + text, end="", flush=True)

    def close(self, rundir, status):
        diffs = os.path.join(rundir, "regression.diffs")
        if status != 0 and os.path.exists(diffs):
            with open(diffs, encoding="utf-8", errors="replace") as f:
                for text in f:
                    print("# " + text.rstrip("\n"))
        if not self.is_tap:
            if self.count == 0:
                print("Bail out! pg_regress ran no test")
            else:
                print("1..%d" % self.count)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rundir", required=True)
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--portlock")
    ap.add_argument("--regress", metavar="CONF")
    ap.add_argument("command", nargs="+")
    args = ap.parse_args()
    args.rundir = os.path.abspath(args.rundir)
    args.portlock = os.path.abspath(args.portlock or os.path.join(args.rundir, "portlock"))

    user = server_user()
    end_servers(args.rundir)
    shutil.rmtree(args.rundir, ignore_errors=True)
    # sockets are made in here: the path must be short
    scratch = tempfile.mkdtemp(prefix="ss-", dir="/tmp")
    for path in (args.rundir, os.path.join(args.rundir, "data"), os.path.join(args.rundir, "log"), args.portlock,
                 scratch):
        os.makedirs(path, exist_ok=True)
        if user is not None:
            shutil.chown(path, user.pw_uid, user.pw_gid)
    check_reachable(args.rundir, user)

    child = None

    def terminated(signum, frame):
        # meson waits half a second before it kills, so first things first
        for pid in list(servers_in(args.rundir)):
            os.kill(pid, signal.SIGQUIT)
        if child is not None:
            child.kill()
        end_servers(args.rundir)
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(128 + signum)

    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGINT, terminated)

    report = RegressReport() if args.regress else None
    env = environment(args, scratch)
    try:
        if args.regress:
            args.command += start_instance(args, scratch, env, user)
        child = subprocess.Popen(args.command, cwd=args.rundir, env=env,
                                 stdout=subprocess.PIPE if report else None,
                                 stderr=subprocess.STDOUT if report else None,
                                 text=True, errors="replace", **as_user(user))
        if report:
            for text in child.stdout:
                report.line(text)
        status = child.wait()
        if report:
            report.close(args.rundir, status)
        elif status != 0:
            show_logs(args.rundir)
    finally:
        end_servers(args.rundir)
        shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
