// SPDX-License-Identifier: BSD-3-Clause
#include "lib/debug/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>

namespace reel::debugger {
struct Term {
  enum class Kind : std::uint8_t {
    number,
    text,
    name,
    result,
    call,
    both,
    either,
    negation,
    slice
  };
  Kind kind;
  std::string name;  // of a name, a function or an operator; a text
  double number = 0;
  std::int64_t result = 0;
  int output = 0;
  std::vector<std::shared_ptr<const Term>> parts = {};
  std::vector<Slice> slices = {};
};

namespace {
using Kind = Term::Kind;
using Parsed = std::shared_ptr<const Term>;

bool is_measure(std::string_view name);
bool is_known_name(std::string_view name) {
  for (const std::string_view each :
       {"y", "x", "dy", "dx", "step", "number", "backward", "inputs", "bytes"})
    if (name == each) return true;
  return is_measure(name) || (name.size() > 1 && name[0] == 'x' &&
                              name.find_first_not_of("0123456789", 1) == std::string_view::npos);
}
/// Throws unless there is such a function.
void require_function(const std::string& name, const std::vector<Parsed>& arguments) {
  if (arguments.size() == 1 && arguments[0]->kind == Kind::text) {
    if (name == "op" || name == "line" || name == "writes") return;
    mistake("op(\"...\"), line(\"...\") or writes(\"...\")", name + "(\"...\")");
  }
  const std::vector<std::string> own = function_names();
  if (std::find(own.begin(), own.end(), name) != own.end() || is_measure(name)) return;
  const std::vector<std::string> ops = host->op_names();
  if (!std::binary_search(ops.begin(), ops.end(), name))
    mistake("an op or one of " + joined(own, ", "), "\"" + name + "\"");
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Parsed all() {
    Parsed term = either();
    skip();
    if (at_ < text_.size()) wrong("an operator or the end");
    return term;
  }

 private:
  [[noreturn]] void wrong(std::string_view expected) {
    mistake(expected, at_ < text_.size() ? "\"" + std::string(text_.substr(at_)) + "\"" : "the end",
            fmt::format("At character {} of \"{}\"", at_ + 1, printable(text_)));
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    const bool word = std::isalpha(static_cast<unsigned char>(token[0]));
    if (word && at_ + token.size() < text_.size() && is_name(text_[at_ + token.size()]))
      return false;
    at_ += token.size();
    return true;
  }
  static bool is_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  }
  static Parsed made(Kind kind, std::string name, std::vector<Parsed> parts) {
    return std::make_shared<Term>(Term{kind, std::move(name), 0, 0, 0, std::move(parts)});
  }
  Parsed either() {
    Parsed left = both();
    while (take("or") || take("||")) left = made(Kind::either, "or", {left, both()});
    return left;
  }
  Parsed both() {
    Parsed left = negation();
    while (take("and") || take("&&")) left = made(Kind::both, "and", {left, negation()});
    return left;
  }
  Parsed negation() {
    const Deeper deeper(*this);
    if (take("not")) return made(Kind::negation, "not", {negation()});
    skip();
    if (text_.substr(at_, 1) == "!" && text_.substr(at_, 2) != "!=") {
      ++at_;
      return made(Kind::negation, "not", {negation()});
    }
    return comparison();
  }
  Parsed comparison() {
    Parsed left = sum();
    for (const auto& [token, op] : {std::pair{"<=", "less_equal"},
                                    {">=", "greater_equal"},
                                    {"==", "equal"},
                                    {"!=", "not_equal"},
                                    {"<", "less"},
                                    {">", "greater"}})
      if (take(token)) return made(Kind::call, op, {left, sum()});
    return left;
  }
  Parsed sum() {
    Parsed left = product();
    for (;;) {
      if (take("+"))
        left = made(Kind::call, "add", {left, product()});
      else if (take("-"))
        left = made(Kind::call, "subtract", {left, product()});
      else
        return left;
    }
  }
  Parsed product() {
    Parsed left = sign();
    for (;;) {
      if (take("*"))
        left = made(Kind::call, "multiply", {left, sign()});
      else if (take("/"))
        left = made(Kind::call, "divide", {left, sign()});
      else
        return left;
    }
  }
  Parsed sign() {
    const Deeper deeper(*this);
    if (take("-")) return made(Kind::call, "negative", {sign()});
    Parsed term = primary();
    while (take("[")) {
      const std::size_t close = text_.find(']', at_);
      if (close == std::string_view::npos) wrong("\"]\" after a slice");
      Term sliced{Kind::slice, "", 0, 0, 0, {term}};
      sliced.slices = parse_slices(text_.substr(at_, close - at_));
      at_ = close + 1;
      term = std::make_shared<Term>(std::move(sliced));
    }
    return term;
  }
  Parsed primary() {
    const Deeper deeper(*this);
    skip();
    if (at_ >= text_.size()) wrong("a number, #12, @3, a name or \"(\"");
    const char first = text_[at_];
    if (take("(")) {
      Parsed inside = either();
      if (!take(")")) wrong("\")\"");
      return inside;
    }
    if (first == '"' || first == '\'') {
      const std::size_t close = text_.find(first, at_ + 1);
      if (close == std::string_view::npos) wrong("a closing quote");
      Parsed text = made(Kind::text, std::string(text_.substr(at_ + 1, close - at_ - 1)), {});
      at_ = close + 1;
      return text;
    }
    if (first == '#' || first == '@') return result(first == '@');
    if (std::isdigit(static_cast<unsigned char>(first)) || first == '.') {
      Term number{Kind::number, ""};
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), number.number);
      if (error != std::errc()) wrong("a number");
      at_ = static_cast<std::size_t>(end - text_.data());
      return std::make_shared<Term>(std::move(number));
    }
    if (!is_name(first)) wrong("a number, #12, @3, a name or \"(\"");
    std::string name;
    while (at_ < text_.size() && is_name(text_[at_])) name += text_[at_++];
    if (!take("(")) {
      if (name == "dead") return made(Kind::call, name, {made(Kind::name, "y", {})});
      if (!is_known_name(name))
        mistake("a name such as y, x, dy, norm, zeros, has_nan or step", "\"" + name + "\"",
                "`help` lists them");
      return made(Kind::name, std::move(name), {});
    }
    std::vector<Parsed> parts;
    while (!take(")")) {
      if (!parts.empty() && !take(",")) wrong("\",\" or \")\"");
      parts.push_back(either());
    }
    require_function(name, parts);
    return made(Kind::call, std::move(name), std::move(parts));
  }
  Parsed result(bool outside) {
    ++at_;
    Term term{Kind::result, ""};
    const auto read = [&](auto& number) {
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
      if (error != std::errc()) wrong("a number, as in #12 or @3");
      at_ = static_cast<std::size_t>(end - text_.data());
    };
    read(term.result);
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      read(term.output);
    }
    if (outside) term.output = -1;
    return std::make_shared<Term>(std::move(term));
  }
  struct Deeper {
    Parser& parser;
    explicit Deeper(Parser& p) : parser(p) {
      if (++parser.depth_ > 200) mistake("at most 200 nested parts", "more");
    }
    ~Deeper() { --parser.depth_; }
  };
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// A number of the statistics by its name; false for another name.
bool pick(std::string_view name, const Statistics& from, double& value) {
  if (name == "norm") return value = from.norm, true;
  if (name == "min" || name == "low") return value = from.low, true;
  if (name == "max" || name == "high") return value = from.high, true;
  if (name == "mean") return value = from.mean, true;
  if (name == "zeros") return value = from.zeros, true;
  if (name == "saturated") return value = from.saturated, true;
  if (name == "nans") return value = static_cast<double>(from.nans), true;
  if (name == "infinities") return value = static_cast<double>(from.infinities), true;
  if (name == "elements") return value = static_cast<double>(from.elements), true;
  if (name == "has_nan") return value = from.nans > 0, true;
  if (name == "has_inf") return value = from.infinities > 0, true;
  if (name == "has_inf_or_nan") return value = from.nans + from.infinities > 0, true;
  return false;
}
bool is_measure(std::string_view name) {
  double value = 0;
  return pick(name, {}, value);
}
Value number(double value) { return {value, {}, false}; }

