#!/usr/bin/env python3
"""Joins the parts of the extension script: concat_sql.py OUTPUT PART...

The script runs as a superuser in a schema that others may write to, so it must never replace an
object that somebody put there before it: CREATE OR REPLACE is refused here, at build time.
"""
import re
import sys

output, parts = sys.argv[1], sys.argv[2:]
text = '\\echo Use "CREATE EXTENSION schemasync" to load this file. \\quit\n'
for part in parts:
    body = open(part, encoding="utf-8").read()
    if re.search(r"\bOR\s+REPLACE\b", re.sub(r"--[^\n]*", "", body), re.I):
        sys.exit(f"{part}: CREATE OR REPLACE is not allowed in the extension script")
    text += "\n" + body
open(output, "w", encoding="utf-8").write(text)
