#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""NumPy, safetensors and PyTorch read what reel writes. Skipped where Python does not have them."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from safetensors import safe_open
except ImportError as missing:
    print(f"Python has no {missing.name}")
    sys.exit(77)

DTYPES = {"bool": torch.bool, "uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64,
          "float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16}
NUMBERS = torch.arange(6, dtype=torch.float32).reshape(2, 3)
WANTED = {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3), "transposed": NUMBERS.T, 'a "name" of é': NUMBERS}
WANTED |= {f"x.{name}": NUMBERS.to(dtype) for name, dtype in DTYPES.items()}


def check(kind, tensors, wanted=WANTED):
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
        tensors, metadata = read_safetensors(folder / "all.safetensors")
        check("safetensors", tensors)
        assert metadata == {"key": 'a "text"'}
        index = json.loads((folder / "shards.safetensors.index.json").read_text())
        assert index["metadata"]["total_size"] == sum(x.numel() * x.element_size() for x in WANTED.values())
        check("shards", {name: read_safetensors(folder / file)[0][name] for name, file in index["weight_map"].items()})
        check("torch", torch.load(folder / "all.pt", weights_only=True))
        check("torch, mapped", torch.load(folder / "all.pt", weights_only=True, mmap=True))
        numpys = {name: x for name, x in WANTED.items() if x.dtype != torch.bfloat16}
        for file in ("stored.npz", "deflated.npz"):
            check(file, {name: torch.from_numpy(x) for name, x in np.load(folder / file).items()}, numpys)
        assert np.array_equal(np.load(folder / "fortran.npy"), NUMBERS.T)
        print(f"{len(WANTED)} tensors in each of {len(list(folder.iterdir()))} files")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
