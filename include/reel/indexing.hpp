// SPDX-License-Identifier: BSD-3-Clause
// Indices: x(all, range(0, 4), newaxis).
#pragma once  // defined in lib/ops
#include <cstdint>
#include <type_traits>

#include <reel/caller.hpp>
#include <reel/operand.hpp>
#include <reel/shape.hpp>

namespace reel {
namespace detail {
struct Body;
}
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
  bool wrapped = false;  // unsigned, and in the upper half of its type, as -n is
  constexpr Bound() = default;
  template <WholeNumber N>
  constexpr Bound(N n) : value(detail::position_of(n)), open(false) {
    if constexpr (std::is_integral_v<N>)
      wrapped = std::is_unsigned_v<N> && sizeof(N) >= 4 && n > static_cast<N>(-1) / 2;
  }
};
/// The positions start, start + step, ... before stop. As in Python, ends outside the axis are
/// moved to its ends. An unsigned end beyond the axis that stands for a negative number, such as -n
/// with a std::size_t, throws IndexError.
struct Range {
  Bound start, stop;
  std::int64_t step = 1;
};
/// The positions start, start + step, ... before stop. `{}` leaves an end open: `range({}, {}, -1)`
/// reverses an axis.
constexpr Range range(Bound start, Bound stop, CountNumber step = 1) { return {start, stop, step}; }

/// One index of x(...):
/// - a position; negative positions count from the end;
/// - range(), all, newaxis or ellipsis;
/// - a tensor of positions (uint8, int32 or int64);
/// - a mask, that is a tensor of bools. It picks the elements where it is true. A mask of n axes
///   indexes n axes of x, and has their lengths. A single truth value, as the only index, picks x
///   or nothing along a new first axis.
///
/// Several tensors are broadcast together and pick single elements, as in NumPy: `x(i, j)` holds
/// x[i[k], j[k]] for each k. Their common axes replace the axes that they index. If a range, all,
/// newaxis or ellipsis is between them, these common axes come first in the result. A mask counts
/// as the tensors of the positions where it is true. A position is not a tensor, unlike in NumPy:
/// of x [2, 3, 4], `x(0, all, i)` has the shape (3, n) for n positions i, and (n, 3) in NumPy.
class Index {
 public:
  enum class Kind : std::uint8_t { position, range, whole_axis, new_axis, other_axes, tensor };
  Index(All, Caller caller = Caller::here()) : caller_(caller), kind_(Kind::whole_axis) {}
  Index(NewAxis, Caller caller = Caller::here()) : caller_(caller), kind_(Kind::new_axis) {}
  Index(Ellipsis, Caller caller = Caller::here()) : caller_(caller), kind_(Kind::other_axes) {}
  Index(Range r, Caller caller = Caller::here()) : range_(r), caller_(caller), kind_(Kind::range) {}
  template <WholeNumber N>
  Index(N position, Caller caller = Caller::here())
      : range_{detail::position_of(position), {}, 1}, caller_(caller), kind_(Kind::position) {}
  REEL_API Index(const Tensor& positions, Caller caller = Caller::here());
  Index(const Index& other) noexcept
      : range_(other.range_), body_(other.body_), caller_(other.caller_), kind_(other.kind_) {
    if (body_) retain();
  }
  REEL_API Index& operator=(const Index& other) noexcept;
  ~Index() {
    if (body_) release();
  }
  Kind kind() const { return kind_; }
  const Range& range() const { return range_; }
  std::int64_t position() const { return range_.start.value; }
  REEL_API Tensor tensor() const;
  Caller caller() const { return caller_; }

 private:
  REEL_API void retain() const noexcept;
  REEL_API void release() noexcept;
  Range range_{};
  detail::Body* body_ = nullptr;  // of the tensor, which lists of indices keep alive
  Caller caller_;
  Kind kind_;
};
}  // namespace reel
