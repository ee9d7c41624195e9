// SPDX-License-Identifier: BSD-3-Clause
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "cuda/emulated.hpp"
#include "lib/table/backend.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
/// Runs before the library looks for a plugin.
[[gnu::constructor]] void choose_plugin() {
  const char* const other = std::getenv("REEL_TEST_PLUGIN");
  setenv("REEL_CUDA_LIBRARY", other ? other : REEL_EMULATED_PLUGIN, 1);
  if (const char* const count = std::getenv("REEL_TEST_DEVICES"))
    emulate::set_device_count(std::atoi(count));
  if (const char* const version = std::getenv("REEL_TEST_DRIVER"))
    emulate::set_driver_version(std::atoi(version));
  if (const char* const device = std::getenv("REEL_TEST_OLD_DEVICE"))
    emulate::set_old_device(std::atoi(device));
  if (std::getenv("REEL_TEST_NO_POOLS")) emulate::set_memory_pools(false);
}
}  // namespace

TEST_CASE("the plugin is opened at the first use of a CUDA device") {
  CHECK(cuda_available());
  CHECK(cuda_device_count() == 2);
  CHECK(cuda_status() == "CUDA devices: 2");
  CHECK_THROWS_WITH(zeros({2}).to(cuda(2)), Catch::Contains("This machine has fewer."));
}

