#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the files of this folder anew, with the libraries whose formats they have: pip install numpy safetensors torch."""
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file as save_safetensors_of_torch

HERE = pathlib.Path(__file__).resolve().parent
DTYPES = {"bool": torch.bool, "uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64,
          "float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16}


def safetensors_files():
    numbers = torch.arange(6).reshape(2, 3)
    tensors = {f"x.{name}": numbers.to(dtype) for name, dtype in DTYPES.items()}
    tensors |= {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3)}
    save_safetensors_of_torch(tensors, HERE / "all.safetensors", {"format": "np"})


if __name__ == "__main__":
    safetensors_files()
