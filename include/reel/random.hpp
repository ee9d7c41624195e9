// SPDX-License-Identifier: BSD-3-Clause
// Random numbers: Philox4x32-10 (Salmon et al. 2011), the same on every machine and thread count.
#pragma once  // defined in lib/flow, lib/ops
#include <cstdint>

#include <reel/tensor.hpp>

namespace reel {
/// Gives this thread a new generator with this seed (-1 is 2^64 - 1, as in C++). Each thread has
/// its own generator. Without a call of seed(), the first thread that draws has seed 0, and later
/// threads have other seeds. To make a run repeatable, seed each of its threads. Inside a
/// GeneratorScope it restarts the stream of the scope's generator with this seed instead.
REEL_API void seed(std::uint64_t seed);
template <class T>
requires(std::is_arithmetic_v<T> &&
         !WholeNumber<T>) void seed(T) = delete;  // a fraction or a truth value

/// A stream of random numbers: a seed and a position. A Generator is a handle: copies share the
/// stream.
class REEL_API Generator {
 public:
  explicit Generator(std::uint64_t seed);
  template <class T>
  requires(std::is_arithmetic_v<T> && !WholeNumber<T>) explicit Generator(T) = delete;
  Generator(const Generator& other);
  Generator& operator=(const Generator& other);
  ~Generator();
  /// The seed of the stream.
  std::uint64_t seed() const;
  /// How many blocks of four 32-bit numbers have been drawn.
  std::uint64_t position() const;
  /// Moves the stream to a position. All copies follow.
  void set_position(std::uint64_t position);
  template <class T>
  requires(std::is_arithmetic_v<T> && !WholeNumber<T>) void set_position(T) = delete;
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
/// The generator from which random ops of this thread draw now: that of the innermost
/// GeneratorScope, else the thread's own. After seed() the thread has a new generator; handles from
/// before refer to the old one.
REEL_API Generator thread_generator();
/// While it lives, random ops of this thread draw from `generator`. Scopes may end in any order;
/// the innermost one alive counts. They may end on another thread as TrainScope may.
class REEL_API GeneratorScope : detail::OpenScope {
 public:
  [[nodiscard]] explicit GeneratorScope(const Generator& generator);
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
/// Numbers of the normal distribution (Box and Muller 1958). Throws DTypeError unless the dtype is
/// floating; so do the other functions with this option. Throws Error unless stddev >= 0, and
/// unless mean and stddev are finite in the dtype.
REEL_API Tensor normal(Shape shape, NormalOptions options = {}, Caller caller = Caller::here());
/// Uniform numbers in [low, high). If low is high, each number is `low`. Throws Error unless
/// low <= high, and unless both are finite in the dtype.
REEL_API Tensor uniform(Shape shape, UniformOptions options = {}, Caller caller = Caller::here());
/// Uniform integers (int64) in [low, high). Throws Error unless low < high.
REEL_API Tensor integers(CountNumber low, CountNumber high, Shape shape,
                         Caller caller = Caller::here());
/// bools that are true with this probability. Throws Error unless 0 <= probability <= 1.
REEL_API Tensor bernoulli(double probability, Shape shape, Caller caller = Caller::here());
/// The numbers 0 to n - 1 (int64) in random order. Throws ShapeError for a negative n.
REEL_API Tensor permutation(Extent n, Caller caller = Caller::here());

/// Options of exponential().
struct ExponentialOptions {
  double scale = 1;
  DType dtype = DType::float32;
};
/// Numbers with the density exp(-x / scale) / scale, above 0 (by the inverse of the distribution
/// function). The mean is `scale`. Throws Error unless scale > 0 and it is finite in the dtype.
REEL_API Tensor exponential(Shape shape, ExponentialOptions options = {},
                            Caller caller = Caller::here());
/// Options of gumbel().
struct GumbelOptions {
  double location = 0, scale = 1;
  DType dtype = DType::float32;
};
/// Numbers of the Gumbel distribution: location - scale log(e), with e from the exponential
/// distribution. argmax(logits + gumbel(logits.shape())) draws from softmax(logits). Throws Error
/// unless scale > 0, and unless both are finite in the dtype.
REEL_API Tensor gumbel(Shape shape, GumbelOptions options = {}, Caller caller = Caller::here());
/// Options of truncated_normal().
struct TruncatedNormalOptions {
  double mean = 0, stddev = 1;
  double low = -2, high = 2;  // standard deviations from the mean; may be infinite
  DType dtype = DType::float32;
};
/// Normal numbers between mean + low stddev and mean + high stddev (by the inverse of the
/// distribution function, Wichura 1988). Throws Error unless stddev >= 0 and low < high, and unless
/// mean and stddev are finite in the dtype.
REEL_API Tensor truncated_normal(Shape shape, TruncatedNormalOptions options = {},
                                 Caller caller = Caller::here());
/// Options of gamma().
struct GammaOptions {
  double scale = 1;
  DType dtype = DType::float32;
};
/// Numbers of the gamma distribution with the shape parameter `alpha` (Marsaglia and Tsang 2000).
/// The mean is alpha scale. Each number takes one block of the stream, and another one after each
/// rejection. Throws Error unless alpha > 0 and scale > 0, and unless both are finite.
REEL_API Tensor gamma(double alpha, Shape shape, GammaOptions options = {},
                      Caller caller = Caller::here());
/// Options of beta().
struct BetaOptions {
  DType dtype = DType::float32;
};
/// Numbers of the beta distribution, in [0, 1]: x / (x + y) with x from gamma(a) and y from
/// gamma(b), computed from their logarithms. Throws Error unless a > 0 and b > 0, and unless both
/// are finite.
REEL_API Tensor beta(double a, double b, Shape shape, BetaOptions options = {},
                     Caller caller = Caller::here());

/// x with the slices along an axis in random order: take(x, permutation(n), axis). x has any dtype,
/// and the result has its dtype.
REEL_API Tensor shuffle(Operand x, AxisNumber axis = 0);

/// One random class (int64) for each row of scores: class k with the probability
/// softmax(logits)[k]. logits are [..., classes]; the result does not have the last axis. A uniform
/// number is searched in the running sums of the probabilities, in float64. Throws ShapeError for
/// no classes, and Error for a row that has NaN, +inf or only -inf.
REEL_API Tensor categorical(Operand logits);
/// `count` independent classes for each row: the last axis of the result has this length. The
/// result is int64.
REEL_API Tensor categorical(Operand logits, Extent count);

/// Options of choice().
struct ChoiceOptions {
  Tensor weights = {};  // one number >= 0 for each slice of x; all equal if undefined
  bool replace = true;  // a slice may be chosen more than once
};
/// n random slices of x along axis 0. Slice k has the probability weights[k] / sum(weights).
/// Without replacement, each draw chooses among the slices that are left; a slice of weight 0 is
/// chosen only if no other is left. Throws ShapeError for weights that are not one for each slice,
/// for more draws without replacement than slices, and for draws from no slices. Throws Error for
/// weights that are negative or not finite, and, with replacement, for a sum of 0 or infinity. x
/// has any dtype, and the result has its dtype.
REEL_API Tensor choice(Operand x, Extent n, ChoiceOptions options = {});
}  // namespace random

/// Sets each element to 0 with this probability, and divides the others by 1 - probability; NaN and
/// infinities become NaN where they are dropped. Unlike nn::Dropout, it does so even while
/// training() is false. Throws Error unless 0 <= probability < 1, and DTypeError unless x is
/// floating.
REEL_API Tensor dropout(Operand x, double probability);
}  // namespace reel
