#!/usr/bin/env python3
"""A private installation of the server with this build of schemasync in it.

    temp_install.py --build DIR --dest DIR --bindir DIR --pkglibdir DIR --sharedir DIR [--stamp FILE] [--extension FILE]

A server finds its libraries and its share files relative to the real path of its executable. So the executables are
copied under DEST, at the same path as they have in the system; what they look for beside them is linked there; and this
build is installed on top with DESTDIR. Nothing in the system changes, no right to write there is needed, and several
build directories can test at the same time. --extension puts another build of the extension's library in its place.
"""
import argparse
import os
import shutil
import subprocess
import sys

OURS = "schemasync"


def link_content(source, target):
    """Makes target a folder with a link to each thing in source, but for files of ours that an earlier `meson install`
    left in the system: installing through such a link would write to the system."""
    os.makedirs(target)
    for name in os.listdir(source):
        if not name.startswith(OURS):
            os.symlink(os.path.join(source, name), os.path.join(target, name))


def main():
    ap = argparse.ArgumentParser()
    for option in ("build", "dest", "bindir", "pkglibdir", "sharedir"):
        ap.add_argument("--" + option, required=True)
    ap.add_argument("--meson", default="meson")
    ap.add_argument("--stamp")
    ap.add_argument("--extension")
    args = ap.parse_args()

    dest = os.path.abspath(args.dest)
    shutil.rmtree(dest, ignore_errors=True)
    shutil.copytree(args.bindir, dest + args.bindir, symlinks=False)
    link_content(args.pkglibdir, dest + args.pkglibdir)
    link_content(args.sharedir, dest + args.sharedir)
    extension = os.path.join(args.sharedir, "extension")
    os.unlink(dest + extension)
    link_content(extension, dest + extension)

    done = subprocess.run([args.meson, "install", "--no-rebuild", "-C", args.build, "--destdir", dest],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit("temp_install: could not install into %s:\n%s" % (dest, done.stdout))
    if args.extension:
        shutil.copyfile(args.extension, os.path.join(dest + args.pkglibdir, OURS + ".so"))
    if args.stamp:
        with open(args.stamp, "w", encoding="utf-8") as f:
            f.write(dest + "\n")


if __name__ == "__main__":
    main()
