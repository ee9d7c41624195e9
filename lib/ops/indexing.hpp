// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <span>
#include <string_view>

#include "lib/gate/gate.hpp"

namespace reel {
/// What errors call an index expression.
inline constexpr std::string_view index_name = "x(...)";
/// What the indices pick from x, a tensor or a Variable: always a new tensor.
Tensor view(const Operand& x, std::span<const Index> indices);
}  // namespace reel
