// SPDX-License-Identifier: BSD-3-Clause
// Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): 70,000 grey pictures of clothes, 28 x 28, of ten
// kinds, from Debian's package dataset-fashion-mnist.
#pragma once
#include <array>
#include <reel/reel.hpp>
#include <string>

#include "options.hpp"

namespace fashion {
inline constexpr std::array names = {"T-shirt", "trouser", "pullover", "dress", "coat",
                                     "sandal",  "shirt",   "sneaker",  "bag",   "boot"};
inline constexpr const char* debian_folder = "/usr/share/datasets/fashion-mnist";

/// The options of the samples that learn these pictures.
struct Options : CommonOptions {
  std::int64_t epochs, batch = 100;
  double rate;
  std::string data = debian_folder;
  Options(std::int64_t passes, double learning_rate) : epochs(passes), rate(learning_rate) {}
  void add_to(CommandLine& line) {
    line.add("--data", data, "folder of the four files of Fashion-MNIST");
    line.add("--epochs", epochs, "passes over the pictures")->check(CLI::PositiveNumber);
    line.add("--batch", batch, "pictures a step")->check(CLI::Range(1, 60000));
    line.add("--rate", rate, "Adam's learning rate at the start");
  }
};

/// Pictures uint8 [count, 784] and labels uint8 [count].
struct Set {
  reel::Tensor images, labels;
  REEL_FIELDS(images, labels)
};
inline Set read(const std::string& folder, const std::string& name) {
  const auto part = [&](const char* end) {
    return reel::data::read_idx(folder + "/" + name + end);
  };
  return {part("-images-idx3-ubyte.gz").reshape({-1, 784}), part("-labels-idx1-ubyte.gz")};
}
inline Set train(const std::string& folder) { return read(folder, "train"); }
inline Set test(const std::string& folder) { return read(folder, "t10k"); }
}  // namespace fashion
