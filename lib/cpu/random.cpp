// SPDX-License-Identifier: BSD-3-Clause
// Random numbers. Number i depends on the key and on position + i / (numbers in a block) alone.
#include "lib/table/options/random.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/philox.hpp"
#include "lib/cpu/simd_math.hpp"
#include "lib/formulas/distributions.hpp"
#include "lib/pool/pool.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
constexpr std::int64_t batch = 16;  // blocks drawn at once

/// The words of a batch of blocks in order, and the same as numbers of 64 bits.
struct Words {
  alignas(64) std::uint64_t wide[2 * batch];
  alignas(64) std::uint32_t word[4 * batch];
};

void draw(const RandomOptions& options, std::uint64_t block, Words& words) {
  alignas(64) std::uint64_t counters[batch], first[batch], second[batch];
  for (unsigned k = 0; k < batch; ++k) counters[k] = options.position + block + k;
  for (std::int64_t k = 0; k < batch; k += lanes<std::uint64_t>)
    draw_lanes(options.seed, counters + k, 0, first + k, second + k);
  for (std::int64_t k = 0; k < batch; ++k) {
    words.wide[2 * k] = first[k];
    words.wide[2 * k + 1] = second[k];
  }
  for (std::int64_t i = 0; i < 2 * batch; ++i) {
    words.word[2 * i] = static_cast<std::uint32_t>(words.wide[i]);
    words.word[2 * i + 1] = static_cast<std::uint32_t>(words.wide[i] >> 32);
  }
}

/// Calls make(words, out), which writes `each` numbers, for each block of a batch from `block` on.
template <int each, class T, class Make>
[[gnu::noinline]] void generate_from(const RandomOptions& options, std::uint64_t block, T* out,
                                     std::int64_t n, const Make& make) {
  constexpr std::int64_t step = each * batch;
  Words words;
  for (std::int64_t i = 0; i < n; i += step, block += batch) {
    alignas(64) T rest[step];
    const bool whole = i + step <= n;
    draw(options, block, words);
    make(words, whole ? out + i : rest);
    for (std::int64_t k = i; !whole && k < n; ++k) out[k] = rest[k - i];
  }
}

template <int each, class T, class Make>
void generate(const RandomOptions& options, T* out, std::int64_t n, const Make& make) {
  constexpr std::int64_t shared = 1 << 14;
  parallel_ranges(n, shared, [&](std::int64_t first, std::int64_t end) {
    generate_from<each>(options, static_cast<std::uint64_t>(first / each), out + first, end - first,
                        make);
  });
}

/// Uniform in [0, 1): 24 or 53 bits.
float unit(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
}
double unit(std::uint64_t word) {
  return static_cast<double>(static_cast<std::int64_t>(word >> 11)) * 0x1p-53;
}

/// Maps a uniform number to the range between two ends. Rounding never gives the upper end.
template <class T>
struct Interval {
  T low, high, below;
  explicit Interval(const RandomOptions& options)
      : low(static_cast<T>(options.a)), high(static_cast<T>(options.b)) {
    below = static_cast<T>(
        sizeof(T) == 4 ? __builtin_nextafterf(static_cast<float>(high), static_cast<float>(low))
                       : __builtin_nextafter(high, low));
  }
  T at(T share) const {
    const T x = low * (1 - share) + high * share;
    return x < low ? low : x < high ? x : below;
  }
};

void uniform(const RandomOptions& options, float* out, std::int64_t n) {
  const Interval<float> interval(options);
  generate<4>(options, out, n, [=](const Words& words, float* to) {
    for (int i = 0; i < 4 * batch; ++i) to[i] = interval.at(unit(words.word[i]));
  });
}
void uniform(const RandomOptions& options, double* out, std::int64_t n) {
  const Interval<double> interval(options);
  generate<2>(options, out, n, [=](const Words& words, double* to) {
    for (int i = 0; i < 2 * batch; ++i) to[i] = interval.at(unit(words.wide[i]));
  });
}

template <class T>
struct SineCosine {
  Vector<T> sine, cosine;
};
/// Sine and cosine of turns in [0, 1), by the nearest quarter turn and the rest (polynomials of
/// Cephes). xsimd's functions are not used, as all instruction sets would share their code for
/// large angles.
template <class T>
SineCosine<T> sine_cosine(const Vector<T>& turns) {
  const Vector<T> quarter = xsimd::floor(xsimd::fma(turns, constant<T>(4), constant<T>(0.5)));
  const Vector<T> x = (turns - quarter * constant<T>(0.25)) * constant<T>(6.283185307179586476925);
  const Vector<T> z = x * x;
  const Vector<T> p = polynomial(
      z, {1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
          -1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1});
  const Vector<T> q = polynomial(
      z, {-1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7,
          2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2});
  const Vector<T> s = x + x * (z * p), c = constant<T>(1) - constant<T>(0.5) * z + z * z * q;
  const auto first = quarter == constant<T>(1), second = quarter == constant<T>(2),
             third = quarter == constant<T>(3), swapped = first | third;
  const Vector<T> sine = xsimd::select(swapped, c, s), cosine = xsimd::select(swapped, s, c);
  return {xsimd::select(second | third, -sine, sine),
          xsimd::select(first | second, -cosine, cosine)};
}

