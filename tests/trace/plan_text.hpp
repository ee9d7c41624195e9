// SPDX-License-Identifier: BSD-3-Clause
// The plan of a function's trace as text: the instructions, and the size of the memory that their
// values share. Each op in these functions has its own statement, as C++ may evaluate operands in
// any order.
#pragma once
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/trace/plan.hpp"
#include "support/catch.hpp"

namespace reel::tests {
using Kind = Instruction::Kind;
using List = std::vector<Tensor>;
using Traced = detail::Function<List(const List&)>;

/// One run of a function.
inline tracing::Capture capture_of(const Traced& f, List arguments) {
  tracing::Tracer tracer;
  for (Tensor& x : arguments) {
    x = tracing::named_apart(x);
    tracer.argument(x);
  }
  List results;
  {
    const InterceptorScope scope(tracer);
    results = f(arguments);
  }
  tracing::Capture path = tracer.finish(results);
  INFO(tracer.trouble());
  REQUIRE(tracer.trouble().empty());
  return path;
}
/// Adds one run of a function to a tree.
inline void add_way(tracing::Tree& tree, const Traced& f, List arguments) {
  REQUIRE_FALSE(tree.add(capture_of(f, std::move(arguments))));
}

inline std::string name_of(const Instruction& made) {
  switch (made.kind) {
    case Kind::allocate:
      return made.input_count ? "write over" : "allocate";
    case Kind::blocks:
      return "blocks(" + std::to_string(made.input_count) + ", " +
             std::to_string(made.output_count) + ")";
    case Kind::stages:
      return "stages(" + std::to_string(made.input_count) + ")";
    case Kind::spread:
      return made.how ? "spread once" : "spread";
    case Kind::view:
      return "view";
    case Kind::numbers:
      return "numbers(" + std::to_string(made.input_count) + ")";
    default:
      break;
  }
  const char* const kind = made.kind == Kind::kernel      ? "kernel "
                           : made.kind == Kind::elsewhere ? "elsewhere "
                           : made.kind == Kind::update    ? "update "
                           : made.kind == Kind::user      ? "user "
                                                          : "";
  std::string text = kind + std::string(made.op->name);
  if (made.how) text += "/" + std::to_string(made.how);
  return text + (made.rest_cannot_fail ? "!" : "");
}
/// The instructions of all segments, and the number of bytes of memory that their values share.
inline std::string plan_of(const tracing::Tree& tree) {
  const tracing::Plan plan(tree);
  CHECK(fault_of(plan) == "");
  std::string text;
  for (const auto& segment : plan.segments) {
    if (!text.empty()) text += " | ";
    for (unsigned i = segment.first; i < segment.end; ++i)
      text += (i > segment.first ? ", " : "") + name_of(plan.instructions[i]);
  }
  return text + "; " + std::to_string(plan.scratch_bytes);
}
inline std::string plan_of(const Traced& f, const List& arguments) {
  tracing::Tree tree;
  add_way(tree, f, arguments);
  return plan_of(tree);
}
inline Tensor line(std::int64_t length) { return arange(0.0f, static_cast<float>(length)); }
}  // namespace reel::tests
