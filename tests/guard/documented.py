#!/usr/bin/env python3
"""The manual and the product name the same things: documented.py SOURCE_ROOT

- every refusal reason, option, function, view and parameter stands in docs/;
- every schemasync_NAME that docs/, README.md, or a text of the sources (a hint, say) tells a person to use exists.
"""
import glob
import os
import re
import sys

root = sys.argv[1]
SKIP = 77
faults = []


def read(*patterns):
    found = []
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(root, pattern), recursive=True)):
            found.append((os.path.relpath(path, root), open(path, encoding="utf-8").read()))
    return found


manual = [(p, t) for p, t in read("docs/*.md", "README.md") if not p.endswith(("wire.md", "development.md"))]
script = "\n".join(re.sub(r"--[^\n]*", "", t) for _, t in read("apply_ext/schema/*.sql"))
sources = read("common/**/*.[ch]pp", "decoder/*.[ch]pp", "apply_ext/**/*.[ch]pp")

functions = set(re.findall(r"CREATE\s+(?:FUNCTION|PROCEDURE)\s+@extschema@\.(\w+)", script, re.I))
views = set(re.findall(r"CREATE\s+VIEW\s+@extschema@\.(\w+)", script, re.I))
if "schemasync_create_subscription" not in functions or not os.path.exists(os.path.join(root, "docs/reference.md")):
    print("no subscriber, or no reference manual yet")
    sys.exit(SKIP)

reasons = set()
options = set()
parameters = set()
for path, text in sources:
    if path.endswith("core/reason.hpp"):
        reasons = set(re.findall(r'\{Reason::\w+, "(\w+)"', text)) - {"none"}
    if path.endswith("options.cpp") and path.startswith("apply_ext"):
        options |= set(re.findall(r'\{"(\w+)", Kind::', text))
    parameters |= set(re.findall(r'"(schemasync\.[a-z_]+)",', text)) - {"schemasync.marker", "schemasync.state",
                                                                      "schemasync.ddl", "schemasync.rewrite"}
tables = {"schemasync." + t for t in re.findall(r"CREATE\s+TABLE\s+schemasync\.(\w+)", script, re.I)}

everything = "\n".join(t for _, t in manual)
for what, names in (("reason", reasons), ("option", options), ("function", functions), ("view", views),
                    ("parameter", parameters - tables)):
    for name in sorted(names):
        if what == "function" and not name.startswith("schemasync_"):
            continue
        if not re.search(r"\b%s\b" % re.escape(name), everything):
            faults.append("%s %s stands nowhere in docs/" % (what, name))

# Names that are no function or view: the library, the names of slots and origins, the settings of the tests.
OTHER = {"schemasync_decoder", "schemasync_test"}
for path, text in manual + [(p, "\n".join(re.findall(r'"(?:[^"\\\n]|\\.)*"', t))) for p, t in sources]:
    for name in sorted(set(re.findall(r"\bschemasync_[a-z_]+[a-z]\b(?=\s*\()", text))):
        if name not in functions and name not in OTHER and not name.endswith("_main"):
            faults.append("%s tells of %s(), which does not exist" % (path, name))

print("\n".join(faults))
sys.exit(1 if faults else 0)
