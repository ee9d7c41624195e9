// SPDX-License-Identifier: BSD-3-Clause
// Random numbers as on the CPU. Number i depends only on the key and on position + i /
// (numbers in a block). A thread draws a block of four words.
#include "cuda/numbers.hpp"
#include "cuda/pack.hpp"
#include "cuda/queue.hpp"
#include "lib/formulas/distributions.hpp"
#include "lib/table/options/random.hpp"

namespace reel::gpu {
namespace {
/// The four words of a block, and the same block as two 64-bit numbers.
struct Words {
  std::uint32_t word[4];
  __device__ std::uint64_t wide(int i) const {
    return word[2 * i] | static_cast<std::uint64_t>(word[2 * i + 1]) << 32;
  }
};
/// The random numbers of a call.
struct Stream {
  Draws first;  // in a graph: `position` counts from what `graph` has
  const Draws* graph;
  explicit Stream(const Call& call)
      : first{call.option<RandomOptions>().seed, call.option<RandomOptions>().position},
        graph(call.queue.draws()) {}
  __device__ std::uint64_t seed() const { return graph ? graph->seed : first.seed; }
  __device__ std::uint64_t counter(std::int64_t block) const {
    return first.position + (graph ? graph->position : 0) + static_cast<std::uint64_t>(block);
  }
  __device__ Words draw(std::int64_t block) const {
    const std::uint64_t key = seed(), at = counter(block);
    Words words{{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32)}};
    formulas::philox(words.word, static_cast<std::uint32_t>(key),
                     static_cast<std::uint32_t>(key >> 32));
    return words;
  }
};

/// A maker computes the `each` numbers of a block.
template <class Make>
__global__ void generate(std::int64_t n, Stream stream, Make make, typename Make::T* out) {
  constexpr int each = Make::each;
  using Numbers = Pack<typename Make::T, each>;
  for (std::int64_t block = first_index(); block * each < n; block += grid_step()) {
    const std::int64_t first = block * each;
    const Numbers numbers = make(stream.draw(block));
    if (first + each <= n && is_aligned<each>(out))
      *reinterpret_cast<Numbers*>(out + first) = numbers;
    else
      for (int i = 0; i < each; ++i)
        if (first + i < n) out[first + i] = numbers.of[i];
  }
}
template <class Make>
void generate_all(const Call& call, const Make& make) {
  const Body& out = call.output();
  call.queue.launch_for((out.elements + Make::each - 1) / Make::each, generate<Make>, out.elements,
                        Stream(call), make, out.as<typename Make::T>());
}

/// Uniform in [0, 1): 24 or 53 bits. A block has four of float, two of double.
template <class T>
inline constexpr int units = 16 / sizeof(T);
template <class T>
__device__ T unit(const Words& words, int i) {
  if constexpr (sizeof(T) == 4)
    return static_cast<float>(words.word[i] >> 8) * 0x1p-24f;
  else
    return static_cast<double>(words.wide(i) >> 11) * 0x1p-53;
}

/// Maps a uniform number to the range between two ends. Rounding never gives the upper end.
template <class Number>
struct Uniform {
  using T = Number;
  static constexpr int each = units<T>;
  T low, high, below;
  explicit Uniform(const RandomOptions& options)
      : low(static_cast<T>(options.a)), high(static_cast<T>(options.b)) {
    below = static_cast<T>(
        sizeof(T) == 4 ? __builtin_nextafterf(static_cast<float>(high), static_cast<float>(low))
                       : __builtin_nextafter(high, low));
  }
  __device__ Pack<T, each> operator()(const Words& words) const {
    Pack<T, each> numbers;
    for (int i = 0; i < each; ++i) {
      const T share = unit<T>(words, i), x = low * (1 - share) + high * share;
      numbers.of[i] = x < low ? low : x < high ? x : below;
    }
    return numbers;
  }
};

/// c[0] x^n + ... + c[n].
template <class T, int n>
__device__ T polynomial(T x, const double (&c)[n]) {
  T sum = static_cast<T>(c[0]);
  for (int i = 1; i < n; ++i) sum = sum * x + static_cast<T>(c[i]);
  return sum;
}
/// The Box-Muller transform: two normal numbers from two uniform numbers. The first uniform number
/// is above 0. Sine and cosine are reduced to the nearest quarter turn and use the polynomials of
/// Cephes, as on the CPU.
template <class Number>
struct Normal {
  using T = Number;
  static constexpr int each = units<T>;
  T mean, deviation;
  __device__ Pack<T, each> operator()(const Words& words) const {
    constexpr T half_unit = static_cast<T>(sizeof(T) == 4 ? 0x1p-25 : 0x1p-54);
    Pack<T, each> numbers;
    for (int i = 0; i < each; i += 2) {
      const T u = unit<T>(words, i) + half_unit, turns = unit<T>(words, i + 1);
      const T radius = deviation * formulas::math::sqrt(-2 * formulas::math::log(u));
      const int quarter = static_cast<int>(turns * 4 + static_cast<T>(0.5));
      const T x = (turns - static_cast<T>(quarter) * static_cast<T>(0.25)) *
                  static_cast<T>(6.283185307179586476925);
      const T z = x * x;
      const T p = polynomial(
          z, {1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
              -1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1});
      const T q = polynomial(
          z, {-1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7,
              2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2});
      const T s = x + x * (z * p), c = 1 - static_cast<T>(0.5) * z + z * z * q;
      const T sine = quarter % 2 ? c : s, cosine = quarter % 2 ? s : c;
      numbers.of[i] = mean + radius * (quarter == 1 || quarter == 2 ? -cosine : cosine);
      numbers.of[i + 1] = mean + radius * (quarter == 2 || quarter == 3 ? -sine : sine);
    }
    return numbers;
  }
};

/// The upper half of a 128-bit product: a number below `limit`. See lib/cpu/random.cpp.
__device__ std::uint64_t below(std::uint64_t random, std::uint64_t limit) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(random) * limit >> 64);
}
template <class Number>
struct Integers {
  using T = Number;
  static constexpr int each = 2;
  std::uint64_t low, count;
  __device__ Pack<T, each> operator()(const Words& words) const {
    Pack<T, each> numbers;
    for (int i = 0; i < each; ++i)
      numbers.of[i] = static_cast<T>(low + below(words.wide(i), count));
    return numbers;
  }
};