/// Box and Muller: two normal numbers from two uniform numbers. The first uniform number is above
/// 0.
template <class T, int pairs>
void normal_pairs(const RandomOptions& options, const T (&u)[pairs], const T (&v)[pairs], T* out) {
  const Vector<T> mean(static_cast<T>(options.a)), deviation(static_cast<T>(options.b));
  alignas(64) T z0[pairs], z1[pairs];
  for (std::int64_t k = 0; k < pairs; k += lanes<T>) {
    const Vector<T> radius = deviation * xsimd::sqrt(Vector<T>(-2) * logarithm<T>(load(u + k)));
    const auto [sine, cosine] = sine_cosine<T>(load(v + k));
    store(z0 + k, mean + radius * cosine);
    store(z1 + k, mean + radius * sine);
  }
  for (std::int64_t k = 0; k < pairs; ++k) {
    out[2 * k] = z0[k];
    out[2 * k + 1] = z1[k];
  }
}
void normal(const RandomOptions& options, float* out, std::int64_t n) {
  generate<4>(options, out, n, [&](const Words& words, float* to) {
    alignas(64) float u[2 * batch], v[2 * batch];
    for (std::int64_t k = 0; k < 2 * batch; ++k) u[k] = unit(words.word[2 * k]) + 0x1p-25f;
    for (std::int64_t k = 0; k < 2 * batch; ++k) v[k] = unit(words.word[2 * k + 1]);
    normal_pairs(options, u, v, to);
  });
}
void normal(const RandomOptions& options, double* out, std::int64_t n) {
  generate<2>(options, out, n, [&](const Words& words, double* to) {
    alignas(64) double u[batch], v[batch];
    for (std::int64_t k = 0; k < batch; ++k) u[k] = unit(words.wide[2 * k]) + 0x1p-54;
    for (std::int64_t k = 0; k < batch; ++k) v[k] = unit(words.wide[2 * k + 1]);
    normal_pairs(options, u, v, to);
  });
}

/// The upper half of the 128 bit product: a number below `limit` (Lemire 2019, without rejection:
/// the bias is below limit / 2^64).
std::uint64_t below(std::uint64_t random, std::uint64_t limit) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(random) * limit >> 64);
}
template <class T>
void integers(const RandomOptions& options, T* out, std::int64_t n) {
  const auto low = static_cast<std::uint64_t>(options.low);
  const std::uint64_t count = static_cast<std::uint64_t>(options.high) - low;
  generate<2>(options, out, n, [&](const Words& words, T* to) {
    for (int i = 0; i < 2 * batch; ++i) to[i] = static_cast<T>(low + below(words.wide[i], count));
  });
}

template <class T>
void bernoulli(const RandomOptions& options, T* out, std::int64_t n) {
  const auto limit = static_cast<std::uint64_t>(options.a * 0x1p32);
  const T hit = std::is_same_v<T, bool> ? T(1) : static_cast<T>(options.b);
  generate<4>(options, out, n, [&](const Words& words, T* to) {
    for (int i = 0; i < 4 * batch; ++i) to[i] = words.word[i] < limit ? hit : T(0);
  });
}

/// Fisher and Yates, inside out: each number is exchanged with one at an earlier position, or
/// stays.
void permutation(const RandomOptions& options, std::int64_t* out, std::int64_t n) {
  generate<2>(options, out, n, [&](const Words& words, std::int64_t* to) {
    for (int i = 0; i < 2 * batch; ++i) to[i] = static_cast<std::int64_t>(words.wide[i]);
  });
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<std::int64_t>(
        below(static_cast<std::uint64_t>(out[i]), static_cast<std::uint64_t>(i) + 1));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t partner = out[i];
    out[i] = out[partner];
    out[partner] = i;
  }
}

