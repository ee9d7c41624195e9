#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""NumPy, safetensors and PyTorch read files that reel writes. A library that Python does not have is skipped."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"Python has no {missing.name}")
    sys.exit(77)
try:
    import torch
    from safetensors import safe_open
except ImportError as missing:
    torch, absent = None, missing.name

DTYPES = ["bool", "uint8", "int32", "int64", "float32", "float64", "float16", "int8", "int16"]  # NumPy has no bfloat16
NUMBERS = np.arange(6, dtype="float32").reshape(2, 3)
WANTED = {"scalar": np.array(2.5, "float32"), "empty": np.zeros((0, 3), "float32"), "transposed": NUMBERS.T, 'a "name" of é': NUMBERS}
WANTED |= {f"x.{name}": NUMBERS.astype(name) for name in DTYPES}


def check_arrays(kind, arrays):
    assert set(arrays) == set(WANTED), f"{kind}: {set(arrays)}"
    for name, x in WANTED.items():
        assert arrays[name].dtype == x.dtype and arrays[name].shape == x.shape and np.array_equal(arrays[name], x), f"{kind}: {name}: {arrays[name]}"


def wanted_tensors():
    return {name: torch.from_numpy(np.array(x)) for name, x in WANTED.items()} | {"x.bfloat16": torch.from_numpy(NUMBERS.copy()).to(torch.bfloat16)}


def check(kind, tensors):
    wanted = wanted_tensors()
    assert tensors.keys() == wanted.keys(), f"{kind}: {tensors.keys()}"
    for name, x in wanted.items():
        same = tensors[name].dtype == x.dtype and tensors[name].shape == x.shape and torch.equal(tensors[name], x)
        assert same, f"{kind}: {name}: {tensors[name]}"


def read_safetensors(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()


def main(build):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([build / "tests/test_io", "[interop]"], env={**os.environ, "REEL_INTEROP": name}, check=True, stdout=subprocess.DEVNULL)
        for file in ("stored.npz", "deflated.npz"):
            check_arrays(file, dict(np.load(folder / file)))
        assert np.array_equal(np.load(folder / "fortran.npy"), NUMBERS.T)
        if torch:
            check_with_torch(folder)
        print(f"{len(WANTED)} arrays in each of {len(list(folder.iterdir()))} files" + ("" if torch else f"; no {absent}"))


def check_with_torch(folder):
    tensors, metadata = read_safetensors(folder / "all.safetensors")
    check("safetensors", tensors)
    assert metadata == {"key": 'a "text"'}
    index = json.loads((folder / "shards.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(x.numel() * x.element_size() for x in wanted_tensors().values())
    check("shards", {name: read_safetensors(folder / file)[0][name] for name, file in index["weight_map"].items()})
    check("torch", torch.load(folder / "all.pt", weights_only=True))
    check("torch, mapped", torch.load(folder / "all.pt", weights_only=True, mmap=True))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