template <class Number>
struct Bernoulli {
  using T = Number;
  static constexpr int each = 4;
  std::uint64_t limit;
  T hit;
  __device__ Pack<T, each> operator()(const Words& words) const {
    Pack<T, each> numbers;
    for (int i = 0; i < each; ++i) numbers.of[i] = words.word[i] < limit ? hit : T(0);
    return numbers;
  }
};

/// Uniform numbers above 0 and below 1, as on the CPU.
template <class T>
__device__ T inner_unit(const Words& words, int i) {
  const T x = sizeof(T) == 4
                  ? static_cast<T>(static_cast<float>(words.word[i] >> 1) * 0x1p-31f + 0x1p-32f)
                  : unit<T>(words, i) + static_cast<T>(0x1p-54);
  return x < 1 ? x : 1 - static_cast<T>(sizeof(T) == 4 ? 0x1p-24 : 0x1p-53);
}
template <class Number>
struct Exponential {
  using T = Number;
  static constexpr int each = units<T>;
  T scale;
  __device__ Pack<T, each> operator()(const Words& words) const {
    Pack<T, each> numbers;
    for (int i = 0; i < each; ++i)
      numbers.of[i] = -scale * formulas::math::log(inner_unit<T>(words, i));
    return numbers;
  }
};
template <class Number>
struct Gumbel {
  using T = Number;
  static constexpr int each = units<T>;
  T location, scale;
  __device__ Pack<T, each> operator()(const Words& words) const {
    Pack<T, each> numbers;
    for (int i = 0; i < each; ++i) {
      const T e = -formulas::math::log1p(-inner_unit<T>(words, i));
      numbers.of[i] = location - scale * formulas::math::log(e);
    }
    return numbers;
  }
};
template <class Number>
struct Truncated {
  using T = Number;
  static constexpr int each = units<T>;
  formulas::TruncatedNormal number;
  __device__ Pack<T, each> operator()(const Words& words) const {
    Pack<T, each> numbers;
    for (int i = 0; i < each; ++i)
      numbers.of[i] =
          static_cast<T>(number(sizeof(T) == 4 ? formulas::GammaDraws::unit(words.word[i])
                                               : static_cast<double>(inner_unit<T>(words, i))));
    return numbers;
  }
};

