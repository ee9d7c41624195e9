// SPDX-License-Identifier: BSD-3-Clause
// A forward pass that runs partly on another thread.
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "lib/gate/marks.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
using Step = detail::Function<Tensor(const Tensor&)>;
struct Use {
  const char* name;
  Step step;
};

void register_ops() {
  static const bool done = [] {
    register_op("cross_thread_plain",
                [](const OpCall& call) { return Tensors(call.input(0) * 2); });
    register_op("cross_thread_own", [](const OpCall& call) { return Tensors(call.input(0) * 2); });
    register_gradient("cross_thread_own", [](const OpCall&, Tensor up) { return up * 2; });
    return true;
  }();
  (void)done;
}
Step captured(Tensor held) {
  return [held](const Tensor& x) {
    return custom_gradient([held](Tensor t) {
      return std::pair{t * held, [](Tensor up) { return up; }};
    })(x);
  };
}

/// Computations of a value from a 2 by 2 matrix so that the matrix gets a gradient.
std::vector<Use> uses() {
  register_ops();
  const auto twice = [](Tensor t) { return std::pair{t * 2, [](Tensor up) { return up * 2; }}; };
  const Variable w("w", ones({2, 2}));
  const auto traced = trace([](const Tensor& x) { return tanh(x) * 2; });
  return {
      {"product", [](const Tensor& x) { return x * x; }},
      {"number", [](const Tensor& x) { return x * 2; }},
      {"row", [](const Tensor& x) { return ones({2}).to(x.dtype()) + x; }},
      {"transposed", [](const Tensor& x) { return x + transpose(x * 1); }},
      {"unary", [](const Tensor& x) { return exp(x); }},
      {"temporary", [](const Tensor& x) { return exp(x * 2 + 1) - 1; }},
      {"matmul", [](const Tensor& x) { return matmul(x, x); }},
      {"Variable", [w](const Tensor& x) { return matmul(x, w); }},
      {"reshape", [](const Tensor& x) { return reshape(x, {4}); }},
      {"transpose", [](const Tensor& x) { return transpose(x); }},
      {"slice", [](const Tensor& x) { return x(0, 1); }},
      {"split", [](const Tensor& x) { return split(x, 2)[1]; }},
      {"stack",
       [](const Tensor& x) {
         return stack({x, x});
       }},
      {"cast", [](const Tensor& x) { return x.to(DType::float64) + x.to(DType::float32); }},
      {"sum", [](const Tensor& x) { return sum(x); }},
      {"softmax", [](const Tensor& x) { return softmax(x); }},
      {"where", [](const Tensor& x) { return where(x > 0, x, 0); }},
      {"take",
       [](const Tensor& x) {
         return take(x, tensor({1, 0}), 0);
       }},
      {"user op", [](const Tensor& x) { return call_op("cross_thread_plain", {x}); }},
      {"user gradient", [](const Tensor& x) { return call_op("cross_thread_own", {x}); }},
      {"custom", [twice](const Tensor& x) { return custom_gradient(twice)(x); }},
      {"captured",
       [](const Tensor& x) {
         return captured(x)(ones({2, 2}).to(x.dtype()));
       }},
      {"checkpoint", [](const Tensor& x) { return checkpoint([](Tensor t) { return t * t; })(x); }},
      {"checkpoint that captures",
       [](const Tensor& x) {
         return checkpoint([x](Tensor t) { return t * x; })(ones({2, 2}).to(x.dtype()));
       }},
      {"trace", [traced](const Tensor& x) { return traced(x); }},
      {"assign",
       [](const Tensor& x) {
         Variable v("v", zeros({2, 2}).to(x.dtype()));
         v.assign(x);
         return v * 1;
       }},
      {"assign_add",
       [](const Tensor& x) {
         Variable v("v", zeros({2, 2}).to(x.dtype()));
         v.assign_add(x);
         v.assign_sub(ones({2, 2}).to(x.dtype()));
         return Tensor(v.clone() * 1);
       }},
      {"part of a Variable",
       [](const Tensor& x) {
         Variable v("v", zeros({3, 2, 2}).to(x.dtype()));
         v(1).assign(x);
         return v(2) * 1;
       }},
      {"new Variable", [](const Tensor& x) { return Variable("v", x).value() + 0; }},
  };
}
Tensor start(DType dtype) { return tensor({{1.0, 2.0}, {3.0, 4.0}}).to(dtype); }
}  // namespace

