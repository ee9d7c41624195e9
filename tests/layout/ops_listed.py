#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every op that is defined is in the list of its family. Every formula is in the list of its file. The kernels and
the gradient rule of an op are in files with the name of its family. Meson's list of families is that of C++. Each
function of ops and each call of a layer has a comment directly above it, which an editor shows.

The op table does not know an op that is missing in the list, so a call of it is an error."""
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


def misplaced_parts():
    """The file of each kernel and rule that is listed by name, and whether it has the stem of its op's file: `scan`, or
    `scan_...`. Pointwise ops of several families share files that begin with `pointwise`."""
    family = {}
    for file in (ROOT / "lib/ops").glob("*.cpp"):
        for name in re.findall(r"^(?:constinit )?Op \w+_op\s*\{\s*\.name = \"(\w+)\"", file.read_text(), re.MULTILINE):
            family[name] = file.stem
    for folder, listed in [("lib/cpu", r"NamedKernel"), ("cuda", r"NamedKernel"), ("autograd/rules", r"NamedRule")]:
        for file in sorted((ROOT / folder).glob("*.c*")):
            for table in re.findall(listed + r" [\w<>]+\[\] = \{(.*?)\};", file.read_text(), re.DOTALL):
                for name in re.findall(r"\{\"(\w+)\"", table):
                    if name in family:
                        stem = file.stem
                        yield file, name, (stem + "_").startswith((family[name] + "_", "pointwise_"))


def uncommented():
    """The functions in the public headers of ops and layers, and whether there is a comment above each."""
    for folder in ("ops", "nn"):
        for file in sorted((ROOT / "include/reel" / folder).glob("*.hpp")):
            lines = re.sub(r"namespace [\w:]*detail \{.*?\}  // namespace [\w:]*detail", lambda hidden: "\n" * hidden[0].count("\n"),
                           file.read_text(), flags=re.DOTALL).split("\n")
            for i, line in enumerate(lines):
                if re.match(r"REEL_API |  (?!return)[\w:<>]+ operator\(\)\(", line):
                    yield file, f"line {i + 1}", lines[i - 1].strip().startswith("///")


EXCEPT = {"Order": "kernels of two dtypes, listed beside where", "Where": "its condition has a dtype of its own", "watch_op": "the op of leaves, which no call names",
          "loop_op": "the step of a trace that is a loop", "gradient_op": "the step before a gradient",
          "view_op": "the step of a trace that makes an alias", "rows_op": "the op that only batches call"}
count = 0
problems = []
for file, name, listed in [*unlisted_ops(), *unlisted_formulas()]:
    count += 1
    if not listed and name not in EXCEPT:
        problems.append(f"{file.relative_to(ROOT)}: {name} is defined and not listed")
for file, line, has_comment in uncommented():
    count += 1
    if not has_comment:
        problems.append(f"{file.relative_to(ROOT)}: {line}: a function has no comment directly above it")
named = re.findall(r"^REEL_\w+\((\w+)", (ROOT / "lib/table/families.def").read_text(), re.MULTILINE)
built = re.findall(r"'(\w+)'", re.search(r"^families = \[(.*?)\]", (ROOT / "meson.build").read_text(), re.M | re.S)[1])
problems += [f"the family {name} is in only one of lib/table/families.def and meson.build" for name in set(named) ^ set(built)]
parts = 0
for file, name, fits in misplaced_parts():
    parts += 1
    if not fits:
        problems.append(f"{file.relative_to(ROOT)}: a kernel or rule of {name}, whose family has another file")
print(*problems, sep="\n", end="\n" if problems else "")
print(f"{count} ops and formulas, {parts} kernels and rules, {len(problems)} problems")
sys.exit(1 if problems or count < 100 or parts < 100 else 0)
