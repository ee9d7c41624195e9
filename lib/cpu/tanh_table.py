#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints tanh_table.hpp: tanh near 32 places as polynomials, fitted in double precision (needs numpy).

Four intervals for each power of two from 1/16 to 16, the first one down to 0. A place lies near the
middle of its interval where tanh is almost a float, so that the value there is as good as exact (Gal
and Bachelis, An accurate elementary mathematical library, 1991).
"""
import numpy as np

MOST = 9.02  # from here on 1 is nearest
FIRST = 123 << 2  # bits of 1/16 down to the second of its fraction


def tanh(x):
    return np.tanh(np.asarray(x, np.longdouble))


def place_of(low, high):
    middle = np.float32((low + high) / 2)
    places = middle + np.arange(-8000, 8001, 4).astype(np.float32) * np.spacing(middle)
    exact = tanh(places)
    lost = np.abs(exact.astype(np.float32) - exact) / np.spacing(exact.astype(np.float32))
    return places[np.argmin(lost)]


def column(i):
    """Place, value there, coefficients of t to t^5."""
    power = 2.0 ** (i // 4 - 4)
    low, high = power * (1 + i % 4 / 4), min(power * (1 + (i % 4 + 1) / 4), MOST)
    if low >= MOST:
        return [np.float32(MOST), np.float32(1)] + [np.float32(0)] * 5
    low, place = (low, place_of(low, high)) if i else (0.0, np.float32(0))
    angles = (np.arange(400) + 0.5) * np.pi / 400
    t = np.cos(angles) * (high - low) / 2 + (high + low) / 2 - np.float64(place)
    value = np.float32(tanh(place))
    rest = np.float64(tanh(t + np.float64(place)) - np.longdouble(value))
    if i == 0:  # t + c3 t^3 + c5 t^5, to the same places relative to t
        odd = np.linalg.lstsq(np.stack([t**2, t**4], 1), rest / t - 1, rcond=None)[0]
        coefficients = [1, 0, odd[0], 0, odd[1]]
    else:
        coefficients = np.linalg.lstsq(np.stack([t**k for k in range(1, 6)], 1), rest, rcond=None)[0]
    return [place, value, *np.asarray(coefficients, np.float32)]


def main():
    columns = [None] * 32
    for i in range(32):
        columns[(FIRST + i) % 32] = column(i)
    print("// SPDX-License-Identifier: BSD-3-Clause")
    print("// Made by tanh_table.py: places, tanh there, and coefficients of t to t^5 beside them.")
    print("#pragma once\n\nnamespace reel::kernels::REEL_ISA {")
    print("// clang-format off")
    print("alignas(64) inline constexpr float tanh_table[7][32] = {")
    for row in zip(*columns):
        print("  {" + ",\n   ".join(", ".join(f"{float(x):.9g}f" if "." in f"{float(x):.9g}" or "e" in f"{float(x):.9g}"
                                              else f"{float(x):.9g}.0f" for x in row[k:k + 8])
                                    for k in range(0, 32, 8)) + "},")
    print("};\n// clang-format on\n}  // namespace reel::kernels::REEL_ISA")


if __name__ == "__main__":
    main()
