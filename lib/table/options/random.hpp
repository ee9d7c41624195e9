// SPDX-License-Identifier: BSD-3-Clause
// Options of random.
#pragma once
#include <cstdint>

#include <reel/dtype.hpp>
#include <reel/shape.hpp>

namespace reel {
/// Philox counters from `position` on, under the key `seed`.
struct RandomOptions {
  enum class Kind : std::int64_t { uniform, normal, integers, bernoulli, permutation };
  Kind kind = Kind::uniform;
  std::uint64_t seed = 0, position = 0;
  double a = 0, b = 1;             // low and high; mean and stddev; probability
  std::int64_t low = 0, high = 0;  // of integers
  DType dtype = DType::float32;
  Shape shape = {};
  /// How many numbers a block of four 32 bit words gives, and how many blocks so many numbers take.
  std::int64_t numbers_per_block() const {
    const bool words = kind == Kind::uniform || kind == Kind::normal ? dtype == DType::float32
                                                                     : kind == Kind::bernoulli;
    return words ? 4 : 2;
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
    field("low", low);
    field("high", high);
    field("dtype", dtype);
    field("shape", shape);
  }
};
}  // namespace reel
