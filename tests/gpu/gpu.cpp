// SPDX-License-Identifier: BSD-3-Clause
// The CUDA backend as it is built for GPUs. The sweeps run there with REEL_TEST_DEVICE=cuda.
#include <cstdlib>

#include <reel/reel.hpp>

#include "support/catch.hpp"

using namespace reel;

TEST_CASE("the CUDA backend opens, and says why if it finds no GPU", "[gpu]") {
  if (!std::getenv("REEL_CUDA_LIBRARY"))
    SKIP("no CUDA backend was built: ./dev check cuda builds one");
  INFO(cuda_status());
  CHECK(cuda_status().find("could not be opened") == std::string::npos);
  CHECK(cuda_status().find("another version") == std::string::npos);
  CHECK(cuda_available() == (cuda_device_count() > 0));
}

TEST_CASE("a step of training on a GPU gives the numbers of the CPU", "[gpu]") {
  if (!cuda_available()) SKIP(cuda_status());
  const auto train = [](Device device) {
    const DeviceScope scope(device);
    const GeneratorScope numbers{Generator(1)};
    nn::Linear model(64, 32);
    optim::Adam adam(parameters(model));
    const Tensor x = random::normal({128, 64});
    Tensor loss;
    for (int step = 0; step < 3; ++step) {
      GradientTape tape;
      loss = mean(square(model(x)));
      adam.step(tape.gradient(loss, parameters(model)));
    }
    return loss.to(cpu());
  };
  CHECK(allclose(train(cuda(0)), train(cpu()), {.rtol = 1e-4, .atol = 1e-5}));
}
