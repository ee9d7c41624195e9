// SPDX-License-Identifier: BSD-3-Clause
// Finding the op that makes the first NaN or infinity.
#pragma once  // defined in lib/ops
#include <reel/export.hpp>

namespace reel {
/// Options of FiniteScope.
struct FiniteOptions {
  bool infinity = true;  // whether infinite numbers are errors too
};
/// While it lives, the first op of this thread that makes a NaN or infinity throws Error, with the
/// op, the place in the result, the ranges of its inputs and your line. So does the first gradient,
/// with the line of its op, and a step of a trace. An infinity among the inputs, such as a mask, is
/// no error; a NaN is. A traced function that makes a scope runs eagerly. On the CPU the checks
/// cost little; elsewhere each op waits and its result is copied. End the scope on the thread that
/// made it: if another thread ends it, the checks stop, and a few bytes are not freed.
///
///     FiniteScope finite;
///     adam.step(tape.gradient(loss, parameters(model)));
class REEL_API FiniteScope {
 public:
  [[nodiscard]] explicit FiniteScope(FiniteOptions options = {});
  ~FiniteScope();
  FiniteScope(const FiniteScope&) = delete;
  FiniteScope& operator=(const FiniteScope&) = delete;

 private:
  struct Watch;
  Watch* watch_;
};
}  // namespace reel
