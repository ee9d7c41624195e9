#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The line that tools/torch_log.py writes for an array is the one that debug::Log writes for the tensor."""
import pathlib
import sys

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
