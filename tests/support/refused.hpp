// SPDX-License-Identifier: BSD-3-Clause
// Checks that bad input is refused as promised.
#pragma once
#include <cstdlib>
#include <string>
#include <typeinfo>

#include <reel/caller.hpp>
#include <reel/error.hpp>

#include "support/catch.hpp"
#include "support/late.hpp"

namespace reel::tests {
/// Checks that f throws an E. Its first line must name the line of this call, contain `part` and
/// have at most 200 characters. f is a lambda that is written in this call.
template <class E, class F>
void check_refused(F f, const std::string& part, Caller caller = Caller::here()) {
  INFO("line " << caller.line << ", expecting: " << part);
  std::string text = "nothing was thrown";
  try {
    f();
    await_errors();
  } catch (const Error& error) {
    text = error.what();
    CHECK(typeid(error) == typeid(E));
  }
  const std::string first = text.substr(0, text.find('\n'));
  INFO(text);
  CHECK(first.find(part) != first.npos);
  CHECK(first.size() <= 200);
  const std::string file = std::string(caller.file).substr(std::string(caller.file).rfind('/') + 1);
  const bool names_file = first.rfind(file + ":", 0) == 0;
  const int line = names_file ? std::atoi(first.c_str() + file.size() + 1) : 0;
  // The call and the lambda in it may be on different lines.
  CHECK(std::abs(line - static_cast<int>(caller.line)) <= 2);
}
}  // namespace reel::tests
