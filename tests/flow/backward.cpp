// SPDX-License-Identifier: BSD-3-Clause
// Which events a backward pass has. The pass computes the same as without an observer.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "flow/event_log.hpp"

namespace reel::tests {
namespace {
/// The events after those of the forward pass.
Events backward_events(const Events& all) {
  return {std::find(all.begin(), all.end(), "backward begins"), all.end()};
}
/// The events of gradient() of sum(f(w)).
template <class F>
Events gradient_events(const Variable& w, const F& f) {
  return backward_events(events_of([&] {
    GradientTape tape;
    tape.gradient(f(w), w);
  }));
}
}  // namespace

TEST_CASE("passes, fused kernels and rules of gradients are observed") {
  const Variable w("w", arange(0, 6).to(DType::float32).reshape({2, 3}));
  CHECK(gradient_events(w, [](const Variable& x) { return tanh(x); }) ==
        Events{"backward begins", "begin tanh'0", "end tanh'0 (2, 3)", "complete 0",
               "backward ends"});
  // The first pass computes the gradient of the first use, and the second pass adds to it.
  CHECK(gradient_events(w, [](const Variable& x) { return x * x; }) ==
        Events{"backward begins", "begin multiply'0", "end multiply'0 (2, 3)", "begin multiply'1",
               "end multiply'1 (2, 3)", "complete 0", "backward ends"});
  CHECK(gradient_events(w, [](const Variable& x) { return softmax(x); }) ==
        Events{"backward begins", "begin softmax'", "end softmax' (2, 3)", "complete 0",
               "backward ends"});
  const Events ruled = gradient_events(w, [](const Variable& x) { return max(x, 1); });
  CHECK(count(ruled, "begin equal") == 1);
  CHECK(count(ruled, "begin max'") == 0);
  CHECK(ruled[ruled.size() - 2] == "complete 0");
}

TEST_CASE("what is added to a gradient is observed as an op") {
  const Variable w("w", ones({3}));
  const Events events = gradient_events(w, [](const Variable& x) { return x + x.value(); });
  CHECK(events ==
        Events{"backward begins", "begin add", "end add (3,)", "complete 0", "backward ends"});
}

TEST_CASE("a backward pass is the same with an observer, to the last bit and block") {
  const Variable w("w", arange(0, 12).to(DType::float32).reshape({3, 4}) / 12.0f),
      b("b", arange(0, 4).to(DType::float32)), v("v", ones({4, 2}));
  const Tensor x = arange(0, 6).to(DType::float32).reshape({2, 3}) / 5.0f;
  const auto program = [&](Trail& trail) {
    GradientTape tape;
    Tensor h = zeros({2, 4}), loss = zeros({});
    for (int i = 0; i < 5; ++i) {
      h = dense(x * (0.1f * static_cast<float>(i)), w, b, Activation::tanh) + h * 0.5f;
      loss = loss + sum(softmax(matmul(h, v))) + mean(square(h)) + max(h + b);
    }
    trail.add_records();
    for (const Tensor& slope : tape.gradient(loss, {w, b, v})) trail.add(slope);
  };
  const Events events = observe_alike(program);
  CHECK(count(events, "backward begins") == 1);
  CHECK(count(events, "complete 0") == 1);
  CHECK(count(events, "begin tanh'0") == 5);
  CHECK(count(events, "begin softmax'") == 5);
}

TEST_CASE("a gradient is complete as soon as the records that use its source are played") {
  const Variable first("first", ones({3})), last("last", ones({3}));
  GradientTape tape;
  const Tensor a = first * 2.0f, b = tanh(a), y = b * last;
  const Events events = backward_events(events_of([&] { tape.gradient(y, {first, last}); }));
  CHECK(events == Events{"backward begins", "begin multiply'0", "end multiply'0 (3,)",
                         "begin multiply'1", "end multiply'1 (3,)", "complete 1", "begin tanh'0",
                         "end tanh'0 (3,)", "begin multiply'0", "end multiply'0 (3,)", "complete 0",
                         "backward ends"});
}

namespace {
/// Notes gradients of rows, and when the backward pass has ended.
struct RowEvents : Observer {
  std::vector<std::string> events;
  std::vector<RowGradient> gradients;
  void rows_complete(const GradientSource& source, std::size_t i,
                     const RowGradient& gradient) override {
    events.push_back("rows " + std::to_string(i) + " of " + source.variable()->name());
    gradients.push_back({gradient.values + 0, gradient.rows + 0});
  }
  void gradient_complete(const GradientSource& source, std::size_t i, const Tensor&) override {
    events.push_back("complete " + std::to_string(i) + " of " + source.variable()->name());
  }
  void backward_ends(bool finished) override {
    events.push_back(finished ? "backward ends" : "backward fails");
  }
};
/// The gradients when they are complete, and the number of ops before that.
struct Completions : Observer {
  std::vector<std::size_t> order;
  std::vector<std::vector<float>> gradients = std::vector<std::vector<float>>(4);
  std::vector<std::size_t> ops_before = std::vector<std::size_t>(4);
  std::size_t ops = 0;
  void gradient_complete(const GradientSource&, std::size_t i, const Tensor& gradient) override {
    order.push_back(i);
    gradients[i] = gradient.to_vector<float>();
    ops_before[i] = ops;
  }
  void op_ends(const GateCall&) override { ++ops; }
  void gradient_ends(const GateCall&) override { ++ops; }
};
}  // namespace

TEST_CASE("products that were put off are added before their gradient is complete") {
  const Variable early("early", arange(0, 12).to(DType::float32).reshape({3, 4}) / 12.0f),
      late("late", arange(0, 12).to(DType::float32).reshape({3, 4}) / 9.0f),
      bias("bias", arange(0, 4).to(DType::float32));
  const Tensor x = arange(0, 6).to(DType::float32).reshape({2, 3}) / 5.0f;
  const auto gradients = [&] {
    GradientTape tape;
    Tensor y = zeros({2, 4});
    for (int i = 0; i < 6; ++i) y = tanh(y + matmul(x * (1.0f + static_cast<float>(i)), early));
    for (int i = 0; i < 6; ++i) y = tanh(y + matmul_add(x + static_cast<float>(i), late, bias));
    // in these steps no product delays the gradient of the bias
    for (int i = 0; i < 3; ++i) y = tanh(y * bias);
    return tape.gradient(y, {early, late, bias});
  };
  const std::vector<Tensor> expected = gradients();
  Completions seen;
  std::vector<Tensor> found;
  {
    const ObserverScope scope(seen);
    found = gradients();
  }
  CHECK((seen.order == std::vector<std::size_t>{1, 2, 0}));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(found[i].to_vector<float>() == expected[i].to_vector<float>());
    CHECK(seen.gradients[i] == expected[i].to_vector<float>());
  }
  CHECK(seen.ops_before[1] + 6 < seen.ops);  // the first half of the ops still has to run
}

