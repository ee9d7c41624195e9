#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Files are short: more than 400 lines give a warning, more than 600 lines a failure."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("include", "lib", "cuda", "autograd", "tests", "bench", "samples", "tools", "packaging")
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".py", ".sh"}
WARN, FAIL = 400, 600
DATA = set()  # tables of data, by name


def main():
    lengths = {}
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in SUFFIXES:
                lengths[file.relative_to(ROOT).as_posix()] = len(file.read_text().splitlines())
    long = sorted(((n, name) for name, n in lengths.items() if n > WARN and name not in DATA), reverse=True)
    for n, name in long:
        print(f"{'too long' if n > FAIL else 'warning'}: {n} lines: {name}")
    longest = max(lengths, key=lengths.get)
    print(f"{len(lengths)} files, {sum(lengths.values())} lines, the longest {longest} with {lengths[longest]}")
    return 1 if any(n > FAIL for n, _ in long) else 0


if __name__ == "__main__":
    sys.exit(main())