TEST_CASE("tensors move to a CUDA device, to a second one and back to the CPU") {
  for (const std::int64_t n : {0, 1, 3, 1000, 700'000}) {  // 700,000 floats fill the staging memory
    const Tensor x = arange(0, n).to(DType::float32), there = x.to(cuda(0));
    CHECK(there.device() == cuda(0));
    CHECK(equal(there.to(cpu()), x));
    CHECK(equal(there.to(cuda(1)).to(cuda(0)).to(cpu()), x));
  }
}

TEST_CASE("two CUDA devices copy without the memory of the host, and both compute") {
  const auto step = [](Device device) {
    const DeviceScope scope(device);
    seed(3);
    nn::Linear model(6, 4);
    optim::Adam adam(parameters(model));
    const auto train = trace([&](Tensor x) {
      GradientTape tape;
      const Tensor loss = mean(square(model(x)));
      adam.step(tape.gradient(loss, parameters(model)));
      return loss;
    });
    const Tensor x = random::normal({5, 6});
    for (int i = 0; i < 9; ++i) train(x);
    return train(x).to(cuda(0));
  };
  emulate::reset_counts();
  CHECK(allclose(step(cuda(1)), step(cuda(0))));
  const emulate::Counts counts = emulate::counts();
  CHECK(counts.staged_copies == 0);
}

TEST_CASE("a view that no strides describe is a copy on a CUDA device too") {
  const Tensor x = arange(0, 6).to(DType::float32).reshape({2, 3}), there = x.to(cuda(0));
  CHECK(transpose(there).reshape({6}).to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("print the status of CUDA", "[.][print_status]") {
  std::printf("%d devices; %s\n", cuda_device_count(), cuda_status().c_str());
  CHECK(equal(tensor({1, 2}) + 1, tensor({2, 3})));  // the CPU needs no plugin
  try {
    zeros({2}).to(cuda(0));
    std::puts("moved");
  } catch (const DeviceError& error) {
    std::puts(error.what());
  }
}
TEST_CASE("without a plugin that works, the reason is reported and the CPU works") {
  const auto status = [](const std::string& variables) {
    const std::string text = printed_under("[print_status]", variables);
    CHECK(text.find("0 failed") != std::string::npos);
    return text;
  };
  for (const auto& [variables, reason] : {
           std::pair{"REEL_TEST_PLUGIN=/no/such/file.so", "could not be opened: /no/such/file.so"},
           {"REEL_TEST_PLUGIN=libm.so.6", "CUDA backend is not a reel plugin: /"},
           {"REEL_CUDA_MEMORY=lots", "REEL_CUDA_MEMORY is no number of bytes"},
           {"REEL_CUDA_MEMORY=-1", "REEL_CUDA_MEMORY is no number of bytes"},
           {"REEL_CUDA_TF32=yes", "REEL_CUDA_TF32 is neither 0 nor 1"},
           {"REEL_TEST_DEVICES=0", "no CUDA-capable device is detected"},
           {"REEL_TEST_DRIVER=11080",
            "The NVIDIA driver supports CUDA 11.8. The CUDA backend needs a driver that supports "
            "CUDA 1"},
           {"REEL_TEST_DRIVER=0", "No NVIDIA driver is installed."},
       }) {
    const std::string text = status(variables);
    INFO(text);
    CHECK(text.find("0 devices; ") != std::string::npos);
    CHECK(text.find(reason) != std::string::npos);
    CHECK(text.find(reason) != text.rfind(reason));  // by cuda_status() and by the error of to()
  }
  CHECK(status("REEL_CUDA_MEMORY=1M").find("2 devices; CUDA devices: 2\nmoved") !=
        std::string::npos);
}

TEST_CASE("the reason why the file beside the library cannot be opened is reported") {
  const std::string text = output_of(
      "folder=$(mktemp -d); ln -s /proc/$PPID/exe $folder/program; echo no library > "
      "$folder/libreel_cuda.so; REEL_TEST_PLUGIN= $folder/program '[print_status]' 2>&1; "
      "rm -r $folder");
  INFO(text);
  CHECK(text.find("/libreel_cuda.so: ") != std::string::npos);
  CHECK(text.find("No such file") == std::string::npos);
}

TEST_CASE("a device without memory pools works, and its memory is freed and counted") {
  const std::string text = printed_under(
      "\"a traced step of training*\",\"cached memory*\",\"the use of*\",\"two CUDA*\"",
      "REEL_TEST_NO_POOLS=1");
  INFO(text);
  CHECK(text.find("4 passed, 0 failed") != std::string::npos);
}

TEST_CASE("break a device", "[.][break_device]") {
  const Tensor x = ones({3}), there = x.to(cuda(0)), other = x.to(cuda(1));
  synchronize(cuda(0));
  emulate::break_device(0);
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS((there + there, synchronize(cuda(0))), DeviceError);
  CHECK_THROWS_AS(there.to(cpu()), DeviceError);
  CHECK_THROWS_AS(x.to(cuda(0)), DeviceError);
  CHECK(equal(x + x, full({3}, 2)));
  CHECK(equal((other + other).to(cpu()), full({3}, 2)));
}
TEST_CASE("a device with a sticky error throws at every call; the CPU and other devices work") {
  const std::string text = printed_under("[break_device]", "");
  INFO(text);
  CHECK(text.find("1 passed, 0 failed") != std::string::npos);
}

TEST_CASE("use an old device", "[.][old_device]") {
  CHECK(cuda_status() == "CUDA devices: 2");
  const Tensor x = ones({3});
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_WITH(x.to(cuda(0)),
                      Catch::Contains("to: device: expected a GPU that the CUDA backend has code "
                                      "for, got one of compute capability 7.5") &&
                          Catch::Contains("-Dgpu_archs=75"));
  CHECK_THROWS_AS(synchronize(cuda(0)), DeviceError);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(sum(x.to(cuda(1))).item<float>() == 3);
}
TEST_CASE("a device that is older than the kernels is named; the CPU and other devices work") {
  const std::string text = printed_under("[old_device]", "REEL_TEST_OLD_DEVICE=0");
  INFO(text);
  CHECK(text.find("1 passed, 0 failed") != std::string::npos);
}

TEST_CASE("use the second device alone", "[.][second_device]") {
  const Tensor x = ones({3}).to(cuda(1));
  CHECK(sum(x + x).item<float>() == 6);
  synchronize(cuda(1));
  CHECK(emulate::has_context(1));
  CHECK_FALSE(emulate::has_context(0));
}
TEST_CASE("a program that uses cuda(1) makes no context on cuda(0)") {
  const std::string text = printed_under("[second_device]", "");
  INFO(text);
  CHECK(text.find("1 passed, 0 failed") != std::string::npos);
}
TEST_CASE("the current device of a program that uses CUDA itself stays") {
  for (const int mine : {0, 1}) {
    REQUIRE(cudaSetDevice(mine) == cudaSuccess);
    const Tensor x = ones({3}).to(cuda(0)), y = ones({3}).to(cuda(1));
    CHECK(sum(x + x).item<float>() == sum(y + y).item<float>());
    int now = -1;
    REQUIRE(cudaGetDevice(&now) == cudaSuccess);
    CHECK(now == mine);
  }
}

TEST_CASE("a product may be the first work of a thread") {
  const DeviceScope scope(cuda(0));
  const Tensor x = ones({3, 3});
  for (int i = 0; i < 3; ++i) matmul(x, x);  // from now on there is memory, and an algorithm
  synchronize(cuda(0));
  std::string error;
  bool right = false;
  std::thread([&] {
    try {
      right = equal(matmul(x, x).to(cpu()), full({3, 3}, 3));
    } catch (const Error& caught) {
      error = caught.what();
    }
  }).join();
  CHECK(error == "");
  CHECK(right);
}

TEST_CASE("print what REEL_CUDA_MEMORY allows", "[.][print_limit]") {
  for (const std::int64_t kibibytes : {400, 1000, 3000}) try {
      const Tensor x = zeros({kibibytes, 256}).to(cuda(0));
      std::printf("%lld fits\n", static_cast<long long>(kibibytes));
    } catch (const MemoryError&) {
      std::printf("%lld is too much\n", static_cast<long long>(kibibytes));
    }
}
TEST_CASE("REEL_CUDA_MEMORY limits the memory of a device") {
  const std::string text = printed_under("[print_limit]", "REEL_CUDA_MEMORY=2M");
  INFO(text);
  CHECK(text.find("400 fits\n1000 fits\n3000 is too much\n") != std::string::npos);
}

TEST_CASE("count the NaN in memory that is used again", "[.][reused]") {
  REQUIRE(cuda_available());
  Backend& backend = *backend_of(Device::Kind::cuda);
  std::array<float, 1000> x = {};
  std::byte* const block = backend.allocate(0, sizeof x);
  backend.upload(0, block, x.data(), sizeof x);
  backend.release(0, block, sizeof x);
  REQUIRE(backend.allocate(0, sizeof x) == block);
  backend.download(0, x.data(), block, sizeof x);
  std::printf("%d NaN\n", static_cast<int>(std::count_if(
                              x.begin(), x.end(), [](float each) { return std::isnan(each); })));
  backend.release(0, block, sizeof x);
}
TEST_CASE("with REEL_CUDA_CACHE=nan memory is filled before it is used again") {
  CHECK(printed_under("[reused]", "unset REEL_CUDA_CACHE;").find("\n0 NaN") != std::string::npos);
  CHECK(printed_under("[reused]", "REEL_CUDA_CACHE=nan").find("\n1000 NaN") != std::string::npos);
}

TEST_CASE("print a product", "[.][print_product]") {
  const DeviceScope scope(cuda(0));
  const Tensor x = full({4, 4}, 1 + std::ldexp(1., -20));  // TF32 keeps 10 bits after the first
  std::printf("difference %g\n", 1. * (matmul(x, ones({4, 4})) - 4).to(cpu())(0, 0).item<float>());
}
TEST_CASE("products use TF32 only where REEL_CUDA_TF32 asks for it") {
  const std::string exact = printed_under("[print_product]", "unset REEL_CUDA_TF32;"),
                    rounded = printed_under("[print_product]", "REEL_CUDA_TF32=1");
  CHECK(exact.find("difference 3.8147e-06") != std::string::npos);
  CHECK(rounded.find("difference 0\n") != std::string::npos);
}
}  // namespace reel::tests
