#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Includes follow the arrows: include <- lib <- {cuda, autograd}; nn, optim, data, samples see include only."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WINGS = ("include", "lib", "cuda", "autograd", "tests", "bench", "samples")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# A room is the longest folder that names a file's path; what it may include of the project itself.
PUBLIC_ONLY = {"include"}
MAY_INCLUDE = {
    "include": PUBLIC_ONLY,
    "lib": {"include", "lib"},
    "lib/nn": PUBLIC_ONLY | {"lib/nn"},
    "lib/optim": PUBLIC_ONLY | {"lib/nn", "lib/optim"},
    "lib/data": PUBLIC_ONLY | {"lib/data"},
    "cuda": {"include", "lib", "cuda"},
    "autograd": {"include", "lib", "autograd"},
    "samples": PUBLIC_ONLY | {"samples"},
    "bench": set(WINGS),
    "tests": set(WINGS),
}
EXEMPT = {"lib/assemble.cpp"}  # the composition root

# Light headers: what a public header may ask of every program that includes it.
LIGHT_STANDARD = set("""cstdint cstddef initializer_list span string_view string vector memory
    type_traits exception stdexcept array tuple utility iosfwd""".split())
EXTRA = {
    "include/reel/trace.hpp": {"functional"},
    "include/reel/tape.hpp": {"functional"},
    "include/reel/format.hpp": {"fmt/core.h"},
    "include/reel/references.hpp": {"sys/single_threaded.h"},
}
OPT_IN = {"include/reel/xtensor.hpp", "include/reel/cuda.hpp", "include/reel/eigen.hpp"}
HEAVY = re.compile(r"^(xtensor|xsimd|cblas|cuda|cublas|cudnn)")
HEAVY_ROOMS = ("lib/cpu/", "lib/formulas/", "lib/tensor/print.cpp", "cuda/", "tests/", "bench/")


def room_of(path):
    parts = path.split("/")
    two = "/".join(parts[:2])
    return two if two in MAY_INCLUDE and len(parts) > 2 else parts[0]


def project_path(including, spelled, quoted):
    """The path inside the project that an include names, or None for a header from elsewhere."""
    if spelled.startswith("reel/"):
        return "include/" + spelled
    if not quoted:
        return None
    for base in (including.parent, ROOT, ROOT / "tests"):
        found = (base / spelled).resolve()
        if found.is_file() and found.is_relative_to(ROOT):
            return found.relative_to(ROOT).as_posix()
    return None


def problem_with(file, bracket, spelled):
    path = file.relative_to(ROOT).as_posix()
    if path in EXEMPT:
        return None
    room, target = room_of(path), project_path(file, spelled, bracket == '"')
    if target is None and bracket == '"':
        return "names no file; third-party and standard headers stand in <>"
    if target is not None:
        allowed = MAY_INCLUDE[room]
        if room_of(target) in allowed or target.split("/")[0] in allowed:
            return None
        return f"{room} may include only {', '.join(sorted(allowed))}"
    if room == "include" and path not in OPT_IN:
        if spelled not in LIGHT_STANDARD | EXTRA.get(path, set()):
            return "too heavy for a public header"
    elif HEAVY.match(spelled) and not path.startswith(HEAVY_ROOMS) and path not in OPT_IN:
        return f"belongs in {', '.join(HEAVY_ROOMS)}"
    return None


def main():
    problems, files, includes = [], 0, 0
    for wing in WINGS:
        for file in sorted((ROOT / wing).rglob("*")):
            if file.suffix not in (".hpp", ".cpp", ".cu", ".cuh"):
                continue
            files += 1
            for bracket, spelled in INCLUDE.findall(file.read_text()):
                includes += 1
                problem = problem_with(file, bracket, spelled)
                if problem:
                    problems.append(f"{file.relative_to(ROOT)}: {spelled}: {problem}")
    print("\n".join(problems + [f"{includes} includes in {files} files, {len(problems)} against the arrows"]))
    return 1 if problems or not includes else 0


if __name__ == "__main__":
    sys.exit(main())
