// SPDX-License-Identifier: BSD-3-Clause
// Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): 70,000 grey pictures of clothes, 28 x 28, of ten
// kinds, from Debian's package dataset-fashion-mnist.
#pragma once
#include <zlib.h>

#include <array>
#include <memory>
#include <reel/tensor.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace fashion {
inline constexpr std::array names = {"T-shirt", "trouser", "pullover", "dress", "coat",
                                     "sandal",  "shirt",   "sneaker",  "bag",   "boot"};
inline constexpr const char* debian_folder = "/usr/share/datasets/fashion-mnist";

/// The bytes of a compressed file in the format idx, behind a header of four bytes for the type and
/// four for each length.
inline std::vector<std::uint8_t> read(const std::string& path, std::size_t header,
                                      std::size_t count) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file)
    throw std::runtime_error("cannot open " + path +
                             ": install Debian's package dataset-fashion-mnist, or give --data");
  std::vector<std::uint8_t> bytes(header + count + 1);
  const int size = gzread(file.get(), bytes.data(), static_cast<unsigned>(bytes.size()));
  if (size != static_cast<int>(header + count) || bytes[2] != 8 || bytes[3] != header / 4 - 1)
    throw std::runtime_error(path + ": expected " + std::to_string(count) + " bytes of format idx");
  return {bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end() - 1};
}

/// Images uint8 [count, 784] and labels uint8 [count].
struct Set {
  reel::Tensor images, labels;
  Set(const std::string& folder, const std::string& name, std::size_t count)
      : images(reel::from_span(read(folder + "/" + name + "-images-idx3-ubyte.gz", 16, count * 784),
                               {count, 784})),
        labels(reel::tensor(read(folder + "/" + name + "-labels-idx1-ubyte.gz", 8, count))) {}
};
inline Set train(const std::string& folder) { return {folder, "train", 60000}; }
inline Set test(const std::string& folder) { return {folder, "t10k", 10000}; }
}  // namespace fashion
