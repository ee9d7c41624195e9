// SPDX-License-Identifier: BSD-3-Clause
// Observers get the ops on every path of the gate. No op takes another path because of
// them.
#include <stdexcept>
#include <utility>

#include "flow/event_log.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/gate.hpp"

namespace reel::tests {
TEST_CASE("the fast paths of pointwise ops are observed, and write over temporaries as ever") {
  const Tensor x = arange(0, 12).to(DType::float32).reshape({3, 4}) / 7.0f;
  const Tensor row = arange(0, 4).to(DType::float32), wide = ones({64, 64});
  const Events events = observe_alike([&](Trail& trail) {
    trail.add(x + x);
    trail.add(exp(x));
    trail.add(x * 2.0f);
    trail.add(3.0f - x);
    trail.add(x + row);
    trail.add(exp(exp(x)));
    trail.add(tanh(x * 2.0f + x) / (1.0f + abs(x)));
    trail.add(wide + transpose(wide));
    trail.add(x > row);
    Tensor taken = x * 3.0f;
    const void* const place = Access::body(taken)->data;
    const Tensor made = exp(std::move(taken));
    trail.notes.push_back(Access::body(made)->data == place ? "over" : "beside");
    trail.add(made);
  });
  CHECK(count(events, "begin exp") == 4);
  CHECK(count(events, "end exp (3, 4)") == 4);
  CHECK(count(events, "begin multiply") == 3);
  CHECK(count(events, "begin transpose") == 1);
  CHECK(count(events, "end greater (3, 4)") == 1);
}

TEST_CASE("a number beside a tensor is shown as a tensor") {
  struct Numbers : Observer {
    std::vector<float> seen;
    void op_begins(const GateCall& call) override {
      for (int i = 0; i < call.input_count; ++i) {
        const Body& x = *call.inputs[i];
        if (x.rank() == 0 && x.dtype == DType::float32) seen.push_back(*x.as<float>());
      }
    }
  } numbers;
  const Tensor x = ones({3});
  const ObserverScope scope(numbers);
  x * 2.5f;
  1.5f - x;
  where(x > 0.5f, x, 4.0f);
  CHECK(numbers.seen == std::vector<float>{2.5f, 1.5f, 0.5f, 4.0f});
}

TEST_CASE("direct and general calls are observed") {
  const Tensor x = arange(0, 12).to(DType::float32).reshape({3, 4}), column = ones({3, 1});
  const Events events = observe_alike([&](Trail& trail) {
    trail.add(sum(x, 1));
    trail.add(softmax(x));
    trail.add(x + column);
    trail.add(where(x > 3.0f, x, column));
    trail.add(concat({x, x, x, x}, 0));
    trail.add(matmul_add(x, transpose(x), ones({3})));
    trail.add(x.reshape({4, 3}));
    trail.add(x + arange(0, 4));  // int64
  });
  CHECK(count(events, "end sum (3,)") == 1);
  CHECK(count(events, "end softmax (3, 4)") == 1);
  CHECK(count(events, "end where (3, 4)") == 1);
  CHECK(count(events, "end concat (12, 4)") == 1);
  CHECK(count(events, "end reshape (4, 3)") == 1);
  CHECK(count(events, "begin cast") == 1);
}

TEST_CASE("an op is reported once, with its inputs as the kernel reads them") {
  const Tensor x = ones({2, 3}), whole = arange(0, 3);
  CHECK(events_of([&] { x + whole; }) ==
        Events{"begin cast", "end cast (3,)", "begin add", "end add (2, 3)"});
  CHECK(events_of([&] { x + x; }) == Events{"begin add", "end add (2, 3)"});
  CHECK(events_of([&] { mean(x); }) == Events{"begin mean", "end mean ()"});
}

TEST_CASE("views and small products take their fast paths") {
  const Tensor x = arange(0, 24).to(DType::float32).reshape({4, 6});
  const Events events = observe_alike([&](Trail& trail) {
    trail.add(transpose(x));
    trail.add(x(1));
    trail.add(x(all, range(1, 3)));
    for (const Tensor& part : split(x, 2)) trail.add(part);
    trail.add(matmul(x, transpose(x)));
    trail.add(take(x, arange(0, 2)));
  });
  CHECK(count(events, "end transpose (6, 4)") == 2);
  CHECK(count(events, "begin slice") == 4);
  CHECK(count(events, "end matmul (4, 4)") == 1);
}

TEST_CASE("a record is reported after its op, and tapes record the same") {
  const Variable w("w", arange(0, 12).to(DType::float32).reshape({3, 4}) / 12.0f);
  const Tensor x = ones({3, 4}), row = ones({4}), whole = arange(0, 4);
  const Events events = observe_alike([&](Trail& trail) {
    GradientTape tape;
    tape.watch(x);
    const Tensor a = x + w, b = exp(a), c = exp(exp(b)) * 2.0f, d = c + row, e = softmax(d);
    const Tensor f = matmul(e, transpose(x)), g = f(0), h = where(a > 0.5f, a, whole);
    const Tensor y = concat({sum(g, keepdims), sum(h, 1)}, 0);
    trail.add_records();
    for (const Tensor& each : {a, b, c, d, e, f, g, h, y}) trail.add(each);
    trail.add(tape.gradient(sum(y), w));
  });
  CHECK(count(events, "record exp") == 3);
  CHECK(count(events, "record add") == 2);
  CHECK(count(events, "record softmax") == 1);
  CHECK(count(events, "record slice") == 1);
  CHECK(events_of([&] {
          GradientTape tape;
          exp(w);
          w + x;
          w + row;
          sum(w);
        }) == Events{"read w", "begin exp", "end exp (3, 4)", "record exp",  //
                     "read w", "begin add", "end add (3, 4)", "record add",  //
                     "read w", "begin add", "end add (3, 4)", "record add",  //
                     "read w", "begin sum", "end sum ()", "record sum"});
}

TEST_CASE("functions and kernels of users are observed, and the ops inside of them") {
  register_op("flow_tripled", [](const OpCall& call) { return call.input(0) * 3.0f; });
  register_gradient("flow_tripled",
                    [](const OpCall&, const Tensor& dy) { return Tensors{dy * 3.0f}; });
  const Tensor x = ones({2});
  CHECK(
      events_of([&] { call_op("flow_tripled", {x}); }) ==
      Events{"begin flow_tripled", "begin multiply", "end multiply (2,)", "end flow_tripled (2,)"});
  CHECK(events_of([&] {
          GradientTape tape;
          tape.watch(x);
          const Tensor y = call_op("flow_tripled", {x});
          tape.gradient(y, x);
        }) == Events{"begin flow_tripled", "begin multiply", "end multiply (2,)",
                     "end flow_tripled (2,)", "record flow_tripled", "backward begins",
                     "begin multiply", "end multiply (2,)", "complete 0", "backward ends"});
}

TEST_CASE("while ops only infer, observers are notified of no kernel") {
  const Tensor x = ones({2, 3});
  CHECK(events_of([&] {
          const InferScope scope;
          exp(x);
          softmax(x);
          matmul(x, transpose(x));
        }) == Events{});
}

TEST_CASE("a kernel that an interceptor defers is reported when it runs") {
  struct Deferral : Interceptor {
    std::function<void()> run;
    std::vector<Tensor> held;
    bool before(const GateCall& call) override {
      const Body* const x = call.inputs[0];
      Body* const y = call.outputs[0];
      held = {Access::share(const_cast<Body*>(x)), Access::share(y)};
      run = [&op = call.op, x, y] {
        const Body* const inputs[] = {x};
        Body* const outputs[] = {y};
        run_deferred_kernel({op, inputs, 1, {}, {}, outputs, 1, nullptr});
      };
      return false;
    }
  } deferral;
  EventLog log;
  const ObserverScope scope(log);
  const Tensor x = zeros({2});
  Tensor y;
  {
    const InterceptorScope guest(deferral);
    y = exp(x);
  }
  log.events.clear();
  deferral.run();
  CHECK(log.events == Events{"begin exp", "end exp (2,)"});
  CHECK(y.to_vector<float>() == std::vector<float>{1, 1});
}
}  // namespace reel::tests
