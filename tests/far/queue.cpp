// SPDX-License-Identifier: BSD-3-Clause
// The kernels of a device run later, in the order of its queue. The host waits when it reads a
// result.
#include <sys/wait.h>
#include <unistd.h>
#include <reel/reel.hpp>

#include <csignal>
#include <cstdlib>

#include "lib/body/access.hpp"
#include "support/far_device.hpp"
#include "support/refused.hpp"

using namespace reel;
using namespace reel::tests;

namespace {
const Device far = far_device(), farther = far_device(1);
}  // namespace

TEST_CASE("no kernel runs before the host waits, and then all have run") {
  synchronize(far);
  const DeviceScope scope(far);
  const std::size_t before = far_kernels_run(0);
  Tensor x = ones({4});
  for (int i = 0; i < 10; ++i) x = x * 2 + 1;
  CHECK(far_kernels_run(0) == before);
  CHECK(far_kernels_waiting(0) == 21);
  CHECK(x.to_vector<float>() == std::vector<float>(4, 2047));
  CHECK(far_kernels_waiting(0) == 0);
  CHECK(far_kernels_run(0) == before + 21);
  x = x + 1;
  CHECK(far_kernels_waiting(0) == 1);
  synchronize(far);
  CHECK(far_kernels_waiting(0) == 0);
}

TEST_CASE("the host cannot touch the elements of a device's tensors") {
  const Tensor x = ones({4}, {.dtype = DType::float32}).to(far);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    volatile float value = *Access::body(x)->as<float>();
    std::_Exit(value == 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE(
    "a block that was given back is used again at once, and the queue's order keeps it right") {
  const DeviceScope scope(far);
  const Tensor start = arange(0, 1000).to(DType::float32);
  const std::byte* memory = nullptr;
  Tensor sum = zeros({1000});
  int again = 0;
  for (int i = 1; i <= 20; ++i) {
    const Tensor part = start * i;
    again += memory == Access::body(part)->data;
    memory = Access::body(part)->data;
    sum = sum + part;
  }
  CHECK(again > 5);
  CHECK(equal(sum, start * 210));
}

TEST_CASE("what a kernel finds wrong is thrown by the next wait, with op and line, and once") {
  const DeviceScope scope(far);
  const Tensor x = arange(0, 6).reshape({3, 2}), bad = tensor({0, 3});
  const auto line = static_cast<unsigned>(__LINE__) + 1;
  const Tensor taken = take(x, bad);
  const Tensor after = x + 1;
  try {
    taken.to_vector<std::int64_t>();
    FAIL("nothing was thrown");
  } catch (const IndexError& error) {
    const std::string text = error.what();
    CHECK(text.find("queue.cpp:" + std::to_string(line) +
                    ": take: indices: expected an index in "
                    "[-3, 3), got 3") == 0);
  }
  CHECK(after.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  synchronize(far);
  take(x, bad);
  CHECK_THROWS_AS(synchronize(far), IndexError);
}

TEST_CASE("a replay that waits throws what an op before it has found wrong") {
  const Tensor x = tensor({1.0f, 2.0f, 3.0f}).to(far), bad = tensor({0, 7}).to(far);
  const auto check = [&](auto function) {
    const auto traced = trace(function);
    for (int i = 0; i < 4; ++i) traced(x);
    synchronize(far);
    const auto late = [&] {
      take(x, bad);
      traced(x);
      synchronize(far);
    };
    CHECK_THROWS_AS(late(), IndexError);
    CHECK_NOTHROW(synchronize(far));
    CHECK_NOTHROW(traced(x));
  };
  check([](const Tensor& y) { return sum(y) > 0 ? y * 2 : y * 3; });
  check([](const Tensor& y) { return (y * 2).to(cpu()) + 1; });
  check([](const Tensor& y) { return (y * 2).to(far_device(1)) + 1; });
}

TEST_CASE("an op without a kernel on the device says so and what to do") {
  const Tensor x = ones({2, 2}).to(far);
  const WithoutFarKernel none("softmax");
  check_refused<DeviceError>([&] { softmax(x); }, "softmax: device");
  try {
    softmax(x);
  } catch (const DeviceError& error) {
    CHECK(std::string(error.what()).find("Compute it on the CPU: x.to(cpu()).") !=
          std::string::npos);
  }
  CHECK(allclose(softmax(x.to(cpu())), full({2, 2}, 0.5)));
  CHECK(equal((x + x).to(cpu()), full({2, 2}, 2.0)));
}

TEST_CASE("a gradient kernel that the device lacks is made of ops") {
  const auto slope = [](Device device) {
    const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 5.0f}}).to(device);
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(square(softmax(x))), x).to(cpu());
  };
  const Tensor expected = slope(cpu());
  CHECK(allclose(slope(far), expected));
  const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 5.0f}}).to(far);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(square(softmax(x)));
  const WithoutFarKernel none("softmax.d");
  CHECK(allclose(tape.gradient(y, x).to(cpu()), expected));
}

TEST_CASE("synchronize() refuses a device that is missing") {
  check_refused<DeviceError>([] { synchronize(far_device(7)); }, "synchronize: device: ");
  check_refused<DeviceError>([] { synchronize(far_device(-1)); }, "got far:-1");
  synchronize(cpu());
  synchronize(farther);
}

TEST_CASE("an Event that is assigned brings its device along") {
  Event here(cpu());
  const Event there(far);
  CHECK(there.milliseconds_since(there) == 0);
  here = Event(far);
  CHECK(here.device() == far);
  CHECK_NOTHROW(here.milliseconds_since(there));
  CHECK_THROWS_AS(here.milliseconds_since(Event(cpu())), DeviceError);
}
