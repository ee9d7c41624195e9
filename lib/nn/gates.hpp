// SPDX-License-Identifier: BSD-3-Clause
// What the cells' constructors share.
#pragma once
#include <reel/nn/recurrent.hpp>

#include <string_view>

#include "lib/nn/check.hpp"

namespace reel::nn {
/// Uniform [in, gates hidden], each gate scaled as a Glorot weight [in, hidden] of its own.
Tensor gate_weight(std::int64_t in, std::int64_t hidden, int gates, DType dtype, Caller caller);
/// Zero but for the forget gates, which are first_forget to end_forget - 1.
Tensor gate_bias(Extent hidden, int gates, int first_forget, int end_forget, LSTMOptions options,
                 Caller caller);
}  // namespace reel::nn
