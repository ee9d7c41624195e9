// SPDX-License-Identifier: BSD-3-Clause
// Which events observers and interceptors get at the edges: while ops only infer, in a pause, when
// an error leaves an observer, and for values that C++ reads from the library.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "flow/event_log.hpp"

namespace reel::tests {
namespace {
/// Notes what C++ reads of the library.
struct Follower : Interceptor {
  std::vector<std::string> reasons;
  int host_reads = 0, variable_reads = 0, variables = 0;
  void cannot_follow(const char* what) override { reasons.emplace_back(what); }
  void host_read(const Tensor&, HostRead) override { ++host_reads; }
  const Tensor* variable_read(const Variable&, const Tensor&) override {
    ++variable_reads;
    return nullptr;
  }
  void variable_made(const Variable&) override { ++variables; }
};
/// The reasons during f for which a call could not be followed.
template <class F>
std::vector<std::string> reasons_of(const F& f) {
  Follower follower;
  const InterceptorScope scope(follower);
  f();
  return std::move(follower.reasons);
}
}  // namespace

TEST_CASE("a pause hides all events from interceptors, not only ops") {
  Variable w("w", ones({2}));
  Follower follower;
  const InterceptorScope scope(follower);
  const auto all = [&] {
    w.value();
    sum(w).item<float>();
    num_threads();
    const Variable made("made", ones({2}));
  };
  {
    const InterceptorPause pause;
    all();
  }
  CHECK(follower.reasons.empty());
  CHECK(follower.host_reads == 0);
  CHECK(follower.variable_reads == 0);
  CHECK(follower.variables == 0);
  all();
  CHECK(follower.reasons == std::vector<std::string>{"it reads num_threads()"});
  CHECK(follower.host_reads == 1);
  CHECK(follower.variable_reads >= 2);
  CHECK(follower.variables == 1);
}

TEST_CASE("a pause without an observer leaves the thread without one") {
  Context& context = Context::here();
  { const ObserverPause pause(context); }
  CHECK((context.mode & observed) == 0);
  EventLog log;
  const ObserverScope scope(log);
  {
    const ObserverPause pause(context);
    CHECK((context.mode & observed) == 0);
  }
  CHECK((context.mode & observed) != 0);
}

TEST_CASE("interceptors get what a program asks of a generator, and which errors it catches") {
  using Reasons = std::vector<std::string>;
  Generator generator(5);
  CHECK(reasons_of([&] { CHECK(generator.seed() == 5); }) ==
        Reasons{"it reads the seed of a generator of random numbers"});
  CHECK(reasons_of([&] { CHECK(generator.position() == 0); }) ==
        Reasons{"it reads the position of a generator of random numbers"});
  CHECK(reasons_of([&] { generator.restore(6, 7); }) ==
        Reasons{"it restores a generator of random numbers"});
  CHECK(reasons_of([] { thread_generator(); }) ==
        Reasons{"it asks for the generator of random numbers"});
  CHECK(reasons_of([] { CHECK_THROWS_AS(ones({2}) + ones({3}), ShapeError); }) ==
        Reasons{"it catches an error of the library"});
}

TEST_CASE("a clone of a generator draws what the generator draws next") {
  Generator generator(5);
  generator.set_position(1234);
  const Generator clone = generator.clone();
  CHECK(clone.seed() == 5);
  CHECK(clone.position() == 1234);
  generator.set_position(1);
  CHECK(clone.position() == 1234);
}

TEST_CASE("interceptors are notified that an observer has thrown") {
  struct Thrower : Observer {
    void op_ends(const GateCall&) override { throw std::runtime_error("not wanted"); }
  } thrower;
  Follower follower;
  const InterceptorScope guest(follower);
  const ObserverScope scope(thrower);
  CHECK_THROWS_AS(exp(ones({2})), std::runtime_error);
  CHECK(follower.reasons == std::vector<std::string>{"an observer throws"});
}

TEST_CASE("an observer computes while the program only infers, and the program still infers") {
  struct Adder : Observer {
    float sum_of_read = 0;
    void variable_read(const Variable& x) override { sum_of_read = sum(x).item<float>(); }
  } adder;
  const Variable w("w", tensor({1.0f, 2.0f, 4.0f}));
  const Tensor x = ones({2, 3});
  EventLog log;
  const ObserverScope first(log), second(adder);
  const InferScope infers;
  w.value();
  CHECK(adder.sum_of_read == 7);
  CHECK((Context::here().mode & infer_only) != 0);
  log.events.clear();
  CHECK(softmax(x).shape() == Shape({2, 3}));
  CHECK(log.events.empty());
}

TEST_CASE("ops, gradients and kernels have events of their own") {
  struct Counts : Observer {
    int ops[2] = {}, gradients[2] = {}, kernels = 0;
    void op_begins(const GateCall& call) override { ops[0] += call.part == Part::value; }
    void op_ends(const GateCall& call) override { ops[1] += call.part == Part::value; }
    void gradient_begins(const GateCall& call) override {
      gradients[0] += call.part != Part::value;
    }
    void gradient_ends(const GateCall& call) override { gradients[1] += call.part != Part::value; }
    void kernel_begins(const DeviceCall&) override { ++kernels; }
    void kernel_ends(const DeviceCall&) override { ++kernels; }
  } counts;
  const Variable w("w", ones({2, 3}));
  GradientTape tape;
  const ObserverScope scope(counts);
  const Tensor y = tanh(w);
  CHECK(counts.ops[0] == 1);
  CHECK(counts.ops[1] == 1);
  CHECK(counts.gradients[0] == 0);
  tape.gradient(y, w);
  CHECK(counts.ops[0] == counts.ops[1]);
  CHECK(counts.gradients[0] == 1);  // tanh'0
  CHECK(counts.gradients[1] == 1);
  if (w.device() == cpu()) CHECK(counts.kernels == 0);
}

TEST_CASE(
    "the error of a backward pass is thrown, not that of an observer that is notified of it") {
  struct Thrower : Observer {
    int ends = 0;
    void backward_ends(bool) override {
      ++ends;
      throw std::logic_error("of the observer");
    }
  } thrower;
  register_op("aside_refuses", [](const OpCall& call) { return call.input(0) * 1.0f; });
  register_gradient("aside_refuses", [](const OpCall&, const Tensor&) -> Tensors {
    throw std::runtime_error("of the gradient");
  });
  const Variable w("w", ones({2}));
  const ObserverScope scope(thrower);
  {
    GradientTape tape;
    const Tensor y = call_op("aside_refuses", {w});
    CHECK_THROWS_WITH(tape.gradient(y, w), "of the gradient");
  }
  CHECK(thrower.ends == 1);
  GradientTape tape;
  const Tensor y = exp(w);
  CHECK_THROWS_WITH(tape.gradient(y, w), "of the observer");
  CHECK(thrower.ends == 2);
}

TEST_CASE("a number beside a tensor is shown as one element that can be computed with") {
  struct Numbers : Observer {
    std::vector<std::int64_t> elements;
    std::vector<float> doubled;
    void op_begins(const GateCall& call) override {
      for (int i = 0; i < call.input_count; ++i)
        if (const Body& x = *call.inputs[i]; x.rank() == 0) {
          elements.push_back(x.elements);
          doubled.push_back((contiguous_copy(x) * 2.0f).item<float>());
        }
    }
  } numbers;
  const Tensor x = ones({3});
  const ObserverScope scope(numbers);
  x * 2.5f;
  1.5f - x;
  CHECK(numbers.elements == std::vector<std::int64_t>{1, 1});
  CHECK(numbers.doubled == std::vector<float>{5.0f, 3.0f});
}

TEST_CASE("a fast path that cannot make a result leaves no event") {
  const Tensor x = arange(0, 24).to(DType::float32).reshape({4, 6}), rows = tensor({0, 2});
  CHECK(events_of([&] { x(rows); }) == Events{"begin take", "end take (2, 6)"});
  std::thread([] {
    Context::here().set_watchful();  // as if another thread had a tape
    CHECK(events_of([] { CHECK_THROWS_AS(Tensor()(0), Error); }).back().starts_with("error "));
    CHECK(events_of([] { CHECK_THROWS_AS(transpose(Tensor()), Error); }).back() ==
          "error transpose");
  }).join();
  CHECK(events_of([&] { transpose(x); }) == Events{"begin transpose", "end transpose (6, 4)"});
}

TEST_CASE("each op of a backward pass that adds to a gradient has a beginning and an end") {
  const Variable w("w", ones({3, 4}));
  const Tensor x = ones({2, 3});
  const Events events = events_of([&] {
    GradientTape tape;
    const Tensor loss = sum(matmul(x, w)) + sum(matmul(x * 3.0f, w)) + sum(w(0)) +
                        sum(w(range(1, 3))) + sum(take(w, tensor({0, 2}))) + sum(w(all, 1)) +
                        sum(w * 2.0f) + sum(w);
    tape.gradient(loss, w);
  });
  const auto starting = [&](const std::string& start) {
    return std::count_if(events.begin(), events.end(),
                         [&](const std::string& line) { return line.starts_with(start); });
  };
  CHECK(starting("begin ") > 20);
  CHECK(starting("begin ") == starting("end "));
}
}  // namespace reel::tests
