# SPDX-License-Identifier: BSD-3-Clause
"""Runs test cases: once all of them to see which faults each can see, then faults against them."""
import concurrent.futures
import mmap
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

import source

RECORD, COMPARE, REACHED, CHANGED = 2, 4, 8, 16  # as in fault.hpp
MEMORY, FILE_SIZE = 12 << 30, 1 << 30  # bytes that a test case may take
LONGEST = 3600  # seconds of a test case; its processor time is what usually ends it


@dataclass
class Case:
    program: str
    name: str
    seconds: float = 0  # of processor time
    wall: float = 0


class Watch:
    """Ends test cases that sleep, or run, for much too long."""

    def __init__(self):
        self.running, self.lock = {}, threading.Lock()
        threading.Thread(target=self.look, daemon=True).start()

    def add(self, pid, limit):
        with self.lock:
            self.running[pid] = [time.monotonic(), limit, -1, 0]

    def remove(self, pid):
        with self.lock:
            self.running.pop(pid, None)

    def look(self):
        while True:
            time.sleep(1)
            with self.lock:
                for pid, state in self.running.items():
                    self.check(pid, state)

    def check(self, pid, state):
        begun, limit, before, still = state
        if time.monotonic() - begun < 3:
            return
        ticks, awake = activity(pid)
        state[2], state[3] = ticks, still + 1 if ticks == before and not awake else 0
        if state[3] >= limit or time.monotonic() - begun > LONGEST:
            os.killpg(pid, signal.SIGKILL)


def activity(group):
    """Processor time of a process group in ticks, and whether one of its threads wants to run."""
    ticks, awake = 0, False
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            fields = (pathlib.Path(entry.path) / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) != group:
                continue
            ticks += int(fields[11]) + int(fields[12])
            for thread in os.scandir(entry.path + "/task"):
                state = (pathlib.Path(thread.path) / "stat").read_text().rsplit(")", 1)[1].split()[0]
                awake |= state in "RD"
        except (OSError, IndexError):
            pass
    return ticks, awake


class Trial:
    def __init__(self, folder, workers):
        self.folder, self.workers = folder, workers
        self.watch = Watch()
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="reel_mutate_"))

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    # --- one test case ---
    def run(self, case, seconds, idle=8, **environment):
        """(ending, processor time, wall time); the ending is "passed" or says what went wrong."""
        work_folder = self.scratch / str(threading.get_ident())
        work_folder.mkdir(exist_ok=True)
        name = re.sub(r'([\\",])', r"\\\1", case.name)
        log = work_folder / "log"
        begun = time.monotonic()
        with open(log, "wb") as output:
            process = subprocess.Popen([str(self.folder / case.program), f'"{name}"', "--abort"],
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=work_folder,
                                       start_new_session=True, env={**os.environ, "TMPDIR": str(work_folder), **environment})
        for what, limit in ((resource.RLIMIT_CPU, int(seconds) + 1), (resource.RLIMIT_AS, MEMORY),
                            (resource.RLIMIT_FSIZE, FILE_SIZE), (resource.RLIMIT_CORE, 0)):
            try:
                resource.prlimit(process.pid, what, (limit, limit))
            except ProcessLookupError:
                pass
        self.watch.add(process.pid, idle)
        _, status, usage = os.wait4(process.pid, 0)
        self.watch.remove(process.pid)
        process.returncode = 0
        try:
            os.killpg(process.pid, signal.SIGKILL)  # children that it left
        except (ProcessLookupError, PermissionError):
            pass
        last = tail(log)
        for left in work_folder.iterdir():
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
        used, wall = usage.ru_utime + usage.ru_stime, time.monotonic() - begun
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            late = number in (signal.SIGKILL, signal.SIGXCPU)
            return ("too slow" if late else signal.Signals(number).name), used, wall
        passed = status == 0 and (last.startswith("1 passed, 0 failed") or last.startswith("0 passed, 0 failed, 1"))
        return ("passed" if passed else "failed"), used, wall

    def each(self, function, items):
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            yield from pool.map(function, items)

    # --- all test cases ---
    def cases(self, program):
        listed = subprocess.run([str(self.folder / program), "--list-test-names-only"], capture_output=True, text=True)
        return [Case(program, line) for line in listed.stdout.split("\n")
                if line and not re.match(r"\d+ passed, ", line)]  # the count at the end is no name

    def record(self, program, numbers):
        """{case: (reached, changed)}, and the endings of cases that fail without a fault."""
        def one(case):
            with tempfile.NamedTemporaryFile(dir=self.scratch) as file:
                for flags in (RECORD | COMPARE, RECORD):
                    fill(file, numbers, flags)
                    ending, case.seconds, case.wall = self.run(case, 1200, 60, REEL_FAULT_RECORD=file.name)
                    if ending == "passed":
                        break
                return case, ending, *read(file, numbers)
        return list(self.each(one, self.cases(program)))

    # --- one fault ---
    def attack(self, number, cases, budget):
        """How many cases were run, the fastest first, and the last one with its ending."""
        count, ending = 0, "passed"
        for case in sorted(cases, key=lambda case: case.seconds):
            if count and budget < case.seconds:
                break
            budget -= case.seconds
            count += 1
            ending, _, _ = self.run(case, 1 + 4 * case.seconds, REEL_FAULT=str(number))
            if ending != "passed":
                break
        return count, case, ending


def tail(log):
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 400))
        return file.read().decode(errors="replace").rstrip().rsplit("\n", 1)[-1]


def fill(file, numbers, flags):
    os.ftruncate(file.fileno(), 0)
    os.ftruncate(file.fileno(), source.COUNT)
    with mmap.mmap(file.fileno(), source.COUNT) as states:
        for number in numbers:
            states[number] = flags


def read(file, numbers):
    with mmap.mmap(file.fileno(), source.COUNT) as states:
        return ([number for number in numbers if states[number] & REACHED],
                [number for number in numbers if states[number] & CHANGED])
