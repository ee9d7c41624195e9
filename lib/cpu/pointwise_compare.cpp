// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/compare.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
namespace {
/// T stands for all dtypes of its size: elements are moved, not computed with.
template <class T>
void where_tile(std::int64_t n, const void* const* inputs, unsigned scalars, void* output) {
  if (n == 0) return;
  const auto* const condition = static_cast<const std::uint8_t*>(inputs[0]);
  const T* x = static_cast<const T*>(inputs[1]);
  const T* y = static_cast<const T*>(inputs[2]);
  T* const out = static_cast<T*>(output);
  const T first_x = x[0], first_y = y[0];
  if (scalars & 1) {
    (*condition ? y : x) = *condition ? x : y;
    if (scalars & (*condition ? 2u : 4u))
      return run_loop(n, out, [=](auto) { return *condition ? first_x : first_y; });
    return run_loop(n, out, [=](auto i) { return x[i]; });
  }
  switch (scalars >> 1) {
    case 0:
      return run_loop(n, out, [=](auto i) { return condition[i] ? x[i] : y[i]; });
    case 1:
      return run_loop(n, out, [=](auto i) { return condition[i] ? first_x : y[i]; });
    case 2:
      return run_loop(n, out, [=](auto i) { return condition[i] ? x[i] : first_y; });
    default:
      return run_loop(n, out, [=](auto i) { return condition[i] ? first_x : first_y; });
  }
}
constexpr Tiles where_tiles = {{where_tile<std::uint8_t>, where_tile<std::uint8_t>,
                                where_tile<std::uint32_t>, where_tile<std::uint64_t>,
                                where_tile<std::uint32_t>, where_tile<std::uint64_t>}};
constexpr NamedTiles where_table[] = {{"where", &where_tiles}, {nullptr, nullptr}};
}  // namespace
extern const Family compare_family = {
    no_kernels, tile_table<Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, LogicalAnd,
                           LogicalOr, LogicalXor, LogicalNot>};
extern const Family where_family = {no_kernels, where_table};
}  // namespace reel::kernels::REEL_ISA
