#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tests of `./dev test` again and again, to find one that passes by chance: runs.py BUILD [KIND...]

KIND is plain, random (the test cases of each program in a random order; random:7 with seed 7), busy (beside four loops),
tcache (malloc() without its caches of threads) or perturb (freed memory is filled with a byte). The default is 1 plain,
10 random, 5 busy, 2 tcache and 2 perturb runs. A run fails if a test fails or if it counts other tests than the first run.
The last line is `N passed, N failed`, in runs."""
import os
import pathlib
import random
import subprocess
import sys
import time

import counts

KINDS = ["plain"] + ["random"] * 10 + ["busy"] * 5 + ["tcache"] * 2 + ["perturb"] * 2
WRAPPERS = {"tcache": ["--wrapper", "env GLIBC_TUNABLES=glibc.malloc.tcache_count=0"],
            "perturb": ["--wrapper", "env MALLOC_PERTURB_=85"]}


def tests_of(build, base, *arguments):
    """[(setup, test)] of one `meson test`."""
    subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--quiet", "--logbase", base, *arguments],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = list(counts.results(build, base))
    for log in pathlib.Path(build, "meson-logs").glob(f"{base}*"):
        log.unlink()
    return found


def run(build, kind):
    """[(setup, test)] of all tests, on the CPU and on the test device."""
    kind, _, seed = kind.partition(":")
    base, wrapper, found = f"{os.getpid()}-run", WRAPPERS.get(kind, []), []
    if kind != "random":
        for setup in "gate", "far":
            found += tests_of(build, base, "--setup", setup, *wrapper)
        return found
    order = ["--test-args", f"--order rand --rng-seed {seed}"]
    for arguments in ("gate", "--suite", "layout"), ("gate", "--no-suite", "layout", *order), ("far", *order):
        found += tests_of(build, base, "--setup", *arguments)
    return found


def main(build, *kinds):
    first, failures = None, 0
    for kind in kinds or KINDS:
        if kind == "random":
            kind += f":{random.randrange(1, 10**6)}"
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 if kind == "busy" else 0)]
        start = time.monotonic()
        try:
            found = run(build, kind)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        sums = tuple(map(sum, zip(*(counts.counts_of(test) for _, test in found)))) or (0, 0, 0)
        first = first or sums
        fails = sums[1] > 0 or not sums[0] or sums != first
        failures += fails
        print(f"{kind}: {sums[0]} passed, {sums[1]} failed, {sums[2]} skipped, {time.monotonic() - start:.0f} s"
              f"{'  FAILED' if fails else ''}", flush=True)
        for setup, test in found:
            if counts.counts_of(test)[1]:
                said = "\n".join(test.get(stream, "")[-10000:] for stream in ("stderr", "stdout"))
                print(f"--- {test['name']} on {setup or 'gate'}\n{said}", flush=True)
    print(f"{len(kinds or KINDS) - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
