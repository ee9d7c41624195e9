// SPDX-License-Identifier: BSD-3-Clause
// Sigmoid and tanh as fractions, so that a cell divides once for two of them. With e = exp(-x)
// both lie where the denominators' product stays a normal number.
#pragma once
#include "lib/cpu/chunk.hpp"

namespace reel::kernels::REEL_ISA {
/// sigmoid x = 1 / denominator.
template <class T>
Vector<T> sigmoid_denominator(const Vector<T>& x) {
  return constant<T>(2) + exponential_less_one<T>(
                              clamped<T>(-x, is_single<T> ? -86 : -300, is_single<T> ? 86 : 300));
}

}  // namespace reel::kernels::REEL_ISA
