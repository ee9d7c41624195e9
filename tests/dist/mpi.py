#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks under mpirun of Open MPI and of MPICH: values, faults, checkpoints.

    python3 tests/dist/mpi.py build/test

An MPI whose launcher or engine is missing is skipped by name."""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
PROGRAM = BUILD / "tests/dist_program"
LONG = os.environ.get("REEL_TEST_LONG") == "1"
ENV = {**os.environ, "LD_LIBRARY_PATH": f"{BUILD}/lib/dist", "REEL_NUM_THREADS": "1",
       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       # More ranks than cores: whoever waits gives its core away.
       "OMPI_MCA_mpi_yield_when_idle": "1"}
counts = {"passed": 0, "failed": 0, "skipped": 0}


def check(name, holds, text=""):
    counts["passed" if holds else "failed"] += 1
    if not holds:
        print(f"FAILED: {name}\n{text}", flush=True)


def ranks_of(launcher):
    """The processes of PROGRAM below a launcher; some launchers put them into sessions of their own."""
    parents, found = {}, []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            pass
    for rank in parents:
        above = rank
        while above in parents and above != launcher:
            above = parents[above]
        try:
            if above == launcher and os.readlink(f"/proc/{rank}/exe") == str(PROGRAM):
                found.append(rank)
        except OSError:
            pass
    return sorted(found)


def run(mpirun, ranks, *arguments, timeout=120, one=False, **env):
    """(exit status, stdout, stderr, seconds); what does not end is killed and has status None: with `one`, a rank, which
    ends the others."""
    start = time.monotonic()
    # Ranks write to files: on busy cores, MPICH's launcher may end without what ranks have written.
    launcher = [mpirun, "-n", str(ranks), "sh", "-c", 'exec "$0" "$@" >>"$TEST_OUT" 2>>"$TEST_ERR"'] if mpirun else []
    files = [tempfile.NamedTemporaryFile("r") for _ in range(2)]
    places = dict(zip(("TEST_OUT", "TEST_ERR"), (file.name for file in files)))
    process = subprocess.Popen([*launcher, str(PROGRAM), *map(str, arguments)], env={**ENV, **places, **env}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        victims = ranks_of(process.pid)
        for victim in random.sample(victims, 1) if one and victims else [*victims, process.pid]:
            os.kill(victim, 9)
        try:
            out, err = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        status = None
    return status, files[0].read() + out, files[1].read() + err, time.monotonic() - start


def debugger(mpi, mpirun):
    """A rank is at a prompt for three times the deadline."""
    launcher = [mpirun, "-n", "2", str(PROGRAM), "prompt"]
    env = {**ENV, "TEST_TIMEOUT": "2", "REEL_DEBUG_LIBRARY": f"{BUILD}/lib/debug/libreel_debug.so"}
    process = subprocess.Popen(launcher, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    time.sleep(6)
    lived = process.poll() is None
    try:
        out, err = process.communicate("info\ncont\n", timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    check(f"{mpi}: ranks wait for one that is stopped at a prompt", lived and process.returncode == 0, f"{out}\n{err}")
    check(f"{mpi}: they say which one it is",
          err.count("rank 1 waits in all_reduce of step 0: rank 0 is stopped in a debugger") == 1, err)


def numbers(text):
    return [float.fromhex(line) for line in text.split()]


def values(mpi, mpirun):
    alone = {sum_: run("", 1, "learn", sum_)[1] for sum_ in ("fast", "tree")}
    one = numbers(alone["fast"])
    for ranks in (2, 3, 4):
        for sum_ in ("fast", "ordered", "small", "bfloat16", "shard"):
            status, out, err, _ = run(mpirun, ranks, "learn", sum_)
            got = numbers(out)
            most = max((abs(a - b) for a, b in zip(got, one)), default=1)
            limit = 1e-2 if sum_ == "bfloat16" else 1e-6
            check(f"{mpi}: {ranks} ranks, {sum_}", status == 0 and len(got) == len(one) and most < limit, f"{most}\n{err}")
        status, out, err, _ = run(mpirun, ranks, "learn", "tree")
        check(f"{mpi}: {ranks} ranks, tree: the bits of one", status == 0 and out == alone["tree"], err)
    status, out, err, _ = run(mpirun, 3, "trees", 1000)
    check(f"{mpi}: 1,000 steps with different trees", (status, out) == (0, "1000 steps\n"), f"{out}\n{err}")


def faults(mpi, mpirun):
    with tempfile.TemporaryDirectory() as folder:
        wait = {"TEST_TIMEOUT": "3", "REEL_DIST_FOLDER": folder}
        for sum_ in ("fast", "small"):  # on the calling thread, and on the thread that sends
            status, _, err, seconds = run(mpirun, 3, "learn", sum_, "stop", timeout=30, **wait)
            named = "DataParallel: rank 1: expected to come within 3 s for bucket_0 of step 6" in err
            check(f"{mpi}: {sum_}: a stopped rank is named, in time",
                  status not in (0, None) and named and seconds < 3 + 2 + 1.5, f"{seconds:.1f} s, {status}\n{err}")
            for file in pathlib.Path(folder).glob("reel-*"):
                file.unlink()
        status, _, err, seconds = run(mpirun, 3, "learn", "fast", "kill", timeout=30, **wait)
        check(f"{mpi}: kill -9 ends all", status not in (0, None) and seconds < 5, f"{seconds:.1f} s\n{err}")
        left = list(pathlib.Path(folder).glob("reel-*"))
        lines = left[0].read_text().replace("\0", "").splitlines() if left else []
        steps = [line.split()[5] for line in lines if " lane 1 " in line]
        check(f"{mpi}: the last step of each rank is on disk, and names the one that died", steps == ["6", "5", "6"],
              "\n".join(lines))
        status, _, err, _ = run(mpirun, 3, "learn", "fast", "throw", timeout=30, **wait)
        check(f"{mpi}: an exception of a rank ends all", status not in (0, None) and "out of apples" in err, err)
        status, _, err, _ = run(mpirun, 3, "learn", "fast", "exit", timeout=30, **wait)
        check(f"{mpi}: a rank that leaves ends all", status is not None, err)
        status, _, err, _ = run(mpirun, 2, "differ", timeout=30, **wait)
        first = 'rank 1: expected Variable 0 "weight" float32 (2,) as on rank 0, got Variable 0 "weight" float32 (3,)'
        # The first rank that ends may end the others before they write the difference too.
        check(f"{mpi}: a different model is told", status not in (0, None) and first in err, err)


def resume(mpi, mpirun):
    with tempfile.TemporaryDirectory() as folder:
        expected = numbers(run("", 1, "train", f"{folder}/one", 24)[1])
        for ranks, to in ((4, 5), (2, 12), (3, 24)):
            status, out, err, _ = run(mpirun, ranks, "train", f"{folder}/many", to)
            check(f"{mpi}: train on {ranks} ranks to step {to}", status == 0, err)
        got = numbers(out)
        most = max((abs(a - b) for a, b in zip(got, expected)), default=1)
        check(f"{mpi}: 4, 2, then 3 ranks come to the weights of 1", len(got) == len(expected) and most < 5e-6, str(most))
        # Killed at random, and started again.
        random.seed(5)
        to, kills, status = 400, 0, None
        expected = numbers(run("", 1, "train", f"{folder}/whole", to)[1])
        while status is None:
            last = kills >= (20 if LONG else 3)
            status, out, err, _ = run(mpirun, 2, "train", f"{folder}/soak", to, REEL_DIST_FOLDER=folder, one=not last,
                                      timeout=120 if last else random.uniform(0.5, 1.5))
            kills += 1
        got = numbers(out)
        most = max((abs(a - b) for a, b in zip(got, expected)), default=1)
        check(f"{mpi}: killed {kills - 1} times, it comes to the weights of an undisturbed run",
              status == 0 and len(got) == len(expected) and most < 2e-4, f"{most}\n{err}")


def main():
    check("without a launcher: one rank", run("", 1, "engine")[1] == "single\n")
    found = []
    for mpi in ("openmpi", "mpich"):
        mpirun = shutil.which(f"mpirun.{mpi}")
        engine = BUILD / f"lib/dist/libreel_mpi_{mpi}.so"
        if not mpirun or not engine.exists():
            print(f"skipped: {mpi}: {'no mpirun.' + mpi if not mpirun else 'no ' + engine.name}")
            counts["skipped"] += 1
            continue
        found.append(mpirun)
        for part in (values, faults, debugger, resume):
            start = time.monotonic()
            part(mpi, mpirun)
            print(f"{mpi}: {part.__name__}: {time.monotonic() - start:.0f} s", flush=True)
        status, _, err, _ = run(mpirun, 2, "engine", LD_LIBRARY_PATH="/nowhere")
        check(f"{mpi}: without its engine it is an error, not two worlds of one",
              status not in (0, None) and f"expected libreel_mpi_{mpi}.so" in err, err)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0 if found else 77


if __name__ == "__main__":
    sys.exit(main())
