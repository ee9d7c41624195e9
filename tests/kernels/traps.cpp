// SPDX-License-Identifier: BSD-3-Clause
// A pass over ordinary numbers must not raise a floating-point exception that a program may trap:
// division by zero, invalid or overflow. This must hold for any content of the lanes behind the
// last element.
#include <cfenv>
#include <string>

#include "kernels/kernels.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr int trapped = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW;

struct Range {
  double least, width;
};
template <class T>
std::vector<T> clean(std::int64_t n, int turn, Range range) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<T>(range.least) +
                     static_cast<T>(range.width) * static_cast<T>((i * 7 + turn * 5) % 23) / T(23));
  return values;
}

/// The exceptions of a pass as text, for each length and each choice of scalar inputs.
template <class T>
std::string raised(PassFunction function, int inputs, unsigned flags, Range range) {
  for (std::int64_t n = 1; n <= 67; ++n)
    for (unsigned scalars = 0; scalars < 1u << inputs; ++scalars) {
      std::vector<T> values[4], out = clean<T>(n, 4, range);
      const void* from[4] = {};
      for (int k = 0; k < inputs; ++k) {
        values[k] = clean<T>(n, k, range);
        from[k] = values[k].data();
      }
      std::feclearexcept(FE_ALL_EXCEPT);
      function(n, from, scalars | flags, out.data());
      const int found = std::fetestexcept(trapped);
      if (found)
        return std::string(found & FE_DIVBYZERO ? "division by zero " : "") +
               (found & FE_INVALID ? "invalid " : "") + (found & FE_OVERFLOW ? "overflow " : "") +
               "at length " + std::to_string(n) + ", scalars " + std::to_string(scalars);
    }
  return "";
}

template <class T>
void check_op(const kernels::NamedPasses& op) {
  const auto dtype = static_cast<int>(dtype_of<T>());
  const std::string_view name = op.op;
  const Range range = name == "acos" || name == "asin" ? Range{-0.75, 1.5}
                      : name == "acosh"                ? Range{1.25, 1.5}
                      : name == "binary_cross_entropy" ? Range{0.1, 0.85}
                                                       : Range{0.5, 1.5};
  if (const PassFunction value = op.passes->value[dtype]) {
    INFO("value");
    // `where` reads its condition as bytes, and computes nothing.
    if (name != "where") CHECK(raised<T>(value, name == "lerp" ? 3 : 2, 0, range) == "");
  }
  for (int input = 0; input < 2; ++input)
    if (const PassFunction gradient = op.passes->gradient[dtype][input]) {
      INFO("gradient of input " << input);
      CHECK(raised<T>(gradient, 4, 0, range) == "");
      CHECK(raised<T>(gradient, 4, pass_adds, range) == "");
    }
}
}  // namespace

TEST_CASE("pointwise passes raise no exception behind the last element") {
  for_each_set([](const InstructionSet& set) {
    for (auto* family = set.families; *family; ++family)
      for (auto* op = (*family)->passes; op && op->op; ++op) {
        INFO(op->op << " on " << set.name);
        check_op<float>(*op);
        check_op<double>(*op);
      }
  });
}
}  // namespace reel::tests
