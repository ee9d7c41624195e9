// SPDX-License-Identifier: BSD-3-Clause
// What the entries of the op table say of their ops.
#include <reel/ops.hpp>

#include "lib/gate/gate.hpp"
#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
TEST_CASE("what a gradient keeps alive follows from its formula") {
  const auto x = need_input(0), y = need_input(1), out = need_output();
  struct Expected {
    const char* name;
    int first, second;
    unsigned passes;
  };
  for (const auto& [name, first, second, passes] : {Expected{"add", 0, 0, 3},
                                                    {"subtract", 0, 0, 1},
                                                    {"multiply", y, x, 0},
                                                    {"divide", y, x | y, 0},
                                                    {"remainder", 0, x | y | out, 1},
                                                    {"negative", 0, 0, 0},
                                                    {"maximum", x | y, x | y, 0},
                                                    {"minimum", x | y, x | y, 0},
                                                    {"power", x | y, x | y | out, 0},
                                                    {"abs", x, 0, 0},
                                                    {"exp", out, 0, 0},
                                                    {"log", x, 0, 0},
                                                    {"square", x, 0, 0},
                                                    {"sqrt", out, 0, 0},
                                                    {"relu", out, 0, 0},
                                                    {"sigmoid", out, 0, 0},
                                                    {"tanh", out, 0, 0}}) {
    INFO(name);
    const Op& op = *OpTable::the().find(name);
    CHECK(op.needs.of[0] == first);
    CHECK(op.needs.of[1] == second);
    CHECK(op.passes == passes);
    CHECK(op.differentiable);
  }
}

TEST_CASE("an entry that is in no list of its family says so when it is called") {
  const auto view = [](Inference& call) { call.view(); };
  const auto copy = [](Inference& call) { call.output(call.input(0).dtype, call.input(0).shape); };
  for (const ShapeRule shape : {ShapeRule(view), ShapeRule(copy)}) {
    Op unlisted_op{.name = "unlisted", .shape = shape};
    check_refused<Error>([&] { run(unlisted_op, ones({2})); }, "unlisted: op table: ");
  }
}
}  // namespace reel::tests
