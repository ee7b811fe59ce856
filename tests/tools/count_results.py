#!/usr/bin/env python3
"""Counts what `meson test` ran: count_results.py TESTLOG.json [--warnings N]

Each subtest of a TAP or GoogleTest program counts. A program that ended badly counts as one failure more than the
subtests that it reported failed, if it reported none. Compiler warnings count as one failure. Prints the failures and,
last, "N passed, M failed"; exits 1 when M is not 0.
"""
import json
import re
import sys

passed, failures, skipped = 0, [], []


def count(name, result, out):
    global passed
    good = bad = 0
    for line in out.split("\n"):
        if re.match(r"ok \d+.*# SKIP", line, re.I):
            skipped.append(name + ": " + line)
        elif re.match(r"ok \d+|not ok \d+.*# TODO|\[       OK \] ", line):
            good += 1
        elif re.match(r"not ok \d+|\[  FAILED  \] \S+ \(\d+ ms\)", line):
            bad += 1
            failures.append(name + ": " + re.sub(r"^not ok \d+ -? ?|^\[  FAILED  \] ", "", line))
    if result == "SKIP":
        skipped.append(name)
    elif result in ("OK", "EXPECTEDFAIL"):
        good = good or 1
    elif not bad:
        failures.append("%s: %s" % (name, result.lower()))
    passed += good


warnings = int(sys.argv[sys.argv.index("--warnings") + 1]) if "--warnings" in sys.argv else 0
try:
    log = open(sys.argv[1], encoding="utf-8")
except OSError:
    print("no test ran")
    print("0 passed, 1 failed")
    sys.exit(1)
with log:
    for line in log:
        test = json.loads(line)
        count(test["name"].split(" / ")[-1].split(":")[-1], test["result"], test.get("stdout") or "")
if warnings:
    failures.append("build: %d compiler warnings" % warnings)
else:
    passed += 1

for what in skipped:
    print("skipped: " + what)
for what in failures:
    print("failed: " + what)
print("%d passed, %d failed" % (passed, len(failures)))
sys.exit(1 if failures else 0)