TEST_CASE("the result of another thread's op is refused, and both lines are named", "[threads]") {
  const Tensor x = tensor(3.0f);
  GradientTape tape;
  tape.watch(x);
  const Tensor h = x * x;
  unsigned there = 0;
  const Tensor r = elsewhere([&] {
    there = __LINE__ + 1;
    return h * x;
  });
  const unsigned here = __LINE__ + 1;
  const std::string text = refusal([&] { h + r; });
  INFO(text);
  CHECK(text.rfind("cross_thread.cpp:" + std::to_string(here) + ": add", 0) == 0);
  CHECK(text.find("multiply (cross_thread.cpp:" + std::to_string(there) + ")") != text.npos);
  CHECK(tape.gradient(h + stop_gradient(r), x).item<float>() == 6);
}

TEST_CASE("every op of another thread marks its result", "[threads]") {
  const DType dtype = GENERATE(DType::float32, DType::float64);
  const bool watched = GENERATE(false, true);  // the tensor itself, or one that is computed from it
  for (const Use& there : uses()) {
    INFO(there.name);
    for (int again = 0; again < 3; ++again) {  // a trace is captured, then replayed
      const Tensor x = start(dtype);
      Tensor r, further;
      {
        GradientTape tape({.persistent = true});
        tape.watch(x);
        const Tensor h = watched ? x : x * 2;
        r = elsewhere([&] { return there.step(h); });
        further = elsewhere([&] { return exp(elsewhere([&] { return r * 2; }) + 1); });
        check_cross_thread([&] { sum(h) + r; });
        check_cross_thread([&] { exp(r); });
        check_cross_thread([&] { sum(further) * x; });
        check_cross_thread([&] { tape.gradient(r, x, Unconnected::zero); });
        const Tensor y = sum(h) + sum(stop_gradient(r)) + sum(stop_gradient(further) * 0);
        CHECK(equal(tape.gradient(y, h), ones({2, 2}).to(dtype)));
        const Tensor outside =
            elsewhere([&] { return sum(r) + further; });  // on another thread it is a plain value
        CHECK(outside.defined());
      }
      GradientTape next;  // the tape has ended, so these are plain tensors
      next.watch(x);
      CHECK(next.gradient(sum(x * sum(r)) + sum(further), x).defined());
    }
  }
}

TEST_CASE("every use of a marked value under the tape is refused", "[threads]") {
  const Tensor x = start(DType::float32);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor r = elsewhere([&] { return x * 2; });
  const Tensor view = elsewhere([&] { return transpose(r); });
  const std::vector<Tensor> parts = split(elsewhere([&] {
                                            return stack({x, x});
                                          }).to(DType::int32),
                                          2);  // integers have no gradient
  CHECK(parts.size() == 2);
  for (const Use& here : uses()) {
    INFO(here.name);
    const std::string name = here.name;
    if (name == "new Variable" || name == "assign" || name == "part of a Variable") continue;
    check_cross_thread([&] { here.step(r); });
    check_cross_thread([&] { here.step(view); });
    CHECK(here.step(stop_gradient(r)).defined());
  }
  // Ops without a gradient accept the value.
  CHECK(argmax(r, 0).defined());
  CHECK(all(r > 0));
  CHECK(equal(r, r));
  // Ops during a pause, or under another tape, keep the mark.
  Tensor hidden;
  {
    const auto pause = tape.pause();
    hidden = exp(r) + view;
  }
  check_cross_thread([&] { hidden* x; });
  Variable v("v", zeros({2, 2}));
  v.assign(r);
  check_cross_thread([&] { v* x; });
  check_cross_thread([&] { v.value() + 1; });
  v.assign(ones({2, 2}));
  CHECK(equal(tape.gradient(v * x, x), ones({2, 2})));
  v.assign_add(r);
  check_cross_thread([&] { v* x; });
  v.assign(stop_gradient(r));
  CHECK(equal(tape.gradient(v * x, x), 2 * x));
}

