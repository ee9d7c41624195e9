// SPDX-License-Identifier: BSD-3-Clause
// Layers one after another.
#pragma once  // defined in lib/nn
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/fields.hpp>
#include <reel/function.hpp>
#include <reel/nn/model.hpp>
#include <reel/random.hpp>

namespace reel {
namespace detail {
template <class T>
inline constexpr char type_tag = 0;
/// Which type an object has. In two shared libraries a type has the same text, but perhaps not the
/// same tag. Types of anonymous namespaces may share a text.
struct TypeKey {
  const void* tag = nullptr;
  std::string_view text = {};
  bool operator==(const TypeKey& other) const {
    return tag == other.tag || (text == other.text && text.find("anonymous") == text.npos);
  }
};
template <class T>
constexpr TypeKey key_of() {
  return {&type_tag<T>, __PRETTY_FUNCTION__};
}

/// The types of leaves that a Member may be.
template <class... T>
struct LeafTypes {
  /// -1 if Leaf is none of them.
  template <class Leaf>
  static constexpr int number_of = [] {
    int number = 0, found = -1;
    ((found = std::is_same_v<T, Leaf> ? number : found, ++number), ...);
    return found;
  }();
  static void give(int number, std::string_view name, void* leaf, const auto& field) {
    int i = 0;
    ((i++ == number ? static_cast<void>(field(name, *static_cast<T*>(leaf))) : void()), ...);
  }
};
using MemberLeaves =
    LeafTypes<Tensor, Variable, Buffer, Generator, bool, char, signed char, unsigned char, short,
              unsigned short, int, unsigned, long, unsigned long, long long, unsigned long long,
              float, double, std::string, Shape>;

/// A member of an object whose type is not known: a leaf, or a struct with members of its own. Its
/// name is the path from the struct around it, such as "cells.0".
struct Member {
  std::string name;
  void* object;
  int leaf;           // its number in MemberLeaves; -1 for a struct
  TypeKey type = {};  // of a struct
  std::vector<Member> inside = {};

  void fields(auto&& field) {
    for (Member& member : inside) member.give(field);
  }
  void give(const auto& field) {
    if (leaf < 0)
      field(name, *this);
    else
      MemberLeaves::give(leaf, name, object, field);
  }
  /// The struct, if it has this type; else null.
  template <class T>
  T* as() const {
    return leaf < 0 && type == key_of<T>() ? static_cast<T*>(object) : nullptr;
  }
};
/// Adds a member to the list, and returns it.
REEL_API Member& append(std::vector<Member>& list, Member member);
/// Lists the members of an object. Empty objects, functions and views of texts are left out.
struct MemberVisitor {
  std::vector<Member>& found;
  template <class Leaf>
  void operator()(std::string_view path, Leaf& leaf) const {
    require_fields(path, leaf);
    if constexpr (std::is_enum_v<Leaf>)
      add<std::underlying_type_t<Leaf>>(path, &leaf);
    else if constexpr (!std::is_const_v<Leaf>)
      add<Leaf>(path, &leaf);
  }
  void buffer(std::string_view path, Buffer& leaf) const { add<Buffer>(path, &leaf); }
  template <class T>
  bool takes(std::string_view path, T& object) const {
    if constexpr (std::is_same_v<T, Member>) {  // of a Sequential inside
      append(found, object).name = path;
      return true;
    }
    const MemberVisitor inside{append(found, {std::string(path), &object, -1, key_of<T>()}).inside};
    visit_fields(object,
                 [&](std::string_view name, auto& member) { visit_leaves(name, member, inside); });
    return true;
  }
  template <class Leaf>
  void add(std::string_view path, void* leaf) const {
    if constexpr (constexpr int number = MemberLeaves::number_of<Leaf>; number >= 0)
      append(found, {std::string(path), leaf, number});
  }
};
}  // namespace detail

namespace nn {
/// A part of Sequential: a layer, a function such as relu, or a lambda without captures. A copy has
/// a copy of the layer, whose Variables are the same.
class Part {
  template <class P>
  using Target = reel::detail::Target<P>;

