#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints erf_table.hpp: polynomials for erf and erfc, interpolated at Chebyshev nodes (needs mpmath).

erf x = x p(x^2) for |x| <= 1. erfc x = e^(-x^2) q(t) / (1 + 2 x) for x >= 0, with t = (x - k) / (x + k),
which maps x >= 0 to -1 <= t < 1.
"""
from mpmath import cos, erf, erfc, exp, lu_solve, matrix, mp, mpf, nstr, pi, sqrt

mp.dps = 60


def polynomial(f, low, high, count):
    """Coefficients, those of the highest power first."""
    nodes = [(high + low) / 2 + (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    powers = matrix(count, count)
    for i, x in enumerate(nodes):
        for j in range(count):
            powers[i, j] = x ** (count - 1 - j)
    return list(lu_solve(powers, matrix([f(x) for x in nodes])))


def near(z):
    return erf(sqrt(z)) / sqrt(z)


def far(k):
    def q(t):
        x = k * (1 + t) / (1 - t)
        return (1 + 2 * x) * exp(x * x) * erfc(x)

    return q


def print_array(name, text, coefficients):
    print(f"/// {text}\ninline constexpr double {name}[] = {{")
    print(",\n".join("    " + nstr(c, 19) for c in coefficients) + "};")


print("// SPDX-License-Identifier: BSD-3-Clause")
print("// Made by erf_table.py, which says what the polynomials are.")
print("#pragma once\n\nnamespace reel::kernels::REEL_ISA {")
for kind, k, most, near_count, far_count in (("float32", 2, mpf("10.5"), 7, 12), ("float64", 4, mpf(28), 13, 24)):
    print_array(f"erf_near_{kind}", "p", polynomial(near, mpf(0), mpf(1), near_count))
    print_array(f"erfc_{kind}", f"q, for k = {k}", polynomial(far(k), mpf(-1), (most - k) / (most + k), far_count))
print("}  // namespace reel::kernels::REEL_ISA")
