// SPDX-License-Identifier: BSD-3-Clause
// Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): 70,000 grey pictures of clothes, 28 x 28, of ten
// kinds, from Debian's package dataset-fashion-mnist.
#pragma once
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <reel/reel.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace fashion {
inline constexpr std::array names = {"T-shirt", "trouser", "pullover", "dress", "coat",
                                     "sandal",  "shirt",   "sneaker",  "bag",   "boot"};
inline constexpr const char* debian_folder = "/usr/share/datasets/fashion-mnist";

/// A compressed file of format idx: type and number of axes, the length of each axis in 4 bytes,
/// and the elements, uint8. The result has the lengths [count, elements of each example].
inline reel::Tensor read(const std::string& path, std::size_t axes) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file)
    throw std::runtime_error("cannot open " + path +
                             ": install Debian's package dataset-fashion-mnist, or give --data");
  const auto get = [&](std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    if (gzread(file.get(), bytes.data(), static_cast<unsigned>(count)) != static_cast<int>(count))
      throw std::runtime_error(path + ": expected " + std::to_string(count) + " more bytes");
    return bytes;
  };
  const std::vector<std::uint8_t> header = get(4 + 4 * axes);
  if (header[2] != 8 || header[3] != axes)
    throw std::runtime_error(path + ": expected format idx, uint8, " + std::to_string(axes) +
                             " axes");
  std::vector<std::size_t> lengths(axes, 0);
  for (std::size_t i = 0; i < 4 * axes; ++i) lengths[i / 4] = lengths[i / 4] * 256 + header[4 + i];
  if (*std::max_element(lengths.begin(), lengths.end()) > 1 << 20)
    throw std::runtime_error(path + ": an axis longer than 2^20");
  std::size_t each = 1;
  for (std::size_t i = 1; i < axes; ++i) each *= lengths[i];
  if (lengths[0] * each > 1 << 30) throw std::runtime_error(path + ": more than 1 GiB");
  return reel::from_span(get(lengths[0] * each), {lengths[0], each});
}

/// Images uint8 [count, 784] and labels uint8 [count].
struct Set {
  reel::Tensor images, labels;
  Set(const std::string& folder, const std::string& name)
      : images(read(folder + "/" + name + "-images-idx3-ubyte.gz", 3)),
        labels(reel::squeeze(read(folder + "/" + name + "-labels-idx1-ubyte.gz", 1), 1)) {}
};
inline Set train(const std::string& folder) { return {folder, "train"}; }
inline Set test(const std::string& folder) { return {folder, "t10k"}; }
}  // namespace fashion
