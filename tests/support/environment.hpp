// SPDX-License-Identifier: BSD-3-Clause
// A variable of the environment has another value for some time.
#pragma once
#include <cstdlib>
#include <optional>
#include <string>

namespace reel::tests {
class Environment {
 public:
  /// Null removes the variable.
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    set(value);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) const {
    if (value)
      setenv(name_, value, 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};
}  // namespace reel::tests
