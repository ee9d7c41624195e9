// SPDX-License-Identifier: BSD-3-Clause
// Access of this module to private members of GradientTape.
#pragma once
#include <reel/debug.hpp>
#include <reel/tape.hpp>

namespace reel {
struct TapeAccess {
  static std::uint64_t bit(const GradientTape& tape) { return tape.bit_; }
  static void* reel(const GradientTape& tape) { return tape.reel_; }
  static bool spent(const GradientTape& tape) { return tape.spent_; }
  /// See debug::gradients_by_step().
  static debug::GradientsByStep by_step(GradientTape& tape, const Operand& target,
                                        const Variable& variable);
  /// The gradients of a target; undefined where it does not depend on a source.
  static std::vector<Tensor> gradients(GradientTape& tape, const Operand& target,
                                       const GradientSources& sources, Tensor upstream) {
    std::vector<Tensor> found(sources.size());
    tape.gradients(target, sources, {.upstream = std::move(upstream)}, found.data(), true);
    return found;
  }
};
}  // namespace reel
