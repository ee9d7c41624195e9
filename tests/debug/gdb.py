#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""gdb shows tensors, Variables and shapes by packaging/gdb.py, of a running program and of a core file."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

root, build = pathlib.Path(__file__).resolve().parents[2], pathlib.Path(sys.argv[1])
if not shutil.which("gdb"):
    print("skipped: gdb is not installed")
    sys.exit(77)
PROGRAM = """#include <reel/reel.hpp>
using namespace reel;
int main() {
  Tensor x = tensor({{1.5, 2.0}, {3.0, 4.0}}), none;
  Variable w("w", x(0));
  Shape shape = x.shape();
  Tensor columns = transpose(tensor({{1, 2, 3}, {4, 5, 6}})), half = cast(tensor({-0.5, 3.14}), bfloat16);
  Tensor truth = columns(0) < 2, empty = zeros({0}), number = tensor<double>(0.1), many = zeros({300}, DType::uint8);
  Tensor bytes = cast(tensor({-128, 127}), int8), words = cast(tensor({-300, 300}), int16);
  Buffer buffer("seen", zeros({1}));
  GradientTape tape;
  tape.watch(x);
  Tensor y = sum(x * w);
  Tensor gradient = tape.gradient(y, x);
  return gradient.rank() != 2;
}
"""
EXPECTED = {"x": "float32 (2, 2) [[1.5, 2], [3, 4]]", "none": "undefined", "w": '"w" float32 (2,) [1.5, 2]',
            "shape": "(2, 2)", "y": "float32 () 18.75", "gradient": "float32 (2, 2) [[1.5, 2], [1.5, 2]]",
            "columns": "int32 (3, 2) [[1, 4], [2, 5], [3, 6]]", "half": "bfloat16 (2,) [-0.5, 3.140625]",
            "truth": "bool (2,) [True, False]", "empty": "float32 (0,) []", "number": "float64 () 0.1",
            "many": f"uint8 (300,) [{'0, ' * 200}...]", "buffer": '"seen" float32 (1,) [0]',
            "bytes": "int8 (2,) [-128, 127]", "words": "int16 (2,) [-300, 300]"}
failed = 0
with tempfile.TemporaryDirectory() as folder:
    source, program = pathlib.Path(folder) / "model.cpp", pathlib.Path(folder) / "model"
    source.write_text(PROGRAM)
    subprocess.run(["g++", "-std=c++20", "-g", "-O0", f"-I{root}/include", f"-I{build}/include", source, f"-L{build}",
                    "-lreel", "-lfmt", f"-Wl,-rpath,{build}", "-o", program], check=True)
    line = PROGRAM.splitlines().index("  return gradient.rank() != 2;") + 1
    core = pathlib.Path(folder) / "core"
    shown = [word for name in EXPECTED for word in (f"echo <{name}>", f"output {name}", f"echo </{name}>")]

    def gdb(commands, *files):
        words = [word for each in [f"source {root}/packaging/gdb.py", *commands] for word in ("-ex", each)]
        return subprocess.run(["gdb", "-batch", "-nx", *words, program, *files], capture_output=True, text=True,
                              timeout=120)

    live = gdb([f"break model.cpp:{line}", "run", *shown, f"generate-core-file {core}", "continue"])
    if "ptrace" in live.stderr and "not permitted" in live.stderr:
        print("skipped: the system lets no process be traced")
        sys.exit(77)
    for where, done in ("running", live), ("core", gdb(["frame function main", *shown], core)):
        for name, expected in EXPECTED.items():
            got = done.stdout.partition(f"<{name}>")[2].partition(f"</{name}>")[0]
            if got != expected:
                failed += 1
                print(f"{where}, {name}: got {got!r}, expected {expected!r}", done.stderr[-500:])
    if "exited normally" not in live.stdout:
        failed += 1
        print(live.stdout, live.stderr, sep="\n")
print(f"{2 * len(EXPECTED) + 1 - failed} passed, {failed} failed")
sys.exit(failed != 0)
