#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A few pictures of noise, in the files that samples of Fashion-MNIST read: pictures.py FOLDER. For the guides,
folders of PNG files with shapes."""
import gzip
import os
import random
import struct
import sys
import zlib


def write_noise(folder):
    os.makedirs(folder, exist_ok=True)
    for name, count in ("train", 32), ("t10k", 8):
        with gzip.open(f"{folder}/{name}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">4B3i", 0, 0, 8, 3, count, 28, 28) + os.urandom(count * 784))
        with gzip.open(f"{folder}/{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">4Bi", 0, 0, 8, 1, count) + bytes(i % 10 for i in range(count)))


SHAPES = {"circle": lambda x, y: x * x + y * y < 1, "square": lambda x, y: max(abs(x), abs(y)) < 1,
          "triangle": lambda x, y: abs(y) < 1 and 2 * abs(x) < y + 1}


def write_shapes(folder, count=40, side=32):
    """FOLDER/circle/000.png and so on, in RGB."""
    numbers = random.Random(1)
    for name, inside in SHAPES.items():
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        for i in range(count):
            radius, colors = numbers.uniform(6, 11), [bytes(numbers.randrange(low, low + 60) for _ in range(3)) for low in (0, 190)]
            at = [numbers.uniform(radius, side - radius) for _ in range(2)]
            lines = b"".join(b"\0" + b"".join(colors[inside((x - at[0]) / radius, (y - at[1]) / radius)] for x in range(side))
                             for y in range(side))
            chunks = {b"IHDR": struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0), b"IDAT": zlib.compress(lines), b"IEND": b""}
            with open(f"{folder}/{name}/{i:03}.png", "wb") as file:
                file.write(b"\x89PNG\r\n\x1a\n")
                for kind, data in chunks.items():
                    file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


if __name__ == "__main__":
    write_noise(sys.argv[1])
