#!/usr/bin/env python3
"""Rules of the tree that a compiler does not check: tree.py SOURCE_ROOT

- PG_VERSION_NUM stands in common/pg/compat.hpp alone, PG_TRY and its kin in common/pg/guard.cpp alone;
- every sql/*.sql is scheduled, every expected/*.out belongs to one, every unit, tap and guard test is listed;
- no file names a path of somebody's machine.
"""
import os
import re
import sys

root = sys.argv[1]
faults = []

TEXT = (".cpp", ".hpp", ".sql", ".out", ".py", ".pl", ".pm", ".md", ".build", ".txt", ".in", ".conf", ".sh", ".yml", ".spec")
NO_SUFFIX = ("check", "quickstart", "run", ".clang-format", ".clang-tidy", ".gitignore")
# written so that this file does not match itself
MACHINE = re.compile(r"(?<![\w.$}>~])/(work|root|home/\w+|Users/\w+|mnt/\w+|workspace)" + r"/[\w.]")
VERSION = "PG_VERSION" + "_NUM"
TRY = re.compile(r"\bPG_(TRY|CATCH|FINALLY|END_TRY)" + r"\b")


def files():
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(d for d in folders
                            if d not in (".git", ".cache", "__pycache__") and not d.startswith("build")
                            and not os.path.exists(os.path.join(folder, d, "meson-private")))
        for name in sorted(names):
            if name.endswith(TEXT) or name in NO_SUFFIX:
                path = os.path.join(folder, name)
                yield os.path.relpath(path, root), open(path, encoding="utf-8").read()


def names_in(folder, suffix):
    path = os.path.join(root, folder)
    return {n[:-len(suffix)] for n in os.listdir(path) if n.endswith(suffix)} if os.path.isdir(path) else set()


def listed(text, variable):
    """The strings of a Meson list or dictionary of lists."""
    found = re.search(r"^%s = ([\[{].*?^[\]}])" % variable, text, re.M | re.S)
    if not found:
        faults.append("tests/meson.build: no list %s" % variable)
        return set()
    body = re.sub(r"#.*|'[^']+'\s*:", "", found[1])
    return set(re.findall(r"'([^']+)'", body))


def compare(what, there, wanted):
    for name in sorted(there - wanted):
        faults.append("%s: %s is there but in no list of tests/meson.build" % (what, name))
    for name in sorted(wanted - there):
        faults.append("%s: %s is listed in tests/meson.build but not there" % (what, name))


for path, text in files():
    for number, line in enumerate(text.split("\n"), 1):
        where = "%s:%d: " % (path, number)
        if MACHINE.search(line):
            faults.append(where + "names a path of a machine: " + line.strip()[:80])
        if path.endswith((".cpp", ".hpp")):
            if VERSION in line and path != "common/pg/compat.hpp":
                faults.append(where + VERSION + " belongs into common/pg/compat.hpp")
            code = re.sub(r"//.*|/\*.*?\*/|^\s*\*.*|^\s*/\*.*", "", line)
            if TRY.search(code) and path != "common/pg/guard.cpp":
                faults.append(where + "PG_TRY belongs into common/pg/guard.cpp; use pg::call")

build = open(os.path.join(root, "tests/meson.build"), encoding="utf-8").read()
regress = listed(build, "regress_groups")
compare("sql", names_in("sql", ".sql"), regress)
expected = names_in("expected", ".out")
for name in sorted(regress - expected):
    faults.append("expected: %s.out is missing" % name)
for name in sorted(expected - regress):
    # NAME_1.out is an alternative answer of test NAME
    if re.sub(r"_\d$", "", name) not in regress:
        faults.append("expected: %s.out belongs to no test" % name)
compare("tests/unit", names_in("tests/unit", "_test.cpp"), listed(build, "unit_tests"))
compare("tests/tap", names_in("tests/tap", ".pl"), listed(build, "tap_tests"))
compare("tests/guard", names_in("tests/guard", ".py"), listed(build, "guard_tests"))

print("\n".join(faults))
sys.exit(1 if faults else 0)
