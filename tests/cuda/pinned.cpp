// SPDX-License-Identifier: BSD-3-Clause
// Copies from pinned memory, and events.
#include <cstdio>
#include <vector>

#include <reel/reel.hpp>

#include "cuda/emulated.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
const Device device = cuda(0);
constexpr std::int64_t many = 2'000'000;  // four times the memory that uploads go through
}  // namespace

TEST_CASE("a copy from pinned memory does not wait") {
  const Tensor x = random::normal({many}), y = pinned(x, device);
  CHECK(y.device() == cpu());
  CHECK(equal(y, x));
  const auto counted = [](const Tensor& from) {
    Tensor there = from.to(device);
    synchronize(device);
    there = Tensor();
    emulate::reset_counts();
    there = from.to(device);
    const emulate::Counts counts = emulate::counts();
    CHECK(equal(there.to(cpu()), from));
    return counts;
  };
  CHECK(counted(x).synchronizations > 0);
  for (const Tensor& from : {y, y(range(5, 1'000'000))}) {
    const emulate::Counts counts = counted(from);
    CHECK(counts.synchronizations == 0);
    CHECK(counts.copies == 1);
    CHECK(counts.pageable_copies == 0);
    CHECK(counts.allocations == 0);
  }
}

TEST_CASE("pinned memory is used again after the devices have read it, not before") {
  const auto filled = [](double number) { return full({1000}, number); };
  std::vector<Tensor> there;
  for (int i = 0; i < 50; ++i) {
    const Tensor x = pinned(filled(i), device);
    there.push_back(x.to(cuda(i % 2)));
    there.push_back(x.to(device));
  }  // the copies are queued; no tensor has the memory
  for (int i = 0; i < 50; ++i)
    for (int k = 0; k < 2; ++k)
      CHECK(equal(there[static_cast<std::size_t>(2 * i + k)].to(cpu()), filled(i)));
  synchronize(cuda(1));
  const float* const first = pinned(filled(1), device).values<float>().data();
  emulate::reset_counts();
  const Tensor again = pinned(filled(2), device);
  CHECK(emulate::counts().allocations == 0);
  CHECK(again.values<float>().data() == first);
}

TEST_CASE("ops never write to pinned memory that a copy may still read") {
  Tensor x = pinned(ones({1000}), device);
  const Tensor there = x.to(device);
  x += 1;
  CHECK(equal(there.to(cpu()), ones({1000})));
  CHECK(equal(x, full({1000}, 2)));
}

TEST_CASE("pinned() takes tensors of every layout, dtype and device") {
  const Tensor x = arange(0, 12).reshape({3, 4});
  for (const Tensor& each : {x, transpose(x), x(all, range(1, 3)), x > 3, zeros({0, 3}), tensor(5),
                             x.to(device), transpose(x.to(cuda(1)))}) {
    const Tensor y = pinned(each, device);
    CHECK(y.dtype() == each.dtype());
    CHECK(equal(y, each.to(cpu())));
    CHECK(equal(y.to(cuda(1)).to(cpu()), each.to(cpu())));
  }
  const DeviceScope scope(device);  // the result is on the CPU all the same
  CHECK(pinned(x, device).device() == cpu());
}

TEST_CASE("trim_memory() frees the pinned memory that nothing uses") {
  const Tensor kept = pinned(full({1000}, 3), device);
  { const Tensor dropped = pinned(ones({1000}), device).to(device); }
  trim_memory();
  emulate::reset_counts();
  const Tensor again = pinned(ones({1000}), device);
  CHECK(emulate::counts().allocations == 1);
  CHECK(equal(kept, full({1000}, 3)));
}

TEST_CASE("use pinned memory without a cache", "[.][pinned_without_cache]") {
  for (int i = 0; i < 5; ++i) {
    const Tensor there = pinned(full({1000}, i), device).to(device);
    CHECK(equal(there.to(cpu()), full({1000}, i)));
  }
}
TEST_CASE("with REEL_CUDA_CACHE=0 pinned memory is freed when the device has read it") {
  const std::string text = printed_under("[pinned_without_cache]", "REEL_CUDA_CACHE=0");
  INFO(text);
  CHECK(text.find("1 passed, 0 failed") != std::string::npos);
}

TEST_CASE("an event is done when the work before it is, and waits for nothing else") {
  const Tensor x = ones({1000}).to(device);
  synchronize(device);
  emulate::reset_counts();
  const Event before(device);
  Tensor y = x;
  for (int i = 0; i < 20; ++i) y = y + x;
  const Event after(device);
  CHECK(emulate::counts().synchronizations == 0);
  CHECK(after.device() == device);
  after.wait();
  CHECK(before.done());
  CHECK(after.done());
  CHECK(emulate::counts().synchronizations == 1);
  CHECK(after.milliseconds_since(before) >= 0);
  CHECK(equal(y.to(cpu()), full({1000}, 21)));
}

TEST_CASE("a loop until an event is done ends") {
  const Tensor x = ones({100}).to(device), y = x + x;
  const Event event(device);
  while (!event.done()) {
  }
  CHECK(equal(y.to(cpu()), full({100}, 2)));
}

TEST_CASE("events of two devices have no time between them") {
  const Event mine(cuda(0)), other(cuda(1)), host(cpu());
  CHECK_THROWS_WITH(mine.milliseconds_since(other),
                    Catch::Contains("earlier: expected an Event of cuda:0, got one of cuda:1"));
  CHECK_THROWS_AS(host.milliseconds_since(other), DeviceError);
}

TEST_CASE("a wrong index is thrown by synchronize(), not by the wait for an event") {
  const Tensor x = ones({3}).to(device), places = tensor({7}).to(device);
  const Tensor y = take(x, places);
  const Event event(device);
  event.wait();
  CHECK_THROWS_WITH(synchronize(device), Catch::Contains("take"));
}

TEST_CASE("break a device with events", "[.][break_event]") {
  const Event early(device);
  emulate::break_device(0);
  CHECK_THROWS_AS(early.wait(), DeviceError);
  CHECK_THROWS_AS(early.done(), DeviceError);
  CHECK_THROWS_WITH(Event(device), Catch::Contains("Event") && Catch::Contains("pinned.cpp:"));
}
TEST_CASE("events of a device with a sticky error throw") {
  const std::string text = printed_under("[break_event]", "");
  INFO(text);
  CHECK(text.find("1 passed, 0 failed") != std::string::npos);
}
}  // namespace reel::tests
