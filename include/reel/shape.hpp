// SPDX-License-Identifier: BSD-3-Clause
// The lengths of a tensor's axes, and lists of axes.
#pragma once  // defined in lib/body
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <type_traits>
#include <vector>

#include <reel/caller.hpp>
#include <reel/export.hpp>

namespace reel {
namespace detail {
/// A number too large for int64 becomes INT64_MAX, which is no axis and no length.
template <class I>
constexpr std::int64_t position_of(I n) {
  if constexpr (std::is_unsigned_v<I> && sizeof(I) == 8)
    return n > static_cast<I>(INT64_MAX) ? INT64_MAX : static_cast<std::int64_t>(n);
  else
    return static_cast<std::int64_t>(n);
}
}  // namespace detail

/// One length in a Shape. Any integer type converts to it, so `{v.size(), 3}` is no narrowing.
struct Extent {
  std::int64_t value;
  template <class I>
  requires(std::is_integral_v<I> && !std::is_same_v<I, bool>) constexpr Extent(I n)
      : value(detail::position_of(n)) {}
};

/// The number of an axis, and the line of the caller.
struct AxisAt {
  std::int64_t axis;
  Caller caller;
  template <class I>
  requires(std::is_integral_v<I> &&
           !std::is_same_v<I, bool>) constexpr AxisAt(I n, Caller at = Caller::here())
      : axis(detail::position_of(n)), caller(at) {}
};

/// The lengths of up to eight axes; `{}` is the shape of a single number.
///
/// Throws ShapeError for more than eight axes, for more than 2^58 elements, and for a negative
/// length. One length may be -1 in the argument of reshape(), which replaces it.
class REEL_API Shape {
 public:
  static constexpr std::size_t max_rank = 8;
  Shape() = default;
  Shape(std::initializer_list<Extent> lengths, Caller caller = Caller::here());
  Shape(std::span<const std::int64_t> lengths, Caller caller = Caller::here());
  Shape(const std::vector<std::int64_t>& lengths, Caller caller = Caller::here())
      : Shape(std::span<const std::int64_t>(lengths), caller) {}
  std::size_t rank() const { return rank_; }
  /// The number of elements: the product of the lengths, 1 for `{}`.
  std::int64_t elements(Caller caller = Caller::here()) const;
  /// The length of one axis. Negative axes count from the end. Throws ShapeError for an axis that
  /// does not exist.
  std::int64_t operator[](AxisAt at) const {
    const auto rank = static_cast<std::int64_t>(rank_);
    const std::int64_t i = at.axis < 0 ? at.axis + rank : at.axis;
    return i >= 0 && i < rank ? lengths_[i] : fail_axis(at);
  }
  const std::int64_t* begin() const { return lengths_; }
  const std::int64_t* end() const { return lengths_ + rank_; }
  const std::int64_t* data() const { return lengths_; }
  std::int64_t* data() { return lengths_; }
  /// Changes the rank; axes added have length 1.
  void resize(std::size_t rank, Caller caller = Caller::here());
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < a.rank_; ++i)
      if (a.lengths_[i] != b.lengths_[i]) return false;
    return true;
  }

 private:
  [[noreturn]] std::int64_t fail_axis(AxisAt at) const;
  std::int64_t lengths_[max_rank] = {};
  std::size_t rank_ = 0;
};
/// Prints "(2, 3)".
REEL_API std::ostream& operator<<(std::ostream& out, const Shape& x);

/// The number of an axis: an integer or an unscoped enum, but not a truth value.
template <class T>
concept AxisNumber = (std::is_integral_v<T> && !std::is_same_v<T, bool>) ||
                     (std::is_enum_v<T> && std::is_convertible_v<T, int>);

/// One axis, or several in braces. Negative axes count from the end. `every()` means all axes.
class REEL_API Axes {
 public:
  template <AxisNumber T>
  Axes(T axis) : axes_{number(axis)}, count_(1) {}
  // There is none of an initializer_list, because g++ would take {.keepdims = true} for one.
  template <AxisNumber A, AxisNumber B, AxisNumber... Rest>
  Axes(A first, B second, Rest... rest)
      : axes_{number(first), number(second), number(rest)...}, count_(2 + sizeof...(Rest)) {
    static_assert(sizeof...(Rest) + 2 <= Shape::max_rank, "a tensor has at most 8 axes");
  }
  Axes(std::span<const int> axes, Caller caller = Caller::here());
  static Axes every() { return Axes(); }
  bool is_every() const { return count_ < 0; }
  int count() const { return count_; }
  int operator[](int i) const { return axes_[i]; }
  friend bool operator==(const Axes&, const Axes&) = default;

 private:
  Axes() = default;
  template <class T>
  static constexpr int number(T axis) {
    const auto wide = static_cast<std::int64_t>(axis);
    return wide == static_cast<int>(wide) ? static_cast<int>(wide) : INT32_MAX;
  }
  int axes_[Shape::max_rank] = {};
  int count_ = -1;
};

/// Whether the result keeps each reduced axis, with length 1.
enum class Keepdims : bool { no, yes };
/// `sum(x, 0, keepdims)`.
inline constexpr Keepdims keepdims = Keepdims::yes;
}  // namespace reel
