// SPDX-License-Identifier: BSD-3-Clause
// The rows of the input that the windows of a line of outputs meet.
#pragma once
#include "lib/cpu/convolution.hpp"

namespace reel::kernels::REEL_ISA {
inline constexpr Int most_window_rows = 64;  // of a depthwise convolution

/// The rows of the input that the windows of one line of the output meet, null for zeros. Rows of
/// 16 bits are widened in memory, where they stay while lines that follow one another meet them.
template <class T>
class WindowRows {
 public:
  const T* at[most_window_rows];
  Int count = 0;

  /// Elements of memory.
  static Int size(const Geometry& g, const Source<T>& x) {
    return x.is_half() ? numbers_size(g) + slots(g) * row_size(g) : 0;
  }
  WindowRows(const Geometry& g, const Source<T>& x, T* memory)
      : g_(g), x_(x), numbers_(reinterpret_cast<Int*>(memory)), widened_(memory + numbers_size(g)) {
    for (Int i = 0; x.is_half() && i < slots(g); ++i) numbers_[i] = -1;
  }
  bool three_inside() const { return count == 3 && at[0] && at[1] && at[2]; }
  /// `line` counts batch, depth and height.
  void find(Int line) {
    const Int h = line % g_.out[1], d = line / g_.out[1] % g_.out[0];
    const Int n = line / g_.out[1] / g_.out[0];
    count = 0;
    for (Int i = 0; i < g_.taps[0]; ++i)
      for (Int j = 0; j < g_.taps[1]; ++j) {
        const Int depth = d * g_.stride[0] + i * g_.dilation[0] - g_.before[0];
        const Int row = h * g_.stride[1] + j * g_.dilation[1] - g_.before[1];
        const bool inside = depth >= 0 && depth < g_.in[0] && row >= 0 && row < g_.in[1];
        at[count++] = inside ? row_of(i, (n * g_.in[0] + depth) * g_.in[1] + row) : nullptr;
      }
  }

 private:
  static Int reach(const Geometry& g) { return (g.taps[1] - 1) * g.dilation[1] + 1; }
  static Int slots(const Geometry& g) { return g.taps[0] * reach(g); }
  static Int numbers_size(const Geometry& g) {
    return rounded_up(slots(g) * size_in_bytes<Int> / size_in_bytes<T>, 16);
  }
  static Int row_size(const Geometry& g) { return g.in[2] * g.all_channels(); }
  const T* row_of(Int tap, Int number) {
    const Int size = row_size(g_), slot = tap * reach(g_) + number % reach(g_);
    const Source<T> from = x_ + number * size;
    if (!from.is_half()) return from.in_place();
    T* const to = widened_ + slot * size;
    if (numbers_[slot] != number) from.copy(to, size);
    numbers_[slot] = number;
    return to;
  }
  const Geometry& g_;
  const Source<T> x_;
  Int* const numbers_;  // of the row in each slot of widened_
  T* const widened_;
};
}  // namespace reel::kernels::REEL_ISA