TEST_CASE("a tape of another thread may watch what a tape has recorded; its results are marked",
          "[threads]") {
  const bool persistent = GENERATE(false, true);
  const Tensor x = start(DType::float64);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor h = x * 1;
  Tensor y, dh, second, view;
  elsewhere([&] {
    GradientTape outer({.persistent = true});
    outer.watch(h);
    GradientTape own({.persistent = persistent});
    own.watch(h);
    y = h * h * h;
    view = reshape(y, {4}) * 1;
    const Tensor target = sum(y) + sum(view);
    dh = own.gradient(target, h);
    second = outer.gradient(dh, h);
    return y;
  });
  CHECK(equal(stop_gradient(dh), 6 * stop_gradient(x) * stop_gradient(x)));
  CHECK(equal(stop_gradient(second), 12 * stop_gradient(x)));
  for (const Tensor* each : {&y, &view, &dh, &second}) check_cross_thread([&] { sum(*each) + x; });
  CHECK(equal(tape.gradient(h * stop_gradient(dh), x), stop_gradient(dh)));
}

TEST_CASE("what is computed from a tensor that tapes of several threads watch is of its own thread",
          "[threads]") {
  const Tensor x = start(DType::float32);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  constexpr std::size_t count = 3;
  std::vector<Tensor> values(count), slopes(count);
  std::vector<std::string> texts(count);
  std::promise<void> watched[count], all_watched, made[count], used;
  const std::shared_future<void> all = all_watched.get_future().share();
  const std::shared_future<void> use = used.get_future().share();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      GradientTape own({.persistent = true});
      own.watch(x);
      watched[t].set_value();
      all.wait();
      values[t] = x * x;
      slopes[t] = own.gradient(values[t] * x * values[t], x);
      made[t].set_value();
      use.wait();
      texts[t] = refusal([&] { x* values[(t + 1) % count]; });
    });
  for (std::promise<void>& each : watched) each.get_future().wait();
  all_watched.set_value();
  for (std::promise<void>& each : made) each.get_future().wait();
  const Tensor expected = 5 * x * x * x * x;
  for (std::size_t t = 0; t < count; ++t) {
    CHECK(allclose(stop_gradient(slopes[t]), stop_gradient(expected)));
    check_cross_thread([&] { values[t] * x; });
    check_cross_thread([&] { slopes[t] + 1; });
  }
  used.set_value();
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) CHECK(text.find("another thread") != text.npos);
}

TEST_CASE("a tape may watch what another thread's tape has recorded, or another thread has marked",
          "[threads]") {
  const DType dtype = GENERATE(DType::float32, DType::float64);
  const bool persistent = GENERATE(false, true);
  const Tensor z = start(dtype);
  for (const Use& use : uses()) {
    INFO(use.name);
    Tensor h, r, slope;
    std::promise<void> made, watched, computed, done;
    std::thread other([&] {
      GradientTape own({.persistent = persistent});
      own.watch(z);
      h = z * 2;
      made.set_value();
      watched.get_future().wait();
      r = use.step(h);  // it also belongs to this thread
      // gradient() refuses what a custom_gradient captures and does not list.
      const bool lost = std::string_view(use.name) == "captured";
      const Tensor y = sum(lost ? stop_gradient(r) : r) + sum(h * h);
      slope = own.gradient(y, h);
      computed.set_value();
      done.get_future().wait();
    });
    made.get_future().wait();
    {
      GradientTape tape({.persistent = true});
      tape.watch(h);
      watched.set_value();
      computed.get_future().wait();
      check_cross_thread([&] { r * 2; });
      check_cross_thread([&] { sum(h) + r; });
      check_cross_thread([&] { slope* h; });
      const Tensor third = elsewhere([&] { return sum(exp(r)) + z; });
      check_cross_thread([&] { third + h; });
      CHECK(equal(tape.gradient(h * stop_gradient(slope), h), stop_gradient(slope)));
    }
    GradientTape tape;  // it watches a value that has a mark of the other thread's tape
    const Tensor marked = elsewhere([&] { return h + 1; });
    tape.watch(marked);
    const Tensor fourth = elsewhere([&] { return marked * marked; });
    check_cross_thread([&] { fourth* marked; });
    CHECK(equal(tape.gradient(marked * stop_gradient(fourth), marked), stop_gradient(fourth)));
    done.set_value();
    other.join();
  }
}

