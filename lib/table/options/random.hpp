// SPDX-License-Identifier: BSD-3-Clause
// Options of random.
#pragma once
#include <cstdint>

#include <reel/dtype.hpp>
#include <reel/shape.hpp>

namespace reel {
/// The Philox counters from `position` on, with the key `seed`.
struct RandomOptions {
  enum class Kind : std::int64_t {
    uniform,
    normal,
    integers,
    bernoulli,
    permutation,
    exponential,
    gumbel,
    truncated_normal,
    gamma,
    beta
  };
  Kind kind = Kind::uniform;
  std::uint64_t seed = 0, position = 0;
  double a = 0, b = 1;  // low and high; mean and stddev; probability; parameters of gamma and beta
  double location = 0, scale = 1;  // of exponential, gumbel, truncated_normal and gamma
  std::int64_t low = 0, high = 0;  // of integers
  DType dtype = DType::float32;
  Shape shape = {};
  /// How many numbers a block of four 32 bit words gives, and how many blocks so many numbers take.
  std::int64_t numbers_per_block() const {
    if (kind == Kind::gamma || kind == Kind::beta) return 1;
    if (kind == Kind::integers || kind == Kind::permutation) return 2;
    return kind == Kind::bernoulli ? 4 : 16 / size_of(dtype);
  }
  std::uint64_t blocks(std::int64_t numbers) const {
    const std::int64_t each = numbers_per_block();
    return static_cast<std::uint64_t>(numbers / each + (numbers % each != 0));
  }
  void fields(auto&& field) {
    field("kind", kind);
    field("seed", seed);
    field("position", position);
    field("a", a);
    field("b", b);
    field("location", location);
    field("scale", scale);
    field("low", low);
    field("high", high);
    field("dtype", dtype);
    field("shape", shape);
  }
};
}  // namespace reel
