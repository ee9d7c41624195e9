// SPDX-License-Identifier: BSD-3-Clause
// A run on a GPU compared with the same run on the CPU: debug::Log and reel-diff.
#include <filesystem>

#include "cuda/emulated.hpp"
#include "debug/programs.hpp"

namespace reel::tests {
namespace {
/// Logs four steps of training on a device. `fault` is added to an element of the data of step 2.
void log_run(const std::string& path, Device device, float fault = 0) {
  seed(5);
  const Tensor data = random::normal({8, 4}), labels = random::integers(0, 3, {8});
  nn::Linear hidden(4, 16, Activation::tanh), head(16, 3);
  for (const nn::Linear& each : {hidden, head}) to(each, device);
  const DeviceScope scope(device);
  const Tensor targets = labels.to(device);
  optim::Adam adam({hidden.weight, hidden.bias, head.weight, head.bias});
  const debug::Log log(path);
  for (int i = 0; i < 4; ++i) {
    std::vector<float> numbers = data.to_vector<float>();
    if (i == 2) numbers[7] += fault;
    const Tensor x = tensor(numbers).to(device).reshape({8, 4});
    GradientTape tape;
    adam.step(tape, nn::cross_entropy(head(hidden(x)), targets));
  }
}
}  // namespace

TEST_CASE("reel-diff compares a run on a GPU with one on the CPU") {
  const std::string a = log_file("cpu"), b = log_file("cuda"), both = "'" + a + "' '" + b + "'";
  log_run(a, cpu());
  log_run(b, cuda(0));
  const std::string equal = diff("--tolerance 1e-4 " + both);
  INFO(equal);
  CHECK(equal.find(" 0 differ\nstatus 0") != std::string::npos);
  CHECK(std::stoi(equal.substr(equal.rfind('\n', equal.find(" results compared")) + 1)) > 100);
  const std::string bits = diff(both);
  INFO(bits);
  CHECK(bits.find("see --tolerance") == std::string::npos);  // of one machine
  CHECK(bits.find("status 1") != std::string::npos);
  log_run(b, cuda(0), 0.25f);
  const std::string other = diff("--tolerance 1e-4 " + both);
  INFO(other);
  CHECK(other.find("first differs: step 1, #") != std::string::npos);
  CHECK(other.find(" at logs.cpp:") != std::string::npos);
  CHECK(other.find("status 1") != std::string::npos);
  for (const std::string& path : {a, b}) std::filesystem::remove(path);
}
}  // namespace reel::tests