TEST_CASE("a thread goes on with what it computed from many tapes' tensors", "[threads]") {
  const Tensor v = ones({2, 2});
  constexpr std::size_t count = 3;
  std::vector<Tensor> parts(count);
  std::promise<void> made[count], used;
  const std::shared_future<void> use = used.get_future().share();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      const Tensor x = start(DType::float32);
      GradientTape tape;
      tape.watch(x);
      parts[t] = x * 2;
      made[t].set_value();
      use.wait();
    });
  for (std::promise<void>& each : made) each.get_future().wait();
  GradientTape tape;
  tape.watch(v);
  Tensor y = v * (parts[0] + parts[1]);
  y = y * parts[2];
  y = exp(y * 0) * y;
  const Tensor slope = tape.gradient(y, v);
  used.set_value();
  for (std::thread& thread : threads) thread.join();
  CHECK(equal(slope, (parts[0] + parts[1]) * parts[2]));
}

TEST_CASE("marks of tapes that have ended are forgotten", "[threads]") {
  const Tensor x = start(DType::float32);
  const auto step = [&] {
    GradientTape outer;
    outer.watch(x);
    std::promise<void> made, done;
    Tensor h;
    std::thread other([&] {
      const Tensor z = start(DType::float32);
      GradientTape tape;
      tape.watch(z);
      h = z * 2;
      made.set_value();
      done.get_future().wait();
    });
    made.get_future().wait();
    elsewhere([&] {
      Tensor sums = h * x;
      for (int i = 0; i < 100; ++i) sums = sums + h * x;
      return sums;
    });
    done.set_value();
    other.join();
  };
  for (int i = 0; i < 300; ++i) step();
  CHECK(listed_mark_sets() < 200);
}

TEST_CASE("a value may come from the tapes of many threads", "[threads]") {
  const Tensor x = start(DType::float32);
  constexpr std::size_t count = 5;
  std::vector<Tensor> parts(count);
  std::promise<void> made[count], used;
  const std::shared_future<void> use = used.get_future().share();
  std::vector<std::string> texts(count);
  std::vector<std::thread> threads;
  Tensor all, some;
  for (std::size_t t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      GradientTape tape;
      tape.watch(x);
      parts[t] = x * static_cast<float>(t);
      made[t].set_value();
      use.wait();
      texts[t] = refusal([&] { all* x; });
    });
  for (std::promise<void>& each : made) each.get_future().wait();
  some = x + 1;  // five tapes watch x
  all = (parts[0] + parts[1]) * (parts[2] + parts[3]) + parts[4] + some;
  Variable v("v", all);
  used.set_value();
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) CHECK(text.find("another thread") != text.npos);
  GradientTape later;
  later.watch(x);
  CHECK(equal(later.gradient(all * x + v * x + some * x, x), 2 * all + some));
}

TEST_CASE("a third thread with a tape of its own does not take the mark away", "[threads]") {
  const Tensor x = start(DType::float32), v = ones({2, 2});
  GradientTape tape;
  tape.watch(x);
  const Tensor r = elsewhere([&] { return x * 2; });
  const bool ends = GENERATE(false, true);
  Tensor y, slope, deeper;
  std::promise<void> made, done;
  std::thread third([&] {
    auto own = std::make_unique<GradientTape>(TapeOptions{.persistent = true});
    own->watch(v);
    y = r * v + v;
    deeper = exp(reshape(y, {4}));
    slope = own->gradient(sum(deeper), v);
    if (ends) own.reset();
    made.set_value();
    done.get_future().wait();
  });
  made.get_future().wait();
  check_cross_thread([&] { y* x; });
  check_cross_thread([&] { sum(deeper) * x; });
  check_cross_thread([&] { slope + x; });
  done.set_value();
  third.join();
  check_cross_thread([&] { y + 1; });
}