bool on_numbers(std::string_view name, double a, double b, double& result) {
  if (name == "add") return result = a + b, true;
  if (name == "subtract") return result = a - b, true;
  if (name == "multiply") return result = a * b, true;
  if (name == "divide") return result = a / b, true;
  if (name == "less") return result = a < b, true;
  if (name == "less_equal") return result = a <= b, true;
  if (name == "greater") return result = a > b, true;
  if (name == "greater_equal") return result = a >= b, true;
  if (name == "equal") return result = a == b, true;
  if (name == "not_equal") return result = a != b, true;
  return false;
}

Value evaluate(const Term& term, Scope& scope) {
  switch (term.kind) {
    case Kind::number:
      return number(term.number);
    case Kind::text:
      mistake("a number or a tensor", "the text \"" + term.name + "\"",
              "Texts are for op(\"tanh\"), line(\"model.cpp:12\") and writes(\"weight\")");
    case Kind::result:
      return {0, scope.result(term.result, term.output), false};
    case Kind::name: {
      double value = 0;
      if (scope.number(term.name, value)) return number(value);
      Statistics statistics;
      if (is_measure(term.name)) {
        if (!scope.statistics("y", statistics)) return Value::none();
        pick(term.name, statistics, value);
        return number(value);
      }
      if (Ref tensor = scope.tensor(term.name)) return {0, std::move(tensor), false};
      return Value::none();
    }
    case Kind::negation: {
      const Value inside = evaluate(*term.parts[0], scope);
      return inside.missing ? inside : number(inside.number == 0);
    }
    case Kind::both:
    case Kind::either: {
      const Value first = evaluate(*term.parts[0], scope);
      const bool is_true = !first.missing && !first.is_tensor() && first.number != 0;
      if (first.is_tensor()) mistake("a truth", "a tensor", "Write any(...) or all(...)");
      if (is_true == (term.kind == Kind::either)) return number(is_true);
      return evaluate(*term.parts[1], scope);
    }
    case Kind::slice: {
      const Value whole = evaluate(*term.parts[0], scope);
      if (whole.missing) return whole;
      if (!whole.is_tensor()) mistake("a tensor before \"[\"", "a number");
      return {0, slice_of(*whole.tensor, term.slices), false};
    }
    case Kind::call:
      break;
  }
  if (term.parts.size() == 1 && term.parts[0]->kind == Kind::text)
    return number(scope.matches(term.name, term.parts[0]->name));
  if (term.parts.size() == 1 && term.parts[0]->kind == Kind::name && is_measure(term.name)) {
    Statistics statistics;
    double value = 0;
    if (scope.statistics(term.parts[0]->name, statistics)) {
      pick(term.name, statistics, value);
      return number(value);
    }
  }
  std::vector<Value> arguments;
  for (const Parsed& part : term.parts) {
    arguments.push_back(evaluate(*part, scope));
    if (arguments.back().missing) return Value::none();
  }
  return apply(term.name, std::move(arguments), scope);
}
}  // namespace

