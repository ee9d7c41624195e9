// SPDX-License-Identifier: BSD-3-Clause
// Each function of a backend, on the CPU and on a far device.
#include "lib/table/backend.hpp"

#include <cmath>
#include <vector>

#include "lib/flow/context.hpp"
#include "support/catch.hpp"
#include "support/far_device.hpp"

namespace reel::tests {
namespace {
const Device places[] = {cpu(), far_device(), far_device(1), other_device()};

/// A row-major body on a device, and a way for the host to read it.
struct DeviceArray {
  Device device;
  Tensor tensor;
  explicit DeviceArray(Device where, std::int64_t n, DType dtype = DType::float32)
      : device(where),
        tensor(Access::adopt(allocate_on(Context::here(), where, dtype, Shape({n}), n))) {}
  DeviceArray(Device where, const std::vector<float>& values)
      : DeviceArray(where, static_cast<std::int64_t>(values.size())) {
    backend().upload(device.index, body().data, values.data(), values.size() * sizeof(float));
  }
  Body& body() const { return *Access::body(tensor); }
  Backend& backend() const { return *backend_of(device.kind); }
  template <class T = float>
  std::vector<T> values() const {
    std::vector<T> read(static_cast<std::size_t>(body().elements));
    backend().download(device.index, read.data(), body().data, read.size() * sizeof(T));
    return read;
  }
};

Op& op_of(const char* name) { return *OpTable::the().find(name); }

void run(const Op& op, Part part, std::vector<const Body*> inputs, Body& output,
         unsigned accumulate, Device device) {
  Body* made = &output;
  const KernelCall call{inputs.data(), &made, nullptr, static_cast<int>(inputs.size()), 1,
                        accumulate};
  REQUIRE(op.on(device.kind).has(part) == !(device == cpu() && op.on_cpu().passes));
  backend_of(device.kind)->run({op, part, {}, call, device, Caller::here()});
}
}  // namespace

TEST_CASE("a backend fills, takes and gives the host's memory, and copies") {
  for (const Device device : places) {
    INFO(device);
    const DeviceArray x(device, 37), y(device, 1003, DType::float64);
    x.backend().fill(x.body(), 2.5);
    y.backend().fill(y.body(), -0.1);
    CHECK(x.values() == std::vector<float>(37, 2.5f));
    CHECK(y.values<double>() == std::vector<double>(1003, -0.1));

    std::vector<float> numbers{1, 2, 3, 4, 5};
    const DeviceArray z(device, numbers);
    numbers[0] = 9;  // the copy has been read by now
    const DeviceArray copied(Device{device.kind, device == far_device(1) ? 0 : device.index}, 5);
    z.backend().copy(copied.device.index, copied.body().data, device.index, z.body().data, 20);
    CHECK(copied.values() == std::vector<float>{1, 2, 3, 4, 5});
  }
}

TEST_CASE("a backend gives memory, aligned, and takes it back") {
  for (const Device device : places) {
    Backend& backend = *backend_of(device.kind);
    CHECK(device.index < backend.device_count());
    std::byte* const block = backend.allocate(device.index, 1000);
    REQUIRE(block);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
    backend.release(device.index, block, 1000);
    backend.wait(device.index);
  }
}

TEST_CASE("a backend runs kernels by op and part") {
  const std::vector<float> numbers{-2, -0.5f, 0, 0.25f, 3};
  for (const Device device : places) {
    INFO(device);
    const DeviceArray x(device, numbers), y(device, 5), dx(device, 5),
        one(device, std::vector<float>{2});
    const Op& tanh = op_of("tanh");
    run(tanh, Part::value, {&x.body()}, y.body(), 0, device);
    dx.backend().fill(dx.body(), 10);
    run(tanh, Part::gradient_0, {&one.body(), nullptr, nullptr, &y.body()}, dx.body(), 1, device);
    const std::vector<float> values = y.values(), gradients = dx.values();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double exact = std::tanh(static_cast<double>(numbers[i]));
      CHECK(values[i] == Approx(exact).margin(1e-6));
      CHECK(gradients[i] == Approx(10 + 2 * (1 - exact * exact)));
    }
  }
}

TEST_CASE("kernels have names") {
  const auto named = [](const char* name) { return OpTable::the().find_kernel(name); };
  CHECK(named("tanh").op == &op_of("tanh"));
  CHECK(named("tanh").part == Part::value);
  CHECK(named("tanh.d0").part == Part::gradient_0);
  CHECK(named("multiply.d1").op == &op_of("multiply"));
  CHECK(named("multiply.d1").part == Part::gradient_1);
  CHECK(named("softmax.d").op == &op_of("softmax"));
  CHECK(named("softmax.d").part == Part::gradients);
  for (const char* unknown : {"tanh.d2", "tanh.", "tanh.d0.d0", "nothing", "nothing.d", ".d", ""})
    CHECK(named(unknown).op == nullptr);
}
}  // namespace reel::tests