/// Uniform numbers above 0 and below 1: small ones have more bits than large ones.
float inner_unit(std::uint32_t word) {
  const float x = static_cast<float>(static_cast<std::int32_t>(word >> 1)) * 0x1p-31f + 0x1p-32f;
  return x < 1 ? x : 1 - 0x1p-24f;
}
double inner_unit(std::uint64_t word) {
  const double x = unit(word) + 0x1p-54;
  return x < 1 ? x : 1 - 0x1p-53;
}
/// f(vector of uniform numbers above 0 and below 1).
template <class T, class F>
void transformed(const RandomOptions& options, T* out, std::int64_t n, const F& f) {
  constexpr int each = 16 / sizeof(T), count = each * batch;
  generate<each>(options, out, n, [&](const Words& words, T* to) {
    alignas(64) T u[count];
    for (int i = 0; i < count; ++i) {
      if constexpr (sizeof(T) == 4)
        u[i] = inner_unit(words.word[i]);
      else
        u[i] = inner_unit(words.wide[i]);
    }
    for (std::int64_t i = 0; i < count; i += lanes<T>) store(u + i, f(Vector<T>(load(u + i))));
    for (int i = 0; i < count; ++i) to[i] = u[i];
  });
}
template <class T>
void exponential(const RandomOptions& options, T* out, std::int64_t n) {
  const Vector<T> scale(static_cast<T>(-options.scale));
  transformed(options, out, n,
              [&](const Vector<T>& u) -> Vector<T> { return scale * logarithm<T>(u); });
}
template <class T>
void gumbel(const RandomOptions& options, T* out, std::int64_t n) {
  const Vector<T> location(static_cast<T>(options.location));
  const Vector<T> scale(static_cast<T>(options.scale));
  transformed(options, out, n, [&](const Vector<T>& u) -> Vector<T> {
    return location - scale * logarithm<T>(-formulas::math::log1p(Vector<T>(-u)));
  });
}
template <class T>
void truncated_normal(const RandomOptions& options, T* out, std::int64_t n) {
  const formulas::TruncatedNormal number(options.location, options.scale, options.a, options.b);
  generate<16 / sizeof(T)>(options, out, n, [&](const Words& words, T* to) {
    if constexpr (sizeof(T) == 4)
      for (int i = 0; i < 4 * batch; ++i)
        to[i] = static_cast<T>(number(formulas::GammaDraws::unit(words.word[i])));
    else
      for (int i = 0; i < 2 * batch; ++i) to[i] = number(inner_unit(words.wide[i]));
  });
}
/// out[i] = f(the number of its block).
template <class T, class F>
void in_blocks(const RandomOptions& options, T* out, std::int64_t n, const F& f) {
  constexpr std::int64_t shared = 1 << 10;
  parallel_ranges(n, shared, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i)
      out[i] = static_cast<T>(f(options.position + static_cast<std::uint64_t>(i)));
  });
}
// Not inlined: each type and each way to share the work would repeat a long draw.
[[gnu::noinline]] double gamma_draw(const formulas::GammaDraws& of, std::uint64_t seed,
                                    std::uint64_t block) {
  return of.value(seed, block);
}
[[gnu::noinline]] double log_gamma_draw(const formulas::GammaDraws& of, std::uint64_t seed,
                                        std::uint64_t block, std::uint32_t series) {
  return of.logarithm(seed, block, series);
}
template <class T>
void gamma(const RandomOptions& options, T* out, std::int64_t n) {
  const formulas::GammaDraws draws(options.a);
  in_blocks(options, out, n, [&](std::uint64_t block) {
    return options.scale * gamma_draw(draws, options.seed, block);
  });
}
template <class T>
void beta(const RandomOptions& options, T* out, std::int64_t n) {
  const formulas::GammaDraws first(options.a), second(options.b);
  in_blocks(options, out, n, [&](std::uint64_t block) {
    const double x = log_gamma_draw(first, options.seed, block, 0);
    return formulas::math::sigmoid(x - log_gamma_draw(second, options.seed, block, 1));
  });
}

KernelResult random(const KernelCall& call) {
  const auto& options = call.option<RandomOptions>();
  using Kind = RandomOptions::Kind;
  Body& output = call.output();
  const std::int64_t n = output.elements;
  switch (options.kind) {
    case Kind::uniform:
      return with_floating(output.dtype,
                           [&]<class T>(Type<T>) { uniform(options, output.as<T>(), n); });
    case Kind::normal:
      return with_floating(output.dtype,
                           [&]<class T>(Type<T>) { normal(options, output.as<T>(), n); });
    case Kind::integers:
      with_integers(output.dtype, [&]<class T>(Type<T>) { integers(options, output.as<T>(), n); });
      break;
    case Kind::bernoulli:
      if (output.dtype != DType::boolean)
        return with_floating(output.dtype,
                             [&]<class T>(Type<T>) { bernoulli(options, output.as<T>(), n); });
      bernoulli(options, output.as<bool>(), n);
      break;
    case Kind::permutation:
      permutation(options, output.as<std::int64_t>(), n);
      break;
    default:
      return with_floating(output.dtype, [&]<class T>(Type<T>) {
        T* const to = output.as<T>();
        if (options.kind == Kind::exponential) return exponential(options, to, n);
        if (options.kind == Kind::gumbel) return gumbel(options, to, n);
        if (options.kind == Kind::truncated_normal) return truncated_normal(options, to, n);
        options.kind == Kind::gamma ? gamma(options, to, n) : beta(options, to, n);
      });
  }
  return {};
}
constexpr NamedKernel kernels[] = {{"random", random}, {nullptr, nullptr}};
constexpr NamedPasses passes[] = {{nullptr, nullptr}};
}  // namespace
extern const Family random_family = {kernels, passes};
}  // namespace reel::kernels::REEL_ISA
