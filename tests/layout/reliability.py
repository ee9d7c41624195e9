#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/design/reliability.md names a test for each goal; each named file, script and test case exists."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/design/reliability.md"
ROW = re.compile(r"^\| (R\d+) \|.*\| ([^|]+) \|$")
NAMED = re.compile(r"`((?:tests|tools)/[^`]+)`((?:(?: and|,)? \"[^\"]+\")*)")


def wrong_names(row, cell):
    """Files and test cases that a row names, but that do not exist."""
    named = NAMED.findall(cell)
    if not named and "`./dev " not in cell and "not yet" not in cell:
        yield f"{row}: neither a test nor \"not yet\""
    for path, cases in named:
        file = ROOT / path
        if not file.exists():
            yield f"{row}: no file {path}"
            continue
        for case in re.findall(r'"([^"]+)"', cases):
            if f'"{case}"' not in re.sub(r'"\s*\n\s*"', "", file.read_text()):
                yield f"{row}: no test case \"{case}\" in {path}"


def main():
    rows = [match.groups() for match in map(ROW.match, PAGE.read_text().splitlines()) if match]
    wrong = [line for row, cell in rows for line in wrong_names(row, cell)]
    print("\n".join(wrong + [f"{len(rows)} goals"]))
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
