#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/gpu-check ends within its 8 minutes, whatever its steps do, and leaves no process behind.

The steps are simulated: a clock that only they advance, and threads that take turns."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/gpu-check"
HANG = 1e9  # seconds of a step that does not end
NEARLY = -7  # a step that ends 7 seconds before its time runs out


class Skip(Exception):
    pass


def load():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("gpu_check_tool", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def catch2_log(failed):
    """What a program of tests prints of failed test cases, and its counts."""
    line = "-" * 79
    cases = [f"{line}\ncase {i}\n{line}\nfile.cpp:1\n" for i in range(failed)]
    return "".join(cases) + f"3 passed, {failed} failed, 0 skipped\n"


class Simulation:
    """Runs all steps. seconds_of(step) is how long a step takes; `failed` is the number of test cases that fail."""

    def __init__(self, seconds_of, failed=0):
        self.clock, self.ran, self.seconds_of, self.failed = 0.0, {}, seconds_of, failed
        self.widths, self.variables = [], {}
        self.tool = tool = load()
        tool.now, tool.START, tool.execute, tool.ThreadPoolExecutor = lambda: self.clock, 0, self.execute, self.threads
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), \
                mock.patch.dict(os.environ), mock.patch.object(shutil, "which", lambda name: f"/missing/bin/{name}"):
            tool.ROOT = root = pathlib.Path(folder)
            tool.OUT, tool.LOGS, tool.BUILD = root / "out", root / "logs", root / "gpu"
            (tool.BUILD / "tests").mkdir(parents=True)
            for name in tool.TESTS:
                (tool.BUILD / f"tests/test_{name}").touch()
            with mock.patch.object(tool, "find_sanitizer", lambda: "compute-sanitizer"):
                tool.check()
            tool.write_report()
            self.report = (tool.OUT / "gpu-report.md").read_text()

    def execute(self, command, log, seconds, variables):
        step = log.stem
        assert step not in self.ran, step
        assert seconds > 0, step
        takes = self.seconds_of(step)
        if takes < 0:
            takes = max(0, seconds + takes)
        says = {"nvidia-smi": "NVIDIA H100, 580.65, 9.0\n",
                "bench-reel": "cudaDevAttrMemoryPoolsSupported\t0\tproperty\nadd 64M\t0.9\tof the copy's bandwidth\n",
                "bench-pytorch": "PyTorch\t2.9\tversion\n"}.get(step, "")
        if step.startswith("test-"):
            says = catch2_log(self.failed)
        log.write_text(says)
        if takes > seconds:
            takes = seconds + 2 * self.tool.GRACE
        self.ran[step], self.variables[step] = (self.clock, self.clock + takes), variables
        self.clock += takes
        if takes > seconds:
            return None
        return int(self.failed > 0 and step.startswith("test-"))

    @contextlib.contextmanager
    def threads(self, width):
        self.widths.append(width)
        yield mock.Mock(map=lambda function, items: self.map(width, function, items))

    def map(self, width, function, items):
        free = [self.clock] * width  # when each thread is free
        results = []
        for item in items:
            thread = free.index(min(free))
            self.clock = free[thread]
            results.append(function(item))
            free[thread] = self.clock
        self.clock = max(free)
        return results

    def check_end(self):
        """Each phase ends in time, and leaves 5 s at least to the report."""
        phases = [("test-", "tests"), ("bench-", "measurements"), ("-of-test-", "sanitizers")]
        for step, (_, end) in self.ran.items():
            phase = next((phase for part, phase in reversed(phases) if part in step), "build")
            assert end <= self.tool.end_of(phase) + 1e-6, f"{step} ended after {end} s"
        assert self.clock <= 475, f"the steps took {self.clock} s"


def slowest(step):
    """The first steps succeed just within their limits. The others do not end."""
    return {"nvidia-smi": 29.9, "nvcc": 19.9, "setup": 59.9}.get(step, HANG)


def every_step_runs_into_its_limit():
    run = Simulation(slowest, failed=100)
    run.check_end()
    tool = run.tool
    steps = ["build", *(f"test-{name}" for name in tool.TESTS), "bench-reel", "bench-pytorch",
             *(f"{sanitizer}-of-test-{name}" for sanitizer in tool.SANITIZERS for name in tool.SANITIZED)]
    for step in steps:
        assert step in run.ran, f"{step} was not run"
    starts = [min(run.ran[step][0] for step in phase) for phase in (steps[1:9], steps[9:11], steps[11:])]
    for start, end, reserved in zip(starts, [*starts[1:], tool.TOTAL - tool.LAST], tool.RESERVED.values()):
        assert end - start >= reserved - 1e-6, f"a phase had {end - start} s of {reserved} s"
    assert "| build | 0 | 1 | time ran out, had " in run.report
    assert tool.TOTAL == 480


