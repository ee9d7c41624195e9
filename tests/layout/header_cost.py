#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Public headers are light. Each compiles alone with both compilers, without a warning."""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
LIMITS = {"reel/reel.hpp": 58_000, "reel/tensor.hpp": 35_000}
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]


def run(compiler, header, *arguments):
    command = [compiler, "-std=c++20", f"-I{INCLUDE}", "-isystem", "/usr/include/eigen3", "-x", "c++", *arguments, "-"]
    return subprocess.run(command, input=f"#include <{header}>\n", capture_output=True, text=True)


def main():
    headers = sorted(h.relative_to(INCLUDE).as_posix() for h in INCLUDE.rglob("*.hpp"))
    compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
    problems = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {(c, h): pool.submit(run, c, h, "-fsyntax-only", *WARNINGS) for c in compilers for h in headers}
        for (compiler, header), job in jobs.items():
            if job.result().returncode:
                problems.append(f"{header} does not compile alone with {compiler}:\n{job.result().stderr}")
    costs = []
    for header, limit in LIMITS.items():
        lines = run("g++", header, "-E").stdout.count("\n")
        start = time.monotonic()
        run("g++", header, "-O0", "-c", "-o", os.devnull)
        costs.append(f"{header} {lines} lines {time.monotonic() - start:.2f} s")
        if not 0 < lines <= limit:
            problems.append(f"{header}: {lines} preprocessed lines, at most {limit}")
    print("\n".join(problems + [f"{len(headers)} headers, {' and '.join(compilers)}; {'; '.join(costs)}"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
