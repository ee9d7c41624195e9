#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library read by clang, with the arguments of a build: clang.py kernels|tidy BUILD

kernels: clang++ takes the kernels of the widest instruction set without a warning. tidy: clang-tidy over all units; of
the kernels, which differ in vectors only, one instruction set."""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

KEPT = ("-I", "-isystem", "-D", "-std", "-f", "-m", "-W")


def refused(unit):
    flags = [word for word in shlex.split(unit["command"]) if word.startswith(KEPT) and word != "-Winvalid-pch"]
    command = ["clang++", *flags, "-Werror", "-Wno-unknown-warning-option", "-fsyntax-only", unit["file"]]
    return subprocess.run(command, cwd=unit["directory"], capture_output=True, text=True).stderr


def untidy(build, unit):
    done = subprocess.run(["clang-tidy", "-p", build, "--quiet", "--extra-arg=-Wno-unknown-warning-option",
                           os.path.join(unit["directory"], unit["file"])], capture_output=True, text=True)
    return done.stdout + (done.stderr if done.returncode else "")


def main(what, build):
    units = json.loads(pathlib.Path(build, "compile_commands.json").read_text())
    kernels = [unit for unit in units if "libkernels_" in unit["output"]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        if what == "kernels":
            units = [unit for unit in kernels if "_avx512" in unit["output"]] or kernels
            said = "".join(pool.map(refused, units))
        else:
            units = {unit["file"]: unit for unit in units
                     if unit["file"].startswith(("../../lib/", "../../autograd/", "../../cuda/"))
                     and ("libkernels_" not in unit["output"] or "libkernels_avx2" in unit["output"])}.values()
            folder = pathlib.Path(build, "tidy")  # a list with one entry for each file
            folder.mkdir(exist_ok=True)
            (folder / "compile_commands.json").write_text(json.dumps(list(units)))
            said = "".join(pool.map(lambda unit: untidy(folder, unit), units))
    print(said or f"{len(units)} units")
    return 1 if said or not units else 0


sys.exit(main(*sys.argv[1:3]))
