// SPDX-License-Identifier: BSD-3-Clause
// Seldom cases at the gate: names of ops that are nearly right, inputs that are counted, several
// interceptors, kernels that are put off, numbers beside ops without a fast path.
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "lib/flow/interceptor.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// The second line of the error for a name that no op has.
std::string advice_for(std::string_view name) {
  try {
    call_op(name, {ones({2})});
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::size_t first = text.find('\n') + 3;
    return text.substr(first, text.find('\n', first) - first);
  }
  return "";
}

/// Puts off every kernel, or none.
struct Guest : Interceptor {
  explicit Guest(bool now) : now_(now) {}
  bool before(const GateCall&) override { return now_; }
  bool now_;
};
/// Counts the kernels of ops that have begun and ended.
struct KernelCount : Observer {
  int begun = 0, ended = 0;
  void op_begins(const GateCall&) override { ++begun; }
  void op_ends(const GateCall&) override { ++ended; }
};

/// Notes what is told of code of a user, and may give its result.
struct CodeGuest : Interceptor {
  bool gives = false;
  int begun = 0, ended = 0, failed = 0;
  bool user_code_begins(const CallView&, Tensors& results) override {
    ++begun;
    if (gives) results = Tensors(full({2}, 8.0f));
    return gives;
  }
  void user_code_ends(const GateCall* call) override { ++(call ? ended : failed); }
};
}  // namespace

TEST_CASE("two letters that were swapped count as one mistake, wherever they stand") {
  CHECK(advice_for("epx") == "Did you mean \"exp\"?");  // a name of three letters allows one
  CHECK(advice_for("xep") == "Did you mean \"exp\"?");
  register_op("edge_pqrstuvw", [](const OpCall& call) { return call.input(0); });
  CHECK(advice_for("edge_pqrstuwv") == "Did you mean \"edge_pqrstuvw\"?");
  CHECK(advice_for("edge_pqrstxwv") == "Did you mean \"edge_pqrstuvw\"?");  // and one other letter
}

TEST_CASE("what stands before a name in memory does not count for the names near it") {
  register_op("pqrstuvw", [](const OpCall& call) { return call.input(0); });
  const std::string text = "srtuvw";  // with the s, the first two letters would be swapped ones
  CHECK(advice_for(std::string_view(text).substr(1)) == "op_names() lists all names.");
}

TEST_CASE("no op that is for the library alone is proposed") {
  CHECK(advice_for("check_rat") == "op_names() lists all names.");
  CHECK(advice_for("linear_sca") == "op_names() lists all names.");
}

TEST_CASE("an op that asks how many inputs it has may leave any of them unread") {
  for (const std::size_t read : {0, 1}) {
    const std::string name = "edge_reads_" + std::to_string(read);
    register_op(name, [read](const OpCall& call) {
      return call.input(read) * static_cast<float>(call.input_count());
    });
    CHECK(equal(call_op(name, {ones({2}), full({2}, 3.0f)}), full({2}, read ? 6.0f : 2.0f)));
  }
}

TEST_CASE("of many inputs, the first 63 must be read") {
  register_op("edge_most", [](const OpCall& call) {
    Tensor sum = call.input(0);
    for (std::size_t i = 1; i < 63; ++i) sum = sum + call.input(i);
    return sum;
  });
  register_op("edge_fewer", [](const OpCall& call) {
    Tensor sum = call.input(0);
    for (std::size_t i = 1; i < 62; ++i) sum = sum + call.input(i);
    return sum;
  });
  const std::vector<Tensor> inputs(64, ones({2}));
  CHECK(equal(call_op("edge_most", inputs), full({2}, 63.0f)));
  CHECK_THROWS_WITH(call_op("edge_fewer", inputs), Catch::Contains("input 62"));
}

TEST_CASE("the ops inside of a user's function are steps of a trace") {
  register_op("edge_draws",
              [](const OpCall& call) { return call.input(0) + random::uniform({2}); });
  const auto traced = trace([](const Tensor& x) { return call_op("edge_draws", {x}); });
  for (int i = 0; i < 6; ++i) traced(ones({2}));
  const std::string text = traced.explain();
  INFO(text);
  CHECK(text.find("runs eagerly") == std::string::npos);
}

