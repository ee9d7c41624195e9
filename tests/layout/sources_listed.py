#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every source is in this build or is named by a meson.build. Otherwise it is never compiled, and nobody notices. A build
leaves out the sources of what its machine lacks: CUDA, MPI, ncurses, LibTorch, an instruction set."""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("lib", "autograd", "cuda", "tests")
ELSEWHERE = {"tests/consumers/arrays.cpp", "tests/consumers/program.cpp",  # compiled against the installed library
             "tests/consumers/static_cuda.cpp"}  # by static_cuda.sh


def main(build):
    introspection = subprocess.run(["meson", "introspect", "--targets", build], check=True,
                                   capture_output=True, text=True).stdout
    built = {pathlib.Path(source) for target in json.loads(introspection)
             for group in target["target_sources"] for source in group.get("sources", [])}
    named = {(file.parent / name).resolve() for folder in FOLDERS for file in (ROOT / folder).rglob("meson.build")
             for name in re.findall(r"'([\w./]+\.cpp)'", file.read_text())}
    found = {file for folder in FOLDERS for file in (ROOT / folder).rglob("*.cpp")}
    missing = sorted({file.relative_to(ROOT).as_posix() for file in found - built - named} - ELSEWHERE)
    print("\n".join([f"{name} stands in no meson.build" for name in missing] + [f"{len(found)} sources"]))
    return 1 if missing or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
