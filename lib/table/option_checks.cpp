// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/option_checks.hpp"

#include <limits>

#include "lib/table/options/reshape.hpp"

namespace reel {
namespace {
constexpr __int128 most_elements = std::int64_t{1} << 58;
}

const char* any_options(const Inference&) { return nullptr; }
const char* axis_exists(const Inference& call, std::int64_t axis) {
  return axis >= 0 && axis < call.input(0).rank() ? nullptr : "an axis of its input";
}
bool is_shape(const Shape& lengths) {
  __int128 elements = 1;
  bool empty = false;
  for (const std::int64_t length : lengths) {
    if (length < 0) return false;
    empty |= length == 0;
    elements *= length ? length : 1;
    if (elements > most_elements) return false;
  }
  return empty || elements <= most_elements;
}
const char* shape_fits(const Inference& call) {
  return is_shape(call.option<ShapeOptions>().shape) ? nullptr : "a shape";
}
bool all_from(std::int64_t least, const Shape& numbers, std::size_t count) {
  for (const std::int64_t number : numbers)
    if (number < least || number > std::numeric_limits<std::int32_t>::max()) return false;
  return numbers.rank() == count;
}
bool are_axes(const Axes& axes, std::size_t rank, bool sorted) {
  std::uint64_t seen = 0;
  for (int i = 0; i < axes.count(); ++i) {
    if (axes[i] < 0 || axes[i] >= static_cast<int>(rank) || seen >> axes[i] & 1) return false;
    if (sorted && i > 0 && axes[i] < axes[i - 1]) return false;
    seen |= std::uint64_t{1} << axes[i];
  }
  return true;
}
bool are_inside(std::int64_t first, const Shape& lengths, const std::int64_t* steps,
                std::int64_t count) {
  __int128 low = first, high = first;
  for (std::size_t i = 0; i < lengths.rank(); ++i) {
    if (lengths.data()[i] < 0) return false;
    if (lengths.data()[i] == 0) return true;
    const __int128 span = static_cast<__int128>(lengths.data()[i] - 1) * steps[i];
    (span < 0 ? low : high) += span;
  }
  return low >= 0 && high < count;
}
}  // namespace reel
