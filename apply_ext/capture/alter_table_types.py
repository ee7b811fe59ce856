#!/usr/bin/env python3
"""Writes the members of the server's enum AlterTableType as cases: alter_table_types.py PARSENODES_H OUTPUT

The members and their numbers differ between the major versions, so they are taken from the headers of the very
server that is built against. Up to 15 some have a twin that says that the command reached the children; from 16 on
they have not, so the twin gets the name of the plain one.
"""
import re
import sys


def members(header):
    text = open(header, encoding="utf-8").read()
    body = re.search(r"typedef enum AlterTableType\s*\{(.*?)\}\s*AlterTableType;", text, re.S)
    if not body:
        sys.exit(f"{header}: enum AlterTableType was not found")
    return re.findall(r"\bAT_\w+", re.sub(r"/\*.*?\*/", "", body.group(1), flags=re.S))


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for member in members(sys.argv[1]):
            name = member[:-len("Recurse")] if member.endswith("Recurse") else member
            out.write(f'case {member}:\n\treturn "{name}";\n')
