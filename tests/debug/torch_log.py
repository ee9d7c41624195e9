#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The line that tools/torch_log.py writes for an array is the one that debug::Log writes for the tensor."""
import pathlib
import sys
import tempfile

try:
    import numpy
except ImportError:
    print("there is no NumPy: nothing is checked")
    sys.exit(0)
sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import torch_log

expected = "0\t1\tmultiply\tlog.cpp:75\tfloat32\t3\t-6\t4\t7.48331477\t53c63dacba03863f"
found = torch_log.row(0, 1, "multiply", "log.cpp:75", numpy.array([2, 4, -6], dtype="f4"))
if found != expected:
    sys.exit(f"expected {expected!r}, got {found!r}")
test = (pathlib.Path(__file__).parent / "log.cpp").read_text()
if expected.split("\t")[-1] not in test:
    sys.exit("tests/debug/log.cpp expects another hash")

try:
    import torch
except ImportError:
    print("there is no PyTorch: a log of a model is not checked")
    sys.exit(0)
weight, bias = torch.ones(2, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "torch.log"
    with torch_log.TorchLog(path) as log:
        for _ in range(2):
            loss = torch.tanh(torch.addmm(bias, torch.ones(4, 2), weight)).sum()
            loss.backward()
            log.next_step()
    title, writer, columns, *rows = [line.split("\t") for line in path.read_text().splitlines()]
if title != [torch_log.TITLE] or not writer[0].startswith("# PyTorch ") or columns != torch_log.COLUMNS or any(len(row) != len(columns) for row in rows):
    sys.exit(f"expected a log, got {title}, {writer}, {columns}, {rows}")
for op, shape, low in (("matmul_add", "4,3", 2), ("tanh", "4,3", 0.9640276), ("gradient of tanh", "4,3", 0.0706508),
                       ("matmul", "2,3", 0.2826033)):
    found = [row for row in rows if row[2] == op and row[5] == shape and abs(float(row[6]) - low) < 1e-6]
    if [row[0] for row in found][:1] != ["0"] or found[0][3].partition(":")[0] != "torch_log.py":
        sys.exit(f"expected {op} of shape {shape} in step 0 with a line of this file, got {rows}")
