// SPDX-License-Identifier: BSD-3-Clause
// Passes that are made from formulas. Floats are computed in vectors, and the rest of a row uses
// the same vector code as its body. Integers and truth values are computed by loops that the
// compiler vectorizes.
#pragma once
#include <type_traits>

#include "lib/body/dtypes.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/simd_math.hpp"
#include "lib/cpu/transposed_pass.hpp"

namespace reel::kernels::REEL_ISA {
using formulas::Domain;
using formulas::is_binary;

/// K contiguous inputs; null for an input that does not exist.
template <class T, int K>
struct Rows {
  const T* first[K];
  Vector<T> at(int k, std::int64_t i) const { return load(first[k] + i); }
};
/// The last n elements of such inputs, fewer than a vector. The lanes behind them repeat some of
/// the elements.
template <class T, int K>
struct Ends {
  const Rows<T, K>& rows;
  std::int64_t n;
  Vector<T> at(int k, std::int64_t i) const { return load_repeated(rows.first[k] + i, n); }
};

/// K inputs of a pass; null for an input that does not exist. An input with a single number becomes
/// a vector of this number, which is read again and again.
template <class T, int K>
struct Sources : Rows<T, K> {
  using Rows<T, K>::first;
  std::int64_t walk[K];  // all bits are set if the input is contiguous, else 0
  alignas(64) T buffer[K][lanes<T>];

  Sources(const void* const* from, unsigned scalars) {
    for (int k = 0; k < K; ++k) {
      first[k] = static_cast<const T*>(from[k]);
      walk[k] = -1;
      if (first[k] && scalars >> k & 1) keep(k, Vector<T>(*first[k]));
    }
  }
  Vector<T> at(int k, std::int64_t i) const { return load(first[k] + (i & walk[k])); }
  /// Keeps the n elements from i on, fewer than a vector, as all remaining elements.
  void keep_rest(std::int64_t i, std::int64_t n) {
    for (int k = 0; k < K; ++k)
      if (first[k] && walk[k]) keep(k, load_repeated(first[k] + i, n));
  }