 public:
  REEL_API Part(Tensor (*function)(Operand));  // also one of several overloads
  template <class P>
  requires(!std::is_same_v<P, Part>) Part(P part) : Part(std::move(part), 0) {
    reel::detail::require_fields("", part);
  }
  REEL_API Part(const Part& other);
  Part(Part&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), type_(other.type_) {}
  Part& operator=(Part other) noexcept {
    std::swap(object_, other.object_);
    std::swap(type_, other.type_);
    return *this;
  }
  ~Part() {
    if (object_) type_->free(object_);
  }
  /// The result of the layer or function. Shape and dtype are those that the part gives.
  Tensor operator()(Tensor x) const { return type_->call(object_, std::move(x)); }
  /// The layer or function, if it has this type; else null.
  ///
  ///     nn::Sequential(nn::Linear(2, 8), relu).parts[0].as<nn::Linear>()->weight
  template <class P>
  P* as() const {
    return type_->key == reel::detail::key_of<P>() ? &static_cast<Target<P>*>(object_)->f : nullptr;
  }

 private:
  friend struct Sequential;
  struct Type {
    reel::detail::TypeKey key;
    Tensor (*call)(const void* object, Tensor x);
    void* (*copy)(const void* object);
    void (*free)(void* object);
    void (*list)(void* object, std::string_view name, std::vector<reel::detail::Member>& members);
    void (*clone)(void* object, reel::detail::Clones& clones);
  };
  template <class P>
  static constexpr Type type_of = {
      reel::detail::key_of<P>(),
      [](const void* object, Tensor x) -> Tensor {
        return static_cast<const Target<P>*>(object)->f(std::move(x));
      },
      [](const void* object) -> void* {
        return new Target<P>{static_cast<const Target<P>*>(object)->f};
      },
      [](void* object) { delete static_cast<Target<P>*>(object); },
      [](void* object, std::string_view name, std::vector<reel::detail::Member>& members) {
        visit_leaves(name, static_cast<Target<P>*>(object)->f,
                     reel::detail::MemberVisitor{members});
      },
      [](void* object, reel::detail::Clones& clones) {
        reel::detail::clone_leaves(static_cast<Target<P>*>(object)->f, clones);
      }};
  template <class P>
  Part(P part, int) try : object_(new Target<P>{std::move(part)}), type_(&type_of<P>) {
    static_assert(std::is_invocable_r_v<Tensor, const P&, Tensor>,
                  "a part of nn::Sequential takes a Tensor and returns one");
    static_assert(std::is_copy_constructible_v<P>, "a part of nn::Sequential can be copied");
  } catch (const std::bad_alloc&) {
    fail_memory({}, "Sequential");
  }
  void* object_;
  const Type* type_;
};

/// Calls each part with the result of the part before. Its type does not depend on its parts, so it
/// can be a member of a model. Copies share Variables, as copies of layers do.
///
///     nn::Sequential model{nn::Linear(2, 8), tanh, nn::Linear(8, 1)};
///     Tensor y = model(x);
struct REEL_API Sequential {
  std::vector<Part> parts;  // add to them as to any vector
  Sequential() = default;
  Sequential(std::initializer_list<Part> each);
  template <class... Parts>
  requires(sizeof...(Parts) > 1 ||
           !(std::is_same_v<Parts, Sequential> && ...)) explicit Sequential(Parts... each) try {
    (reel::detail::require_fields("", each), ...);
    reserve(sizeof...(Parts));
    (append(Part(std::move(each))), ...);
  } catch (const std::bad_alloc&) {
    fail_memory({}, "Sequential");
  }
  /// The result of the last part; x itself if there are no parts. Shape and dtype are those that
  /// the parts give.
  Tensor operator()(Operand x) const;
  /// The parts are called "0", "1", ...
  void fields(auto&& field) {
    std::vector<reel::detail::Member> members;
    for (std::size_t i = 0; i < parts.size(); ++i)
      parts[i].type_->list(parts[i].object_, std::to_string(i), members);
    for (reel::detail::Member& member : members) member.give(field);
  }
  void clone_members(reel::detail::Clones& clones) {
    for (Part& part : parts) part.type_->clone(part.object_, clones);
  }

 private:
  void reserve(std::size_t count);
  void append(Part part);
};
}  // namespace nn
}  // namespace reel
