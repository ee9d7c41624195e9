// SPDX-License-Identifier: BSD-3-Clause
// Ops along one axis.
#pragma once
#include <reel/ops/reshape.hpp>

#include "lib/gate/gate.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
/// f(x, axis from 0). A single number counts as a line of one element. Throws ShapeError for an
/// axis that x does not have.
template <class F>
Tensor along_axis(const Op& op, const Operand& x, std::int64_t axis, const F& f) {
  const std::size_t rank = shape_of(op, x).rank();
  if (rank == 0 && (axis == 0 || axis == -1)) {
    const Tensor line = reshape(x, {1});
    return reshape(f(Operand(line, x.caller()), 0), {});
  }
  return f(x, normal_axis(op, axis, rank, x.caller()));
}
}  // namespace reel
