// SPDX-License-Identifier: BSD-3-Clause
// One pass over the elements of a result.
#pragma once
#include "lib/debug/value.hpp"

namespace reel::debugger {
using debug::Statistics;
/// Whether there is a NaN, and whether there is an infinity.
struct Odd {
  bool nan = false, infinity = false;
  bool any() const { return nan || infinity; }
};
/// Of floating elements; of others neither.
Odd odd_of(const Body& body);
/// How the elements of an op's result are bounded.
enum class Bounds : std::uint8_t { none, tanh, sigmoid };
Bounds bounds_of(std::string_view op);
/// The share of units that are 0 in all rows: a unit is a place along the last axis.
double dead_of(const Body& readable);
Statistics statistics_of(const Body& body, Bounds bounds);
/// Of all bytes of the elements in row-major order, dtype and shape.
std::uint64_t hash_of(const Body& body);
/// Of a few elements: bodies of other values differ in it, most likely.
std::uint64_t fingerprint_of(const Body& body);
}  // namespace reel::debugger
