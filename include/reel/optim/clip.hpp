// SPDX-License-Identifier: BSD-3-Clause
// Keeping gradients small.
#pragma once  // defined in lib/optim
#include <vector>

#include <reel/tensor.hpp>

namespace reel::optim {
/// Each element, limited to [low, high]. Throws Error unless low <= high.
REEL_API std::vector<Tensor> clip_by_value(std::vector<Tensor> gradients, double low, double high,
                                           Caller caller = Caller::here());
/// The length of all gradients taken as one vector; 0 if there are none.
REEL_API Tensor global_norm(const std::vector<Tensor>& gradients, Caller caller = Caller::here());
/// All gradients scaled by one factor, so that their global norm is at most `norm` (Pascanu,
/// Mikolov and Bengio 2013). Throws Error unless norm > 0.
REEL_API std::vector<Tensor> clip_by_global_norm(std::vector<Tensor> gradients, double norm,
                                                 Caller caller = Caller::here());
}  // namespace reel::optim