/// Numbers that have a block each, and more blocks after a rejection.
template <class T>
__global__ void draw_gamma(std::int64_t n, Stream stream, formulas::GammaDraws draws, double scale,
                           T* out) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    const std::uint64_t block = stream.counter(i);
    out[i] = static_cast<T>(scale * draws.value(stream.seed(), block));
  }
}
template <class T>
__global__ void draw_beta(std::int64_t n, Stream stream, formulas::GammaDraws first,
                          formulas::GammaDraws second, T* out) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    const std::uint64_t block = stream.counter(i);
    const double x = first.logarithm(stream.seed(), block, 0);
    out[i] = static_cast<T>(formulas::math::sigmoid(x - second.logarithm(stream.seed(), block, 1)));
  }
}

/// A permutation as on the CPU: step i swaps place i with place partner(i) <= i.
///
/// Step i moves the number i to the place partner(i). A number at place p stays there until the
/// first later step j with partner(j) = p. That step moves it to place j. So a list, for each
/// place, of the steps with this partner is enough to find the final place of every number. The
/// lists are short, and their order does not matter.
template <class Step>
struct Exchanges {
  static constexpr Step none = static_cast<Step>(-1);
  std::int64_t n;
  Stream stream;
  Step *first, *next;  // the first step in the list of each place; the next step after each step

  __device__ Step partner(std::int64_t i) const {
    const Words words = stream.draw(i / 2);
    const std::uint64_t random = i % 2 ? words.wide(1) : words.wide(0);
    return static_cast<Step>(below(random, static_cast<std::uint64_t>(i) + 1));
  }
  __device__ void clear(std::int64_t i) const { first[i] = none; }
  __device__ void link(std::int64_t i) const {
    next[i] = atomicExch(&first[partner(i)], static_cast<Step>(i));
  }
  /// The first step after i with this partner.
  __device__ Step next_with(Step place, Step i) const {
    Step least = none;
    for (Step step = first[place]; step != none; step = next[step])
      if (step > i && step < least) least = step;
    return least;
  }
  __device__ void put(std::int64_t i, std::int64_t* out) const {
    Step place = partner(i), step = next_with(place, static_cast<Step>(i));
    for (; step != none; step = next_with(place, place)) place = step;
    out[place] = i;
  }
};
template <class Step>
__global__ void link_steps(Exchanges<Step> exchanges) {
  for (std::int64_t i = first_index(); i < exchanges.n; i += grid_step()) exchanges.link(i);
}
template <class Step>
__global__ void put_numbers(Exchanges<Step> exchanges, std::int64_t* out) {
  for (std::int64_t i = first_index(); i < exchanges.n; i += grid_step()) exchanges.put(i, out);
}
/// A short permutation in one block.
__global__ void permute_few(Exchanges<unsigned> exchanges, std::int64_t* out) {
  REEL_DYNAMIC_SHARED(unsigned, lists);
  exchanges.first = lists;
  exchanges.next = lists + exchanges.n;
  for (std::int64_t i = threadIdx.x; i < exchanges.n; i += blockDim.x) exchanges.clear(i);
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < exchanges.n; i += blockDim.x) exchanges.link(i);
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < exchanges.n; i += blockDim.x) exchanges.put(i, out);
}
template <class Step>
void permute_many(const Queue& queue, std::int64_t n, const Stream& stream, std::int64_t* out) {
  const auto lists = queue.scratch_of<Step>(2 * n);
  const Exchanges<Step> exchanges{n, stream, lists, lists + n};
  queue.check(
      cudaMemsetAsync(lists, 0xff, static_cast<std::size_t>(n) * sizeof(Step), queue.stream));
  queue.launch_for(n, link_steps<Step>, exchanges);
  queue.launch_for(n, put_numbers<Step>, exchanges, out);
}
void permutation(const Call& call) {
  constexpr std::int64_t few = 4096;
  const Stream stream(call);
  const std::int64_t n = call.output().elements;
  auto* const out = call.output().as<std::int64_t>();
  if (n == 0) return;
  if (n <= few)
    call.queue.launch(permute_few, dim3(1), dim3(n <= 256 ? 32 : 256),
                      static_cast<std::size_t>(n) * 2 * sizeof(unsigned),
                      Exchanges<unsigned>{n, stream, nullptr, nullptr}, out);
  else if (n < 0xffffffff)
    permute_many<unsigned>(call.queue, n, stream, out);
  else
    permute_many<unsigned long long>(call.queue, n, stream, out);
}

