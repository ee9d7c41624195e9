// SPDX-License-Identifier: BSD-3-Clause
// Passes made from formulas: floats as vectors, in which the rest of a row goes through the same
// vector code as its body; integers and truth values by loops that the compiler makes vectors of.
#pragma once
#include <type_traits>

#include "lib/cpu/kernels.hpp"
#include "lib/cpu/pool.hpp"
#include "lib/cpu/simd_math.hpp"

namespace reel::kernels::REEL_ISA {
using formulas::Domain;

/// What leaves the caches anyway is stored past them.
inline constexpr std::int64_t streamed_bytes = 16 << 20;
/// Passes over as many bytes, or so many elements of a slow formula, are shared among threads.
inline constexpr std::int64_t shared_bytes = 1 << 20, shared_slow = 1 << 16;
inline constexpr std::int64_t loop_block = 1 << 16;
template <bool slow, class T>
inline constexpr std::int64_t pass_block = slow ? shared_slow / 4
                                                : shared_bytes / 4 /
                                                      static_cast<std::int64_t>(sizeof(T));

/// K inputs that all have neighbours; null where there is none.
template <class T, int K>
struct Rows {
  const T* first[K];
  Vector<T> at(int k, std::int64_t i) const { return load(first[k] + i); }
};
/// The last n elements of such inputs, fewer than a vector.
template <class T, int K>
struct Ends {
  const Rows<T, K>& rows;
  std::int64_t n;
  Vector<T> at(int k, std::int64_t i) const { return load_part(rows.first[k] + i, n); }
};

/// K inputs of a pass; null where there is none. One that is a single number for all is a vector
/// of it, walked in place.
template <class T, int K>
struct Sources : Rows<T, K> {
  using Rows<T, K>::first;
  std::int64_t walk[K];  // all bits where the input has neighbours, else 0
  alignas(64) T room[K][lanes<T>];

  Sources(const void* const* from, unsigned scalars) {
    for (int k = 0; k < K; ++k) {
      first[k] = static_cast<const T*>(from[k]);
      walk[k] = -1;
      if (first[k] && scalars >> k & 1) keep(k, Vector<T>(*first[k]));
    }
  }
  Vector<T> at(int k, std::int64_t i) const { return load(first[k] + (i & walk[k])); }
  /// Leaves n elements from i on, fewer than a vector, as all there is.
  void keep_rest(std::int64_t i, std::int64_t n) {
    for (int k = 0; k < K; ++k)
      if (first[k] && walk[k]) keep(k, load_part(first[k] + i, n));
  }

