// SPDX-License-Identifier: BSD-3-Clause
// Options of ops: aggregates with fields(), from which copying, equality and printing derive.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reel/device.hpp>
#include <reel/op.hpp>
#include <reel/shape.hpp>

namespace reel {
void print_option(std::string& out, std::int64_t value);
void print_option(std::string& out, std::uint64_t value);
void print_option(std::string& out, double value);
void print_option(std::string& out, const char* value);
void print_option(std::string& out, const Shape& value);
void print_option(std::string& out, Device value);
void print_option(std::string& out, const Axes& value);
void print_option(std::string& out, const Attributes& value);
void add_numbers(std::vector<std::int64_t*>& out, std::int64_t* first, std::size_t count);

struct OptionsType {
  std::size_t size;
  void (*copy)(void* to, const void* from);
  void (*destroy)(void* options);  // null where there is nothing to do
  bool (*equal)(const void* a, const void* b);
  void (*print)(std::string& out, const void* options);  // ", axis=1, keepdims=0"
  /// Lists the whole numbers: those of shapes, too.
  void (*numbers)(void* options, std::vector<std::int64_t*>& out);
};

namespace detail {
template <class T>
void print_options(std::string& out, const void* options) {
  const_cast<T*>(static_cast<const T*>(options))
      ->fields([&](std::string_view name, const auto& member) {
        using M = std::remove_cvref_t<decltype(member)>;
        out.append(out.empty() ? "" : ", ").append(name).append("=");
        if constexpr (std::is_same_v<M, DType>)
          out.append(name_of(member));
        else if constexpr (std::is_enum_v<M> || std::is_same_v<M, bool>)
          print_option(out, static_cast<std::int64_t>(member));
        else
          print_option(out, member);
      });
}
template <class T>
void list_numbers(void* options, std::vector<std::int64_t*>& out) {
  static_cast<T*>(options)->fields([&](std::string_view, auto& member) {
    using M = std::remove_cvref_t<decltype(member)>;
    if constexpr (std::is_same_v<M, std::int64_t>) add_numbers(out, &member, 1);
    if constexpr (std::is_same_v<M, Shape>) add_numbers(out, member.data(), member.rank());
  });
}
/// By members, unless T has an operator of its own.
template <class T>
bool equal_options(const void* first, const void* second) {
  T &a = *static_cast<T*>(const_cast<void*>(first)),
    &b = *static_cast<T*>(const_cast<void*>(second));
  if constexpr (requires { a == b; }) return a == b;
  bool equal = true;
  a.fields([&]<class M>(std::string_view, const M& member) {
    const auto place = reinterpret_cast<const char*>(&member) - static_cast<const char*>(first);
    equal =
        equal && member == *reinterpret_cast<const M*>(static_cast<const char*>(second) + place);
  });
  return equal;
}
}  // namespace detail

template <class T>
inline constexpr OptionsType options_type = {
    sizeof(T),
    [](void* to, const void* from) { new (to) T(*static_cast<const T*>(from)); },
    std::is_trivially_destructible_v<T> ? static_cast<void (*)(void*)>(nullptr)
                                        : [](void* options) { static_cast<T*>(options)->~T(); },
    detail::equal_options<T>,
    detail::print_options<T>,
    detail::list_numbers<T>};

/// Options inside the gate: their type and their address.
struct OptionsView {
  const OptionsType* type = nullptr;
  const void* data = nullptr;
  OptionsView() = default;
  template <class T>
  requires requires(T& t) {
    t.fields([](std::string_view, auto&) {});
  }
  OptionsView(const T& options) : type(&options_type<T>), data(&options) {}
  OptionsView(const OptionsType* t, const void* d) : type(t), data(d) {}
};
std::string to_string(OptionsView options);
}  // namespace reel
