#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that go on without those that die: Open MPI 5 with ULFM, in the folder that REEL_OPENMPI5 names.

    REEL_OPENMPI5=build/openmpi python3 tests/dist/survive.py build/test

Elsewhere it is skipped by name. Open MPI over shared memory; over TCP it loses other ranks too, now and then."""
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile

from mpi import BUILD, LONG, check, counts, run

PREFIX = pathlib.Path(os.environ.get("REEL_OPENMPI5", "/nowhere")).resolve()
LINE = re.compile(r"rank (\d): step (\d+) of (\d) ranks, weights (\w+), loss (\S+) from (\S+)")
DIED = re.compile(r"rank (\d): program\.cpp:\d+: DataParallel: rank (\S.*): expected to come for bucket_\d of step (\d+), got "
                  r"one that has died: it came to \S+ of step \d+ \S+ s ago\n  It waited in step \d+, call \d+ of this kind, "
                  r"for [^\n]*(?:weight|bias)[^\n]*shrink\(\) makes a World of the ranks that live")


def launch(ranks, *arguments, ulfm=True, options="", **env):
    """run() under Open MPI 5. Its launcher may stay when all is done: then run() ends it."""
    mpirun = BUILD / "tests/mpirun5"
    mpirun.write_text(f'#!/bin/sh\nexec "{PREFIX}/bin/mpirun" {"--with-ft ulfm" if ulfm else ""} --oversubscribe {options} '
                      '"$@"\n')
    mpirun.chmod(0o755)
    with tempfile.TemporaryDirectory() as folder:
        return run(str(mpirun), ranks, *arguments, timeout=60, LD_LIBRARY_PATH=f"{PREFIX}/lib:{BUILD}/lib/dist",
                   PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1", TEST_TIMEOUT="20",
                   REEL_DIST_FOLDER=folder, **env)


def survive(name, ranks, faults, to, left, needs_end=True, errors=True, **options):
    """Which ranks come to the end: with the same weights, a lower loss, and an error for each death that they saw."""
    status, out, err, seconds = launch(ranks, "survive", to, *faults, **options)
    found = LINE.findall(out)
    text = f"{faults}: {status}, {seconds:.1f} s\n{out}\n{err}"
    check(f"{name}: the others come to the end", sorted(int(f[0]) for f in found) == left, text)
    check(f"{name}: they have the same weights", len({f[3] for f in found}) == 1, text)
    check(f"{name}: all steps, a World of these ranks, a lower loss",
          all(int(f[1]) == to and int(f[2]) == len(left) and float(f[4]) < 0.5 * float(f[5]) for f in found), text)
    if errors:
        check(f"{name}: the errors name rank, step, collective and Variables",
              {int(d[0]) for d in DIED.findall(err)} >= set(left) if faults else not DIED.search(err), text)
    if needs_end:
        check(f"{name}: mpirun ends", status == 0, text)


def main():
    if not (PREFIX / "bin/mpirun").exists() or not (BUILD / "lib/dist/libreel_mpi_openmpi.so").exists():
        print("skipped: ranks that survive others: no Open MPI 5 (REEL_OPENMPI5), or no libreel_mpi_openmpi.so")
        print("0 passed, 0 failed, 1 skipped")
        return 77
    random.seed(int(os.environ.get("REEL_TEST_SEED", "7")))
    status, out, err, _ = launch(2, "engine", ulfm=False)
    check("the engine, compiled with headers of Open MPI 4 or 5, runs with 5", out.startswith("Open MPI v5"), out + err)
    status, out, err, _ = launch(2, "survive", 60, ulfm=False)
    check("without --with-ft ulfm: an error that says so", status not in (0, None) and "options.survive: expected Open MPI 5 or "
          "newer, started as mpirun --with-ft ulfm, got Open MPI v5" in err, err)
    status, out, err, _ = run("", 1, "survive", 60)
    check("one rank without a launcher", status == 0 and LINE.search(out), out + err)
    other = shutil.which("mpirun.openmpi")
    if other:
        status, out, err, _ = run(other, 2, "survive", 60)
        check("another Open MPI: an error that says so", status not in (0, None) and "started as mpirun --with-ft ulfm, got "
              "Open MPI v4" in err, err)
    survive("nobody dies", 3, [], 120, [0, 1, 2])
    for _ in range(5 if LONG else 1):
        survive("3 ranks, one killed", 3, [f"1:{random.randrange(1, 119)}:kill"], 120, [0, 2])
        survive("4 ranks, rank 0 killed", 4, [f"0:{random.randrange(1, 119)}:kill"], 120, [1, 2, 3])
        survive("4 ranks, two killed one after the other", 4, ["3:20:kill", f"1:{random.randrange(30, 119)}:kill"], 120, [0, 2])
        survive("3 ranks, two killed at once", 3, ["0:60:kill", "2:60:kill"], 120, [1])
        at = f"1:{random.randrange(1, 300)}+{random.randrange(3000)}:kill"  # so many microseconds after this step has begun
        survive("4 ranks, killed at any time", 4, [at], 400, [0, 2, 3], errors=False)
    survive("killed before the last step", 3, ["2:119:kill"], 120, [0, 1])
    survive("a rank ends by an exception", 3, ["1:50:throw"], 120, [0, 2])
    # A rank that is stopped keeps mpirun: run() ends both.
    detector = "--mca mpi_ft_detector true --mca mpi_ft_detector_thread true --mca mpi_ft_detector_timeout 4 " \
               "--mca mpi_ft_detector_period 1"
    survive("a rank is stopped", 3, ["1:50:stop"], 120, [0, 2], needs_end=False, options=detector)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
