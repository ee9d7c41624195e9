// SPDX-License-Identifier: BSD-3-Clause
// Passes of pointwise gradients against their formulas, for each instruction set.
#include "kernels/pointwise.hpp"

namespace reel::tests {
namespace {
template <class T>
struct Values {
  T values[4];
  T dy() const { return values[0]; }
  T x() const { return values[1]; }
  T y() const { return values[2]; }
  T out() const { return values[3]; }
};
template <class F, int input>
constexpr bool has_gradient = requires(Values<float> g) {
  F::d0(g);
};
template <class F>
constexpr bool has_gradient<F, 1> = requires(Values<float> g) {
  F::d1(g);
};
template <class T>
using Gradient = T (*)(const Values<T>&);
template <class F, int input, class T>
constexpr Gradient<T> gradient_of() {
  if constexpr (!has_gradient<F, input>)
    return nullptr;
  else if constexpr (input == 0)
    return [](const Values<T>& g) { return static_cast<T>(F::d0(g)); };
  else
    return [](const Values<T>& g) { return static_cast<T>(F::d1(g)); };
}

/// The formula for single numbers of the same type. It rounds in the same way, except in functions.
template <class T>
void check_gradient(const Formula<T>& f, int input, Gradient<T> gradient,
                    const InstructionSet& set) {
  INFO("gradient " << input << " of " << f.name << " on " << set.name);
  const Passes* const passes = find_passes(set, f.name);
  if (!gradient) {
    for (const auto& none : passes->gradient) CHECK(!none[input]);
    return;
  }
  const PassFunction function = passes->gradient[static_cast<int>(dtype_of<T>())][input];
  REQUIRE(function);
  const double tolerance = f.name == Power::name || f.rough ? 8 : 0;
  for (const std::int64_t n : counts)
    for (unsigned run = 0; run < 32; ++run) {
      std::vector<T> values[4];
      const void* from[4];
      for (unsigned k = 0; k < 4; ++k) {
        const auto count = static_cast<std::size_t>(n + 1);
        values[k] = k == 1 || k == 2 ? f.inputs(static_cast<int>(k) - 1, count, k + 1)
                                     : operands<T>(count, k + 1);
        from[k] = values[k].data();
      }
      const auto at = [&](unsigned k, std::int64_t i) {
        return values[k][static_cast<std::size_t>(run >> k & 1 ? 0 : i)];
      };
      const bool adds = run >> 4;
      std::vector<T> out(static_cast<std::size_t>(n + 1), T(3));
      function(n, from, (run & 15) | (adds ? pass_adds : 0), out.data());
      for (std::int64_t i = 0; i < n; ++i) {
        const Values<T> g{{at(0, i), at(1, i), at(2, i), at(3, i)}};
        const T dx = gradient(g), exact = adds ? T(3) + dx : dx;
        const T got = out[static_cast<std::size_t>(i)];
        if (f.gradient_cancels && std::abs(got - exact) <= 8 * epsilon<T> * (1 + std::abs(g.dy())))
          continue;
        if (ulps(got, static_cast<double>(exact)) <=
            tolerance * std::max(T(1), std::abs(dx / exact)))
          continue;
        FAIL("dy " << g.dy() << ", x " << g.x() << ", y " << g.y() << ", out " << g.out()
                   << ": got " << got << ", expected " << exact);
      }
      CHECK(out.back() == T(3));
    }
}
template <class T, class... F>
void check_gradients(const InstructionSet& set, List<F...>) {
  (check_gradient(formula<F, T>, 0, gradient_of<F, 0, T>(), set), ...);
  (check_gradient(formula<F, T>, 1, gradient_of<F, 1, T>(), set), ...);
}
}  // namespace

TEST_CASE("pointwise gradient passes agree with their formulas") {
  for_each_set([](const InstructionSet& set) {
    check_gradients<float>(set, Numbers());
    check_gradients<double>(set, Numbers());
  });
}
}  // namespace reel::tests
