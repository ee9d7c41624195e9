#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions of the smallest ops under callgrind, against their budgets.

usage: instructions.py PROGRAM     (the built bench/instructions)

Counts two runs that differ only in how often the op is called, so that start and exit drop out.
Exits with 1 above a budget, with 77 (skipped) where valgrind is missing.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# What a call took when it was last looked at, and a tenth more.
BUDGETS = {"add": 363, "add_recorded": 626, "product": 977, "product_recorded": 1755, "transpose": 251,
           "square": 3316}
FEW, MANY = 1000, 3000


def instructions(program, work, times):
    with tempfile.NamedTemporaryFile() as out:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", program, work,
             str(times)],
            env={**os.environ, "REEL_ISA": "avx2", "REEL_TRACE": "1"}, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"instructions.py: {program} {work} ended with {run.returncode}\n{run.stderr}")
    return int(re.search(r"Collected : (\d+)", run.stderr).group(1))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not shutil.which("valgrind"):
        print("no valgrind")
        return 77
    status, report = 0, []
    for work, budget in BUDGETS.items():
        few, many = (instructions(sys.argv[1], work, times) for times in (FEW, MANY))
        each = (many - few) / (MANY - FEW)
        report.append(f"{work}: {each:.1f} instructions a call, budget {budget}")
        if each > budget:
            status = 1
            report[-1] += ": ABOVE"
    print("; ".join(report))
    return status


sys.exit(main())
