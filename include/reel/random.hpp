// SPDX-License-Identifier: BSD-3-Clause
// Random numbers: Philox4x32-10 (Salmon et al. 2011), the same on every machine and thread count.
#pragma once  // defined in lib/flow, lib/ops
#include <cstdint>

#include <reel/tensor.hpp>

namespace reel {
/// Restarts the generator of this thread with this seed. Each thread has its own generator. Without
/// a seed, the first thread that draws has seed 0, and later threads have other seeds. Seed each
/// thread if the run must be repeatable.
REEL_API void seed(std::uint64_t seed);

/// A stream of random numbers, with a seed and a position. Copies share the stream.
class REEL_API Generator {
 public:
  explicit Generator(std::uint64_t seed);
  Generator(const Generator& other);
  Generator& operator=(const Generator& other);
  ~Generator();
  std::uint64_t seed() const;
  /// How many blocks of four 32-bit numbers have been drawn.
  std::uint64_t position() const;
  void set_position(std::uint64_t position);
  /// Continues where a generator with this seed and position would. All copies follow.
  void restore(std::uint64_t seed, std::uint64_t position);
  /// A new stream with the same seed and position.
  Generator clone() const;

 private:
  friend class GeneratorScope;
  friend std::uint64_t seed_of(const Generator& generator);
  friend std::uint64_t position_of(const Generator& generator);
  struct State;
  State* state_;
};
/// The generator that random ops of this thread draw from now: that of the innermost
/// GeneratorScope, else the thread's own. After seed() the thread has another generator, which
/// earlier copies of the handle do not follow.
REEL_API Generator thread_generator();
/// While it lives, random ops of this thread draw from `generator`. Scopes may end in any order;
/// the innermost one alive counts. They may end on another thread as TrainScope may.
class REEL_API GeneratorScope : detail::OpenScope {
 public:
  explicit GeneratorScope(const Generator& generator);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  Generator generator_;
};

namespace random {
/// Options of normal().
struct NormalOptions {
  double mean = 0, stddev = 1;
  DType dtype = DType::float32;
};
/// Options of uniform().
struct UniformOptions {
  double low = 0, high = 1;
  DType dtype = DType::float32;
};
/// Normal numbers (Box and Muller 1958). Throws Error unless stddev >= 0, and unless both are
/// finite in the dtype.
REEL_API Tensor normal(Shape shape, NormalOptions options = {}, Caller caller = Caller::here());
/// Uniform in [low, high). If both are equal, every number is `low`. Throws Error unless low <=
/// high and both are finite in the dtype.
REEL_API Tensor uniform(Shape shape, UniformOptions options = {}, Caller caller = Caller::here());
/// Uniform int64 in [low, high). Throws Error unless low < high.
REEL_API Tensor integers(std::int64_t low, std::int64_t high, Shape shape,
                         Caller caller = Caller::here());
/// true with this probability. Throws Error outside [0, 1].
REEL_API Tensor bernoulli(double probability, Shape shape, Caller caller = Caller::here());
/// 0 .. n - 1 in random order, int64.
REEL_API Tensor permutation(Extent n, Caller caller = Caller::here());
}  // namespace random

/// Sets each element to 0 with this probability, and divides the others by 1 - probability. It does
/// so also while training() is false; nn::Dropout does not. Throws Error unless 0 <= probability
/// < 1.
REEL_API Tensor dropout(Operand x, double probability);
}  // namespace reel