def quick_steps_have_their_limits():
    run = Simulation(lambda step: 100 if step == "build" else 2)
    assert "had " not in run.report, run.report
    assert run.widths == [run.tool.TESTS_AT_ONCE, 1, run.tool.SANITIZERS_AT_ONCE], run.widths


def sanitizers_keep_the_memory_cache():
    with mock.patch.dict(os.environ, REEL_CUDA_CACHE="0"):
        run = Simulation(lambda step: 1)
    steps = [step for step in run.ran if "-of-test-" in step]
    assert len(steps) == len(run.tool.SANITIZERS) * len(run.tool.SANITIZED), steps
    for step in steps:
        assert run.variables[step].get("REEL_CUDA_CACHE") == "1", step


def test_cases_that_failed_run_into_their_limits():
    run = Simulation(lambda step: HANG if "-alone-" in step else 1, failed=100)
    run.check_end()
    assert any("-alone-" in step for step in run.ran), "no failed test case ran alone"
    assert "no time to run alone" in run.report


def test_cases_that_failed_have_little_time():
    run = Simulation(lambda step: NEARLY if step.startswith("test-") and "-alone-" not in step else HANG, failed=100)
    run.check_end()
    assert any("-alone-" in step for step in run.ran), "no failed test case ran alone"


def a_step_without_time_is_not_started():
    run = Simulation(lambda step: 1)
    assert run.tool.run("late", ["true"], 9, run.clock + 2 * run.tool.GRACE) == (None, "", "had 0 s of 9 s")
    assert "late" not in run.ran


def any_step_may_be_slow():
    numbers = random.Random(1)
    for _ in range(30):
        Simulation(lambda step: numbers.choice([0.1, 5, 14, 50, 90, NEARLY, HANG]), numbers.choice([0, 1, 30])).check_end()


def properties_and_figures_are_reported():
    report = Simulation(lambda step: 1).report
    assert "- cudaDevAttrMemoryPoolsSupported: 0, so reel uses cudaMalloc\n" in report, report
    assert "- PyTorch 2.9\n" in report, report
    assert "| add 64M | of the copy's bandwidth | 0.9 |  |  | at least 0.85: met |" in report, report


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def run_and_end(command, folder):
    """Ends a command by its limit, and expects that the process which it named in a file has ended, too."""
    tool, child = load(), folder / "child"
    tool.GRACE = 1
    start = time.monotonic()
    assert tool.execute(command, folder / "log", 1, {"CHILD": str(child)}) is None
    assert time.monotonic() - start < 10
    pid = int(child.read_text())
    end = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_running(pid), f"{command[0]} left a process"


def a_program_that_ignores_sigterm_is_ended():
    with tempfile.TemporaryDirectory() as folder:
        script = "trap '' TERM; sleep 61 & echo $! > $CHILD; wait; sleep 62"
        run_and_end(["bash", "-c", script], pathlib.Path(folder))


def the_compilers_of_ninja_are_ended():
    if not shutil.which("ninja"):
        raise Skip("ninja is missing")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "build.ninja").write_text(
            "rule wait\n  command = echo $$$$ > $$CHILD; exec sleep 63\nbuild made: wait\n")
        run_and_end(["ninja", "-C", folder], pathlib.Path(folder))


CHECKS = [every_step_runs_into_its_limit, quick_steps_have_their_limits, sanitizers_keep_the_memory_cache,
          test_cases_that_failed_run_into_their_limits, test_cases_that_failed_have_little_time, a_step_without_time_is_not_started, any_step_may_be_slow,
          properties_and_figures_are_reported, a_program_that_ignores_sigterm_is_ended,
          the_compilers_of_ninja_are_ended]


def main():
    failed, skipped = 0, []
    for check in CHECKS:
        try:
            check()
        except Skip as reason:
            skipped.append(f"{check.__name__}: {reason}")
        except AssertionError as error:
            failed += 1
            print(f"{check.__name__}: {error}")
    print(f"{len(CHECKS)} checks, {failed} failed", *[f"skipped: {each}" for each in skipped], sep="; ")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