 private:
  void keep(int k, const Vector<T>& x) {
    x.store_aligned(buffer[k]);
    first[k] = buffer[k];
    walk[k] = 0;
  }
};

/// out[i] = formula(from, i) for whole vectors from i on. Returns where the rest begins.
template <bool slow, class T, class From, class Formula>
std::int64_t run_vectors(const From& from, std::int64_t i, std::int64_t n, T* out,
                         const Formula& formula) {
  constexpr std::int64_t step = lanes<T>;
  if constexpr (slow) {  // two long independent chains
    for (; i + 2 * step <= n; i += 2 * step) {
      const Vector<T> a = formula(from, i), b = formula(from, i + step);
      store(out + i, a);
      store(out + i + step, b);
    }
    for (; i + step <= n; i += step) store(out + i, formula(from, i));
  } else {
    REEL_UNROLL_FOUR
    for (; i + step <= n; i += step) store(out + i, formula(from, i));
  }
  return i;
}

/// The same with stores past the caches, which need alignment.
template <class T, class From, class Formula>
std::int64_t run_streamed(const From& from, std::int64_t n, T* out, const Formula& formula) {
  constexpr std::int64_t step = lanes<T>;
  constexpr std::uintptr_t bytes = step * sizeof(T);
  store(out, formula(from, 0));
  const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(out) % bytes;
  auto i = static_cast<std::int64_t>((bytes - past) % bytes / sizeof(T));
  for (; i + step <= n; i += step) stream(out + i, formula(from, i));
  stream_end();
  return i;
}

/// The same if some inputs are single numbers, or if stores go past the caches.
template <bool streams, class T, int K, class Formula>
[[gnu::noinline]] void run_mixed(const void* const (&inputs)[K], unsigned how, std::int64_t n,
                                 T* out, const Formula& formula) {
  Sources<T, K> sources(inputs, how & pass_scalars);
  std::int64_t i = 0;
  if constexpr (streams)
    if (how & pass_streams && n >= lanes<T>) i = run_streamed(sources, n, out, formula);
  i = run_vectors<true>(sources, i, n, out, formula);
  if (i == n) return;
  sources.keep_rest(i, n - i);
  store_part(out + i, formula(sources, 0), n - i);
}

/// out[i] = formula(from, i) for all i. If no input is a single number, the formula reads memory
/// directly.
template <bool slow, bool streams, class T, int K, class Formula>
void run_all(const void* const (&inputs)[K], unsigned how, std::int64_t n, T* out,
             const Formula& formula) {
  constexpr bool may_stream = streams && !slow;
  if (how & (pass_scalars | pass_streams)) [[unlikely]]
    return run_mixed<may_stream>(inputs, how, n, out, formula);
  Rows<T, K> rows;
  for (int k = 0; k < K; ++k) rows.first[k] = static_cast<const T*>(inputs[k]);
  const std::int64_t i = run_vectors<slow>(rows, 0, n, out, formula);
  if (i < n) store_part(out + i, formula(Ends<T, K>{rows, n - i}, i), n - i);
}

template <class F>
inline constexpr bool is_slow = requires {
  F::slow;
};

template <class F, class T>
void floating_tile(std::int64_t n, const void* const* inputs, unsigned how, void* output) {
  const auto formula = [](const auto& from, std::int64_t i) -> Vector<T> {
    if constexpr (is_binary<F>)
      return F()(from.at(0, i), from.at(1, i));
    else
      return F()(from.at(0, i));
  };
  T* const out = static_cast<T*>(output);
  if constexpr (is_binary<F>)
    run_all<is_slow<F>, true>({inputs[0], inputs[1]}, how, n, out, formula);
  else
    run_all<is_slow<F>, true>({inputs[0]}, how, n, out, formula);
}

/// The operands of a gradient formula. Each is loaded when the formula reads it.
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
void gradient_tile(std::int64_t n, const void* const* values, unsigned how, void* output) {
  const bool adds = how & pass_adds;
  const void* all[] = {values[0], values[1], values[2], values[3], adds ? output : nullptr};
  T* const out = static_cast<T*>(output);
  if (adds)
    run_all<is_slow<F>, false>(all, how, n, out, [](const auto& from, std::int64_t i) {
      return Vector<T>(from.at(4, i) + gradient_at<F, input>(from, i));
    });
  else
    run_all<is_slow<F>, true>(all, how, n, out, [](const auto& from, std::int64_t i) {
      return Vector<T>(gradient_at<F, input>(from, i));
    });
}

/// The type of elements in memory. Truth values are the bytes 0 and 1.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

/// A pass in which some inputs are a single number. It runs along short rows in which the number is
/// repeated.
template <int K>
void repeat_numbers(Tile tile, std::int64_t n, const void* const* inputs, const int (&sizes)[K],
                    unsigned scalars, void* output, int size) {
  constexpr std::int64_t row = 64;
  alignas(64) std::byte buffer[K][row * sizeof(std::int64_t)];
  const void* from[K];
  for (int k = 0; k < K; ++k) {
    from[k] = inputs[k];
    if (!(scalars >> k & 1)) continue;
    const std::int64_t bytes = (n < row ? n : row) * sizes[k];
    __builtin_memcpy(buffer[k], inputs[k], static_cast<std::size_t>(sizes[k]));
    for (std::int64_t done = sizes[k]; done < bytes; done *= 2)
      __builtin_memcpy(buffer[k] + done, buffer[k], static_cast<std::size_t>(done));
    from[k] = buffer[k];
  }
  for (std::int64_t i = 0; i < n; i += row) {
    tile(n - i < row ? n - i : row, from, 0, static_cast<std::byte*>(output) + i * size);
    for (int k = 0; k < K; ++k)
      if (!(scalars >> k & 1)) from[k] = static_cast<const std::byte*>(from[k]) + row * sizes[k];
  }
}

/// T is the type in which the formula computes; Out is the type of the result.
template <class F, class T, class Out>
void loop_tile(std::int64_t n, const void* const* inputs, unsigned how, void* output) {
  const unsigned scalars = how & pass_scalars;
  if (scalars) {
    constexpr int size = sizeof(T), sizes[] = {size, size};
    if constexpr (is_binary<F>)
      return repeat_numbers<2>(loop_tile<F, T, Out>, n, inputs, sizes, scalars, output,
                               sizeof(Out));
    else
      return repeat_numbers<1>(loop_tile<F, T, Out>, n, inputs, {size}, scalars, output,
                               sizeof(Out));
  }
  const T* const x = static_cast<const T*>(inputs[0]);
  auto* const out = static_cast<Stored<Out>*>(output);
  const auto result = [](auto value) { return static_cast<Stored<Out>>(static_cast<Out>(value)); };
  if constexpr (is_binary<F>) {
    const T* const y = static_cast<const T*>(inputs[1]);
    REEL_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) out[i] = result(F()(x[i], y[i]));
  } else {
    REEL_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) out[i] = result(F()(x[i]));
  }
}

