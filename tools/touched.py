#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the changes since a revision can have touched: touched.py programs REV

A file belongs to a module (tests/layout/dependencies.py). A changed module touches itself and the modules that may
include it. TABLE names the test programs and the checks of a module. A file outside of the table touches everything."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/layout"))
import dependencies

LIBRARY = "sets emulator samples address threads"  # checks that any code of the library can fail
INSTALLED = "headers pages refused consumers docs"  # checks that public headers can fail
# module: (test programs, checks). "*" stands for all.
TABLE = {
    "include": ("*", f"{LIBRARY} {INSTALLED} budgets clang whole-address extending tidy peers"),
    "lib/formulas": ("*", "*"), "lib/body": ("*", "*"), "lib/pool": ("*", "*"), "lib/memory": ("*", "*"),
    "lib/table": ("*", "*"), "lib/graph": ("*", "*"), "lib/record": ("*", "*"), "lib/flow": ("*", "*"),
    "lib/gate": ("*", "*"),
    "lib/ops": ("*", f"{LIBRARY} pages budgets peers extending races"),
    "autograd": ("autograd exhaustion flow sweep threads trace nn", f"{LIBRARY} pages budgets peers"),
    "lib/trace": ("exhaustion flow graph sweep threads trace nn", f"{LIBRARY} pages arm"),
    "lib/cpu": ("exhaustion kernels ops sweep threads trace", "budgets sets address threads arm peers tidy clang"),
    "cuda": ("", "emulator samples address races cuda"),
    "lib/tensor": ("autograd exhaustion far gate tensor trace", f"{LIBRARY} pages"),
    "lib/batch": ("batch", "sets address threads pages"),
    "lib/debug": ("debug", "sets address pages"),
    "lib/nn": ("exhaustion nn trace", "sets emulator samples address pages peers"),
    "lib/optim": ("dist exhaustion nn trace", "sets emulator samples address pages peers"),
    "lib/dist": ("dist nn", "dist sets pages"),
    "lib/fit": ("dist fit", "sets address pages"),
    "lib/io": ("exhaustion io", "sets samples address pages"),
    "lib/bench": ("bench exhaustion far", "rows pages"),
    "lib/data": ("data dist exhaustion fit", "sets samples address threads pages"),
    "lib/plot": ("exhaustion plot", "sets pages"),
    "lib/testing": ("testing", "sets pages"),
    "samples": ("", "samples"),
    "bench": ("", "budgets rows"),
    "docs": ("", "pages docs"),
}
LAYOUT = ["dependencies", "file_length", "sources_listed", "format"]  # what any change can fail, in seconds


def changed(revision):
    """The files that differ from a revision, also those that git does not know yet."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [name for name in git("diff", "--name-only", revision) + git("ls-files", "--others", "--exclude-standard")
            if name]


def touched(revision):
    """(test programs, checks) as sets, in which "*" stands for all."""
    programs, checks = set(), set()
    for name in changed(revision):
        folders = name.split("/")
        module = dependencies.module_of(name) if folders[0] in dependencies.TOPS else folders[0]
        if folders[0] == "tests" and len(folders) > 2:
            own = {"layout": ("", "layout pages headers refused extending"), "consumers": ("", "consumers"),
                   "support": ("*", "*"), "peers": ("", "peers"), "emulator": ("", "emulator races"),
                   "cuda": ("", "emulator races"), "gpu": ("gpu", "cuda")}
            rows = [own.get(folders[1], (folders[1], "sets address threads"))]
        elif name.endswith(".md"):
            rows = [TABLE["docs"]]
        elif module not in TABLE:
            return {"*"}, {"*"}
        else:
            above = {user for user, below in dependencies.BELOW.items() if module in below}
            above |= {user for user, (below, _) in dependencies.USERS.items() if module in below.split()}
            rows = [TABLE[row] for row in {module} | above if row in TABLE]
        for row in rows:
            programs.update(row[0].split())
            checks.update(row[1].split())
    return programs, checks


def main(what, revision):
    programs, _ = touched(revision)
    if "*" in programs:
        programs = re.findall(r"^  '(\w+)': files\(", (ROOT / "tests/meson.build").read_text(), re.M)
    if changed(revision):
        print(*sorted(programs), *LAYOUT, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
