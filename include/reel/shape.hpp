// SPDX-License-Identifier: BSD-3-Clause
// The lengths of a tensor's axes, and lists of axes.
#pragma once  // defined in lib/body, lib/tensor
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <type_traits>
#include <vector>

#include <reel/caller.hpp>
#include <reel/dtype.hpp>
#include <reel/export.hpp>
#include <reel/memory.hpp>

namespace reel {
/// A length, a position or the number of an axis: an integer or an unscoped enum, but not a truth
/// value.
template <class T>
concept WholeNumber = (std::is_integral_v<T> && !std::is_same_v<T, bool>) || UnscopedEnum<T>;

namespace detail {
/// A number too large for int64 becomes INT64_MAX, which is no axis and no length.
template <class N>
constexpr std::int64_t position_of(N n) {
  if constexpr (std::is_enum_v<N>)
    return position_of(static_cast<std::underlying_type_t<N>>(n));
  else if constexpr (std::is_unsigned_v<N> && sizeof(N) == 8)
    return n > static_cast<N>(INT64_MAX) ? INT64_MAX : static_cast<std::int64_t>(n);
  else
    return static_cast<std::int64_t>(n);
}
/// An axis too large for int becomes INT32_MAX, which is no axis.
template <class N>
constexpr int axis_of(N n) {
  const std::int64_t wide = position_of(n);
  return wide == static_cast<int>(wide) ? static_cast<int>(wide) : INT32_MAX;
}
/// What `convert` makes of each number. Errors name `what`.
template <class To, class N>
std::vector<To> converted(const std::vector<N>& numbers, To (*convert)(N), Caller caller,
                          std::string_view what) try {
  std::vector<To> found;
  for (const N n : numbers) found.push_back(convert(n));
  return found;
} catch (const std::bad_alloc&) {
  fail_memory(caller, what);
}
template <class N>
std::vector<std::int64_t> positions_of(const std::vector<N>& numbers, Caller caller,
                                       std::string_view what) {
  return converted(numbers, &position_of<N>, caller, what);
}
}  // namespace detail

/// One length in a Shape. Any integer type or unscoped enum converts to it, so `{v.size(), 3}` is
/// no narrowing.
struct Extent {
  std::int64_t value;
  template <WholeNumber N>
  constexpr Extent(N n) : value(detail::position_of(n)) {}
};

/// A count, a distance or a position. No fraction and no truth value converts to it.
struct CountNumber {
  std::int64_t value;
  template <WholeNumber N>
  constexpr CountNumber(N n) : value(detail::position_of(n)) {}
  constexpr operator std::int64_t() const { return value; }
};

/// The number of an axis; negative numbers count from the end. No fraction and no truth value
/// converts to it.
struct AxisNumber {
  int value;
  template <WholeNumber N>
  constexpr AxisNumber(N n) : value(detail::axis_of(n)) {}
  constexpr operator int() const { return value; }
};

/// The number of an axis, and the line of the caller.
struct AxisAt {
  std::int64_t axis;
  Caller caller;
  template <WholeNumber N>
  constexpr AxisAt(N n, Caller at = Caller::here()) : axis(detail::position_of(n)), caller(at) {}
};

/// The lengths of up to eight axes; `{}` is the shape of a single number.
///
/// Throws ShapeError for more than eight axes, for more than 2^58 elements, and for a negative
/// length. A length may be -1 in the argument of reshape(), which replaces it.
class REEL_API Shape {
 public:
  static constexpr std::size_t max_rank = 8;
  Shape() = default;
  Shape(std::initializer_list<Extent> lengths, Caller caller = Caller::here());
  Shape(std::span<const std::int64_t> lengths, Caller caller = Caller::here());
  Shape(const std::vector<std::int64_t>& lengths, Caller caller = Caller::here())
      : Shape(std::span<const std::int64_t>(lengths.data(), lengths.size()), caller) {}
  template <WholeNumber N>
  Shape(const std::vector<N>& lengths, Caller caller = Caller::here())
      : Shape(detail::positions_of(lengths, caller, "Shape"), caller) {}
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

/// One axis, or several: numbers in braces, a std::vector or a span. Negative axes count from the
/// end. `every()` means all axes.
class REEL_API Axes {
 public:
  template <WholeNumber T>
  Axes(T axis) : axes_{detail::axis_of(axis)}, count_(1) {}
  // There is none of an initializer_list, because g++ would take {.keepdims = true} for one.
  template <WholeNumber A, WholeNumber B, WholeNumber... Rest>
  Axes(A first, B second, Rest... rest)
      : axes_{detail::axis_of(first), detail::axis_of(second), detail::axis_of(rest)...},
        count_(2 + sizeof...(Rest)) {
    static_assert(sizeof...(Rest) + 2 <= Shape::max_rank, "a tensor has at most 8 axes");
  }
  Axes(std::span<const int> axes, Caller caller = Caller::here());
  template <WholeNumber N>
  Axes(const std::vector<N>& axes, Caller caller = Caller::here())
      : Axes(span_of(detail::converted(axes, &detail::axis_of<N>, caller, "Axes")), caller) {}
  static Axes every() { return Axes(); }
  bool is_every() const { return count_ < 0; }
  int count() const { return count_; }
  int operator[](int i) const { return axes_[i]; }
  friend bool operator==(const Axes&, const Axes&) = default;

 private:
  Axes() = default;
  static std::span<const int> span_of(const std::vector<int>& axes) {
    return {axes.data(), axes.size()};
  }
  int axes_[Shape::max_rank] = {};
  int count_ = -1;
};

/// Whether the result keeps each reduced axis, with length 1.
enum class Keepdims : bool { no, yes };
/// `sum(x, 0, keepdims)`.
inline constexpr Keepdims keepdims = Keepdims::yes;
}  // namespace reel
