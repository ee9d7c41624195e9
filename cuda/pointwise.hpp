// SPDX-License-Identifier: BSD-3-Clause
// Kernels made from formulas. Each call is one launch.
#pragma once
#include <type_traits>

#include "cuda/numbers.hpp"
#include "cuda/pack.hpp"
#include "cuda/places.hpp"

namespace reel::gpu {
using formulas::arity_of;
using formulas::Domain;
using formulas::is_binary;

/// The n elements of an operand from an offset on, or n times one element. 0 if the operand does
/// not exist.
template <int n, class T>
__device__ Pack<T, n> read(const T* x, std::int64_t at, bool repeated) {
  Pack<T, n> pack{};
  if (!x) return pack;
  if (n > 1 && !repeated) return *reinterpret_cast<const Pack<T, n>*>(x + at);
  const T number = x[at];
  for (T& each : pack.of) each = number;
  return pack;
}
template <int n, class F, class Out, class... X>
__device__ Pack<Out, n> map(const F& f, const Pack<X, n>&... x) {
  Pack<Out, n> out;
  for (int i = 0; i < n; ++i) out.of[i] = static_cast<Out>(f(x.of[i]...));
  return out;
}
/// K operands. Operand k is one broadcast element if bit k is set; otherwise it is contiguous in
/// row-major order.
template <int K>
struct Flat {
  unsigned repeated;
  template <class Index>
  __device__ void find_by(std::int64_t i, std::int64_t (&at)[K]) const {
    for (int k = 0; k < K; ++k) at[k] = repeated >> k & 1 ? 0 : i;
  }
  __device__ void find(std::int64_t i, std::int64_t (&at)[K]) const { find_by<void>(i, at); }
};

template <int n, class F, class Out, class... X, int... k>
__device__ void map_at(std::integer_sequence<int, k...>, std::int64_t i,
                       const std::int64_t (&at)[sizeof...(X)], unsigned repeated, const F& f,
                       Out* out, const X*... x) {
  *reinterpret_cast<Pack<Out, n>*>(out + i) =
      map<n, F, Out, X...>(f, read<n>(x, at[k], repeated >> k & 1)...);
}
/// out = f(x...): first packs of n elements, then single elements. If bit k of `repeated` is set, a
/// pack of operand k is one repeated element. With several axes, packs have 32-bit positions.
template <int n, class F, class Out, class Where, class... X>
__global__ void map_all(std::int64_t elements, std::int64_t packs, Where where, unsigned repeated,
                        F f, Out* out, const X*... x) {
  constexpr std::make_integer_sequence<int, sizeof...(X)> each;
  std::int64_t at[sizeof...(X)];
  for (std::int64_t i = first_index(); i < packs; i += grid_step()) {
    where.template find_by<std::uint32_t>(i * n, at);
    map_at<n, F, Out, X...>(each, i * n, at, repeated, f, out, x...);
  }
  for (std::int64_t i = packs * n + first_index(); i < elements; i += grid_step()) {
    where.find(i, at);
    map_at<1, F, Out, X...>(each, i, at, 0, f, out, x...);
  }
}

template <class Out, class... X, class F, class Where>
void launch_map(const Queue& queue, bool packed, const Where& where, unsigned repeated, const F& f,
                const Body& out, const X*... x) {
  constexpr int n = pack_size<Out, X...>;
  const std::int64_t packs = packed ? out.elements / n : 0;
  queue.launch_for(std::max(packs, out.elements - packs * n), map_all<n, F, Out, Where, X...>,
                   out.elements, packs, where, repeated, f, out.as<Out>(), x...);
}

/// Whether n adjacent elements of the output are adjacent in operand k too, or one element of it.
template <int n, class X, int K>
bool in_packs(const Places<K>& places, int k, const X* x) {
  const int last = places.rank - 1;
  if (last < 0 || places.step[k][last] == 0) return true;
  bool whole = places.step[k][last] == 1 && is_aligned<n>(x);
  for (int i = 0; i < last; ++i) whole = whole && places.step[k][i] % n == 0;
  return whole;
}
/// out = f(inputs...). The input elements have types X. The output is row-major; it may be an input
/// with the same layout.
template <class Out, class... X, class F>
void apply(const Queue& queue, const F& f, const Body& out,
           const Body* const (&inputs)[sizeof...(X)]) {
  constexpr int count = sizeof...(X), n = pack_size<Out, X...>;
  const Places<count> places = places_of<count>(out.shape, inputs);
  const int last = places.rank - 1;
  const bool even = last <= 0 || (places.narrow && places.length[last] % n == 0);
  unsigned repeated = 0;
  bool flat = last <= 0;
  for (int k = 0; k < count; ++k) {
    if (last < 0 || places.step[k][last] == 0)
      repeated |= 1u << k;
    else
      flat = flat && places.step[k][last] == 1;
  }
  [&]<int... k>(std::integer_sequence<int, k...>) {
    const bool packed = even && is_aligned<n>(out.as<Out>()) &&
                        (in_packs<n>(places, k, inputs[k]->template as<X>()) && ...);
    // The kernel for Flat has fewer registers, so that more of its threads fit in a processor. Only
    // floating operands have one, because each kernel takes time to compile.
    if constexpr ((std::is_floating_point_v<X> || ...))
      if (flat)
        return launch_map<Out, X...>(queue, packed, Flat<count>{repeated}, repeated, f, out,
                                     inputs[k]->template as<X>()...);
    launch_map<Out, X...>(queue, packed, places, repeated, f, out, inputs[k]->template as<X>()...);
  }
  (std::make_integer_sequence<int, count>());
}

/// T is the type in which the formula computes.
template <class F, class T, class Out>
void apply_formula(const Call& call) {
  if constexpr (arity_of<F> == 3)
    apply<Out, T, T, T>(call.queue, F(), call.output(),
                        {&call.input(0), &call.input(1), &call.input(2)});
  else if constexpr (is_binary<F>)
    apply<Out, T, T>(call.queue, F(), call.output(), {&call.input(0), &call.input(1)});
  else
    apply<Out, T>(call.queue, F(), call.output(), {&call.input(0)});
}
/// The gate has already refused dtypes that the formula does not support.
template <class F, class T>
void apply_to(const Call& call) {
  if constexpr (is_short_float<T> || only_stored<T>)
    __builtin_trap();
  else if constexpr (!requires { F::domain; })
    apply_formula<F, in_memory<T>, bool>(call);
  else if constexpr (is_real<T> ? F::domain == Domain::bits : F::domain == Domain::floating)
    __builtin_trap();
  else if constexpr (is_real<T> || F::domain == Domain::bits)
    apply_formula<F, T, T>(call);
  else if constexpr (std::is_same_v<T, bool>)
    apply_formula<F, std::uint8_t, bool>(call);
  else if constexpr (requires { F::wraps; })
    apply_formula<F, std::make_unsigned_t<T>, T>(call);
  else
    apply_formula<F, T, T>(call);
}
/// The kernel of a formula's value.
template <class F>
KernelResult value(const Call& call) {
  with_element(call.input(0).dtype, [&]<class T>(Type<T>) { apply_to<F, T>(call); });
  return {};
}

/// The operands of a gradient formula.
template <class T>
struct Saved {
  T operands[4];
  constexpr T dy() const { return operands[0]; }
  constexpr T x() const { return operands[1]; }
  constexpr T y() const { return operands[2]; }
  constexpr T out() const { return operands[3]; }
};
template <class F, int input>
inline constexpr bool has_gradient = requires(Saved<float> g) {
  requires arity_of<F>
  <= 2;
  F::d0(g);
};
template <class F>
inline constexpr bool has_gradient<F, 1> = requires(Saved<float> g) {
  requires arity_of<F>
  <= 2;
  F::d1(g);
};
/// A gradient as a function of dy, x, y, out and the value to which it may be added.
template <class F, int input>
struct Gradient {
  bool adds;
  template <class T>
  constexpr T operator()(T dy, T x, T y, T out, T before) const {
    const Saved<T> g{{dy, x, y, out}};
    T result;
    if constexpr (input == 0)
      result = static_cast<T>(F::d0(g));
    else
      result = static_cast<T>(F::d1(g));
    return adds ? before + result : result;
  }
};
/// The kernel of a gradient.
template <class F, int input>
KernelResult gradient(const Call& call) {
  const Body& out = call.output();
  const bool adds = call.accumulate & 1;
  return with_floating(out.dtype, [&]<class T>(Type<T>) {
    const T* x[4] = {};
    Flat<5> flat{};
    bool packed = is_aligned<pack_size<T>>(out.as<T>());
    for (int k = 0; k < call.input_count; ++k) {
      const Body* const operand = call.inputs[k];
      if (!operand) continue;
      x[k] = operand->as<T>();
      if (!operand->contiguous || operand->elements != out.elements)
        flat.repeated |= 1u << k;
      else
        packed = packed && is_aligned<pack_size<T>>(x[k]);
    }
    launch_map<T, T, T, T, T, T>(call.queue, packed, flat, flat.repeated, Gradient<F, input>{adds},
                                 out, x[0], x[1], x[2], x[3], adds ? out.as<T>() : nullptr);
  });
}

/// The name of a formula with ".d0" or ".d1" appended.
struct Name {
  char text[40];
};
template <class F, int input>
constexpr Name make_gradient_name() {
  Name name{};
  int end = 0;
  for (; F::name[end]; ++end) name.text[end] = F::name[end];
  name.text[end] = '.';
  name.text[end + 1] = 'd';
  name.text[end + 2] = static_cast<char>('0' + input);
  return name;
}
template <class F, int input>
inline constexpr Name gradient_name = make_gradient_name<F, input>();

template <int n>
struct Table {
  NamedKernel kernels[n];
};
/// The kernels of formulas, by name, then those in `more`. The last entry is null.
template <class... F, std::size_t others>
constexpr auto table_of(formulas::List<F...>, const NamedKernel (&more)[others]) {
  constexpr int size = ((1 + has_gradient<F, 0> + has_gradient<F, 1>)+... + 0);
  Table<size + static_cast<int>(others)> table{};
  NamedKernel* next = table.kernels;
  const auto add = [&]<class G>(Type<G>) {
    *next++ = {G::name, value<G>};
    if constexpr (has_gradient<G, 0>) *next++ = {gradient_name<G, 0>.text, gradient<G, 0>};
    if constexpr (has_gradient<G, 1>) *next++ = {gradient_name<G, 1>.text, gradient<G, 1>};
  };
  (add(Type<F>()), ...);
  for (const NamedKernel& each : more) *next++ = each;
  return table;
}
inline constexpr NamedKernel no_more[] = {{nullptr, nullptr}};
}  // namespace reel::gpu
