// SPDX-License-Identifier: BSD-3-Clause
// Flows of several threads: tapes that others end, values that a trace reads of another thread's
// tape, what observers read of it, limits of the threads.
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "lib/flow/context.hpp"
#include "lib/flow/observer.hpp"
#include "lib/pool/thread_count.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
TEST_CASE("a tape that another thread ends takes no newer tape along", "[threads]") {
  const Variable w("w", tensor({1.0f, 2.0f}));
  auto first = std::make_unique<GradientTape>();
  GradientTape second({.persistent = true});
  const Tensor y = w * w;
  std::thread([&] { first.reset(); }).join();
  { const GradientTape third; }  // the first tape is closed now
  CHECK(equal(second.gradient(y, w), tensor({2.0f, 4.0f})));
  CHECK(equal(second.gradient(y * w, w), tensor({3.0f, 12.0f})));
}

TEST_CASE("a traced function that reads a tensor of another thread's tape marks each result",
          "[threads]") {
  const Tensor x = tensor({1.0f, 2.0f});
  GradientTape tape;
  tape.watch(x);
  const Tensor h = x * 2;
  const Tensor r = elsewhere([&] {
    const auto traced = trace([&](const Tensor& y) { return y * h; });
    const Tensor y = ones({2});
    Tensor made;
    for (int i = 0; i < 8; ++i) made = traced(y);
    return made;
  });
  CHECK(equal(stop_gradient(r), tensor({2.0f, 4.0f})));
  CHECK(refusal([&] { r* x; }).find("another thread") != std::string::npos);
}

TEST_CASE("what an observer computes from another thread's tensors is none of its thread's",
          "[threads]") {
  const Tensor x = tensor({1.0f, 2.0f});
  GradientTape tape;
  tape.watch(x);
  const Tensor h = x * 2;
  elsewhere([&] {
    struct Reader : Observer {
      explicit Reader(const Tensor& of) : tensor(of) {}
      void op_ends(const GateCall&) override { read = sum(tensor * 3).item<float>(); }
      Tensor tensor;
      float read = 0;
    } reader(h);
    const Tensor own = ones({3});
    const std::uint64_t before = Context::here().marked_reads;
    const ObserverScope scope(reader);
    exp(own);
    CHECK(reader.read == 18);
    CHECK(Context::here().marked_reads == before);
    Tensor(h) * 2;
    CHECK(Context::here().marked_reads > before);
    return own;
  });
}

TEST_CASE("the advice for another thread's value names the argument where it has a name",
          "[threads]") {
  const Tensor x = tensor({1.0f, 2.0f});
  GradientTape tape;
  tape.watch(x);
  const Tensor r = elsewhere([&] { return x * 2; });
  CHECK(refusal([&] { x* r; }).find("stop_gradient(y) makes a constant of it.") !=
        std::string::npos);
  CHECK(refusal([&] { r* x; }).find("stop_gradient(x) makes a constant of it.") !=
        std::string::npos);
  CHECK(refusal([&] {
          concat({x, x, r}, 0);
        }).find("stop_gradient() makes a constant of it.") != std::string::npos);
}

TEST_CASE("a second gradient goes through a saved result that another thread's tape watches too",
          "[threads]") {
  const Tensor x = tensor({0.0f, 1.0f});
  GradientTape tape;
  tape.watch(x);
  elsewhere([&] {
    GradientTape outer;
    outer.watch(x);
    Tensor slope;
    {
      GradientTape inner;
      inner.watch(x);
      slope = inner.gradient(exp(x), x);
    }
    CHECK(allclose(slope, tensor({1.0f, 2.7182818f})));
    CHECK(allclose(outer.gradient(slope, x), tensor({1.0f, 2.7182818f})));
    return slope;
  });
}

TEST_CASE("a mark means nothing after the thread of its tape has ended", "[threads]") {
  std::promise<void> made, done;
  Tensor h;
  std::thread other([&] {
    const Tensor z = ones({2});
    GradientTape tape;
    tape.watch(z);
    h = z * 2;
    made.set_value();
    done.get_future().wait();
  });
  made.get_future().wait();
  std::uint64_t before = Context::here().marked_reads;
  const Tensor r = h * 2;
  CHECK(Context::here().marked_reads > before);
  done.set_value();
  other.join();
  before = Context::here().marked_reads;
  r * 2;
  CHECK(Context::here().marked_reads == before);
}

TEST_CASE("a tensor that a function with a gradient gives back stays without its mark",
          "[threads]") {
  const Tensor x = tensor({1.0f, 2.0f}), kept = tensor({3.0f, 4.0f});
  GradientTape tape;
  tape.watch(x);
  const Tensor r = elsewhere([&] {
    const auto gives = custom_gradient(
        [&](Tensor) { return std::pair(kept, [](Tensor upstream) { return upstream; }); });
    return gives(x);
  });
  CHECK(refusal([&] { r* x; }).find("another thread") != std::string::npos);
  CHECK(equal(tape.gradient(sum(kept * x), x), kept));
}

TEST_CASE("as many threads as the library can have may be asked for") {
  const int before = num_threads();
  CHECK_NOTHROW(set_num_threads(kernels::most_threads));
  CHECK(num_threads() == kernels::most_threads);
  set_num_threads(before);
  CHECK_THROWS_AS(set_num_threads(kernels::most_threads + 1), Error);
  CHECK_THROWS_AS(set_num_threads(0), Error);
  CHECK(num_threads() == before);
}
}  // namespace reel::tests
