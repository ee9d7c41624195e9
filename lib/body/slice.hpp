// SPDX-License-Identifier: BSD-3-Clause
// Computes the view that a slice makes, for the op's shape rule and for views without an op.
#pragma once
#include "lib/body/body.hpp"

namespace reel {
/// Turns a view of all of x into a slice. Each call handles the next axis of x.
class Slicer {
 public:
  Slicer(const Body& x, Body& view) : x_(x), view_(view) {}
  std::size_t rank() const { return rank_; }
  /// Elements start, start + step, ... of the next axis.
  void keep(std::int64_t start, std::int64_t length, std::int64_t step) {
    const std::int64_t stride = x_.strides[axis_++];
    offset_ += start * stride;
    elements_ *= length;
    put(length, step * stride);
  }
  void keep_whole() {
    const std::int64_t length = x_.shape.data()[axis_], stride = x_.strides[axis_];
    elements_ *= length;
    if (rank_ == axis_)
      ++rank_;  // the view has it already
    else
      put(length, stride);
    ++axis_;
  }
  /// A position of the next axis. The slice does not have this axis.
  void drop(std::int64_t position) { offset_ += position * x_.strides[axis_++]; }
  /// A new axis of length 1.
  void add() { put(1, 1); }
  void finish() {
    if (rank_ != view_.shape.rank()) view_.shape.resize(rank_);
    view_.elements = elements_;
    view_.data += offset_ * size_of(x_.dtype);
    view_.contiguous = is_row_major(view_.shape, view_.strides);
  }

 private:
  void put(std::int64_t length, std::int64_t stride) {
    if (rank_ == view_.shape.rank()) view_.shape.resize(rank_ + 1);
    view_.shape.data()[rank_] = length;
    view_.strides[rank_++] = stride;
  }

  const Body& x_;
  Body& view_;
  std::size_t axis_ = 0, rank_ = 0;
  std::int64_t offset_ = 0, elements_ = 1;
};
}  // namespace reel
