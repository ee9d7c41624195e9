// SPDX-License-Identifier: BSD-3-Clause
// Runs programs of stages.
#include "lib/cpu/stages.hpp"

#include <cstring>

#include "lib/body/dtypes.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
void load_stage(REEL_ACCUMULATOR) {
  const float* const from = stage_memory(stage, operands, i, 0);
#define REEL_F(a, k) load(from + k)
  REEL_EACH_VECTOR(REEL_F);
#undef REEL_F
  REEL_NEXT_STAGE;
}
void store_stage(REEL_ACCUMULATOR) {
  float* const to = stage_memory(stage, operands, i, 0);
  const auto kept = [to](Register a, std::int64_t k) {
    store(to + k, Vector<float>(a));
    return a;
  };
  REEL_EACH_VECTOR(kept);
  REEL_NEXT_STAGE;
}
void end_stage(Register, Register, Register, Register, Register, Register, Register, Register,
               const LinkedStage*, const StageAddress*, std::int64_t) {}

StageFunction function_of(const Stage& stage) {
  const auto* const functions = static_cast<const StageFunctions*>(stage.stages);
  switch (stage.form) {
    case StageForm::load:
      return load_stage;
    case StageForm::store:
      return store_stage;
    case StageForm::gradient_0:
      return functions->gradient_of[0];
    case StageForm::gradient_1:
      return functions->gradient_of[1];
    default:
      return functions->value_of[static_cast<int>(stage.form) - first_value_form];
  }
}

void link(const Stage* stages, std::size_t count, LinkedStage* to) {
  for (std::size_t k = 0; k < count; ++k)
    to[k] = {reinterpret_cast<void (*)()>(function_of(stages[k])),
             {stages[k].at[0], stages[k].at[1], stages[k].at[2]}};
  to[count] = {reinterpret_cast<void (*)()>(static_cast<StageFunction>(end_stage)), {}};
}

void run_tile(const LinkedStage* program, const StageAddress* operands, std::int64_t i) {
  const Register zero = Vector<float>(0.0f);
  reinterpret_cast<StageFunction>(program->run)(zero, zero, zero, zero, zero, zero, zero, zero,
                                                program, operands, i);
}

/// The compiler takes the registers for arguments, and leaves their upper halves as they are. Code
/// for SSE would be slow then.
void clear_registers() {
#ifdef __AVX__
  _mm256_zeroupper();
#endif
}

/// Computes the tile that ends with the last element. Its results are in the pads of their operands
/// then: the other tiles may read what they replace. Lanes behind the end repeat an element.
std::int64_t run_last_tile(const StageRun& run) {
  StageAddress operands[most_stage_operands];
  const std::int64_t first = run.n < stage_tile ? 0 : run.n - stage_tile;
  for (int k = 0; k < run.operand_count; ++k) {
    StageAddress& here = operands[k] = run.operands[k];
    if (!here.walk) continue;
    here.at += first * static_cast<std::int64_t>(sizeof(float));
    if (!here.written && run.n >= stage_tile) continue;
    float* const pad = run.pads + k * stage_tile;
    if (!here.written) {
      const auto* const from = reinterpret_cast<const float*>(here.at);
      std::memcpy(pad, from, static_cast<std::size_t>(run.n) * sizeof(float));
      for (std::int64_t i = run.n; i < stage_tile; ++i) pad[i] = *from;
    }
    here.at = reinterpret_cast<std::byte*>(pad);
  }
  run_tile(run.program, operands, 0);
  clear_registers();
  return first;
}

void run(const StageRun& run) {
  constexpr std::int64_t line = 64 / sizeof(float), long_run = 4096;
  const std::int64_t whole = run.n / stage_tile * stage_tile;
  const std::int64_t last = whole < run.n ? run_last_tile(run) : 0;
  const float* ahead[most_stage_operands];
  int count = 0;
  for (int k = 0; k < run.operand_count && run.n >= long_run; ++k)
    if (run.operands[k].walk)
      ahead[count++] = reinterpret_cast<const float*>(run.operands[k].at) + 2 * stage_tile;
  for (std::int64_t i = 0; i < whole; i += stage_tile) {
    for (int k = 0; k < count; ++k)
      for (std::int64_t l = 0; l < stage_tile; l += line) __builtin_prefetch(ahead[k] + i + l);
    run_tile(run.program, run.operands, i);
  }
  clear_registers();
  if (whole == run.n) return;
  for (int k = 0; k < run.operand_count; ++k)
    if (run.operands[k].walk && run.operands[k].written)
      std::memcpy(reinterpret_cast<float*>(run.operands[k].at) + whole,
                  run.pads + k * stage_tile + (whole - last),
                  static_cast<std::size_t>(run.n - whole) * sizeof(float));
}

void repeat(const float* number, float* tile) {
  const Vector<float> all(*number);
  for (std::int64_t i = 0; i < stage_tile; i += lanes<float>) store(tile + i, all);
}

template <class Unit>
void spread_row(const std::byte* from, std::int64_t step, std::int64_t n, std::byte* to) {
  auto* const out = reinterpret_cast<Unit*>(to);
  if (step == sizeof(Unit)) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(Unit));
  } else if (step == 0) {
    const Unit number = *reinterpret_cast<const Unit*>(from);
    for (std::int64_t i = 0; i < n; ++i) out[i] = number;
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = *reinterpret_cast<const Unit*>(from + i * step);
  }
}
void spread(const Spread& spread, const std::byte* from, std::int64_t first, std::int64_t n,
            std::byte* to) {
  with_unit(spread.size, [&]<class Unit>(Type<Unit>) {
    spread.for_each_row(first, n, [&](std::int64_t offset, std::int64_t row) {
      spread_row<Unit>(from + offset, spread.steps[0], row, to);
      to += row * spread.size;
    });
  });
}
}  // namespace

extern const StageMachine stage_machine = {stage_tile, link, run, repeat, spread};
}  // namespace reel::kernels::REEL_ISA
