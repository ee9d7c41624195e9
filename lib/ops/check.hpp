// SPDX-License-Identifier: BSD-3-Clause
// A check for functions of lib/nn. Devices report it late.
#pragma once
#include <cstdint>
#include <string_view>

#include <reel/ops.hpp>

namespace reel {
/// x, whose integers are from `least` to `most`. Others throw IndexError in the name of `function`.
Tensor checked_integers(std::string_view function, const char* argument, const Tensor& x,
                        std::int64_t least, std::int64_t most, Caller caller);
}  // namespace reel
