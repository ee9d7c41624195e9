// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/arithmetic.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
namespace {
template <class T>
void lerp_tile(std::int64_t n, const void* const* inputs, unsigned how, void* output) {
  run_all<false, true>({inputs[0], inputs[1], inputs[2]}, how, n, static_cast<T*>(output),
                       [](const auto& from, std::int64_t i) -> Vector<T> {
                         return Lerp()(from.at(0, i), from.at(1, i), from.at(2, i));
                       });
}
constexpr Tiles lerp_tiles = {
    {nullptr, nullptr, nullptr, nullptr, lerp_tile<float>, lerp_tile<double>}};
constexpr NamedTiles lerp_table[] = {{"lerp", &lerp_tiles}, {nullptr, nullptr}};
}  // namespace
extern const Family arithmetic_family = {no_kernels, tile_table<ArithmeticFormulas>};
extern const Family lerp_family = {no_kernels, lerp_table};
}  // namespace reel::kernels::REEL_ISA
