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

namespace {
/// Traced functions whose graphs keep some 300 KB of memory each, and a word for reports.
struct ManyGraphs {
  Tensor x = random::normal({20000}), at = tensor({1, 4});
  std::vector<Traced<Tensor(Tensor, Tensor)>> all;
  void add() {
    all.push_back(trace([](Tensor y, Tensor i) { return take(argsort(y) + 1, i); }, {.verify = 0}));
    replay(all.size() - 1);
  }
  void replay(std::size_t i) {
    for (int j = 0; j < 4; ++j) all[i](x, at);
  }
  bool right() {
    const Tensor expected = take(argsort(x) + 1, at);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!equal(all[i](x, at), expected)) return false;
    return true;
  }
};
}  // namespace
TEST_CASE("graphs are freed before an allocation fails, and made again later") {
  const DeviceScope scope(cuda(0));
  trim_memory();
  emulate::set_device_memory(std::size_t{2} << 20);
  ManyGraphs many;
  for (int i = 0; i < 9; ++i) many.add();  // more than there is memory for
  CHECK(many.right());
  {
    const Tensor large = zeros({400'000});
    CHECK(sum(large).item<float>() == 0);
  }
  CHECK(many.right());
  many.replay(3);
  emulate::reset_counts();
  many.replay(3);
  CHECK(emulate::counts().graph_launches == 4);
  emulate::set_device_memory(std::size_t{8} << 30);
}
TEST_CASE("a call that checks indices gets the memory of graphs, and reports") {
  const DeviceScope scope(cuda(0));
  trim_memory();
  emulate::set_device_memory(std::size_t{4} << 20);
  ManyGraphs many;
  for (int i = 0; i < 5; ++i) many.add();
  // Its scratch memory is one word for each element, and is taken after the word for reports.
  const Tensor to = zeros({200'000}), wrong = tensor({1, 200'000});
  CHECK_THROWS_WITH((scatter(to, wrong, ones({2})), synchronize(cuda(0))),
                    Catch::Contains("got 200000 at [1]"));
  CHECK(many.right());
  emulate::set_launch_memory(std::size_t{2} << 20);
  CHECK_THROWS_WITH((take(many.x, wrong), synchronize(cuda(0))), Catch::Contains("got 200000"));
  emulate::set_launch_memory(0);
  CHECK(many.right());
  emulate::set_device_memory(std::size_t{8} << 30);
}
TEST_CASE("trim_memory() frees the memory of graphs, which are made again") {
  const DeviceScope scope(cuda(0));
  trim_memory();
  const std::size_t before = device_memory_use(cuda(0)).live_bytes;
  {
    ManyGraphs many;
    many.add();
    const std::size_t with_graph = device_memory_use(cuda(0)).live_bytes;
    trim_memory();
    CHECK(device_memory_use(cuda(0)).live_bytes + 20000 * 2 * 8 <= with_graph);
    CHECK(device_memory_use(cuda(0)).cached_bytes == 0);
    many.replay(0);
    CHECK(device_memory_use(cuda(0)).live_bytes == with_graph);
    CHECK(many.right());
  }
  CHECK(device_memory_use(cuda(0)).live_bytes == before);
}
}  // namespace reel::tests