TEST_CASE("a bias that two matrices share, or that is used otherwise too, keeps its bits") {
  // The additions have a fixed order. The delayed products come last.
  const Variable w("w", arange(0, 12).to(DType::float32).reshape({3, 4}) / 7.0f),
      u("u", arange(0, 12).to(DType::float32).reshape({3, 4}) / 11.0f),
      b("b", arange(1, 5).to(DType::float32) / 3.0f);
  const Tensor x = arange(1, 7).to(DType::float32).reshape({2, 3}) / 7.0f;
  for (int order = 0; order < 8; ++order) {
    const auto program = [&](Trail& trail) {
      GradientTape tape;
      Tensor y = zeros({2, 4});
      for (int part = 0; part < 3; ++part)
        for (int i = 0; i < 4; ++i) {
          const Tensor in = x * (0.3f + 0.1f * static_cast<float>(i));
          if (part == order % 3) y = y + square(matmul_add(in, w, b));
          if (part == (order + 1) % 3) y = y + square(matmul_add(in, order < 4 ? u : w, b));
          if (part == (order + 2) % 3) y = y + (order % 2 ? y * b : matmul(in, w));
        }
      for (const Tensor& slope : tape.gradient(y, {w, u, b}, Unconnected::zero)) trail.add(slope);
    };
    INFO(order);
    const Events events = observe_alike(program);
    for (const char* line : {"complete 0", "complete 1", "complete 2"})
      CHECK(count(events, line) == 1);
  }
}

