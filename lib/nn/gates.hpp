// SPDX-License-Identifier: BSD-3-Clause
// First weights and biases, shared by the constructors of cells.
#pragma once
#include <reel/nn/recurrent.hpp>

#include <string_view>

#include "lib/nn/check.hpp"

namespace reel::nn {
/// Uniform [in, gates hidden], each gate scaled as a Glorot weight [in, hidden] of its own.
Tensor gate_weight(std::int64_t in, std::int64_t hidden, int gates, DType dtype, Caller caller);
/// Zeros, except for the forget gates: these are the gates first_forget to end_forget - 1.
Tensor gate_bias(Extent hidden, int gates, int first_forget, int end_forget, LSTMOptions options,
                 Caller caller);
}  // namespace reel::nn
