#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A few pictures of noise, in the files that samples of Fashion-MNIST read: pictures.py FOLDER"""
import gzip
import os
import struct
import sys

os.makedirs(sys.argv[1], exist_ok=True)
for name, count in ("train", 32), ("t10k", 8):
    with gzip.open(f"{sys.argv[1]}/{name}-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4B3i", 0, 0, 8, 3, count, 28, 28) + os.urandom(count * 784))
    with gzip.open(f"{sys.argv[1]}/{name}-labels-idx1-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4Bi", 0, 0, 8, 1, count) + bytes(i % 10 for i in range(count)))