TEST_CASE("a layer whose name begins like the op inside is not that op") {
  const auto text_in = [](const char* layer) -> std::string {
    const CallerScope scope({"program.cpp", 7}, layer);
    try {
      fail<ShapeError>({}, "sum", "axis", "x", "y", "");
    } catch (const ShapeError& error) {
      const std::string text = error.what();
      return text.substr(0, text.find('\n'));
    }
  };
  CHECK(text_in("SumPool") == "program.cpp:7: SumPool: axis of sum: expected x, got y");
  CHECK(text_in("Sum") == "program.cpp:7: Sum: axis: expected x, got y");
}

TEST_CASE("a number stays on its side of a tensor where an op has a kernel of a user", "[cpu]") {
  // with this kernel float32 has no fast path
  register_kernel("floor_divide",
                  [](const OpCall& call) { return floor(call.input(0) / call.input(1)); });
  const Tensor x = tensor({7.0f, -7.0f});
  CHECK(equal(floor_divide(x, 2.0f), tensor({3.0f, -4.0f})));
  CHECK(equal(floor_divide(2.0f, x), tensor({0.0f, -1.0f})));
}

TEST_CASE("one interceptor of several puts a kernel off") {
  const Tensor x = ones({3});
  for (const bool outer_now : {false, true})
    for (const bool inner_now : {false, true}) {
      KernelCount kernels;
      Guest outer(outer_now), inner(inner_now);
      const ObserverScope watching(kernels);
      const InterceptorScope first(outer), second(inner);
      exp(x);
      INFO(outer_now << inner_now);
      CHECK(kernels.begun == (outer_now && inner_now));
      CHECK(kernels.ended == (outer_now && inner_now));
    }
}

TEST_CASE("an update that is put off is not told before its kernel runs") {
  Variable w("w", zeros({3}));
  const Tensor one = ones({3});
  KernelCount kernels;
  Guest guest(false);
  const ObserverScope watching(kernels);
  {
    const InterceptorScope scope(guest);
    w.assign_add(one);
  }
  CHECK(kernels.begun == 0);
  CHECK(kernels.ended == 0);
  w.assign_add(one);
  CHECK(kernels.begun == 1);
  CHECK(kernels.ended == 1);
}

TEST_CASE("a gradient's kernel that was put off runs where its own output is") {
  Op& op = *OpTable::the().find("tanh");
  const Tensor dy = tensor({2.0f, 3.0f}), y = tensor({0.5f, -0.25f}), dx = zeros({2});
  Body other{};  // no output of the call
  other.device_kind = static_cast<std::uint8_t>(Device::Kind::cuda);
  const Body* const inputs[] = {Access::body(dy), nullptr, nullptr, Access::body(y)};
  Body* const outputs[] = {Access::body(dx), &other};
  run_deferred_kernel({op, inputs, 4, {}, {}, outputs, 1, nullptr, Part::gradient_0});
  CHECK(dx.to_vector<float>() == std::vector<float>{1.5f, 2.8125f});  // dy (1 - y^2)
}

TEST_CASE("a result that one interceptor gives counts, whatever the others say") {
  int runs = 0;
  register_op("edge_given", [&](const OpCall& call) {
    ++runs;
    return call.input(0) * 2.0f;
  });
  CHECK(equal(call_op("edge_given", {ones({2})}), full({2}, 2.0f)));
  for (const bool inner_gives : {false, true}) {
    CodeGuest outer, inner;
    (inner_gives ? inner : outer).gives = true;
    const InterceptorScope first(outer), second(inner);
    CHECK(equal(call_op("edge_given", {ones({2})}), full({2}, 8.0f)));
    CHECK(runs == 1);
    CHECK(outer.ended == 1);
    CHECK(inner.ended == 1);
  }
}

TEST_CASE("interceptors are told that code of a user ended by an exception") {
  register_op("edge_throws", [](const OpCall& call) -> Tensors {
    if (call.input_count() == 1) throw std::runtime_error("no result");
    return call.input(0);
  });
  CodeGuest guest;
  const InterceptorScope scope(guest);
  CHECK_THROWS_AS(call_op("edge_throws", {ones({2})}), std::runtime_error);
  CHECK(guest.begun == 1);
  CHECK(guest.ended == 0);
  CHECK(guest.failed == 1);
}

TEST_CASE("what is chosen between numbers is a number only where it comes from live ones") {
  const Tensor yes = tensor(true), bytes = cast(tensor({1, 2}), DType::uint8);
  const Tensor chosen = where(yes, 300, 2);
  CHECK((bytes + chosen).dtype() != DType::uint8);
  CHECK((ones({2}) * where(yes, live(2.0), 3.0)).dtype() == DType::float32);
}
}  // namespace reel::tests
