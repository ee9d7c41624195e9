// SPDX-License-Identifier: BSD-3-Clause
#include "support/refused.hpp"

#include <cstdlib>

#include <reel/error.hpp>

#include "support/catch.hpp"
#include "support/late.hpp"

namespace reel::tests {
void check_throws(const std::type_info& error, void (*f)(void* object), void* object,
                  const std::string& part, Caller caller) {
  INFO("line " << caller.line << ", expecting: " << part);
  std::string text = "nothing was thrown";
  try {
    f(object);
    await_errors();
  } catch (const Error& thrown) {
    text = thrown.what();
    CHECK(typeid(thrown) == error);
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
