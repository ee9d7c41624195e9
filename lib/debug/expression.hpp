// SPDX-License-Identifier: BSD-3-Clause
// Conditions and what `eval` computes: numbers, results by number (#12), names, functions, slices.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/debug/statistics.hpp"

namespace reel::debugger {
/// A number, or a tensor. `missing`: the name means nothing here, as dy in the forward pass.
struct Value {
  double number = 0;
  Ref tensor;
  bool missing = false;
  bool is_tensor() const { return static_cast<bool>(tensor); }
  static Value none() { return {0, {}, true}; }
};

/// One index of [0:3, :, ::2, -1].
struct Slice {
  bool is_index = false;
  bool has_first = false, has_end = false;
  std::int64_t first = 0, end = 0, step = 1;
};
/// Reads the text between the brackets.
std::vector<Slice> parse_slices(std::string_view text);
Ref slice_of(const Body& body, const std::vector<Slice>& slices);

/// An op, a line or a Variable by name: "tanh", "model.cpp:12", "12", "variable:head.weight".
struct Target {
  enum class Kind : std::uint8_t { any, op, line, variable } kind = Kind::any;
  std::string name, file;
  unsigned line = 0;
};

/// What an expression may look at.
class Scope {
 public:
  virtual ~Scope() = default;
  /// #12, and #12.1 for its second output; @3 with output -1. Throws Mistake.
  virtual Ref result(std::int64_t number, int output) = 0;
  /// y, x, x1, dy, dx; null if there is none.
  virtual Ref tensor(std::string_view name) = 0;
  /// Of y, dx, ...: without a copy. False: unknown here.
  virtual bool statistics(std::string_view name, Statistics& found) = 0;
  /// step, number, backward; a truth such as has_nan. False: unknown.
  virtual bool number(std::string_view name, double& value) = 0;
  /// op("tanh"), line("a.cpp:12"), writes("w").
  virtual bool matches(std::string_view kind, std::string_view text) = 0;
};

struct Term;
/// A parsed expression.
class Expression {
 public:
  Expression() = default;
  /// Throws Mistake with the place of the error.
  explicit Expression(std::string_view text);
  bool empty() const { return !root_; }
  const std::string& text() const { return text_; }
  Value evaluate(Scope& scope) const;
  /// Whether it is true; false where a name is missing.
  bool holds(Scope& scope) const;
  /// Whether it is has_nan, has_inf or has_inf_or_nan alone, which need no statistics.
  bool only_odd() const { return only_odd_; }

 private:
  std::string text_;
  std::shared_ptr<const Term> root_;
  bool only_odd_ = false;
};
/// Calls an operator or a function on values. Throws Mistake.
Value apply(std::string_view function, std::vector<Value> arguments, Scope& scope);
/// The names of functions beside ops.
std::vector<std::string> function_names();
}  // namespace reel::debugger
