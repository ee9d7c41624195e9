// SPDX-License-Identifier: BSD-3-Clause
#include "lib/body/shape.hpp"

#include <string>

#include <reel/error.hpp>

#include "lib/body/body.hpp"
#include "lib/body/text.hpp"

namespace reel {
namespace {
constexpr std::int64_t most_elements = std::int64_t{1} << 58;  // 8 bytes each still fit 2^61

void check_lengths(const Shape& shape, Caller caller) {
  for (std::int64_t length : shape)
    if (length < -1)
      fail<ShapeError>(caller, "Shape", "length", "a length of at least 0", to_text(length));
  count_elements(shape, "Shape", caller);
}
[[noreturn]] void too_many(std::string_view what, std::size_t count, Caller caller) {
  fail<ShapeError>(caller, what, "axes", "at most 8 axes", to_text(count));
}
[[noreturn, gnu::noinline]] void too_many_elements(const Shape& shape, std::string_view op,
                                                   Caller caller) {
  fail<ShapeError>(caller, op, "shape", "at most 2^58 elements", to_text(shape));
}
}  // namespace

Shape::Shape(std::initializer_list<Extent> lengths, Caller caller) {
  if (lengths.size() > max_rank) too_many("Shape", lengths.size(), caller);
  for (Extent length : lengths) lengths_[rank_++] = length.value;
  check_lengths(*this, caller);
}
Shape::Shape(std::span<const std::int64_t> lengths, Caller caller) {
  if (lengths.size() > max_rank) too_many("Shape", lengths.size(), caller);
  for (std::int64_t length : lengths) lengths_[rank_++] = length;
  check_lengths(*this, caller);
}
std::int64_t count_all_elements(const Shape& shape, std::string_view op, Caller caller) {
  std::int64_t others = 1;  // strides are products too, of lengths beside a 0
  bool none = false;
  for (std::int64_t length : shape) {
    none |= length == 0;
    if (length == 0) continue;
    if (__builtin_mul_overflow(others, length, &others) || others > most_elements) [[unlikely]]
      too_many_elements(shape, op, caller);
  }
  return none ? 0 : others;
}
std::int64_t Shape::elements(Caller caller) const { return count_elements(*this, "Shape", caller); }
std::int64_t Shape::fail_axis(AxisAt at) const {
  fail<ShapeError>(at.caller, "Shape", "axis", "an axis of " + to_text(*this), to_text(at.axis));
}
void Shape::resize(std::size_t rank, Caller caller) {
  if (rank > max_rank) too_many("Shape", rank, caller);
  for (std::size_t i = rank_; i < rank; ++i) lengths_[i] = 1;
  rank_ = rank;
}

Axes::Axes(std::span<const int> axes, Caller caller) : count_(0) {
  if (axes.size() > Shape::max_rank) too_many("Axes", axes.size(), caller);
  for (int axis : axes) axes_[count_++] = axis;
}
}  // namespace reel