std::vector<std::string> function_names() {
  return {"norm", "min", "max",        "mean",     "zeros",   "saturated", "nans",           "sum",
          "dead", "any", "infinities", "elements", "has_nan", "has_inf",   "has_inf_or_nan", "all"};
}

Value apply(std::string_view name, std::vector<Value> arguments, Scope&) {
  const bool single = arguments.size() == 1;
  double value = 0;
  if (single && !arguments[0].is_tensor()) {
    const double x = arguments[0].number;
    if (name == "negative") return number(-x);
    if (name == "abs" || name == "norm") return number(std::abs(x));
    if (name == "sqrt") return number(std::sqrt(x));
    if (name == "log") return number(std::log(x));
    if (name == "exp") return number(std::exp(x));
  }
  if (arguments.size() == 2 && !arguments[0].is_tensor() && !arguments[1].is_tensor() &&
      on_numbers(name, arguments[0].number, arguments[1].number, value))
    return number(value);
  if (single && arguments[0].is_tensor()) {
    const Body& x = *arguments[0].tensor;
    if (pick(name, is_measure(name) ? statistics_of(x, Bounds::none) : Statistics(), value))
      return number(value);
    if (name == "dead") return number(dead_of(x));
    if (name == "sum" || name == "any" || name == "all") {
      double sum = 0;
      std::int64_t true_ones = 0;
      for (std::int64_t i = 0; i < x.elements; ++i) {
        sum += element(x, i);
        true_ones += element(x, i) != 0;
      }
      if (name == "sum") return number(sum);
      return number(name == "any" ? true_ones > 0 : true_ones == x.elements);
    }
  }
  const std::vector<std::string> ops = host->op_names();
  if (!std::binary_search(ops.begin(), ops.end(), name))
    mistake("an op or one of " + joined(function_names(), ", "), "\"" + std::string(name) + "\"");
  std::vector<DebugOperand> operands;
  for (const Value& each : arguments) operands.push_back({each.tensor.get(), each.number});
  Body* made = nullptr;
  const std::string error =
      host->call(name, operands.data(), static_cast<int>(operands.size()), &made);
  if (!error.empty()) throw Mistake{error};
  return {0, Ref(made), false};
}

