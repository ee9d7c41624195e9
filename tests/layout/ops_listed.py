#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every op that is defined is in its family's list, and every formula in the list of its file.

An op that is missing there is unknown to the table, and a call of it is an error."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def unlisted_ops():
    for file in sorted((ROOT / "lib").rglob("*.cpp")):
        text = file.read_text()
        defined = re.findall(r"^(?:constinit )?Op (\w+_op)\b", text, re.MULTILINE)
        lists = " ".join(re.findall(r"Entry \w+_ops\[\] = \{(.*?)\};", text, re.DOTALL))
        listed = set(re.findall(r"&(\w+_op)\b", lists))
        for op in defined:
            yield file, op, op in listed


def unlisted_formulas():
    for file in sorted((ROOT / "lib/formulas").glob("*.hpp")):
        text = file.read_text()
        defined = re.findall(r"struct (\w+) \{\s*static constexpr const char\* name", text)
        listed = set(re.findall(r"\w+", " ".join(re.findall(r"=\s*List<(.*?)>;", text, re.DOTALL))))
        for formula in defined:
            yield file, formula, formula in listed


EXCEPT = {"Order": "kernels of two dtypes, listed beside where", "watch_op": "the op of leaves, which no call names",
          "view_op": "the step of a trace that makes an alias"}
count = 0
problems = []
for file, name, listed in [*unlisted_ops(), *unlisted_formulas()]:
    count += 1
    if not listed and name not in EXCEPT:
        problems.append(f"{file.relative_to(ROOT)}: {name} is defined and not listed")
print(*problems, sep="\n", end="\n" if problems else "")
print(f"{count} ops and formulas, {len(problems)} not listed")
sys.exit(1 if problems or count < 100 else 0)
