// SPDX-License-Identifier: BSD-3-Clause
// Indices: x(all, range(0, 4), newaxis).
#pragma once  // defined in lib/ops
#include <cstdint>
#include <type_traits>

#include <reel/caller.hpp>
#include <reel/operand.hpp>
#include <reel/shape.hpp>

namespace reel {
/// The type of `all`. `x(all, 0)` takes a whole axis; `all(x)` says whether all elements are true.
struct All {
  REEL_API Tensor operator()(Operand x, Axes axes = Axes::every(),
                             Keepdims keep = Keepdims::no) const;
  REEL_API Tensor operator()(Operand x, Keepdims keep) const;
};
/// `x(all, 0)`, `all(x)`.
inline constexpr All all{};
/// The type of `newaxis`: `x(newaxis)` has a new axis of length 1.
struct NewAxis {};
/// `x(newaxis)`.
inline constexpr NewAxis newaxis{};
/// The type of `ellipsis`: `x(ellipsis, 0)` is `x(all, ..., all, 0)`.
struct Ellipsis {};
/// `x(ellipsis, 0)`.
inline constexpr Ellipsis ellipsis{};

/// An end of a range; `{}` leaves it open.
struct Bound {
  std::int64_t value = 0;
  bool open = true;
  constexpr Bound() = default;
  template <class I>
  requires(std::is_integral_v<I> && !std::is_same_v<I, bool>) constexpr Bound(I n)
      : value(detail::position_of(n)), open(false) {}
};
/// Positions start, start + step, ... up to but without stop, limited to the axis as in Python.
struct Range {
  Bound start, stop;
  std::int64_t step = 1;
};
/// Positions from start to before stop; `{}` leaves an end open: `range({}, {}, -1)` reverses an
/// axis.
constexpr Range range(Bound start, Bound stop, std::int64_t step = 1) {
  return {start, stop, step};
}

/// One index of x(...): a position (negative ones count from the end), range(), all, newaxis,
/// ellipsis, or a tensor of positions (uint8, int32 or int64; at most one). For a mask of bools use
/// where().
class Index {
 public:
  enum class Kind : std::uint8_t { position, range, whole_axis, new_axis, other_axes, tensor };
  Index(All, Caller caller = Caller::here()) : caller_(caller), kind_(Kind::whole_axis) {}
  Index(NewAxis, Caller caller = Caller::here()) : caller_(caller), kind_(Kind::new_axis) {}
  Index(Ellipsis, Caller caller = Caller::here()) : caller_(caller), kind_(Kind::other_axes) {}
  Index(Range r, Caller caller = Caller::here()) : range_(r), caller_(caller), kind_(Kind::range) {}
  template <class I>
  requires(std::is_integral_v<I> && !std::is_same_v<I, bool>)
      Index(I position, Caller caller = Caller::here())
      : range_{detail::position_of(position), {}, 1}, caller_(caller), kind_(Kind::position) {}
  Index(const Tensor& positions, Caller caller = Caller::here())
      : tensor_(&positions), caller_(caller), kind_(Kind::tensor) {}
  // Not trivial, for the reason that Operand has.
  Index(const Index& other) noexcept
      : range_(other.range_), tensor_(other.tensor_), caller_(other.caller_), kind_(other.kind_) {}
  Index& operator=(const Index&) = default;
  Kind kind() const { return kind_; }
  const Range& range() const { return range_; }
  std::int64_t position() const { return range_.start.value; }
  const Tensor& tensor() const { return *tensor_; }
  Caller caller() const { return caller_; }

 private:
  Range range_{};
  const Tensor* tensor_ = nullptr;
  Caller caller_;
  Kind kind_;
};
}  // namespace reel
