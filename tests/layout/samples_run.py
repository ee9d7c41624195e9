#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every sample is built, has the option `--device`, and runs in './dev test' on the CPU and on the CUDA emulator.

A sample that is missing in run_samples() of dev would never run on another device."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def function_of(text, name):
    """The body of a function of a shell script."""
    found = re.search(rf"^{name}\(\) \{{\n(.*?)^\}}$", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def samples_that_run(runs):
    """The names that run_samples() of dev starts: the first word of each item of its loop."""
    items = re.search(r"for run in (.*?); do", runs, re.DOTALL)
    return set(re.findall(r"""(?:^|\s)['"](\w+)[^'"]*['"]""", items[1])) if items else set()


def options_of(program):
    return set(re.findall(r"--[\w-]+", subprocess.run([program, "--help"], capture_output=True, text=True).stdout))


def main(programs):
    dev = (ROOT / "dev").read_text()
    runs, devices = function_of(dev, "run_samples"), function_of(dev, "run_device_tests")
    started = samples_that_run(runs)
    listed = re.search(r"foreach name : \[(.*?)\]", (ROOT / "samples/meson.build").read_text(), re.DOTALL)
    built = set(re.findall(r"'(\w+)'", listed[1])) if listed else set()
    problems = [f"dev: run_device_tests() has no `run_samples {device}`" for device in ("cpu", "cuda")
                if not re.search(rf"^\s*run_samples {device}$", devices, re.MULTILINE)]
    if '--device "$1"' not in runs:
        problems.append("dev: run_samples() passes no --device")
    samples = sorted(file.stem for file in (ROOT / "samples").glob("*.cpp"))
    asked = 0
    for name in samples:
        if name not in built:
            problems.append(f"samples/meson.build lacks {name}")
        if name not in started:
            problems.append(f"dev: run_samples() lacks {name}")
        if not re.search(r"\bCommandLine \w+\(", (ROOT / f"samples/{name}.cpp").read_text()):
            problems.append(f"samples/{name}.cpp has no CommandLine of options.hpp, which adds --device")
        program = programs / name if programs else None
        if program and program.exists():
            asked += 1
            if "--device" not in options_of(program):
                problems.append(f"{name} --help lists no --device")
    problems += [f"dev: run_samples() starts {name}, which is no sample" for name in sorted(started - set(samples))]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(samples)} samples, {asked} of them asked for their options, {len(problems)} problems")
    return 1 if problems or len(samples) < 5 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1], "samples") if len(sys.argv) > 1 else None))
