#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""reel computes the node tests of ONNX for convolutions, pools, attention, einsum and resize, but for the differences
that tests/ops/onnx_nodes.cpp lists. The wheel onnx makes the tests."""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    from onnx.backend.test.case.node import collect_testcases
    from onnx.helper import get_attribute_value
except ImportError as missing:
    print(f"Python has no {missing.name}")
    sys.exit(77)

OPS = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Attention", "Einsum",
       "Resize"}


def array(x):
    """What NumPy has no dtype for becomes float32."""
    x = np.asarray(x)
    return np.array(x, np.float32 if x.dtype.name == "bfloat16" else x.dtype, order="C")


def attribute(x):
    return np.frombuffer(x, np.uint8) if isinstance(x, bytes) else np.atleast_1d(x)


def write(folder):
    """An .npz for each test: its inputs by position, its first output, and its attributes; and the list of them."""
    lines = []
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        graph = case.model.graph
        if len(graph.node) != 1 or graph.node[0].op_type not in OPS:
            continue
        node, (inputs, outputs) = graph.node[0], case.data_sets[0]
        known = dict(zip((x.name for x in graph.input), inputs))
        arrays = {f"in{i}": array(known[name]) for i, name in enumerate(node.input) if name}
        arrays["out"] = array(outputs[0])
        arrays |= {a.name: attribute(get_attribute_value(a)) for a in node.attribute}
        np.savez(folder / f"{case.name}.npz", **arrays)
        lines.append(f"{node.op_type} {case.name} {np.asarray(inputs[0]).dtype.name}")
    (folder / "list").write_text("".join(line + "\n" for line in sorted(lines)))


def main(build):
    with tempfile.TemporaryDirectory() as name:
        write(pathlib.Path(name))
        return subprocess.run([build / "tests/test_ops", "[onnx]"], env={**os.environ, "REEL_ONNX": name}).returncode


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
