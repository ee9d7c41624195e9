// SPDX-License-Identifier: BSD-3-Clause
// Texts of errors.
#pragma once
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <reel/error.hpp>
#include <reel/shape.hpp>
#include <reel/tensor.hpp>

namespace reel {
template <class T>
concept Chars = std::convertible_to<const T&, std::string_view>;

/// A text for an error. It throws no std::bad_alloc: a text that gets no memory is lost, and fail()
/// throws MemoryError for it.
class Text {
 public:
  template <Chars C>
  Text(const C& text) noexcept : Text(std::string_view(text)) {}
  Text(std::string_view text) noexcept { append(text); }
  Text(const Text& other) noexcept : Text(other.view()) {}
  Text(Text&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Text& operator=(Text other) noexcept {
    std::swap(first_, other.first_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Text() { std::free(first_); }
  /// Throws std::bad_alloc if the text is lost.
  operator std::string() const;
  bool empty() const { return size_ == 0; }
  Text& operator+=(const Text& more) noexcept { return append(more.view()); }
  template <Chars C>
  Text& operator+=(const C& more) noexcept {
    return append(more);
  }
  friend Text operator+(Text text, const Text& more) noexcept {
    return std::move(text.append(more.view()));
  }
  template <Chars C>
  friend Text operator+(Text text, const C& more) noexcept {
    return std::move(text.append(more));
  }
  template <Chars C>
  friend Text operator+(const C& text, const Text& more) noexcept {
    return Text(std::string_view(text)) + more;
  }
  /// For fail().
  std::string_view view() const noexcept;

 private:
  Text& append(std::string_view more) noexcept;
  char* first_ = nullptr;  // null in a lost text
  std::size_t size_ = 0;
};
/// Whether this is the view of a lost text.
bool is_lost(std::string_view view);

namespace detail {
template <Chars C>
std::string_view view_of(const C& text) {
  return text;
}
inline std::string_view view_of(const Text& text) { return text.view(); }
}  // namespace detail
/// fail() with texts.
template <class E, class A, class X, class G, class V = std::string_view>
requires(std::is_same_v<A, Text> || std::is_same_v<X, Text> || std::is_same_v<G, Text> ||
         std::is_same_v<V, Text>)
    [[noreturn]] void fail(Caller caller, std::string_view op, const A& argument, const X& expected,
                           const G& got, const V& advice = {}) {
  using detail::view_of;
  fail<E>(caller, op, view_of(argument), view_of(expected), view_of(got), view_of(advice));
}

Text to_text(const Shape& shape);  // "(2, 3)"
Text to_text(Device device);       // "cpu", "cuda:1"
/// By Device::Kind, of which there are at most `device_kinds`; null where no backend has the kind.
extern constinit const char* device_names[];
Text to_text(Scalar number);  // as few digits as name it
/// Of element i in row-major order, " at [1, 3]"; empty for a single number of rank 0.
Text place_text(const Shape& shape, std::int64_t i);
/// "an index in [-3, 3)"
Text one_of(std::string_view what, std::int64_t first, std::int64_t end);
}  // namespace reel