TEST_CASE(
    "every source is reported once: twice asked, unconnected, assigned between, and the target") {
  Variable w("w", ones({2}));
  const Variable other("other", ones({2}));
  EventLog log;
  Completions seen;
  const ObserverScope scope(log), scope_too(seen);
  {
    GradientTape tape;
    const Tensor y = w * 3.0f, z = y * y;
    const auto found = tape.gradient(z, {w, other, w, y}, Unconnected::zero);
    CHECK((seen.order == std::vector<std::size_t>{3, 0, 2, 1}));
    for (std::size_t i = 0; i < 4; ++i) CHECK(seen.gradients[i] == found[i].to_vector<float>());
    CHECK(found[0].to_vector<float>() == std::vector<float>{18, 18});
    CHECK(found[3].to_vector<float>() == std::vector<float>{6, 6});
  }
  seen.order.clear();
  {
    GradientTape tape;
    Tensor y = w * 2.0f;
    w.assign(5.0f);
    y = y + w * w;
    const Tensor slope = tape.gradient(y, w);
    CHECK((seen.order == std::vector<std::size_t>{0}));
    CHECK(slope.to_vector<float>() == std::vector<float>{12, 12});
    CHECK(seen.gradients[0] == slope.to_vector<float>());
  }
  seen.order.clear();
  {
    GradientTape tape;
    const Tensor slope = tape.gradient(w, w);
    CHECK((seen.order == std::vector<std::size_t>{0}));
    CHECK(slope.to_vector<float>() == std::vector<float>{1, 1});
  }
}

TEST_CASE("tapes inside of tapes, and gradients of gradients, are the same with an observer") {
  const Variable w("w", arange(1, 5).to(DType::float32));
  const Events events = observe_alike([&](Trail& trail) {
    GradientTape outer({.persistent = true});
    Tensor slope;
    {
      GradientTape inner;
      slope = inner.gradient(sum(tanh(w) * w), w);
    }
    trail.add_records();
    trail.add(slope);
    trail.add(outer.gradient(sum(slope), w));
    trail.add(outer.gradient(slope, w));
  });
  CHECK(count(events, "backward begins") == 3);
  CHECK(count(events, "complete 0") == 3);
  CHECK(count(events, "backward ends") == 3);
}

TEST_CASE("a backward pass that fails has an end too") {
  const Variable w("w", ones({2}));
  register_op("flow_refuses", [](const OpCall& call) { return call.input(0) * 1.0f; });
  register_gradient("flow_refuses", [](const OpCall&, const Tensor&) -> Tensors {
    throw std::runtime_error("no gradient");
  });
  const Events events = events_of([&] {
    GradientTape tape;
    const Tensor y = call_op("flow_refuses", {w});
    CHECK_THROWS_AS(tape.gradient(y, w), std::runtime_error);
  });
  CHECK(events.back() == "backward fails");
  CHECK(count(events, "complete 0") == 0);
  CHECK(events_of([&] {
          GradientTape tape;
          const Tensor y = ones({2}) * 2.0f;
          CHECK_THROWS_AS(tape.gradient(y, w), TapeError);
        }).back() == "backward fails");
}

TEST_CASE("a recurrent op's gradient is one kernel") {
  const nn::LSTM lstm(3, 4);
  const std::vector<Variable> variables = parameters(lstm);
  const Tensor x = ones({5, 2, 3});
  const Events events = observe_alike([&](Trail& trail) {
    GradientTape tape;
    const Tensor loss = mean(square(lstm(x).outputs));
    for (const Tensor& slope : tape.gradient(loss, variables)) trail.add(slope);
  });
  CHECK(std::any_of(events.begin(), events.end(), [](const std::string& line) {
    return line.starts_with("begin lstm") && line.back() == '\'';
  }));
}

