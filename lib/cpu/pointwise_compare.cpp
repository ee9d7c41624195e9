// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/bitwise.hpp"
#include "lib/formulas/compare.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
namespace {
/// T stands for all dtypes of its size: elements are moved, not computed with.
template <class T>
void where_pass(std::int64_t n, const void* const* inputs, unsigned how, void* output) {
  constexpr int size = sizeof(T);
  if (how & pass_scalars)
    return run_pieces(where_pass<T>, n, inputs, {1, size, size}, how & pass_scalars, output, size);
  const auto* const condition = static_cast<const std::uint8_t*>(inputs[0]);
  const T* const x = static_cast<const T*>(inputs[1]);
  const T* const y = static_cast<const T*>(inputs[2]);
  T* const out = static_cast<T*>(output);
  REEL_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) out[i] = Where()(condition[i], x[i], y[i]);
}
template <class X, class Y>
void order_pass(std::int64_t n, const void* const* inputs, unsigned how, void* output) {
  if (how & pass_scalars)
    return run_pieces(order_pass<X, Y>, n, inputs, {sizeof(X), sizeof(Y)}, how & pass_scalars,
                      output, sizeof(float));
  const X* const x = static_cast<const X*>(inputs[0]);
  const Y* const y = static_cast<const Y*>(inputs[1]);
  float* const out = static_cast<float*>(output);
  for (std::int64_t i = 0; i < n; ++i) out[i] = Order()(x[i], y[i]);
}
}  // namespace
template <>
inline constexpr Passes passes<Where> = passes_by([]<class T>(Type<T>) -> PassFunction {
  return with_unit(sizeof(T),
                   []<class Unit>(Type<Unit>) -> PassFunction { return where_pass<Unit>; });
});
/// By the dtype of the first input. The op converts inputs of other dtypes first.
template <>
inline constexpr Passes passes<Order> = passes_by([]<class T>(Type<T>) -> PassFunction {
  if constexpr (std::is_same_v<T, std::int64_t>)
    return order_pass<std::int64_t, double>;
  else if constexpr (std::is_same_v<T, double>)
    return order_pass<double, std::int64_t>;
  else
    return nullptr;
});
extern const Family compare_family = {
    no_kernels, pass_table<decltype(CompareFormulas() + BitwiseFormulas() + List<Where, Order>())>};
}  // namespace reel::kernels::REEL_ISA
