#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every sample is built, has the option `--device`, and runs in './dev check samples'."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
from check import SAMPLES


def options_of(program):
    return set(re.findall(r"--[\w-]+", subprocess.run([program, "--help"], capture_output=True, text=True).stdout))


def main(programs):
    started = {line.split()[0] for line in SAMPLES.splitlines()}
    listed = re.search(r"foreach name : \[(.*?)\]", (ROOT / "samples/meson.build").read_text(), re.DOTALL)
    built = set(re.findall(r"'(\w+)'", listed[1])) if listed else set()
    samples = sorted(file.stem for file in (ROOT / "samples").glob("*.cpp"))
    problems = [f"tools/check.py: SAMPLES starts {name}, which is no sample" for name in sorted(started - set(samples))]
    asked = 0
    for name in samples:
        if name not in built:
            problems.append(f"samples/meson.build lacks {name}")
        if name not in started:
            problems.append(f"tools/check.py: SAMPLES lacks {name}")
        if not re.search(r"\bCommandLine \w+\(", (ROOT / f"samples/{name}.cpp").read_text()):
            problems.append(f"samples/{name}.cpp has no CommandLine of options.hpp, which adds --device")
        program = programs / name
        if program.exists():
            asked += 1
            if "--device" not in options_of(program):
                problems.append(f"{name} --help lists no --device")
    print(*problems, f"{len(samples)} samples, {asked} of them asked for their options, {len(problems)} problems", sep="\n")
    return 1 if problems or len(samples) < 5 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1], "samples")))
