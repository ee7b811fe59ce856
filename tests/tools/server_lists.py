#!/usr/bin/env python3
"""Lists of the server's, from its headers, for the tests that compare ours with them.

    server_lists.py INCLUDEDIR_SERVER OUTPUT

OUTPUT is C++: subcommands of ALTER TABLE (enum AlterTableType) and the command tags that fire event triggers.
"""
import re
import sys

include, output = sys.argv[1:]
parsenodes = open(include + "/nodes/parsenodes.h", encoding="utf-8").read()
enum = re.search(r"typedef enum AlterTableType\s*\{(.*?)\}\s*AlterTableType;", parsenodes, re.S).group(1)
subcommands = re.findall(r"\bAT_\w+", re.sub(r"/\*.*?\*/", "", enum, flags=re.S))
tags = re.findall(r'^PG_CMDTAG\(\w+,\s*"([^"]*)",\s*true\b', open(include + "/tcop/cmdtaglist.h", encoding="utf-8").read(), re.M)
if len(subcommands) < 50 or len(tags) < 100:
    sys.exit("server_lists: the headers in %s do not look as expected" % include)

with open(output, "w", encoding="utf-8") as out:
    for name, entries in (("server_subcommands", subcommands), ("server_tags", tags)):
        out.write("inline constexpr const char *%s[] = {\n" % name)
        out.writelines('    "%s",\n' % entry for entry in entries)
        out.write("};\n")
