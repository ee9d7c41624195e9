// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/bitwise.hpp"
#include "lib/formulas/compare.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
namespace {
/// T stands for all dtypes of its size: elements are moved, not computed with.
template <class T>
void where_tile(std::int64_t n, const void* const* inputs, unsigned how, void* output) {
  constexpr int size = sizeof(T);
  if (how & pass_scalars)
    return run_pieces(where_tile<T>, n, inputs, {1, size, size}, how & pass_scalars, output, size);
  const auto* const condition = static_cast<const std::uint8_t*>(inputs[0]);
  const T* const x = static_cast<const T*>(inputs[1]);
  const T* const y = static_cast<const T*>(inputs[2]);
  T* const out = static_cast<T*>(output);
  REEL_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) out[i] = condition[i] ? x[i] : y[i];
}
template <class X, class Y>
void order_tile(std::int64_t n, const void* const* inputs, unsigned how, void* output) {
  if (how & pass_scalars)
    return run_pieces(order_tile<X, Y>, n, inputs, {sizeof(X), sizeof(Y)}, how & pass_scalars,
                      output, sizeof(float));
  const X* const x = static_cast<const X*>(inputs[0]);
  const Y* const y = static_cast<const Y*>(inputs[1]);
  float* const out = static_cast<float*>(output);
  for (std::int64_t i = 0; i < n; ++i) out[i] = Order()(x[i], y[i]);
}
struct Where {
  static constexpr const char* name = "where";
};
}  // namespace
template <>
inline constexpr Tiles tiles<Where> = tiles_by([]<class T>(Type<T>) -> Tile {
  return with_unit(sizeof(T), []<class Unit>(Type<Unit>) -> Tile { return where_tile<Unit>; });
});
/// By the dtype of the first input. The op converts inputs of other dtypes first.
template <>
inline constexpr Tiles tiles<Order> = tiles_by([]<class T>(Type<T>) -> Tile {
  if constexpr (std::is_same_v<T, std::int64_t>)
    return order_tile<std::int64_t, double>;
  else if constexpr (std::is_same_v<T, double>)
    return order_tile<double, std::int64_t>;
  else
    return nullptr;
});
extern const Family compare_family = {
    no_kernels, tile_table<decltype(CompareFormulas() + BitwiseFormulas() + List<Where, Order>())>};
}  // namespace reel::kernels::REEL_ISA
