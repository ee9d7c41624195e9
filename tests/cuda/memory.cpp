// SPDX-License-Identifier: BSD-3-Clause
#include <reel/reel.hpp>

#include "cuda/emulated.hpp"

namespace reel::tests {
TEST_CASE("cached memory is freed before an allocation fails") {
  const DeviceScope scope(cuda(0));
  emulate::set_device_memory(std::size_t{64} << 20);
  for (const std::int64_t n : {8, 9, 10, 11}) {  // each size has its own list in the cache
    const Tensor x = zeros({n << 20});
    CHECK(sum(x).item<float>() == 0);
  }
  emulate::set_device_memory(std::size_t{8} << 30);
}
TEST_CASE("an allocation that fails names the op; later allocations work") {
  const DeviceScope scope(cuda(0));
  emulate::set_device_memory(std::size_t{64} << 20);
  CHECK_THROWS_WITH(zeros({100 << 20}), Catch::Contains("zeros") && Catch::Contains("memory"));
  CHECK(sum(ones({100})).item<float>() == 100);
  const unsigned line = __LINE__ + 1;
  const Tensor x = exp(zeros({5 << 20}));
  try {
    x + zeros({100 << 20});
    FAIL("nothing was thrown");
  } catch (const MemoryError& error) {
    const std::string text = error.what();
    INFO(text);
    CHECK(text.find("20 MiB of exp (") != std::string::npos);
    CHECK(text.find("memory.cpp:" + std::to_string(line)) != std::string::npos);
  }
  emulate::set_device_memory(std::size_t{8} << 30);
}
TEST_CASE("the error of a full memory names the lines of uploaded and copied tensors") {
  emulate::set_device_memory(std::size_t{64} << 20);
  const Tensor host = zeros({7 << 20});
  const unsigned line = __LINE__ + 1;
  const Tensor x = host.to(cuda(0));
  CHECK_THROWS_WITH(zeros({100 << 20}).to(cuda(0)),
                    Catch::Contains("28 MiB of to_device (") &&
                        Catch::Contains("memory.cpp:" + std::to_string(line)));
  const unsigned copied = __LINE__ + 1;
  const Tensor other = x.to(cuda(1));
  CHECK_THROWS_WITH(zeros({100 << 20}).to(cuda(1)),
                    Catch::Contains("memory.cpp:" + std::to_string(copied)));
  emulate::set_device_memory(std::size_t{8} << 30);
}
TEST_CASE("the error of a full memory names the lines of Variables") {
  const DeviceScope scope(cuda(0));
  emulate::set_device_memory(std::size_t{64} << 20);
  const Tensor x = zeros({7 << 20});
  const unsigned line = __LINE__ + 1;
  const Variable copied("w", x);
  CHECK_THROWS_WITH(zeros({100 << 20}), Catch::Contains("28 MiB of cast (") &&
                                            Catch::Contains("memory.cpp:" + std::to_string(line)));
  const unsigned failing = __LINE__ + 1;
  CHECK_THROWS_WITH(Variable("v", x),
                    Catch::Contains("shape (7340032,) of float32, got none on cuda:0") &&
                        Catch::Contains("memory.cpp:" + std::to_string(failing)));
  emulate::set_device_memory(std::size_t{8} << 30);
}
TEST_CASE("a launch without memory is repeated after the cache was freed") {
  const DeviceScope scope(cuda(0));
  trim_memory();
  const Tensor x = ones({1000});
  { const Tensor cached = zeros({7 << 20}); }
  emulate::set_device_memory(std::size_t{32} << 20);
  emulate::set_launch_memory(std::size_t{8} << 20);
  CHECK(sum(x * 2).item<float>() == 2000);
  emulate::set_launch_memory(std::size_t{32} << 20);
  CHECK_THROWS_AS(x * 2, MemoryError);
  CHECK_THROWS_WITH(x * 2, Catch::Contains("mul") && Catch::Contains("memory of the device") &&
                               Catch::Contains("memory.cpp"));
  emulate::set_launch_memory(0);
  CHECK(sum(x * 2).item<float>() == 2000);
  emulate::set_device_memory(std::size_t{8} << 30);
}
TEST_CASE("the use of device memory is counted, and trim_memory() gives back what is unused") {
  const DeviceScope scope(cuda(0));
  const DeviceMemoryUse before = device_memory_use(cuda(0));
  {
    const Tensor x = ones({1 << 20});
    CHECK(device_memory_use(cuda(0)).live_bytes == before.live_bytes + (4 << 20));
  }
  const DeviceMemoryUse after = device_memory_use(cuda(0));
  CHECK(after.live_bytes == before.live_bytes);
  CHECK(after.cached_bytes >= 4 << 20);
  CHECK(after.peak_bytes >= before.live_bytes + (4 << 20));
  trim_memory();
  CHECK(device_memory_use(cuda(0)).cached_bytes == 0);
  CHECK(device_memory_use(cpu()).live_bytes == 0);
}
}  // namespace reel::tests
