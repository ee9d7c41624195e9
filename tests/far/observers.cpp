// SPDX-License-Identifier: BSD-3-Clause
// Observers of ops on a device. They are called when a kernel is put on the queue.
#include "flow/event_log.hpp"
#include "support/far_device.hpp"

using namespace reel;
using namespace reel::tests;

namespace {
const Device far = far_device();

/// "begin exp", "end exp": the kernels that are put on a queue.
struct KernelLog : Observer {
  std::vector<std::string> events;
  void kernel_begins(const DeviceCall& call) override {
    events.push_back("begin " + std::string(call.op.name));
  }
  void kernel_ends(const DeviceCall& call) override {
    events.push_back("end " + std::string(call.op.name));
  }
};
}  // namespace

TEST_CASE("an op on a device is reported while its kernel waits") {
  const Tensor x = ones({3}).to(far);
  synchronize(far);
  CHECK(events_of([&] { exp(x); }) == Events{"begin exp", "end exp (3,)"});
  CHECK(far_kernels_waiting(0) == 1);
  CHECK(events_of([&] { x.to(cpu()); }) == Events{"begin to_device", "end to_device (3,)"});
}

TEST_CASE("a training step on a device is the same with an observer") {
  const Variable w("w", (arange(0, 6).to(DType::float32).reshape({3, 2}) / 6.0f).to(far)),
      b("b", zeros({2}).to(far));
  const Tensor x = (arange(0, 12).to(DType::float32).reshape({4, 3}) / 12.0f).to(far);
  const auto program = [&](Trail& trail) {
    GradientTape tape;
    Tensor y = tanh(matmul_add(x, w, b));
    y = softmax(y * y + b);
    trail.add_records();
    trail.notes.push_back(std::to_string(far_kernels_run(0)));
    const std::size_t before = far_kernels_run(0);
    const auto found = tape.gradient(sum(square(y)), {w, b});
    synchronize(far);
    trail.notes.back() = std::to_string(far_kernels_run(0) - before);
    for (const Tensor& slope : found) trail.bits.push_back(to_string(slope, ".9f"));
  };
  const Events events = observe_alike(program);
  CHECK(count(events, "begin softmax'") == 1);
  CHECK(count(events, "record matmul_add") == 1);
  CHECK(count(events, "complete 0") == 1);
  CHECK(count(events, "complete 1") == 1);
}

TEST_CASE("a replay on a device and an update are reported") {
  Variable w("w", ones({3}).to(far));
  const auto f = trace([w](Tensor x) mutable {
    GradientTape tape;
    const Tensor slope = tape.gradient(sum(softmax(w * x)), w);
    w.assign_sub(slope);
    return exp(x);
  });
  const Tensor x = ones({3}).to(far);
  for (int i = 0; i < 6; ++i) f(x);
  const Events events = events_of([&] { f(x); });
  CHECK(count(events, "begin softmax'") == 1);
  CHECK(count(events, "write w") == 1);
  CHECK(count(events, "end exp (3,)") == 1);
  CHECK(f.trace_count() == 1);
}

TEST_CASE("a kernel that fails after its op has ended is reported at the next wait") {
  const Tensor x = ones({3}).to(far), wrong = tensor({7}).to(far);
  struct Log : EventLog {
    unsigned line = 0;
    void error(const ErrorEvent& event) override {
      EventLog::error(event);
      line = event.caller.line;
      synchronize(far);  // an observer may use the device
    }
  } log;
  const ObserverScope scope(log);
  const unsigned line = __LINE__ + 1;
  const Tensor y = take(x, wrong);
  CHECK(log.events == Events{"begin take", "end take (1,)"});
  CHECK_THROWS_AS(synchronize(far), IndexError);
  CHECK(log.events == Events{"begin take", "end take (1,)", "error take"});
  CHECK(log.line == line);
  synchronize(far);
  CHECK(log.events.size() == 3);
}

TEST_CASE("observers are notified of kernels of a device, and of none of the CPU") {
  const Tensor x = ones({3}), there = x.to(far);
  KernelLog kernels;
  const ObserverScope scope(kernels);
  exp(x);
  sum(x);
  CHECK(kernels.events.empty());
  exp(there);
  CHECK(kernels.events == std::vector<std::string>{"begin exp", "end exp"});
}
