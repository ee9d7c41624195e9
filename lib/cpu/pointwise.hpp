// SPDX-License-Identifier: BSD-3-Clause
// Passes that are made from formulas. Floats are computed in vectors, and the rest of a row uses
// the same vector code as its body. Integers and truth values are computed by loops that the
// compiler vectorizes.
#pragma once
#include <initializer_list>
#include <type_traits>

#include "lib/body/dtypes.hpp"
#include "lib/cpu/half.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/simd_math.hpp"
#include "lib/cpu/stages.hpp"
#include "lib/cpu/transposed_pass.hpp"

namespace reel::kernels::REEL_ISA {
using formulas::arity_of;
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
  if constexpr (slow || sizeof(T) == 8) {  // two long independent chains; small for double
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

/// run_vectors() with stores past the caches, which need alignment.
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

/// Computes all elements if some inputs are single numbers, or if stores go past the caches.
template <class T, int K, class Formula>
[[gnu::noinline]] void run_mixed(const void* const (&inputs)[K], unsigned how, std::int64_t n,
                                 T* out, const Formula& formula) {
  Sources<T, K> sources(inputs, how & pass_scalars);
  std::int64_t i = 0;
  if (how & pass_streams && n >= lanes<T>) i = run_streamed(sources, n, out, formula);
  i = run_vectors<true>(sources, i, n, out, formula);
  if (i == n) return;
  sources.keep_rest(i, n - i);
  store_part(out + i, formula(sources, 0), n - i);
}

/// out[i] = formula(from, i) for all i. No input is a single number.
template <bool slow, class T, int K, class Formula>
void run_arrays(const void* const (&inputs)[K], std::int64_t n, T* out, const Formula& formula) {
  Rows<T, K> rows;
  for (int k = 0; k < K; ++k) rows.first[k] = static_cast<const T*>(inputs[k]);
  const std::int64_t i = run_vectors<slow>(rows, 0, n, out, formula);
  if (i < n) store_part(out + i, formula(Ends<T, K>{rows, n - i}, i), n - i);
}

/// What a pass leaves to run_pieces(). A slow formula gains nothing from stores past the caches.
template <bool slow>
inline constexpr unsigned in_pieces = pass_scalars | pass_converts | (slow ? 0 : pass_streams);

/// Eight bytes of repeated copies of a number of 1, 2, 4 or 8 bytes.
inline std::uint64_t repeated_bytes(const void* number, int size) {
  if (size == 8) return *static_cast<const std::uint64_t*>(number);
  if (size == 4) return *static_cast<const std::uint32_t*>(number) * 0x1'0000'0001u;
  if (size == 2) return *static_cast<const std::uint16_t*>(number) * 0x0001'0001'0001'0001u;
  return *static_cast<const std::uint8_t*>(number) * 0x0101'0101'0101'0101u;
}
/// A pass in pieces, for inputs that are single numbers, for stores past the caches, and for
/// elements of 16 bits. A number is repeated for the length of a piece, so that the pass reads
/// arrays. Elements of 16 bits are widened to float32 in the caches, and the result is rounded from
/// there. A result that goes past the caches is first computed in the caches.
[[gnu::noinline]] inline void run_pieces(PassFunction function, std::int64_t n,
                                         const void* const* inputs,
                                         std::initializer_list<int> sizes, unsigned how,
                                         void* output, int size) {
  const unsigned adds = how & pass_adds, converts = how & pass_converts;
  if (n == 1 && !converts) return function(1, inputs, adds, output);
  constexpr std::int64_t piece = 1024, line = 64, wide = sizeof(float), half = 2;
  alignas(line) std::byte numbers[4][piece * sizeof(std::int64_t)];
  const void *from[4], *given[4];
  const int count = static_cast<int>(sizes.size());
  const int* const widths = sizes.begin();
  const auto is_converted = [&](int bytes) { return converts && bytes == wide; };
  for (int k = 0; k < count; ++k) from[k] = given[k] = inputs[k];
  const unsigned scalars = how & ((1u << count) - 1);
  for (unsigned left = scalars; left; left &= left - 1) {
    const int k = __builtin_ctz(left);
    if (!from[k]) continue;
    float number;
    if (is_converted(widths[k])) {
      widen(static_cast<const std::uint16_t*>(from[k]), &number, 1, converts);
      from[k] = &number;
    }
    const xsimd::batch<std::uint64_t, Arch> repeated(repeated_bytes(from[k], widths[k]));
    const std::int64_t end = (n < piece ? n : piece) * widths[k];
    for (std::int64_t i = 0; i < end; i += sizeof repeated)
      repeated.store_aligned(reinterpret_cast<std::uint64_t*>(numbers[k] + i));
    from[k] = numbers[k];
  }
  const bool rounds = is_converted(size), streams = how & pass_streams && !adds && !rounds;
  if (n <= piece && !streams && !converts) return function(n, from, adds, output);
  alignas(line) std::byte results[piece * sizeof(std::int64_t)];
  auto* const rounded = reinterpret_cast<float*>(results);
  auto* to = static_cast<std::byte*>(output);
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % line);
  std::int64_t now = streams && past ? (line - past) / size : piece;
  for (; n > 0; n -= now, now = piece) {
    if (now > n) now = n;
    for (int k = 0; k < count; ++k) {
      if (!given[k] || scalars >> k & 1) continue;
      const bool widens = is_converted(widths[k]);
      if (widens)
        widen(static_cast<const std::uint16_t*>(given[k]), reinterpret_cast<float*>(numbers[k]),
              now, converts);
      from[k] = widens ? numbers[k] : given[k];
      given[k] = static_cast<const std::byte*>(given[k]) + now * (widens ? half : widths[k]);
    }
    const bool whole = streams && now == piece;
    if (rounds && adds) widen(reinterpret_cast<std::uint16_t*>(to), rounded, now, converts);
    function(now, from, adds, whole || rounds ? results : to);
    if (rounds) narrow(rounded, reinterpret_cast<std::uint16_t*>(to), now, converts);
    if (whole)
      for (std::int64_t i = 0; i < piece * size; i += sizeof(Vector<float>))
        stream(reinterpret_cast<float*>(to + i), load(reinterpret_cast<const float*>(results + i)));
    to += now * (rounds ? half : size);
  }
  if (streams) stream_end();
}

template <class F>
inline constexpr bool is_slow = requires {
  F::slow;
};

/// Whether input 1 is a single number in most calls.
template <class F>
inline constexpr bool is_by_number = requires {
  F::by_number;
};

template <class F, class T>
void floating_pass(std::int64_t n, const void* const* inputs, unsigned how, void* output) {
  constexpr bool slow = is_slow<F>;
  constexpr int size = sizeof(T);
  T* const out = static_cast<T*>(output);
  how &= in_pieces<slow>;
  if constexpr (is_binary<F>) {
    const auto formula = [](const auto& from, std::int64_t i) -> Vector<T> {
      return F()(from.at(0, i), from.at(1, i));
    };
    if (!how) [[likely]]
      return run_arrays<slow>({inputs[0], inputs[1]}, n, out, formula);
    if (slow || how & pass_converts)
      return run_pieces(floating_pass<F, T>, n, inputs, {size, size}, how, output, size);
    if constexpr (!slow) run_mixed({inputs[0], inputs[1]}, how, n, out, formula);
  } else if constexpr (arity_of<F> == 3) {
    if (how) [[unlikely]]
      return run_pieces(floating_pass<F, T>, n, inputs, {size, size, size}, how, output, size);
    run_arrays<slow>({inputs[0], inputs[1], inputs[2]}, n, out,
                     [](const auto& from, std::int64_t i) -> Vector<T> {
                       return F()(from.at(0, i), from.at(1, i), from.at(2, i));
                     });
  } else {
    if (how) [[unlikely]]
      return run_pieces(floating_pass<F, T>, n, inputs, {size}, how, output, size);
    run_arrays<slow>({inputs[0]}, n, out, [](const auto& from, std::int64_t i) -> Vector<T> {
      return F()(from.at(0, i));
    });
  }
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
inline constexpr bool has_gradient = requires(const Rows<float, 5>& from) {
  requires arity_of<F>
  <= 2;
  F::d0(Saved<Rows<float, 5>>{from, 0});
};
template <class F>
inline constexpr bool has_gradient<F, 1> = requires(const Rows<float, 5>& from) {
  requires arity_of<F>
  <= 2;
  F::d1(Saved<Rows<float, 5>>{from, 0});
};

/// Adds the results of a pass over arrays to the output. Gradients of double take it, as a second
/// loop of each formula would be large.
[[gnu::noinline]] inline void add_pieces(PassFunction function, std::int64_t n,
                                         const void* const* values, double* out) {
  constexpr std::int64_t piece = 512;
  alignas(64) double results[piece];
  for (std::int64_t first = 0; first < n; first += piece) {
    const std::int64_t now = n - first < piece ? n - first : piece;
    const void* from[4];
    for (int k = 0; k < 4; ++k)
      from[k] = values[k] ? static_cast<const double*>(values[k]) + first : nullptr;
    function(now, from, 0, results);
    for (std::int64_t i = 0; i < now; ++i) out[first + i] += results[i];
  }
}

template <class F, int input, class T>
void gradient_pass(std::int64_t n, const void* const* values, unsigned how, void* output) {
  constexpr bool slow = is_slow<F>;
  constexpr int size = sizeof(T);
  const bool adds = how & pass_adds;
  if (how & in_pieces<slow>) [[unlikely]]
    return run_pieces(gradient_pass<F, input, T>, n, values, {size, size, size, size},
                      how & (in_pieces<slow> | pass_adds), output, size);
  const void* all[] = {values[0], values[1], values[2], values[3], adds ? output : nullptr};
  T* const out = static_cast<T*>(output);
  if constexpr (sizeof(T) == sizeof(double)) {
    if (adds) return add_pieces(gradient_pass<F, input, T>, n, values, out);
  } else if (adds)
    return run_arrays<slow>(all, n, out, [](const auto& from, std::int64_t i) {
      return Vector<T>(from.at(4, i) + gradient_at<F, input>(from, i));
    });
  run_arrays<slow>(all, n, out, [](const auto& from, std::int64_t i) {
    return Vector<T>(gradient_at<F, input>(from, i));
  });
}

/// The type of elements in memory. Truth values are the bytes 0 and 1.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

/// T is the type in which the formula computes; Out is the type of the result.
template <class F, class T, class Out>
void loop_pass(std::int64_t n, const void* const* inputs, unsigned how, void* output) {
  constexpr int size = sizeof(T);
  constexpr unsigned pieces = std::is_same_v<T, float> ? in_pieces<true> : pass_scalars;
  if (how & pieces) {
    if constexpr (is_binary<F>)
      return run_pieces(loop_pass<F, T, Out>, n, inputs, {size, size}, how & pieces, output,
                        sizeof(Out));
    else
      return run_pieces(loop_pass<F, T, Out>, n, inputs, {size}, how & pieces, output, sizeof(Out));
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
constexpr PassFunction integer_pass() {
  if constexpr (requires { F::wraps; })
    return loop_pass<F, std::make_unsigned_t<T>, T>;
  else
    return loop_pass<F, T, T>;
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
constexpr PassFunction function_of() {
  constexpr bool truth = std::is_same_v<T, bool>;
  if constexpr (only_stored<T>) {
    return nullptr;
  } else if constexpr (is_half(dtype_of<T>())) {
    return nullptr;                                 // that of float32 is taken, see pass_among()
  } else if constexpr (!requires { F::domain; }) {  // a comparison
    return loop_pass<F, Stored<T>, bool>;
  } else if constexpr (F::domain == Domain::bits) {
    if constexpr (truth)
      return loop_pass<OfTruths<F>, std::uint8_t, bool>;
    else if constexpr (std::is_integral_v<T>)
      return loop_pass<F, T, T>;
    else
      return nullptr;
  } else if constexpr (truth) {
    if constexpr (F::domain == Domain::everything)
      return loop_pass<OfTruths<F>, std::uint8_t, bool>;
    else
      return nullptr;
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (F::domain == Domain::floating)
      return nullptr;
    else
      return integer_pass<F, T>();
  } else {
    return floating_pass<F, T>;
  }
}
/// Whether passes compute numbers with fractions of type T.
template <class T>
inline constexpr bool computes_fractions = std::is_floating_point_v<T>;
template <class F, int input, class T>
constexpr PassFunction gradient_function_of() {
  if constexpr (has_gradient<F, input> && computes_fractions<T>)
    return gradient_pass<F, input, T>;
  else
    return nullptr;
}
/// The function of input 0 or 1 for the elements of each dtype.
template <class F, int input>
constexpr void fill_gradient(Passes& passes) {
  const ByDType<PassFunction> by =
      by_dtype<PassFunction>([]<class T>(Type<T>) { return gradient_function_of<F, input, T>(); });
  for (int i = 0; i < dtype_count; ++i) passes.gradient[i][input] = by.of[i];
}
/// function(Type<T>()) for the elements of each dtype.
template <class FunctionOf>
constexpr Passes passes_by(const FunctionOf& function) {
  Passes passes;
  const ByDType<PassFunction> by = by_dtype<PassFunction>(function);
  for (int i = 0; i < dtype_count; ++i) passes.value[i] = by.of[i];
  return passes;
}
template <class F>
inline constexpr StageFunctions stage_functions = stage_functions_of<
    F, computes<F> && !is_slow<F> && arity_of<F> <= 2, is_binary<F>,
    has_gradient<F, 0> && has_quick_slope<F>, has_gradient<F, 1> && has_quick_slope<F>>();
template <class F>
constexpr Passes passes_of() {
  Passes passes = passes_by([]<class T>(Type<T>) { return function_of<F, T>(); });
  fill_gradient<F, 0>(passes);
  fill_gradient<F, 1>(passes);
  passes.slow = is_slow<F>;
  if constexpr (stage_functions<F>.value || stage_functions<F>.gradient[0])
    passes.stages = &stage_functions<F>;
  if constexpr (has_transposed_pass && computes<F> && is_binary<F> && !is_slow<F> &&
                !is_by_number<F>)
    passes.transposed = transposed_pass<F>;
  return passes;
}

template <class F>
inline constexpr Passes passes = passes_of<F>();
/// The formulas of two lists.
template <class... F, class... G>
formulas::List<F..., G...> operator+(formulas::List<F...>, formulas::List<G...>);
/// The passes of a family, by name.
template <class List>
inline constexpr NamedPasses pass_table[] = {{nullptr, nullptr}};
template <class... F>
inline constexpr NamedPasses pass_table<formulas::List<F...>>[] = {{F::name, &passes<F>}...,
                                                                   {nullptr, nullptr}};
inline constexpr NamedKernel no_kernels[] = {{nullptr, nullptr}};
inline constexpr NamedPasses no_passes[] = {{nullptr, nullptr}};
}  // namespace reel::kernels::REEL_ISA
