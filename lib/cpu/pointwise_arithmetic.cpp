// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/arithmetic.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
namespace {
/// One exponent for all elements has a loop of its own if its powers need no logarithm.
template <class T>
void power_pass(std::int64_t n, const void* const* inputs, unsigned how, void* output) {
  using Numbers = math::Functions<Vector<T>>;
  bool done = false;
  if ((how & pass_scalars) == 2)
    Numbers::for_easy_exponents([&](auto twice) {
      if (*static_cast<const T*>(inputs[1]) != T(twice) / 2) return;
      const auto formula = [](const auto& from, std::int64_t i) -> Vector<T> {
        return Numbers::template half_power<decltype(twice)::value>(from.at(0, i));
      };
      const Rows<T, 1> x{{static_cast<const T*>(inputs[0])}};
      T* const out = static_cast<T*>(output);
      std::int64_t i = 0;
      for (; i + lanes<T> <= n; i += lanes<T>) store(out + i, formula(x, i));
      if (i < n) store_part(out + i, formula(Ends<T, 1>{x, n - i}, i), n - i);
      done = true;
    });
  if (!done) floating_pass<Power, T>(n, inputs, how, output);
}
}  // namespace
template <>
inline constexpr Passes passes<Power> = [] {
  Passes made = passes_of<Power>();
  made.value[static_cast<int>(DType::float32)] = power_pass<float>;
  made.value[static_cast<int>(DType::float64)] = power_pass<double>;
  return made;
}();
extern const Family arithmetic_family = {no_kernels, pass_table<ArithmeticFormulas>};
}  // namespace reel::kernels::REEL_ISA
