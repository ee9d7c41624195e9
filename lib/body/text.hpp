// SPDX-License-Identifier: BSD-3-Clause
// Values in words, for errors.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <reel/shape.hpp>
#include <reel/tensor.hpp>

namespace reel {
std::string to_text(const Shape& shape);  // "(2, 3)"
std::string to_text(Device device);       // "cpu", "cuda:1"
std::string to_text(Scalar number);       // as few digits as name it
/// "an index in [-3, 3)"
std::string one_of(std::string_view what, std::int64_t first, std::int64_t end);
}  // namespace reel
