// SPDX-License-Identifier: BSD-3-Clause
// Values as text, for errors.
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
/// Of element i in row-major order, " at [1, 3]"; empty for a single number of rank 0.
std::string place_text(const Shape& shape, std::int64_t i);
/// "an index in [-3, 3)"
std::string one_of(std::string_view what, std::int64_t first, std::int64_t end);
}  // namespace reel
