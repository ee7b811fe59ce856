#!/usr/bin/env python3
"""The crash matrix: at each named step something is killed or cut, and afterwards both sides must be level.

    matrix.py --bindir DIR [--only PATTERN] [--list] [--short] [--seed N] [--seconds N] [--keep]

DIR is that of a server with the injection points in it (build/tests/root-injected/.../bin). A case is WORKLOAD:POINT:FAULT; PATTERN is a
regular expression over these names; with --seed they come in another order, of which --seconds takes the first. After each case: contents and catalogs of both sides in full, the history of schema changes (as in a run
without a fault, and nothing twice), no open error or refusal, no table, slot, prepared transaction or worker left behind, nothing in the
logs that a server must not say. Prints TAP.
"""
import argparse
import os
import random
import re
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster import Pair, Stuck, wait_until    # noqa: E402
from workloads import WORKLOADS                # noqa: E402


def kill(pid, how=signal.SIGKILL):
    try:
        if pid:
            os.kill(pid, how)
    except ProcessLookupError:
        pass        # what it waited for came: a change of the table ends a build by itself


# --- faults: what happens while a process waits at a point

def terminate(pair, database, pid):
    kill(pid, signal.SIGTERM)


def launcher(pair, database, pid):
    kill(pair.sub.pid_of("backend_type = 'schemasync launcher'"))
    pair.sub.wait_up()


def apply_worker(pair, database, pid):
    kill(pair.sub.pid_of("backend_type LIKE 'schemasync apply%%' AND datname = '%s'" % database) or pid)
    pair.sub.wait_up()


def subscriber(pair, database, pid):
    pair.sub.kill_postmaster()
    pair.sub.disarm()
    pair.sub.begin()


def walsender(pair, database, pid):
    kill(pair.pub.pid_of("backend_type = 'walsender' AND datname = '%s'" % database))
    pair.pub.wait_up()


def publisher(pair, database, pid):
    pair.pub.kill_postmaster()
    pair.pub.begin()


def both(pair, database, pid):
    pair.pub.kill_postmaster()
    subscriber(pair, database, pid)
    pair.pub.begin()


def reset(pair, database, pid):
    pair.proxy.reset()


def refuse(pair, database, pid):
    pair.proxy.refuse()
    pair.sub.disarm()
    time.sleep(1.5)         # new connections fail meanwhile: this is what is tested
    pair.proxy.heal()


def stall(pair, database, pid):
    pair.proxy.stall()
    pair.sub.disarm()
    time.sleep(4)           # longer than wal_receiver_timeout
    pair.proxy.heal()


def delay(pair, database, pid):
    pair.proxy.delay(0.05)
    pair.sub.disarm()
    time.sleep(1)
    pair.proxy.heal()


def index_worker(pair, database, pid):
    kill(pair.sub.pid_of("backend_type LIKE 'schemasync index%%' AND datname = '%s'" % database) or pid)
    pair.sub.wait_up()


FAULTS = {f.__name__: f for f in (terminate, launcher, apply_worker, index_worker, subscriber, walsender, publisher, both, reset, refuse, stall, delay)}
AT_POINT = ("kill", "error")

# one of each kind that is quick; ./check has no time for more
SHORT = ("Stream:ddl_executed:kill", "Stream:history_written:subscriber", "Stream:after_commit:kill", "Stream:feedback:publisher",
         "Prepared:commit_prepared_finished:kill", "Refused:refusal_written:kill", "Copy:copy_before_adopted:kill", "Copy:copy_rows:reset",
         "Beside:catch_up_before_commit:subscriber", "Resync:resync_emptied:kill",
         "Indexes:index_noted:kill")