template <class F, class T>
constexpr Tile integer_tile() {
  if constexpr (requires { F::wraps; })
    return loop_tile<F, std::make_unsigned_t<T>, T>;
  else
    return loop_tile<F, T, T>;
}
/// F of truth values that are read as bytes: the compiler makes no vectors of bool.
template <class F>
struct OfTruths {
  constexpr bool operator()(auto x) const requires(!is_binary<F>) { return F()(x != 0); }
  constexpr bool operator()(auto x, auto y) const requires(is_binary<F>) {
    return F()(x != 0, y != 0);
  }
};
/// Whether F gives numbers: neither truth values of a comparison nor bits.
template <class F>
inline constexpr bool computes = false;
template <class F>
requires requires { F::domain; }
inline constexpr bool computes<F> = F::domain != Domain::bits;
/// The pass of a formula over inputs of type T, or null: some formulas compute in some dtypes only.
template <class F, class T>
constexpr Tile tile_of() {
  constexpr bool truth = std::is_same_v<T, bool>;
  if constexpr (!has_arithmetic(dtype_of<T>())) {
    return nullptr;
  } else if constexpr (!requires { F::domain; }) {  // a comparison
    return loop_tile<F, Stored<T>, bool>;
  } else if constexpr (F::domain == Domain::bits) {
    if constexpr (truth)
      return loop_tile<OfTruths<F>, std::uint8_t, bool>;
    else if constexpr (std::is_integral_v<T>)
      return loop_tile<F, T, T>;
    else
      return nullptr;
  } else if constexpr (truth) {
    if constexpr (F::domain == Domain::everything)
      return loop_tile<OfTruths<F>, std::uint8_t, bool>;
    else
      return nullptr;
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (F::domain == Domain::floating)
      return nullptr;
    else
      return integer_tile<F, T>();
  } else {
    return floating_tile<F, T>;
  }
}
/// Whether ops compute numbers with fractions of type T.
template <class T>
inline constexpr bool computes_fractions = is_floating(dtype_of<T>()) &&
                                           has_arithmetic(dtype_of<T>());
template <class F, int input, class T>
constexpr Tile gradient_tile_of() {
  if constexpr (has_gradient<F, input> && computes_fractions<T>)
    return gradient_tile<F, input, T>;
  else
    return nullptr;
}
/// tile(Type<T>()) for the elements of each dtype.
template <class TileOf>
constexpr void fill_tiles(Tile (&tiles)[dtype_count], const TileOf& tile) {
  const ByDType<Tile> by = by_dtype<Tile>(tile);
  for (int i = 0; i < dtype_count; ++i) tiles[i] = by.of[i];
}
template <class TileOf>
constexpr Tiles tiles_by(const TileOf& tile) {
  Tiles tiles;
  fill_tiles(tiles.value, tile);
  return tiles;
}
template <class F>
constexpr Tiles tiles_of() {
  Tiles tiles = tiles_by([]<class T>(Type<T>) { return tile_of<F, T>(); });
  fill_tiles(tiles.gradient[0], []<class T>(Type<T>) { return gradient_tile_of<F, 0, T>(); });
  fill_tiles(tiles.gradient[1], []<class T>(Type<T>) { return gradient_tile_of<F, 1, T>(); });
  tiles.slow = is_slow<F>;
  if constexpr (has_transposed_pass && computes<F> && is_binary<F> && !is_slow<F>)
    tiles.transposed = transposed_pass<F>;
  return tiles;
}

template <class F>
inline constexpr Tiles tiles = tiles_of<F>();
/// The formulas of two lists.
template <class... F, class... G>
formulas::List<F..., G...> operator+(formulas::List<F...>, formulas::List<G...>);
/// The passes of a family, by name.
template <class List>
inline constexpr NamedTiles tile_table[] = {{nullptr, nullptr}};
template <class... F>
inline constexpr NamedTiles tile_table<formulas::List<F...>>[] = {{F::name, &tiles<F>}...,
                                                                  {nullptr, nullptr}};
inline constexpr NamedKernel no_kernels[] = {{nullptr, nullptr}};
inline constexpr NamedTiles no_tiles[] = {{nullptr, nullptr}};
}  // namespace reel::kernels::REEL_ISA
