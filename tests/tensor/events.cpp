// SPDX-License-Identifier: BSD-3-Clause
// Events and pinned memory on the CPU and on the device of the tests.
#include <chrono>
#include <thread>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
TEST_CASE("events of the CPU are done at once, and measure the time of the host", "[events][cpu]") {
  const Event before(cpu());
  CHECK(before.done());
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const Event after(cpu());
  after.wait();
  CHECK(after.device() == cpu());
  CHECK(after.milliseconds_since(before) >= 2);
}

TEST_CASE("an event follows the work before it", "[events]") {
  const Tensor x = ones({100});
  const Event before(x.device());
  const Tensor y = x + x;
  Event after(x.device());
  const Event moved(std::move(after));
  moved.wait();
  CHECK(before.done());
  CHECK(moved.done());
  CHECK(moved.milliseconds_since(before) >= 0);
  CHECK(equal(y.to(cpu()), full({100}, 2).to(cpu())));
}

TEST_CASE("an Event that was moved from is done, and has no time", "[events][cpu]") {
  Event event(cpu());
  Event other = std::move(event);
  CHECK(event.done());  // NOLINT(bugprone-use-after-move)
  event.wait();
  CHECK_THROWS_WITH(other.milliseconds_since(event), Catch::Contains("moved from"));
  event = std::move(other);
  CHECK(event.done());
}

TEST_CASE("an Event that is assigned has the time of the other one", "[events][cpu]") {
  const Event first(cpu());
  Event event(cpu());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  event = Event(cpu());
  CHECK(event.milliseconds_since(first) >= 20);
}

TEST_CASE("pinned() copies to the host, and gives the tensor itself for the CPU", "[events]") {
  const Tensor x = arange(0, 6).reshape({2, 3});
  for (const Tensor& each : {x, transpose(x)}) {
    const Tensor y = pinned(each, x.device());
    CHECK(y.device() == cpu());
    CHECK(equal(y, each.to(cpu())));
    CHECK(equal(y.to(x.device()), each));
  }
  const Tensor here = x.to(cpu());
  CHECK(pinned(here, cpu()).values<std::int64_t>().data() == here.values<std::int64_t>().data());
}

TEST_CASE("events and pinned memory of a missing device are refused", "[events][cpu]") {
  CHECK_THROWS_WITH(
      Event(cuda(7)),
      Catch::Contains("Event: device: expected a device of this machine, got cuda:7"));
  CHECK_THROWS_WITH(
      pinned(ones({3}), cuda(7)),
      Catch::Contains("pinned: device: expected a device of this machine, got cuda:7"));
  CHECK_THROWS_WITH(pinned(Tensor(), cuda(0)), Catch::Contains("an undefined Tensor"));
}
}  // namespace reel::tests