/// A random word below it is a hit.
std::uint64_t limit_of(const RandomOptions& options) {
  return static_cast<std::uint64_t>(options.a * 0x1p32);
}
/// The distributions of which floating numbers are drawn.
template <class T>
void floating(const Call& call) {
  const auto& options = call.option<RandomOptions>();
  using Kind = RandomOptions::Kind;
  const Stream stream(call);
  const std::int64_t n = call.output().elements;
  T* const out = call.output().as<T>();
  const T location = static_cast<T>(options.location), scale = static_cast<T>(options.scale);
  switch (options.kind) {
    case Kind::uniform:
      return generate_all(call, Uniform<T>(options));
    case Kind::normal:
      return generate_all(call, Normal<T>{static_cast<T>(options.a), static_cast<T>(options.b)});
    case Kind::exponential:
      return generate_all(call, Exponential<T>{scale});
    case Kind::gumbel:
      return generate_all(call, Gumbel<T>{location, scale});
    case Kind::truncated_normal:
      return generate_all(call, Truncated<T>{formulas::TruncatedNormal(
                                    options.location, options.scale, options.a, options.b)});
    case Kind::gamma:
      return call.queue.launch_for(n, draw_gamma<T>, n, stream, formulas::GammaDraws(options.a),
                                   options.scale, out);
    case Kind::beta:
      return call.queue.launch_for(n, draw_beta<T>, n, stream, formulas::GammaDraws(options.a),
                                   formulas::GammaDraws(options.b), out);
    case Kind::bernoulli:
      return generate_all(call, Bernoulli<T>{limit_of(options), static_cast<T>(options.b)});
    case Kind::integers:
    case Kind::permutation:
      __builtin_trap();  // they have no floating dtype
  }
}

KernelResult random(const Call& call) {
  const auto& options = call.option<RandomOptions>();
  using Kind = RandomOptions::Kind;
  const DType dtype = call.output().dtype;
  if (options.kind == Kind::permutation) {
    permutation(call);
  } else if (options.kind == Kind::integers) {
    const auto low = static_cast<std::uint64_t>(options.low);
    const std::uint64_t count = static_cast<std::uint64_t>(options.high) - low;
    with_integers(dtype, [&]<class T>(Type<T>) { generate_all(call, Integers<T>{low, count}); });
  } else if (dtype == DType::boolean) {
    generate_all(call, Bernoulli<bool>{limit_of(options), true});
  } else {
    return with_floating(dtype, [&]<class T>(Type<T>) { floating<T>(call); });
  }
  return {};
}

__global__ void put_draws(Draws* draws, Draws next) { *draws = next; }
__global__ void add_blocks(Draws* draws, std::uint64_t blocks) { draws->position += blocks; }
}  // namespace

cudaError_t set_draws(cudaStream_t stream, Draws* draws, Draws next) {
  return launch(put_draws, dim3(1), dim3(1), 0, stream, draws, next);
}
cudaError_t advance_draws(cudaStream_t stream, Draws* draws, std::uint64_t blocks) {
  return launch(add_blocks, dim3(1), dim3(1), 0, stream, draws, blocks);
}
cudaError_t load_draws() {
  cudaFuncAttributes attributes;
  const cudaError_t error =
      cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(put_draws));
  return error ? error
               : cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(add_blocks));
}
extern const NamedKernel random_kernels[] = {{"random", random}, {nullptr, nullptr}};
}  // namespace reel::gpu