TEST_CASE("what two threads' tapes follow is refused by both", "[threads]") {
  const Tensor x = start(DType::float32);
  GradientTape tape;
  tape.watch(x);
  const Tensor h = x * x;
  Tensor r, sums;
  std::promise<void> made, done;
  std::thread other([&] {
    const Tensor v = ones({2, 2});
    GradientTape own;
    own.watch(v);
    const Tensor k = v * 3;
    r = elsewhere([&] { return h * k; });
    sums = elsewhere([&] { return sum(h) + sum(k) + r; });
    check_cross_thread([&] { r* v; });
    check_cross_thread([&] { sums* v; });
    made.set_value();
    done.get_future().wait();
  });
  made.get_future().wait();
  check_cross_thread([&] { r* x; });
  check_cross_thread([&] { sums* x; });
  done.set_value();
  other.join();
  check_cross_thread([&] { r* x; });
}

TEST_CASE("a replay on another thread marks its result", "[threads]") {
  const Tensor x = start(DType::float32), constant = ones({2, 2});
  Variable v("v", ones({2, 2}));
  const auto f = trace([v, constant](const Tensor& t) { return tanh(t) * v + constant; });
  for (int call = 0; call < 3; ++call) f(x);  // f has been captured, and is replayed
  INFO(f.explain());
  CHECK(f.trace_count() == 1);
  GradientTape tape;
  tape.watch(x);
  const Tensor h = x * 2;
  check_cross_thread([&] { sum(elsewhere([&] { return f(h); })) * x; });
  check_cross_thread([&] { sum(elsewhere([&] { return f(x); })) * x; });
  CHECK((elsewhere([&] { return f(ones({2, 2})); }) * x).defined());
  tape.watch(constant);
  check_cross_thread([&] { sum(elsewhere([&] { return f(ones({2, 2})); })) * x; });
  const auto g = trace([&](const Tensor& t) { return t + v; });
  for (int call = 0; call < 3; ++call) elsewhere([&] { return g(ones({2, 2})); });
  elsewhere([&] {
    v.assign(h);
    return h;
  });
  check_cross_thread([&] { sum(elsewhere([&] { return g(ones({2, 2})); })) * x; });
  check_cross_thread([&] { g(x); });
}

TEST_CASE("Variables that another thread reads are constants there", "[threads]") {
  const Variable w("w", start(DType::float32));
  const nn::Linear layer(2, 2);
  GradientTape tape;
  const Tensor y = w * w + layer(ones({1, 2}));
  const Tensor r = elsewhere([&] {
    const Tensor value = w.value();
    return value * 2 + w + layer(w);
  });
  CHECK(equal(tape.gradient(y + r, w), 2 * w));
}

TEST_CASE("marks mean nothing to other tapes, and after their own", "[threads]") {
  const Tensor x = start(DType::float32), z = start(DType::float32);
  GradientTape outer({.persistent = true});
  outer.watch(z);
  Tensor r, both;
  {
    GradientTape inner;
    inner.watch(x);
    const Tensor h = x * 2, k = x * 3;
    r = elsewhere([&] { return h * h; });
    both = elsewhere([&] { return h * k; });
    check_cross_thread([&] { r* z; });
    check_cross_thread([&] { both* z; });
  }
  CHECK(equal(outer.gradient(r * z, z), r));  // the inner tape has ended
  CHECK(equal(outer.gradient(tanh(r * z) * 0 + z, z), ones({2, 2})));
  const Tensor spent = [&] {
    GradientTape tape;
    tape.watch(x);
    const Tensor h = x * x;
    const Tensor there = elsewhere([&] { return h + 1; });
    tape.gradient(h, x);
    return there * z;
  }();
  CHECK(equal(outer.gradient(spent, z), x * x + 1));
}

TEST_CASE("threads pass values while others open and close tapes", "[threads]") {
  const Tensor shared = start(DType::float32);
  const Variable w("w", start(DType::float32));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t]() noexcept {
      for (int i = 0; i < 200; ++i) {
        GradientTape tape;
        tape.watch(shared);
        const Tensor h = shared * static_cast<float>(t + 1);
        Tensor r;
        if (i % 20 == 0) {
          r = elsewhere([&] { return h * h; });
          if (refusal([&] { r + h; }).empty()) ++wrong[t];
        }
        const auto slopes = tape.gradient(sum(h * w), {GradientSource(shared), GradientSource(w)});
        if (!equal(slopes[0], w * static_cast<float>(t + 1))) ++wrong[t];
        if (!equal(slopes[1], shared * static_cast<float>(t + 1))) ++wrong[t];
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}
}  // namespace reel::tests