TEST_CASE("the gradient of rows is complete before the backward pass ends") {
  const Variable words("words", ones({5, 2})), unused("unused", ones({3, 2})), w("w", ones({2}));
  const auto loss = [&] { return sum(lookup(words, tensor({1, 3, 1})) * w) * 2; };
  RowEvents log;
  {
    const ObserverScope scope(log);
    GradientTape tape;
    const std::vector<RowGradient> found =
        tape.row_gradients(loss(), {words, w, unused}, {.unconnected = Unconnected::zero});
    CHECK(log.events == std::vector<std::string>{"complete 1 of w", "complete 2 of unused",
                                                 "rows 0 of words", "backward ends"});
    REQUIRE(log.gradients.size() == 1);
    CHECK(equal(log.gradients[0].values, found[0].values));
    CHECK(equal(log.gradients[0].rows, found[0].rows));
  }
  log.events.clear();
  const ObserverScope scope(log);
  GradientTape tape;
  const Tensor other = loss() + sum(words);
  CHECK_THROWS_AS(tape.row_gradients(other, {words}), TapeError);
  CHECK(log.events == std::vector<std::string>{"backward fails"});
}

TEST_CASE("a bias whose matrix goes on without it is complete at its own first use") {
  const Variable early("early", full({4}, 0.5f)), w("w", ones({3, 4})), b("b", zeros({4}));
  const Tensor x = ones({2, 3});
  Completions seen;
  {
    const ObserverScope scope(seen);
    GradientTape tape;
    Tensor y = early * ones({2, 4});
    y = y + b;
    for (int i = 0; i < 3; ++i) y = y + matmul(x, w);
    for (int i = 0; i < 3; ++i) y = y + matmul_add(x, w, b);
    tape.gradient(y, {early, w, b});
  }
  CHECK((seen.order == std::vector<std::size_t>{1, 2, 0}));
  CHECK(seen.gradients[0] == std::vector<float>(4, 2));       // for each row of y
  CHECK(seen.gradients[1] == std::vector<float>(12, 6 * 2));  // six products of two rows
  CHECK(seen.gradients[2] == std::vector<float>(4, 4 * 2));   // four sums of two rows
}

TEST_CASE(
    "products that were put off in a traced function are reported, and their gradient is whole") {
  const Variable w("w", ones({3, 4}));
  const auto f = trace([w](Tensor x) {
    GradientTape tape;
    Tensor y = zeros({2, 4});
    for (int i = 0; i < 4; ++i) y = y + matmul(x, w);
    return tape.gradient(y, w);
  });
  const Tensor x = ones({2, 3});
  Tensor found;
  const Events events = events_of([&] { found = f(x); });  // this call is captured
  CHECK(found.to_vector<float>() == std::vector<float>(12, 4 * 2));
  CHECK(count(events, "complete 0") == 1);
  CHECK(count(events, "backward ends") == 1);
}

TEST_CASE("a persistent tape plays each record once, whatever sources stand between") {
  const Variable x("x", full({2}, 2.0f)), q("q", full({2}, 5.0f));
  EventLog log;
  const ObserverScope scope(log);
  GradientTape tape({.persistent = true});
  const Tensor u = x * 3.0f, v = u * q, z = v * 7.0f;
  for (int again = 0; again < 2; ++again) {
    const auto found = tape.gradient(z, {v, q, x});
    CHECK(found[0].to_vector<float>() == std::vector<float>{7, 7});
    CHECK(found[1].to_vector<float>() == std::vector<float>{42, 42});
    CHECK(found[2].to_vector<float>() == std::vector<float>{105, 105});
  }
}

namespace {
/// Fills memory of the stack, which functions that are called next may use.
[[gnu::noinline]] void fill_stack(char byte) {
  volatile char bytes[1 << 15];
  for (volatile char& each : bytes) each = byte;
}
}  // namespace

