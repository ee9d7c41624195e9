// SPDX-License-Identifier: BSD-3-Clause
// The inputs of calls that run together.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/batch/queue.hpp"

namespace reel::batch {
/// Input i of the calls. `plain`: no trace follows.
Input gathered(const Queue& queue, const std::vector<Node*>& calls, std::size_t i, bool plain);
/// An output of a call that has run.
Tensor row_of(const Node& node, std::uint32_t output);
}  // namespace reel::batch
