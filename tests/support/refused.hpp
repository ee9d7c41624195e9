// SPDX-License-Identifier: BSD-3-Clause
// Checks that bad input is refused as promised.
#pragma once
#include <string>
#include <typeinfo>

#include <reel/caller.hpp>

namespace reel::tests {
/// check_refused() of f(object), compiled once.
void check_throws(const std::type_info& error, void (*f)(void* object), void* object,
                  const std::string& part, Caller caller);
/// Checks that f throws an E. Its first line must name the line of this call, contain `part` and
/// have at most 200 characters. f is a lambda that is written in this call.
template <class E, class F>
void check_refused(F f, const std::string& part, Caller caller = Caller::here()) {
  check_throws(
      typeid(E), [](void* object) { (*static_cast<F*>(object))(); }, &f, part, caller);
}
}  // namespace reel::tests