class Matrix:
    def __init__(self, pair):
        self.pair, self.number, self.reference = pair, 0, {}

    def faults_of(self):
        return (*AT_POINT, *FAULTS)

    def run(self, workload, point, fault):
        """Returns what is wrong, [] when nothing is."""
        self.number += 1
        database = "c%d" % self.number
        pair = self.pair
        marks = pair.sub.log_size(), pair.pub.log_size()
        work = workload(pair, database)
        wrong = []
        try:
            work.prepare()
            if fault:
                self.strike(work, point, fault)
            else:
                work.go("")
                work.after_hit("")
            pair.sub.wait_up()
            pair.pub.wait_up()
            work.join()
            work.repair()
            work.finish()
            pair.wait_applied(database)
            wrong += pair.differences(database)
            wrong += pair.loose_ends(database)
            wrong += self.check_history(workload, database, fault)
            pair.drop_database(database)
        except (Stuck, AssertionError) as error:
            wrong.append(str(error))
        except Exception:       # noqa: BLE001: the next case is to be run all the same
            wrong.append(traceback.format_exc())
        pair.sub.disarm()
        pair.proxy.heal()
        wrong += pair.sub.crashes(marks[0]) + pair.pub.crashes(marks[1])
        if wrong:
            wrong.append("log of the subscriber:\n" + "\n".join(pair.sub.log_text(marks[0]).split("\n")[-60:]))
            self.clean_up(database)
        return wrong

    def clean_up(self, database):
        """After a failure: nothing of it may disturb the next case."""
        for server in (self.pair.sub, self.pair.pub):
            try:
                server.wait_up()
            except Stuck:
                server.begin()
        try:
            self.pair.drop_database(database, 5)
        except Exception:       # noqa: BLE001
            self.pair.pub.try_run("postgres", "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
            self.pair.sub.try_run("postgres", "DROP DATABASE IF EXISTS %s WITH (FORCE)" % database)

    def strike(self, work, point, fault):
        pair = self.pair
        action = fault if fault in AT_POINT else "wait"
        first = pair.sub.arm
        armed = []

        def arm_now():
            first(point, action)
            armed.append(True)
        # a workload that arms a point of its own on the way says so, and ours comes after it
        if not (point.startswith("catch_up")):
            arm_now()
        if work.go(point) or not armed:
            arm_now()
        wait_until("point %s was not reached" % point, pair.sub.hit, 30, 0.02)
        if action == "wait":
            work.after_hit(point)
            FAULTS[fault](pair, work.database, pair.sub.hit())
        else:
            pair.sub.wait_up()
            work.after_hit(point)
        pair.sub.disarm()

    def check_history(self, workload, database, fault):
        wrong = []
        repeated = self.pair.repeated_history(database)
        if repeated:
            wrong.append("in the history more than once: " + repeated)
        history = self.pair.history(database)
        if not fault:
            self.reference[workload] = history
        elif workload.same_history and history != self.reference[workload]:
            wrong.append("the history is\n%s\nand was\n%s" % (history, self.reference[workload]))
        return wrong


def cases(matrix, options):
    for workload in WORKLOADS:
        for point in workload.points:
            for fault in matrix.faults_of():
                if fault == "index_worker" and not point.startswith("index"):
                    continue    # (there is none)
                name = "%s:%s:%s" % (workload.__name__, point, fault)
                if (name in SHORT if options.short else re.search(options.only, name)):
                    yield name, workload, point, fault


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--only", default="")
    ap.add_argument("--short", action="store_true")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--seed", type=int)
    ap.add_argument("--seconds", type=int, default=1 << 30)
    ap.add_argument("--keep", action="store_true")
    ap.add_argument("--port", type=int, default=5432, help="only names sockets in a folder of its own")
    options = ap.parse_args()
    if options.list:
        print("\n".join(case[0] for case in cases(Matrix(None), options)))
        return
    count = failed = 0
    with Pair(options.bindir, options.port, options.keep) as pair:
        matrix = Matrix(pair)
        chosen = list(cases(matrix, options))
        if options.seed is not None:
            random.Random(options.seed).shuffle(chosen)
        work = []
        for name, workload, point, fault in chosen:
            if workload.same_history and workload not in [w[1] for w in work]:
                work.append(("%s without a fault" % workload.__name__, workload, "", None))
            work.append((name, workload, point, fault))
        end = time.time() + options.seconds
        for name, workload, point, fault in work:
            begun = time.time()
            if begun > end:
                break
            wrong = matrix.run(workload, point, fault)
            count += 1
            failed += bool(wrong)
            print("%s %d - %s (%.1f s)" % ("not ok" if wrong else "ok", count, name, time.time() - begun), flush=True)
            for text in wrong:
                print("\n".join("#   " + line for line in text.split("\n")), flush=True)
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
