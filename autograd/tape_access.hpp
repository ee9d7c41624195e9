// SPDX-License-Identifier: BSD-3-Clause
// Access of this module to private members of GradientTape.
#pragma once
#include <reel/tape.hpp>

namespace reel {
struct TapeAccess {
  /// The gradients of a target; undefined where it does not depend on a source.
  static std::vector<Tensor> gradients(GradientTape& tape, const Operand& target,
                                       const std::vector<Tensor>& sources, Tensor upstream) {
    std::vector<Tensor> found(sources.size());
    tape.gradients(target, sources, {.upstream = std::move(upstream)}, found.data(), true);
    return found;
  }
};
}  // namespace reel
