// SPDX-License-Identifier: BSD-3-Clause
// The switch between the original code and one fault. tools/mutate writes calls of these functions
// into a copy of the sources; no other build contains them.
#pragma once
#pragma GCC system_header
// A fault may read what was not written. The compiler's warnings about it name other lines.
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wnonnull"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wuse-after-free"

/// One byte for each fault. All are 0 unless a fault is active or the run is recorded.
extern "C" unsigned char reel_faults[];

namespace reel_fault {
inline constexpr unsigned active = 1, record = 2, compare = 4, reached = 8, changed = 16;

/// The slow path. The section lists the faults that are part of the binary.
template <int id>
[[gnu::noinline]] bool hit() {
  asm volatile(".pushsection .reel_faults,\"\",@progbits\n.long %c0\n.popsection" ::"i"(id));
  unsigned char& state = reel_faults[id];
  if (!(state & record)) return true;
  state = static_cast<unsigned char>(state | reached | changed);
  return false;
}

/// Whether fault `id` is active.
template <int id>
[[gnu::always_inline]] constexpr bool on() {
  if (__builtin_is_constant_evaluated()) return false;
  return reel_faults[id] != 0 && hit<id>();
}

/// As hit(), for a fault whose result can be compared with the original's.
template <int id, class T>
[[gnu::noinline]] T choose(T original, T fault) {
  asm volatile(".pushsection .reel_faults,\"\",@progbits\n.long %c0\n.popsection" ::"i"(id));
  unsigned char& state = reel_faults[id];
  if (!(state & record)) return fault;
  const bool same = original == fault || (original != original && fault != fault);
  state = static_cast<unsigned char>(state | reached | (same ? 0 : changed));
  return original;
}

template <int id, bool value>
[[gnu::always_inline]] constexpr bool always(bool original) {
  if (__builtin_is_constant_evaluated()) return original;
  return reel_faults[id] == 0 ? original : choose<id>(original, value);
}

template <int id, class T>
[[gnu::always_inline]] constexpr T more(T original) {
  if (__builtin_is_constant_evaluated()) return original;
  return reel_faults[id] == 0 ? original : choose<id>(original, static_cast<T>(original + 1));
}

// clang-format off
struct Less { static constexpr auto of(auto a, auto b) { return a < b; } };
struct LessEqual { static constexpr auto of(auto a, auto b) { return a <= b; } };
struct Greater { static constexpr auto of(auto a, auto b) { return a > b; } };
struct GreaterEqual { static constexpr auto of(auto a, auto b) { return a >= b; } };
struct Equal { static constexpr auto of(auto a, auto b) { return a == b; } };
struct NotEqual { static constexpr auto of(auto a, auto b) { return a != b; } };
struct Add { static constexpr auto of(auto a, auto b) { return a + b; } };
struct Subtract { static constexpr auto of(auto a, auto b) { return a - b; } };
struct SubtractSwapped { static constexpr auto of(auto a, auto b) { return b - a; } };
struct Multiply { static constexpr auto of(auto a, auto b) { return a * b; } };
struct Divide { static constexpr auto of(auto a, auto b) { return a / b; } };
struct DivideSwapped { static constexpr auto of(auto a, auto b) { return b / a; } };
struct Remainder { static constexpr auto of(auto a, auto b) { return a % b; } };
struct And { static constexpr auto of(auto a, auto b) { return a & b; } };
struct Or { static constexpr auto of(auto a, auto b) { return a | b; } };
struct Xor { static constexpr auto of(auto a, auto b) { return a ^ b; } };
struct Left { static constexpr auto of(auto a, auto b) { return a << b; } };
struct Right { static constexpr auto of(auto a, auto b) { return a >> b; } };
// clang-format on

template <class T>
inline constexpr bool divides = false;
template <>
inline constexpr bool divides<Divide> = true;
template <>
inline constexpr bool divides<Remainder> = true;

/// The original's result if the fault would divide an integer by 0 or trap while it is recorded.
template <int id, class Operator>
struct Fault {
  template <class R>
  static constexpr void apply(R& result, auto a, auto b) {
    if (__builtin_is_constant_evaluated() || reel_faults[id] == 0) return;
    result = slow(result, a, b);
  }
  template <class R>
  [[gnu::noinline]] static R slow(R original, auto a, auto b) {
    const unsigned state = reel_faults[id];
    if ((state & record) && !(state & compare)) return hit<id>(), original;
    if constexpr (divides<Operator> && requires { a % b; }) {
      if ((state & record) && (b == 0 || b + 1 == 0)) return hit<id>(), original;
    } else if constexpr (__is_same(Operator, DivideSwapped) && requires { b % a; }) {
      if ((state & record) && (a == 0 || a + 1 == 0)) return hit<id>(), original;
    }
    return choose<id>(original, static_cast<R>(Operator::of(a, b)));
  }
};

/// a and b joined by Operator, or as one of the faults joins them.
template <class Operator, class... Faults>
[[gnu::always_inline]] constexpr auto binary(auto a, auto b) {
  auto result = Operator::of(a, b);
  (Faults::apply(result, a, b), ...);
  return result;
}
}  // namespace reel_fault
