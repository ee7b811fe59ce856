#!/usr/bin/env python3
"""What the two libraries export, no more and no less: symbols.py SOURCE_ROOT DECODER.so EXTENSION.so SCRIPT.sql

A library's symbols share one name space with the server and with every other library in it, so just what the server
looks up by name may leave: the magic block, the init functions, the SQL functions that the extension script names (each
with its record), and the mains of background workers.
"""
import re
import subprocess
import sys

_, decoder, extension, script = sys.argv[1:]

MAGIC = {"Pg_magic_func"}
WORKER_MAIN = re.compile(r"^schemasync_\w+_main$")


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if line.strip()}


def check(name, there, wanted):
    wrong = sorted(s for s in there - wanted if not WORKER_MAIN.match(s))
    missing = sorted(wanted - there)
    for symbol in wrong:
        print("%s exports %s, which nobody looks up" % (name, symbol))
    for symbol in missing:
        print("%s does not export %s" % (name, symbol))
    return not wrong and not missing


sql = re.sub(r"--[^\n]*", "", open(script, encoding="utf-8").read())
functions = set(re.findall(r"AS\s+'MODULE_PATHNAME'\s*,\s*'(\w+)'", sql, re.I))
# AS 'MODULE_PATHNAME' alone: the symbol has the function's name
for name in re.findall(r"CREATE\s+FUNCTION\s+(?:@extschema@\.|\w+\.)?(\w+)\s*\((?:(?!CREATE\s+FUNCTION).)*?AS\s+'MODULE_PATHNAME'\s*(?!\s*,)",
                       sql, re.I | re.S):
    functions.add(name)

fine = check("schemasync_decoder", exported(decoder) - {"_PG_init"}, MAGIC | {"_PG_output_plugin_init"})
fine &= check("schemasync", exported(extension),
              MAGIC | {"_PG_init"} | functions | {"pg_finfo_" + f for f in functions})
sys.exit(0 if fine else 1)
