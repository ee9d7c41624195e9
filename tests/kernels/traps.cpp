// SPDX-License-Identifier: BSD-3-Clause
// A pass over clean numbers raises no floating-point exception that a program may trap, whatever
// stands in the lanes behind the last element: division by zero, invalid, overflow.
#include <cfenv>
#include <string>

#include "kernels/kernels.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr int trapped = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW;

/// Numbers between 0.5 and 2.
template <class T>
std::vector<T> clean(std::int64_t n, int turn) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(T(0.5) + T(1.5) * static_cast<T>((i * 7 + turn * 5) % 23) / T(23));
  return values;
}

/// The exceptions of a pass, of each length and each choice of numbers for all, as a text.
template <class T>
std::string raised(Tile tile, int inputs, unsigned flags) {
  for (std::int64_t n = 1; n <= 67; ++n)
    for (unsigned scalars = 0; scalars < 1u << inputs; ++scalars) {
      std::vector<T> values[4], out = clean<T>(n, 4);
      const void* from[4] = {};
      for (int k = 0; k < inputs; ++k) {
        values[k] = clean<T>(n, k);
        from[k] = values[k].data();
      }
      std::feclearexcept(FE_ALL_EXCEPT);
      tile(n, from, scalars | flags, out.data());
      const int found = std::fetestexcept(trapped);
      if (found)
        return std::string(found & FE_DIVBYZERO ? "division by zero " : "") +
               (found & FE_INVALID ? "invalid " : "") + (found & FE_OVERFLOW ? "overflow " : "") +
               "at length " + std::to_string(n) + ", scalars " + std::to_string(scalars);
    }
  return "";
}

template <class T>
void check_op(const kernels::NamedTiles& op) {
  const auto dtype = static_cast<int>(dtype_of<T>());
  if (const Tile value = op.tiles->value[dtype]) {
    INFO("value");
    // `where` takes bytes for its condition, and computes nothing.
    if (std::string_view(op.op) != "where") CHECK(raised<T>(value, 2, 0) == "");
  }
  for (int input = 0; input < 2; ++input)
    if (const Tile gradient = op.tiles->gradient[input][dtype]) {
      INFO("gradient of input " << input);
      CHECK(raised<T>(gradient, 4, 0) == "");
      CHECK(raised<T>(gradient, 4, pass_adds) == "");
    }
}
}  // namespace

TEST_CASE("pointwise passes raise no exception behind the last element") {
  for_each_set([](const InstructionSet& set) {
    for (auto* family = set.families; *family; ++family)
      for (auto* op = (*family)->tiles; op && op->op; ++op) {
        INFO(op->op << " on " << set.name);
        check_op<float>(*op);
        check_op<double>(*op);
      }
  });
}
}  // namespace reel::tests
