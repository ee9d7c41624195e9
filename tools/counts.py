#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Adds what the tests of a `meson test` run counted: counts.py BUILD SECONDS

A test program ends with `N passed, N failed, N skipped` and counts its test cases; without this line it has died. A test
of another suite may count as one. Prints the seconds of each test, names what was skipped and what failed, and ends with the sum."""
import json
import pathlib
import re
import sys

COUNT = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


def counts_of(test):
    """(passed, failed, skipped). A test program that dies, or a sanitizer that reports at its exit, is a failure."""
    lines = test.get("stdout", "").strip().splitlines()
    found = COUNT.match(lines[-1]) if lines else None
    passed, failed, skipped = (int(number or 0) for number in found.groups()) if found else (0, 0, 0)
    is_program = test["name"].startswith(("reel:device /", "reel:host /"))
    if test["result"] not in ("OK", "SKIP") or (is_program and not found):
        failed = max(failed, 1)
    elif not found:
        passed, skipped = (1, 0) if test["result"] == "OK" else (0, 1)
    return passed, failed, skipped


def results(build, base="testlog"):
    """[(setup, test)] of the last run of each setup. `base` is the --logbase of `meson test`."""
    for log in sorted(pathlib.Path(build, "meson-logs").glob(f"{base}*.json")):
        setup = log.stem.removeprefix(base).removeprefix("-")
        for line in log.read_text().splitlines():
            yield setup, json.loads(line)


def main(build, seconds):
    total = [0, 0, 0]
    for setup, test in sorted(results(build), key=lambda result: -result[1]["duration"]):
        counts = counts_of(test)
        total = [sum(pair) for pair in zip(total, counts)]
        name = test["name"].rsplit("/")[-1].split(" / ")[-1] + (f" on {setup}" if setup not in ("", "gate") else "")
        words = ", ".join(f"{n} {what}" for n, what in zip(counts, ("passed", "failed", "skipped")) if n)
        print(f"{test['duration']:7.1f} s  {name}: {words}" + ("  FAILED" if counts[1] else ""))
        for line in test.get("stdout", "").splitlines():
            if line.startswith(("skipped: ", "FAILED: ")):
                print("           " + line)
    print(f"{int(seconds) // 60}:{int(seconds) % 60:02} minutes")
    print("{} passed, {} failed, {} skipped".format(*total))
    return 0 if total[0] and not total[1] else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
