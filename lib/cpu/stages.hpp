// SPDX-License-Identifier: BSD-3-Clause
// Formulas as stages of programs. The accumulator is eight vectors, which are arguments of each
// stage: they stay in registers, because a stage ends with a jump to the next one where the
// compiler optimizes. Without optimization, the stages of a program nest.
#pragma once
#include <type_traits>

#include "lib/cpu/simd_math.hpp"
#include "lib/table/stages.hpp"

namespace reel::kernels::REEL_ISA {
using Register = Vector<float>::register_type;
using StageFunction = void (*)(Register, Register, Register, Register, Register, Register, Register,
                               Register, const LinkedStage*, const StageAddress*, std::int64_t);
inline constexpr std::int64_t stage_tile = 8 * lanes<float>;
extern const StageMachine stage_machine;

#define REEL_ACCUMULATOR                                                                     \
  Register a0, Register a1, Register a2, Register a3, Register a4, Register a5, Register a6, \
      Register a7, const LinkedStage *stage, const StageAddress *operands, std::int64_t i
#define REEL_NEXT_STAGE                                                                           \
  return reinterpret_cast<StageFunction>(stage[1].run)(a0, a1, a2, a3, a4, a5, a6, a7, stage + 1, \
                                                       operands, i)
/// a = f(a, k) for each vector, where k is its offset in a tile.
#define REEL_EACH_VECTOR(f)     \
  a0 = f(a0, 0 * lanes<float>); \
  a1 = f(a1, 1 * lanes<float>); \
  a2 = f(a2, 2 * lanes<float>); \
  a3 = f(a3, 3 * lanes<float>); \
  a4 = f(a4, 4 * lanes<float>); \
  a5 = f(a5, 5 * lanes<float>); \
  a6 = f(a6, 6 * lanes<float>); \
  a7 = f(a7, 7 * lanes<float>)

inline float* stage_memory(const LinkedStage* stage, const StageAddress* operands, std::int64_t i,
                           int k) {
  const StageAddress& operand = operands[stage->at[k]];
  return reinterpret_cast<float*>(operand.at) + (i & operand.walk);
}
inline Vector<float> stage_number(const LinkedStage* stage, const StageAddress* operands, int k) {
  return Vector<float>(*reinterpret_cast<const float*>(operands[stage->at[k]].at));
}

template <class F, StageForm form>
void value_stage(REEL_ACCUMULATOR) {
  using V = Vector<float>;
  if constexpr (form == StageForm::a) {
#define REEL_F(a, k) F()(V(a))
    REEL_EACH_VECTOR(REEL_F);
#undef REEL_F
  } else if constexpr (form == StageForm::an || form == StageForm::na) {
    const V number = stage_number(stage, operands, 0);
#define REEL_F(a, k) form == StageForm::an ? F()(V(a), number) : F()(number, V(a))
    REEL_EACH_VECTOR(REEL_F);
#undef REEL_F
  } else if constexpr (form == StageForm::mn || form == StageForm::nm) {
    constexpr bool first = form == StageForm::nm;
    const float* const p = stage_memory(stage, operands, i, first);
    const V number = stage_number(stage, operands, !first);
#define REEL_F(a, k) first ? F()(number, load(p + k)) : F()(load(p + k), number)
    REEL_EACH_VECTOR(REEL_F);
#undef REEL_F
  } else {
    const float* const p = stage_memory(stage, operands, i, 0);
    if constexpr (form == StageForm::m) {
#define REEL_F(a, k) F()(load(p + k))
      REEL_EACH_VECTOR(REEL_F);
#undef REEL_F
    } else if constexpr (form == StageForm::mm) {
      const float* const q = stage_memory(stage, operands, i, 1);
#define REEL_F(a, k) F()(load(p + k), load(q + k))
      REEL_EACH_VECTOR(REEL_F);
#undef REEL_F
    } else {
#define REEL_F(a, k) form == StageForm::am ? F()(V(a), load(p + k)) : F()(load(p + k), V(a))
      REEL_EACH_VECTOR(REEL_F);
#undef REEL_F
    }
  }
  REEL_NEXT_STAGE;
}

/// The operands of a gradient formula in a stage. Each is loaded when the formula reads it.
struct StageSaved {
  Vector<float> slope;
  const float *first, *second, *result;
  std::int64_t k;
  auto dy() const { return slope; }
  auto x() const { return load(first + k); }
  auto y() const { return load(second + k); }
  auto out() const { return load(result + k); }
};
template <class F, int input>
void gradient_stage(REEL_ACCUMULATOR) {
  const float* const x = stage_memory(stage, operands, i, 0);
  const float* const y = stage_memory(stage, operands, i, 1);
  const float* const out = stage_memory(stage, operands, i, 2);
  const auto slope = [=](Register a, std::int64_t k) -> Register {
    const StageSaved saved{Vector<float>(a), x, y, out, k};
    if constexpr (input == 0)
      return Vector<float>(F::d0(saved));
    else
      return Vector<float>(F::d1(saved));
  };
  REEL_EACH_VECTOR(slope);
  REEL_NEXT_STAGE;
}

inline constexpr int first_value_form = static_cast<int>(StageForm::a),
                     value_forms = static_cast<int>(StageForm::nm) + 1 - first_value_form;
/// The functions of an op's stages; null for a form that the op does not have.
struct StageFunctions : Stages {
  StageFunction value_of[value_forms] = {};
  StageFunction gradient_of[2] = {};
};

/// Whether the derivatives of a formula are worth stages. The stages of slow formulas would be
/// large, and gain little: these formulas take longer than loads and stores.
template <class F>
inline constexpr bool has_quick_slope = !requires {
  F::slow;
}
|| requires { F::quick_slope; };
template <class F, bool quick, bool binary, bool d0, bool d1>
constexpr StageFunctions stage_functions_of() {
  StageFunctions made{{&stage_machine, quick, {d0, d1}}};
  const auto set = [&](StageForm form, StageFunction function) {
    made.value_of[static_cast<int>(form) - first_value_form] = function;
  };
  if constexpr (quick && binary) {
    set(StageForm::am, value_stage<F, StageForm::am>);
    set(StageForm::ma, value_stage<F, StageForm::ma>);
    set(StageForm::an, value_stage<F, StageForm::an>);
    set(StageForm::na, value_stage<F, StageForm::na>);
    set(StageForm::mm, value_stage<F, StageForm::mm>);
    set(StageForm::mn, value_stage<F, StageForm::mn>);
    set(StageForm::nm, value_stage<F, StageForm::nm>);
  } else if constexpr (quick) {
    set(StageForm::a, value_stage<F, StageForm::a>);
    set(StageForm::m, value_stage<F, StageForm::m>);
  }
  if constexpr (d0) made.gradient_of[0] = gradient_stage<F, 0>;
  if constexpr (d1) made.gradient_of[1] = gradient_stage<F, 1>;
  return made;
}
}  // namespace reel::kernels::REEL_ISA
