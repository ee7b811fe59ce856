#!/usr/bin/env python3
"""PostgreSQL's own tests of the subscriber's side, with schemasync in the place of the built-in subscriber.

    core.py --bindir DIR [--sources DIR] [--rundir DIR] [--list] [FILE...]

The sources of PostgreSQL 15 are in DIR (its src/test/subscription), or fetched with `apt-get source postgresql-15` into RUNDIR; nothing of
them is in this repository. Each file runs as it is, but for the edits below, under CoreSuite.pm, which translates what it sends to the
servers. A test that fails and is listed under DIFFERS is a difference on purpose; any other is a failure. Prints TAP, one test a file.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

# Files that do not apply, and why.
NOT_APPLICABLE = {
    "007_ddl.pl": "expects a warning of a publication that does not exist; here that is an error, as of PostgreSQL's own ALTER and before anything is made",
    "029_on_error.pl": "disable_on_error, and the position to skip read out of the built-in worker's log; errors are tried again, and the position is in schemasync_errors",
    "020_messages.pl": "pgoutput's option messages, read with SQL: the subscriber takes no part (tests/tap/011_pgoutput_bytes.pl compares ours)",
    "026_stats.pl": "pg_stat_subscription_stats and its reset, which only the built-in subscriber fills; errors are rows of schemasync_errors",
}

# Files that fail for what schemasync does not do yet: run, and shown as TODO.
TODO = {
    "013_partition.pl": "a published partition cannot be followed without its partitioned table, which is not here",
    "027_nosuperuser.pl": "ALTER SUBSCRIPTION OWNER and the built-in worker's messages are not translated",
    "100_bugs.pl": "subscriptions in several databases of one server are not translated",
}

# file: ((pattern, replacement), ...), where the text itself names what only the built-in subscriber has
EDITS = {
    "001_rep_changes.pl": (
        # what was not found is in a view instead of the log
        (r"slurp_file\(\$node_subscriber->logfile, \$log_location_sub\)", "CoreSuite::log_of($node_subscriber)"),
        # there is no RENAME
        (r"(?s)# check restart on rename\n.*?# check all the cleanup", "# check all the cleanup"),
        (r"tap_sub_renamed", "tap_sub"),
    ),
    "013_partition.pl": (
        (r"slurp_file\(\$node_subscriber1->logfile\(\), \$log_location\)", "CoreSuite::log_of($node_subscriber1)"),
    ),
}

# rows that are not found are passed over, as the built-in subscriber does
OPTIONS = {name: '"conflicts": "keep_local"' for name in ("001_rep_changes.pl", "013_partition.pl")}

# file: {name of the test: why it differs}
AFRESH = "a table that was taken out of a publication and comes back is emptied and copied afresh (docs/reference.md, When publications change)"
DIFFERS = {
    "001_rep_changes.pl": {"check replicated inserts after subscription publication change": AFRESH, "check replicated deletes after alter publication": AFRESH},
    "004_sync.pl": {"no data for table added after subscription initialized":
                    "a table that is created under FOR ALL TABLES has all its rows in the stream: it is followed from the first one, without REFRESH"},
    "024_add_drop_pub.pl": {"check initial data is copied to subscriber": AFRESH},
}


def fetch(rundir):
    folder = os.path.join(rundir, "source")
    os.makedirs(folder, exist_ok=True)
    if not glob.glob(folder + "/postgresql-15-*/src/test/subscription"):
        subprocess.run(["apt-get", "source", "--download-only", "postgresql-15"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        archive = glob.glob(folder + "/postgresql-15_*.orig.tar.*")[0]
        subprocess.run(["tar", "xf", archive, "--wildcards", "*/src/test/subscription/*"], cwd=folder, check=True)
    return sorted(glob.glob(folder + "/postgresql-*/src/test/subscription"))[-1]


def run_one(options, perl_lib, path, rundir):
    name = os.path.basename(path)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for pattern, replacement in EDITS.get(name, ()):
        text, count = re.subn(pattern, lambda _, r=replacement: r, text)
        if not count:
            return ["the edit %s finds nothing in it" % pattern], [], 0
    folder = os.path.join(rundir, name[:-3])
    os.makedirs(rundir, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="core-suite-") as scratch:
        os.chmod(scratch, 0o755)
        copy = os.path.join(scratch, name)
        with open(copy, "w", encoding="utf-8") as f:
            f.write(text)
        env = dict(os.environ, CORE_SUITE_OPTIONS=OPTIONS.get(name, ""), PG_REGRESS=os.path.join(perl_lib, "../regress/pg_regress"),
                   PG_TEST_TIMEOUT_DEFAULT=os.environ.get("PG_TEST_TIMEOUT_DEFAULT", "120"))
        done = subprocess.run([sys.executable, os.path.join(HERE, "../tools/run_server_test.py"), "--bindir", options.bindir, "--rundir", folder,
                               "--portlock", os.path.join(rundir, "portlock"), "--", "perl", "-I", perl_lib, "-I", HERE, "-MCoreSuite", copy],
                              env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    with open(folder + ".log", "w", encoding="utf-8") as f:
        f.write(done.stdout)
    bad, differs = [], []
    results = re.findall(r"^(not ok|ok) \d+(?: - (.*))?$", done.stdout, re.M)
    for result, what in results:
        if result == "not ok" and what in DIFFERS.get(name, {}):
            differs.append("%s: %s" % (what, DIFFERS[name][what]))
        elif result == "not ok":
            bad.append(what)
    if not re.search(r"^1\.\.\d+($| # SKIP)", done.stdout, re.M):
        bad.append("did not come to its end: " + "\n".join(done.stdout.strip().split("\n")[-4:]))
    return bad, differs, len(results)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--sources", help="a source tree of PostgreSQL 15")
    ap.add_argument("--rundir", default="/tmp/core-suite")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("files", nargs="*")
    options = ap.parse_args()
    folder = os.path.join(options.sources, "src/test/subscription") if options.sources else fetch(options.rundir)
    pgxs = subprocess.run([os.path.join(options.bindir, "pg_config"), "--pgxs"], capture_output=True, text=True, check=True).stdout.strip()
    perl_lib = os.path.join(os.path.dirname(pgxs), "../../src/test/perl")
    perl_lib = os.path.realpath(perl_lib)
    count = failed = 0
    for path in sorted(glob.glob(folder + "/t/*.pl")):
        name = os.path.basename(path)
        if options.files and not any(wanted in name for wanted in options.files):
            continue
        count += 1
        if name in NOT_APPLICABLE:
            print("ok %d - %s # SKIP %s" % (count, name, NOT_APPLICABLE[name]), flush=True)
            continue
        if options.list:
            print("ok %d - %s" % (count, name))
            continue
        bad, differs, tests = run_one(options, perl_lib, path, options.rundir)
        todo = TODO.get(name) if bad else None
        failed += bool(bad) and not todo
        print("%s %d - %s: %d tests%s%s" % ("not ok" if bad else "ok", count, name, tests, ", %d differ on purpose" % len(differs) if differs else "",
                                            " # TODO " + todo if todo else ""), flush=True)
        for text in differs:
            print("#   differs: " + text)
        for text in bad:
            print("\n".join("#   " + line for line in str(text).split("\n")), flush=True)
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
