// SPDX-License-Identifier: BSD-3-Clause
// What a slice of a tensor is, for the rule of the op and for views that no op records.
#pragma once
#include "lib/body/body.hpp"

namespace reel {
/// Makes a slice of a view of all of x: says what becomes of x's axes, one after the other.
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
  /// One position of the next axis, which the slice does not have.
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
