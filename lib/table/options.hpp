// SPDX-License-Identifier: BSD-3-Clause
// Options of ops: aggregates with fields(), from whose list of members the rest derives.
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
/// A member of options, by its address.
struct OptionsMember {
  enum class Kind : std::uint8_t {
    boolean,  // also an enum of bools
    choice,   // an enum of std::int64_t
    integer,
    natural,
    real,
    text,  // of the library: a const char*
    dtype,
    device,
    shape,
    axes,
    attributes
  };
  Kind kind = Kind::integer;
  std::string_view name = {};
  void* place = nullptr;
  template <class T>
  T& as() const {
    return *static_cast<T*>(place);
  }
};
class OptionsMembers;

struct OptionsType {
  std::size_t size;
  void (*copy)(void* to, const void* from);
  void (*destroy)(void* options);  // null where there is nothing to do
  void (*list)(void* options, OptionsMembers& out);
  void (*make)(void* to);  // with the values of a new object; null where there is none
};

/// The members of options, in the order of fields().
class OptionsMembers {
 public:
  OptionsMembers(const OptionsType* type, void* options) {
    if (type && options) type->list(options, *this);
  }
  void add(OptionsMember::Kind kind, std::string_view name, void* place);
  const OptionsMember* begin() const { return members_; }
  const OptionsMember* end() const { return members_ + count_; }
  const OptionsMember& operator[](std::size_t i) const { return members_[i]; }
  std::size_t size() const { return count_; }

 private:
  OptionsMember members_[16];
  std::size_t count_ = 0;
};

namespace detail {
template <class M>
constexpr OptionsMember::Kind kind_of_member() {
  using Kind = OptionsMember::Kind;
  if constexpr (std::is_same_v<M, DType>)
    return Kind::dtype;
  else if constexpr (std::is_same_v<M, Device>)
    return Kind::device;
  else if constexpr (std::is_same_v<M, Shape>)
    return Kind::shape;
  else if constexpr (std::is_same_v<M, Axes>)
    return Kind::axes;
  else if constexpr (std::is_same_v<M, Attributes>)
    return Kind::attributes;
  else if constexpr (std::is_same_v<M, const char*>)
    return Kind::text;
  else if constexpr (std::is_same_v<M, double>)
    return Kind::real;
  else if constexpr (std::is_same_v<M, std::uint64_t>)
    return Kind::natural;
  else if constexpr (std::is_same_v<M, std::int64_t>)
    return Kind::integer;
  else if constexpr (sizeof(M) == sizeof(bool))
    return Kind::boolean;
  else {
    static_assert(std::is_enum_v<M> && sizeof(M) == sizeof(std::int64_t));
    return Kind::choice;
  }
}
template <class T>
void list_members(void* options, OptionsMembers& out) {
  static_cast<T*>(options)->fields([&]<class M>(std::string_view name, M& member) {
    out.add(kind_of_member<std::remove_cv_t<M>>(), name, &member);
  });
}
template <class T>
constexpr auto maker() -> void (*)(void*) {
  if constexpr (std::is_default_constructible_v<T>)
    return [](void* to) { new (to) T(); };
  else
    return nullptr;
}
}  // namespace detail

template <class T>
inline constexpr OptionsType options_type = {
    sizeof(T), [](void* to, const void* from) { new (to) T(*static_cast<const T*>(from)); },
    std::is_trivially_destructible_v<T> ? static_cast<void (*)(void*)>(nullptr)
                                        : [](void* options) { static_cast<T*>(options)->~T(); },
    detail::list_members<T>, detail::maker<T>()};

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
/// "axis=1, keepdims=0"
std::string to_string(OptionsView options);
/// Whether options of one type are equal, member by member. Options without members hold what
/// cannot be compared; they are never equal.
bool equal_options(const OptionsType& type, const void* a, const void* b);
/// The whole numbers, those of shapes too.
std::vector<std::int64_t*> numbers_of(const OptionsType& type, void* options);
}  // namespace reel
