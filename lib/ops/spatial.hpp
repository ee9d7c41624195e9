// SPDX-License-Identifier: BSD-3-Clause
// Images: tensors with a batch, spatial axes and channels.
#pragma once
#include <algorithm>

#include <reel/ops/convolution.hpp>
#include <reel/ops/reshape.hpp>

#include "lib/gate/gate.hpp"

namespace reel {
/// The images of a call, with their channels moved to the end. Checks options that have a number
/// for each spatial axis.
class Images {
 public:
  Images(const char* name, int axes, const Op& op, const Operand& x, Channels channels)
      : caller_(x.caller()), name_(name), axes_(axes), first_(channels == Channels::first) {
    require_rank("x", shape_of(op, x));
    x_ = first_ ? moved(x, true) : x.value();
  }
  /// Of a result alone.
  Images(const char* name, int axes, Channels channels, Caller caller)
      : caller_(caller), name_(name), axes_(axes), first_(channels == Channels::first) {}
  const Tensor& x() const { return x_; }
  Operand operand() const { return Operand(x_, caller_); }
  int axes() const { return axes_; }
  std::int64_t length(int axis) const { return x_.shape().data()[axis + 1]; }
  std::int64_t channels() const { return x_.shape().end()[-1]; }
  Caller caller() const { return caller_; }
  const char* name() const { return name_; }
  /// The result, with its channels where x has them.
  Tensor result(Tensor y) const { return first_ ? moved(Operand(y, caller_), false) : y; }

  void require_rank(const char* argument, const Shape& shape) const {
    const std::size_t rank = static_cast<std::size_t>(axes_) + 2;
    if (shape.rank() != rank)
      fail<ShapeError>(caller_, name_, argument, to_text(rank) + " axes", to_text(shape));
  }
  /// One number of an option for each axis.
  Shape numbers(const char* option, const Steps& steps, std::int64_t lowest) const {
    require_count(option, steps.count());
    Shape shape;
    shape.resize(static_cast<std::size_t>(axes_));
    for (int a = 0; a < axes_; ++a) {
      if (steps[a] < lowest)
        fail<ShapeError>(caller_, name_, option, to_text(lowest) + " or more", to_text(steps[a]));
      shape.data()[a] = steps[a];
    }
    return shape;
  }
  void require_padding(const Paddings& padding) const {
    require_count("padding", padding.count());
    for (int a = 0; a < axes_; ++a)
      if (padding.before(a) < 0 || padding.after(a) < 0)
        fail<ShapeError>(caller_, name_, "padding", "0 or more",
                         to_text(std::min(padding.before(a), padding.after(a))));
  }
  [[noreturn]] void fail_window(const char* argument, int axis, std::int64_t window,
                                std::int64_t padded) const {
    fail<ShapeError>(
        caller_, name_, argument,
        "a window that fits the padded length " + to_text(padded) + " of axis " + to_text(axis + 1),
        to_text(window));
  }

 private:
  void require_count(const char* option, std::int64_t count) const {
    if (count > 1 && count != axes_)
      fail<ShapeError>(caller_, name_, option,
                       "one number, or one for each of " + to_text(axes_) + " axes",
                       to_text(count));
  }
  /// The channels moved from axis 1 to the end, or back.
  Tensor moved(const Operand& x, bool to_end) const {
    int order[5];
    const int rank = axes_ + 2;
    for (int a = 0; a < rank; ++a)
      order[a] = a == 0 ? 0 : to_end ? (a == rank - 1 ? 1 : a + 1) : (a == 1 ? rank - 1 : a - 1);
    return transpose(x, Axes(std::span<const int>(order, static_cast<std::size_t>(rank))));
  }
  Caller caller_;
  const char* name_;
  int axes_;
  bool first_;
  Tensor x_;
};
}  // namespace reel
