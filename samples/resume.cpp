// SPDX-License-Identifier: BSD-3-Clause
// A run that can be stopped at any moment, Ctrl-C and kill -9 included: started again, it goes on
// from its latest checkpoint and prints what it would have printed.
//
//     resume --folder run --stop 700; resume --folder run; ls run
#include <reel/reel.hpp>

#include <cmath>
#include <numbers>

#include "options.hpp"

using namespace reel;

struct Model {
  nn::Linear hidden{2, 64, Activation::tanh}, head{64, 1};
  nn::Dropout dropout{0.05};
  Tensor operator()(Operand x) const { return head(dropout(hidden(x))); }
  REEL_FIELDS(hidden, head, dropout)
};

/// What changes beside the model: all of it goes into a checkpoint.
struct Progress {
  Tensor order;  // of the samples in this epoch
  double average = 0;
  REEL_FIELDS(order, average)
};

constexpr std::int64_t samples = 1024, batch = 32, steps_an_epoch = samples / batch;

int main(int argc, char** argv) {
  CommonOptions common;
  std::string folder = "run";
  std::int64_t steps = 2000, stop = -1, every = 100;
  CommandLine line("Learns a function, and goes on where it was stopped.", common);
  line.add("--folder", folder, "of the checkpoints");
  line.add("--steps", steps, "training steps")->check(CLI::PositiveNumber);
  line.add("--stop", stop, "end before this step");
  line.add("--every", every, "steps between checkpoints")->check(CLI::PositiveNumber);
  return line.run(argc, argv, [&] {
    const Tensor x = random::uniform({samples, 2}, {.low = -1, .high = 1});
    const Tensor y = sum(x * x, 1, keepdims);
    Model model;
    optim::Adam adam(parameters(model));
    const Generator random = thread_generator();
    Progress progress;
    std::int64_t step = 0;
    const io::Checkpoints checkpoints(folder, {.keep = 3, .every = every});
    if (checkpoints.resume(step, model, adam, random, progress))
      fmt::print("resumed at {}\n", step);

    while (step < steps && step != stop) {
      const std::int64_t place = step % steps_an_epoch;
      if (place == 0) progress.order = random::permutation(samples);
      const Tensor chosen = progress.order(range(place * batch, (place + 1) * batch));
      const double turn = std::numbers::pi * static_cast<double>(step) / static_cast<double>(steps);
      adam.learning_rate().assign(5e-3 * (1 + std::cos(turn)));
      GradientTape tape;
      const Tensor loss = mean(square(model(take(x, chosen)) - take(y, chosen)));
      adam.step(tape.gradient(loss, parameters(model)));
      progress.average = 0.99 * progress.average + 0.01 * static_cast<double>(loss.item<float>());
      if (++step % 200 == 0) fmt::print("step {}: loss {}\n", step, progress.average);
      checkpoints.save(step, model, adam, random, progress);
    }
    io::save(folder + "/model.safetensors", model);  // the weights alone
  });
}
