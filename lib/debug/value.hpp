// SPDX-License-Identifier: BSD-3-Clause
// Tensors of the debugger: row-major copies on the CPU. And texts of what it shows.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "lib/body/dtypes.hpp"
#include "lib/body/live.hpp"
#include "lib/debug/table.hpp"

namespace reel::debugger {
/// The functions of the library.
extern const DebugHost* host;

/// Owns a reference to a body.
class Ref {
 public:
  Ref() = default;
  explicit Ref(Body* body) : body_(body) {}
  Ref(const Ref& other) : body_(other.body_) {
    if (body_) retain(body_);
  }
  Ref(Ref&& other) noexcept : body_(std::exchange(other.body_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(body_, other.body_);
    return *this;
  }
  ~Ref() {
    if (body_) host->release(body_);
  }
  Body* get() const { return body_; }
  Body& operator*() const { return *body_; }
  Body* operator->() const { return body_; }
  explicit operator bool() const { return body_; }

 private:
  Body* body_ = nullptr;
};
inline Ref copy_of(const Body& body) { return Ref(host->copied(body)); }
/// A body that shares the elements, if they are row-major on the CPU; else a copy.
bool is_readable(const Body& body);

/// Element i of a readable body.
double element(const Body& body, std::int64_t i);
void set_element(Body& body, std::int64_t i, double value);

std::int64_t elements_of(const Shape& shape);
/// "(2, 3)"
std::string shape_text(const Shape& shape);
/// "float32 (2, 3)"
std::string type_text(DType dtype, const Shape& shape);
/// With so many digits; "nan", "inf".
std::string number_text(double x, int digits = 4);
/// "model.cpp:12", "no line"
std::string line_of(Caller caller);
/// "1.5 kB"
std::string bytes_text(std::int64_t bytes);
/// Without control characters, which become \x1b.
std::string printable(std::string_view text);
std::string joined(const std::vector<std::string>& words, std::string_view between);
/// "[1, 3]" for element i.
std::string place_text(const Shape& shape, std::int64_t i);

/// What the user asked for cannot be done: the answer says what was expected.
struct Mistake {
  std::string text;
};
[[noreturn]] void mistake(std::string_view expected, std::string_view got,
                          std::string_view advice = {});
}  // namespace reel::debugger
