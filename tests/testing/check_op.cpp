// SPDX-License-Identifier: BSD-3-Clause
// check_op() accepts ops that are right, and says what is wrong with those that are not.
#include <limits>
#include <string>

#include <reel/dlpack.hpp>
#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
/// What check_op() says; empty if all is well.
std::string said(std::string_view name, testing::CheckOptions options = {},
                 Caller caller = Caller::here()) {
  try {
    testing::check_op(name, std::move(options), caller);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}
/// An op that reads memory in its own order.
void register_layout(std::string_view name) {
  register_op(name, [](const OpCall& call) {
    const Tensor x = call.input(0);
    auto* const array = to_dlpack(x);
    const bool in_order = x.rank() < 2 || array->dl_tensor.strides[1] == 1;
    array->deleter(array);
    return x + (in_order ? 0 : 1);
  });
}
using Catch::Contains;
}  // namespace

TEST_CASE("check_op accepts ops of the library and of users") {
  for (const char* name : {"tanh", "multiply", "divide", "hypot", "sign", "less"}) {
    INFO(name);
    CHECK(said(name) == "");
  }
  CHECK(said("matmul",
             {.inputs = {ones({3, 4}, float64), arange(0, 8, 1, float64).reshape({4, 2})}}) == "");
  CHECK(said("tanh", {.inputs = {tensor({0.1, -0.7})}}) == "");  // float32
  register_op("check_square", [](const OpCall& call) { return call.input(0) * call.input(0); });
  CHECK(said("check_square") == "");  // the gradients of its ops
  register_gradient("check_square", [](const OpCall& call, Tensor upstream) {
    return 2 * upstream * call.input(0);
  });
  CHECK(said("check_square") == "");
  register_op("check_scaled", [](const OpCall& call) { return call.input(0) * call.real("by"); });
  CHECK(said("check_scaled",
             {.inputs = {tensor<double>({1.0, 2.0})}, .attributes = {{"by", 3.0}}}) == "");
}

TEST_CASE("check_op names what is wrong with an op") {
  const auto square = [](const OpCall& call) { return call.input(0) * call.input(0); };
  register_op("check_gradient", square);
  register_gradient("check_gradient", [](const OpCall& call, Tensor upstream) {
    return 3 * upstream * call.input(0);
  });
  CHECK_THAT(said("check_gradient"), Contains("check_gradient: gradients, compared with"));

  register_op("check_second", square);
  register_gradient("check_second", [](const OpCall& call, Tensor upstream) {
    return 2 * upstream * stop_gradient(call.input(0));
  });
  CHECK_THAT(said("check_second"), Contains("gradients of gradients"));
  CHECK(said("check_second", {.second_gradient = false}) == "");

  register_op("check_random", [](const OpCall& call) {
    return call.input(0) + random::uniform(call.input(0).shape());
  });
  CHECK_THAT(said("check_random"), Contains("a second call"));

  register_layout("check_layout");
  CHECK_THAT(said("check_layout"), Contains("inputs: expected"));

  register_op("check_shape", [](const OpCall& call) { return sum(call.input(0)); });
  register_gradient("check_shape", [](const OpCall& call, Tensor upstream) {
    const Shape shape = call.input(0).shape();
    return shape.rank() == 0 ? upstream.reshape({1}) : broadcast_to(upstream, shape);
  });
  CHECK(said("check_shape") != "");
  CHECK_THAT(said("check_nothing"), Contains("check_nothing"));
}

TEST_CASE("errors of an op and of its gradient name the line of check_op") {
  const auto names_line = [](std::string_view name) {
    CHECK_THAT(said(name, {}, {"user.cpp", 7}),
               Catch::StartsWith("user.cpp:7: ") && Catch::EndsWith("at user.cpp:7"));
  };
  register_op("check_throws", [](const OpCall& call) { return call.input(0) + ones({7}); });
  names_line("check_throws");
  register_op("check_gradient_throws", [](const OpCall& call) { return call.input(0) * 2.0; });
  register_gradient("check_gradient_throws",
                    [](const OpCall&, Tensor upstream) { return upstream + ones({7}); });
  names_line("check_gradient_throws");
  names_line("check_absent");
}

TEST_CASE("check_op compares NaN, outputs, traced calls and float32 with what they should be") {
  static int calls = 0;  // 0 finds the number of inputs; 1 and 2 are compared
  const auto said_of_new = [&](std::string_view name, testing::CheckOptions options = {}) {
    calls = 0;
    return said(name, std::move(options));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  register_op("check_nan", [=](const OpCall& call) {
    return where(call.input(0) > 0, calls++ == 2 ? nan : 2.0, call.input(0));
  });
  CHECK_THAT(said_of_new("check_nan"), Contains("a second call: expected 2, got nan at element 0"));
  register_op("check_always_nan", [=](const OpCall& call) { return call.input(0) * nan; });
  CHECK(said_of_new("check_always_nan", {.second_gradient = false}) == "");
  register_op("check_outputs", [](const OpCall& call) {
    return Tensors{call.input(0), call.input(0) + (calls++ == 2 ? 1.0 : 0.0)};
  });
  CHECK_THAT(said_of_new("check_outputs"), Contains("at element 0 of number 1"));
  register_op("check_third",
              [](const OpCall& call) { return call.input(0) + (calls++ >= 3 ? 1.0 : 0.0); });
  CHECK_THAT(said_of_new("check_third"), Contains("a traced call: expected"));

  register_op("check_mixed", [](const OpCall& call) { return call.input(0) * call.input(1); });
  CHECK(said("check_mixed", {.inputs = {tensor<double>({1.0, 2.0}), tensor({3, 4})}}) == "");
  CHECK(said("check_mixed", {.inputs = {tensor({3, 4}), tensor<double>({1.0, 2.0})}}) == "");
  register_op("check_five", [](const OpCall& call) { return call.input(0) + call.input(4); });
  CHECK(said("check_five") != "");
  register_op("check_all_of_five", [](const OpCall& call) {
    return call.input(0) + call.input(1) + call.input(2) + call.input(3) + call.input(4);
  });
  CHECK(said("check_all_of_five") != "");  // it looks for up to four inputs
  CHECK(said("check_all_of_five", {.inputs = std::vector<Tensor>(5, ones({2}, float64))}) == "");

  const auto scaled = [](const char* name, double factor) {
    register_op(name, [](const OpCall& call) { return call.input(0) * call.input(0); });
    register_gradient(name, [=](const OpCall& call, Tensor upstream) {
      return factor * upstream * call.input(0);
    });
  };
  scaled("check_half_percent", 2.01);
  CHECK_THAT(said("check_half_percent"), Contains("gradients, compared with"));
  scaled("check_half_more", 3);
  CHECK_THAT(said("check_half_more", {.inputs = {tensor({1.0, 2.0})}}),
             Contains("gradients, compared with"));
  register_layout("check_narrow_layout");
  CHECK_THAT(said("check_narrow_layout", {.inputs = {ones({3, 4})}}), Contains("inputs: expected"));
}
}  // namespace reel::tests
