// SPDX-License-Identifier: BSD-3-Clause
// Keeping gradients small.
#pragma once  // defined in lib/optim
#include <type_traits>
#include <vector>

#include <reel/row_gradient.hpp>

namespace reel::optim {
/// The gradients with each element limited to [low, high]. Throws Error unless low <= high. Each
/// result has the shape and dtype of its gradient.
REEL_API std::vector<Tensor> clip_by_value(std::vector<Tensor> gradients, double low, double high,
                                           Caller caller = Caller::here());
/// The Euclidean length of all gradients, taken as one vector. It is 0 if there are none. The
/// result is one number; the gradients come to one dtype.
REEL_API Tensor global_norm(const std::vector<Tensor>& gradients, Caller caller = Caller::here());
/// All gradients scaled by one factor, so that their global norm is at most `norm` (Pascanu,
/// Mikolov and Bengio 2013). Throws Error unless norm > 0. Each result has the shape and dtype of
/// its gradient.
REEL_API std::vector<Tensor> clip_by_global_norm(std::vector<Tensor> gradients, double norm,
                                                 Caller caller = Caller::here());
namespace detail {
REEL_API void clip_rows(std::vector<RowGradient>& gradients, double norm, Caller caller);
}  // namespace detail
/// clip_by_global_norm() of gradients that row_gradients() returned.
template <class G>
requires std::is_same_v<G, RowGradient>  // and not {}
    std::vector<G> clip_by_global_norm(std::vector<G> gradients, double norm,
                                       Caller caller = Caller::here()) {
  detail::clip_rows(gradients, norm, caller);
  return gradients;
}
}  // namespace reel::optim