TEST_CASE("the target of a tape inside another is reported as a source too") {
  const Variable w("w", full({2}, 3.0f));
  GradientTape outer;
  const Tensor before = w * 2.0f;
  Completions seen;
  const ObserverScope scope(seen);
  GradientTape tape;
  const Tensor y = w * w, z = y * 2.0f;
  fill_stack(0);
  const auto found = tape.gradient(z, {z, w});
  CHECK((seen.order == std::vector<std::size_t>{0, 1}));
  CHECK(found[0].to_vector<float>() == std::vector<float>{1, 1});
  CHECK(found[1].to_vector<float>() == std::vector<float>{12, 12});
}

TEST_CASE("an observer that comes during a backward pass is not notified of its end") {
  const Variable w("w", ones({2}));
  EventLog log;
  std::unique_ptr<ObserverScope> scope;
  const auto begins = custom_gradient([&](Tensor t) {
    return std::pair(t * 2.0f, [&](Tensor up) {
      scope = std::make_unique<ObserverScope>(log);
      return up * 2.0f;
    });
  });
  GradientTape tape;
  const Tensor slope = tape.gradient(begins(w), w);
  scope.reset();
  CHECK(slope.to_vector<float>() == std::vector<float>{2, 2});
  CHECK(count(log.events, "end multiply (2,)") == 1);
  CHECK(count(log.events, "backward begins") == 0);
  CHECK(count(log.events, "backward ends") == 0);
  CHECK(count(log.events, "backward fails") == 0);
}

namespace {
/// The numbers of inputs of the ops with this name, and whether all inputs are on the CPU.
struct Inputs : Observer {
  std::string op;
  std::vector<int> counts;
  bool on_host = true;
  void op_begins(const GateCall& call) override {
    if (call.op.name != op) return;
    counts.push_back(call.input_count);
    for (int i = 0; i < std::min(call.input_count, 2); ++i)
      on_host &= call.inputs[i]->device() == cpu();
  }
};
}  // namespace

TEST_CASE("the matrices of a gradient's product are reported as tensors of the CPU") {
  const Variable w("w", ones({3, 4}));
  const auto last = custom_gradient([](Tensor t) {
    return std::pair(t * 1.0f, [](Tensor up) {
      fill_stack(0x5a);
      return up;
    });
  });
  Inputs seen;
  seen.op = "matmul";
  GradientTape tape;
  const Tensor y = last(matmul(ones({2, 3}), w));
  Tensor slope;
  {
    const ObserverScope scope(seen);
    slope = tape.gradient(y, w);
  }
  CHECK(slope.to_vector<float>() == std::vector<float>(12, 2));
  CHECK(seen.counts == std::vector<int>{2});
  CHECK(seen.on_host);
}

TEST_CASE("a gradient that is added in place is reported as an op of two inputs") {
  const Variable w("w", zeros({3}));
  Inputs seen;
  seen.op = "add";
  GradientTape tape;
  const Tensor plain = w + 1.0f, curved = tanh(w), y = plain * curved;
  Tensor slope;
  {
    const ObserverScope scope(seen);
    slope = tape.gradient(y, w);
  }
  // tanh(0) + (0 + 1) tanh'(0)
  CHECK(slope.to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(seen.counts == std::vector<int>{2});
}

TEST_CASE("each record is told before its gradients, with the gradient of its output") {
  struct Listener : Observer {
    std::vector<std::string> told;
    bool matrices_are_told = true;
    void record_played(const Record& record, const Body* dy) override {
      told.push_back(std::string(record.op->name) + (dy ? "" : " without"));
    }
    void op_ends(const GateCall& call) override {
      for (int i = 0; i < call.input_count; ++i)
        if (const Body* const x = call.inputs[i])
          matrices_are_told &= x->contiguous == is_row_major(x->shape, x->strides);
    }
  };
  const Variable w("w", random::normal({3, 4}));
  const Tensor x = random::normal({2, 3});
  Listener listener;
  GradientTape tape;
  const Tensor loss = sum(tanh(matmul(x, w)));
  {
    const ObserverScope scope(listener);
    tape.gradient(loss, w);
  }
  CHECK(listener.told == std::vector<std::string>{"sum", "tanh", "matmul"});
  CHECK(listener.matrices_are_told);
}
}  // namespace reel::tests