Expression::Expression(std::string_view text)
    : text_(text),
      root_(Parser(text).all()),
      only_odd_(root_->kind == Kind::name && root_->name.starts_with("has_")) {}
Value Expression::evaluate(Scope& scope) const { return debugger::evaluate(*root_, scope); }
bool Expression::holds(Scope& scope) const {
  const Value value = evaluate(scope);
  if (!value.is_tensor()) return !value.missing && value.number != 0;
  if (value.tensor->elements != 1)
    mistake("a truth", "a tensor " + shape_text(value.tensor->shape), "Write any(...) or all(...)");
  return element(*value.tensor, 0) != 0;
}

std::vector<Slice> parse_slices(std::string_view text) {
  std::vector<Slice> slices;
  std::size_t from = 0;
  const auto wrong = [&](std::string_view part) {
    mistake("slices such as 0:3, :, ::2 or -1, separated by commas",
            "\"" + std::string(part) + "\"");
  };
  while (from <= text.size()) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    std::string part;
    for (const char c : text.substr(from, comma - from))
      if (!std::isspace(static_cast<unsigned char>(c))) part += c;
    Slice slice;
    std::vector<std::string> bounds(1);
    for (const char c : part)
      if (c == ':')
        bounds.emplace_back();
      else
        bounds.back() += c;
    const auto read = [&](const std::string& word, std::int64_t& number) {
      if (word.empty()) return false;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      if (error != std::errc() || end != word.data() + word.size()) wrong(part);
      return true;
    };
    if (bounds.size() > 3 || part.empty()) wrong(part);
    slice.has_first = read(bounds[0], slice.first);
    slice.is_index = bounds.size() == 1;
    if (bounds.size() > 1) slice.has_end = read(bounds[1], slice.end);
    if (bounds.size() > 2) read(bounds[2], slice.step);
    if (slice.step < 1) wrong(part);
    slices.push_back(slice);
    from = comma + 1;
  }
  return slices;
}

Ref slice_of(const Body& body, const std::vector<Slice>& slices) {
  if (slices.size() > body.shape.rank())
    mistake(fmt::format("at most {} slices for {}", body.shape.rank(), shape_text(body.shape)),
            fmt::format("{}", slices.size()));
  std::int64_t starts[Shape::max_rank], steps[Shape::max_rank], lengths[Shape::max_rank];
  std::vector<std::int64_t> made;
  for (std::size_t axis = 0; axis < body.shape.rank(); ++axis) {
    const std::int64_t length = body.shape.data()[axis];
    const Slice slice = axis < slices.size() ? slices[axis] : Slice();
    const auto place = [&](std::int64_t at) { return at < 0 ? at + length : at; };
    starts[axis] = slice.has_first ? place(slice.first) : 0;
    std::int64_t end = slice.has_end ? place(slice.end) : length;
    if (slice.is_index) end = starts[axis] + 1;
    if (slice.is_index && (starts[axis] < 0 || starts[axis] >= length))
      mistake(fmt::format("an index from {} to {} for axis {}", -length, length - 1, axis),
              fmt::format("{}", slice.first));
    starts[axis] = std::clamp<std::int64_t>(starts[axis], 0, length);
    end = std::clamp<std::int64_t>(end, starts[axis], length);
    steps[axis] = slice.step;
    lengths[axis] = (end - starts[axis] + slice.step - 1) / slice.step;
    if (!slice.is_index) made.push_back(lengths[axis]);
  }
  const Ref result(host->sized(body.dtype, made.data(), static_cast<int>(made.size())));
  const auto size = static_cast<std::size_t>(size_of(body.dtype));
  std::int64_t position[Shape::max_rank] = {};
  for (std::int64_t i = 0; i < result->elements; ++i) {
    std::int64_t from = 0;
    for (std::size_t axis = 0; axis < body.shape.rank(); ++axis)
      from = from * body.shape.data()[axis] + starts[axis] + position[axis] * steps[axis];
    std::memcpy(result->data + static_cast<std::size_t>(i) * size,
                body.data + static_cast<std::size_t>(from) * size, size);
    for (std::size_t axis = body.shape.rank(); axis-- > 0;) {
      if (++position[axis] < lengths[axis]) break;
      position[axis] = 0;
    }
  }
  return result;
}
}  // namespace reel::debugger
