#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the log of a PyTorch run in the form of reel's debug::Log, for reel-diff:

    with TorchLog("torch.log") as log:
        for batch in batches:
            train(batch)
            log.next_step()

Then `reel-diff --by op,shape --tolerance 1e-5 reel.log torch.log` matches ops by name and shape. Names of ops that reel
has under another name are translated. The backward pass is in the log too."""
import math
import platform
import traceback

import numpy

TITLE = "reel log 2"
COLUMNS = "step number op line dtype shape low high norm hash".split()
# Names of aten, and what reel calls them.
NAMES = {"mm": "matmul", "bmm": "matmul", "addmm": "matmul_add", "mul": "multiply", "sub": "subtract", "div": "divide",
         "neg": "negative", "pow": "power", "t": "transpose", "permute": "transpose", "view": "reshape",
         "_unsafe_view": "reshape", "cat": "concat", "expand": "broadcast_to", "sum": "sum", "_softmax": "softmax",
         "_log_softmax": "log_softmax", "tanh_backward": "gradient of tanh", "sigmoid_backward": "gradient of sigmoid",
         "threshold_backward": "gradient of relu", "eq": "equal", "ne": "not_equal", "lt": "less", "gt": "greater"}
MASK = (1 << 64) - 1


def hash_of(array):
    """The hash of lib/debug/statistics.cpp: a sum of a term for each 8 bytes in row-major order."""
    data = numpy.ascontiguousarray(array).tobytes()
    words = numpy.frombuffer(data + bytes(-len(data) % 8), dtype="<u8")
    places = numpy.arange(1, len(words) + 1, dtype="u8")
    with numpy.errstate(over="ignore"):
        terms = (words ^ places * numpy.uint64(0x9e3779b97f4a7c15)) * numpy.uint64(0xbf58476d1ce4e5b9)
        terms = (terms ^ terms >> numpy.uint64(32)) * numpy.uint64(0x94d049bb133111eb)
        return (int(terms.sum(dtype="u8")) + len(data)) & MASK


def row(step, number, op, line, array):
    """A line of the log."""
    wide = array.astype("f8").ravel()
    known = wide[~numpy.isnan(wide)]
    low, high = (known.min(), known.max()) if known.size else (math.nan, math.nan) if wide.size else (0.0, 0.0)
    shape = ",".join(map(str, array.shape)) or "-"
    return "\t".join([str(step), str(number), op, line, str(array.dtype), shape, f"{low:.9g}", f"{high:.9g}",
                      f"{math.sqrt(float((wide * wide).sum())):.9g}", f"{hash_of(array):016x}"])


def line_of_user():
    """The innermost line that is in no package of torch and not in this file."""
    for frame in reversed(traceback.extract_stack()):
        if "/torch/" not in frame.filename and frame.filename != __file__:
            return f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"
    return "no line"


def TorchLog(path):
    """A context that logs the ops of PyTorch inside of it."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __enter__(self):
            self.file, self.step, self.number = open(path, "w", encoding="utf-8"), 0, 0
            print(TITLE, f"# PyTorch {torch.__version__} on {platform.machine()}", "\t".join(COLUMNS), sep="\n", file=self.file)
            return super().__enter__()

        def __exit__(self, *error):
            self.file.close()
            return super().__exit__(*error)

        def next_step(self):
            self.step, self.number = self.step + 1, 0

        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            results = function(*arguments, **(keywords or {}))
            name = function.overloadpacket.__name__
            if name == "detach":  # the same tensor, which PyTorch keeps for a gradient
                return results
            for result in results if isinstance(results, (tuple, list)) else [results]:
                if isinstance(result, torch.Tensor) and result.layout == torch.strided:
                    self.number += 1
                    plain = result.detach()
                    array = (plain.float() if plain.dtype == torch.bfloat16 else plain).cpu().numpy()
                    print(row(self.step, self.number, NAMES.get(name, name), line_of_user(), array), file=self.file)
            return results

    return Log()