 private:
  void keep(int k, const Vector<T>& x) {
    x.store_aligned(room[k]);
    first[k] = room[k];
    walk[k] = 0;
  }
};

/// Four vectors at a time, from i on while they fit; returns where it stopped.
template <bool streams, class T, class From, class Formula>
std::int64_t run_fours(const From& from, std::int64_t i, std::int64_t n, T* out,
                       const Formula& formula) {
  constexpr std::int64_t step = lanes<T>;
  for (; i + 4 * step <= n; i += 4 * step) {
    const Vector<T> results[] = {formula(from, i), formula(from, i + step),
                                 formula(from, i + 2 * step), formula(from, i + 3 * step)};
    for (int k = 0; k < 4; ++k) {
      if constexpr (streams)
        stream(out + i + k * step, results[k]);
      else
        store(out + i + k * step, results[k]);
    }
  }
  return i;
}

/// The same with stores past the caches, which want alignment.
template <class T, class From, class Formula>
std::int64_t run_streamed(const From& from, std::int64_t n, T* out, const Formula& formula) {
  constexpr std::uintptr_t bytes = lanes<T> * sizeof(T);
  store(out, formula(from, 0));
  const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(out) % bytes;
  const auto start = static_cast<std::int64_t>((bytes - past) % bytes / sizeof(T));
  const std::int64_t end = run_fours<true>(from, start, n, out, formula);
  stream_end();
  return end;
}

enum class Pace { ones, fours, streams };

/// All whole vectors of out[i] = formula(from, i); returns where the rest begins.
template <Pace pace, class T, class From, class Formula>
std::int64_t run_vectors(const From& from, std::int64_t n, T* out, const Formula& formula) {
  constexpr std::int64_t step = lanes<T>;
  std::int64_t i = 0;
  if constexpr (pace == Pace::streams)
    i = run_streamed(from, n, out, formula);
  else if constexpr (pace == Pace::fours)
    i = run_fours<false>(from, 0, n, out, formula);
  for (; i + step <= n; i += step) store(out + i, formula(from, i));
  return i;
}

/// out[i] = formula(from, i) for all i. Without scalars nothing stands between memory and formula.
template <Pace pace, class T, int K, class Formula>
void run_part(const void* const (&inputs)[K], unsigned scalars, std::int64_t n, T* out,
              const Formula& formula) {
  if (!scalars) [[likely]] {
    Rows<T, K> rows;
    for (int k = 0; k < K; ++k) rows.first[k] = static_cast<const T*>(inputs[k]);
    const std::int64_t i = run_vectors<pace>(rows, n, out, formula);
    if (i < n) store_part(out + i, formula(Ends<T, K>{rows, n - i}, i), n - i);
    return;
  }
  Sources<T, K> sources(inputs, scalars);
  constexpr Pace scalar_pace = pace == Pace::streams ? pace : Pace::ones;
  const std::int64_t i = run_vectors<scalar_pace>(sources, n, out, formula);
  if (i == n) return;
  sources.keep_rest(i, n - i);
  store_part(out + i, formula(sources, 0), n - i);
}

/// The same in blocks, for large n.
template <bool slow, class T, int K, class Formula>
[[gnu::noinline]] void run_shared(const void* const (&inputs)[K], unsigned scalars, std::int64_t n,
                                  T* out, const Formula& formula) {
  bool streams = !slow && n * static_cast<std::int64_t>(sizeof(T)) >= streamed_bytes;
  for (const void* input : inputs) streams &= input != out;
  parallel_ranges(n, pass_block<slow, T>, [&](std::int64_t first, std::int64_t end) {
    const void* from[K];
    for (int k = 0; k < K; ++k) {
      const bool walks = inputs[k] && !(scalars >> k & 1);
      from[k] = walks ? static_cast<const T*>(inputs[k]) + first : inputs[k];
    }
    if constexpr (!slow)
      if (streams) return run_part<Pace::streams>(from, scalars, end - first, out + first, formula);
    run_part<slow ? Pace::ones : Pace::fours>(from, scalars, end - first, out + first, formula);
  });
}

template <bool slow, class T, int K, class Formula>
void run_all(const void* const (&inputs)[K], unsigned scalars, std::int64_t n, T* out,
             const Formula& formula) {
  if (n >= 4 * pass_block<slow, T>) [[unlikely]]
    return run_shared<slow>(inputs, scalars, n, out, formula);
  run_part<slow ? Pace::ones : Pace::fours>(inputs, scalars, n, out, formula);
}

template <class F>
inline constexpr bool is_binary = requires(F f, double x) {
  f(x, x);
};
template <class F>
inline constexpr bool is_slow = requires {
  F::slow;
};

template <class F, class T>
void floating_tile(std::int64_t n, const void* const* inputs, unsigned scalars, void* output) {
  const auto formula = [](const auto& from, std::int64_t i) -> Vector<T> {
    if constexpr (is_binary<F>)
      return F()(from.at(0, i), from.at(1, i));
    else
      return F()(from.at(0, i));
  };
  T* const out = static_cast<T*>(output);
  if constexpr (is_binary<F>)
    run_all<is_slow<F>>({inputs[0], inputs[1]}, scalars, n, out, formula);
  else
    run_all<is_slow<F>>({inputs[0]}, scalars, n, out, formula);
}

/// What a gradient formula reads, loaded when it asks.
template <class From>
struct Saved {
  const From& from;
  std::int64_t i;
  auto dy() const { return from.at(0, i); }
  auto x() const { return from.at(1, i); }
  auto y() const { return from.at(2, i); }
  auto out() const { return from.at(3, i); }
};
template <class F, int input, class From>
auto gradient_at(const From& from, std::int64_t i) {
  if constexpr (input == 0)
    return F::d0(Saved<From>{from, i});
  else
    return F::d1(Saved<From>{from, i});
}
template <class F, int input>
inline constexpr bool has_gradient = requires(const Sources<float, 5>& from) {
  F::d0(Saved<Sources<float, 5>>{from, 0});
};
template <class F>
inline constexpr bool has_gradient<F, 1> = requires(const Sources<float, 5>& from) {
  F::d1(Saved<Sources<float, 5>>{from, 0});
};

template <class F, int input, class T>
void gradient_tile(std::int64_t n, const void* const* values, unsigned scalars, void* output,
                   bool accumulate) {
  const void* all[] = {values[0], values[1], values[2], values[3], accumulate ? output : nullptr};
  T* const out = static_cast<T*>(output);
  if (accumulate)
    run_all<is_slow<F>>(all, scalars & 15, n, out, [](const auto& from, std::int64_t i) {
      return Vector<T>(from.at(4, i) + gradient_at<F, input>(from, i));
    });
  else
    run_all<is_slow<F>>(all, scalars & 15, n, out, [](const auto& from, std::int64_t i) {
      return Vector<T>(gradient_at<F, input>(from, i));
    });
}

/// How elements lie in memory: truth values as the bytes 0 and 1.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

template <class Out, class Value>
void run_loop(std::int64_t n, Out* out, const Value& value) {
  const auto run = [=](std::int64_t first, std::int64_t end) {
    REEL_INDEPENDENT
    for (std::int64_t i = first; i < end; ++i) out[i] = value(i);
  };
  parallel_ranges(n, loop_block, run);
}

/// T is what the formula computes with, Out the dtype of the result.
template <class F, class T, class Out>
void loop_tile(std::int64_t n, const void* const* inputs, unsigned scalars, void* output) {
  const T* const x = static_cast<const T*>(inputs[0]);
  auto* const out = static_cast<Stored<Out>*>(output);
  const auto result = [](auto value) { return static_cast<Stored<Out>>(static_cast<Out>(value)); };
  if constexpr (is_binary<F>) {
    const T* const y = static_cast<const T*>(inputs[1]);
    if (!scalars) return run_loop(n, out, [=](std::int64_t i) { return result(F()(x[i], y[i])); });
    const T first_x = n ? x[0] : T(), first_y = n ? y[0] : T();
    if (scalars == 1) return run_loop(n, out, [=](auto i) { return result(F()(first_x, y[i])); });
    if (scalars == 2) return run_loop(n, out, [=](auto i) { return result(F()(x[i], first_y)); });
    run_loop(n, out, [=](std::int64_t) { return result(F()(first_x, first_y)); });
  } else if (scalars) {
    const T first_x = n ? x[0] : T();
    run_loop(n, out, [=](std::int64_t) { return result(F()(first_x)); });
  } else {
    run_loop(n, out, [=](std::int64_t i) { return result(F()(x[i])); });
  }
}

template <class F>
constexpr Tiles comparison_tiles() {
  return {{loop_tile<F, std::uint8_t, bool>, loop_tile<F, std::uint8_t, bool>,
           loop_tile<F, std::int32_t, bool>, loop_tile<F, std::int64_t, bool>,
           loop_tile<F, float, bool>, loop_tile<F, double, bool>}};
}
template <class F, class T>
constexpr Tile integer_tile() {
  if constexpr (requires { F::wraps; })
    return loop_tile<F, std::make_unsigned_t<T>, T>;
  else
    return loop_tile<F, T, T>;
}
template <class F>
constexpr Tiles number_tiles() {
  Tiles tiles;
  tiles.value[static_cast<int>(DType::float32)] = floating_tile<F, float>;
  tiles.value[static_cast<int>(DType::float64)] = floating_tile<F, double>;
  if constexpr (F::domain != Domain::floating) {
    tiles.value[static_cast<int>(DType::uint8)] = integer_tile<F, std::uint8_t>();
    tiles.value[static_cast<int>(DType::int32)] = integer_tile<F, std::int32_t>();
    tiles.value[static_cast<int>(DType::int64)] = integer_tile<F, std::int64_t>();
  }
  if constexpr (F::domain == Domain::everything)
    tiles.value[static_cast<int>(DType::boolean)] = loop_tile<F, std::uint8_t, bool>;
  return tiles;
}
template <class F, int input>
constexpr void add_gradient(Tiles& tiles) {
  if constexpr (has_gradient<F, input>) {
    tiles.gradient[input][static_cast<int>(DType::float32)] = gradient_tile<F, input, float>;
    tiles.gradient[input][static_cast<int>(DType::float64)] = gradient_tile<F, input, double>;
  }
}
template <class F>
constexpr Tiles tiles_of() {
  if constexpr (requires { F::domain; }) {
    Tiles tiles = number_tiles<F>();
    add_gradient<F, 0>(tiles);
    add_gradient<F, 1>(tiles);
    return tiles;
  } else {
    return comparison_tiles<F>();
  }
}

template <class F>
inline constexpr Tiles tiles = tiles_of<F>();
/// The passes of a family, by name.
template <class... F>
inline constexpr NamedTiles tile_table[] = {{F::name, &tiles<F>}..., {nullptr, nullptr}};
inline constexpr NamedKernel no_kernels[] = {{nullptr, nullptr}};
inline constexpr NamedTiles no_tiles[] = {{nullptr, nullptr}};
}  // namespace reel::kernels::REEL_ISA
