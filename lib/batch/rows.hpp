// SPDX-License-Identifier: BSD-3-Clause
// Rows of several tensors in one op, and tensors beside each other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include <reel/tensor.hpp>

namespace reel::batch {
/// A row of one of several tensors.
constexpr std::int64_t place_of(std::size_t part, std::int64_t row) {
  return static_cast<std::int64_t>(part) << 32 | row;
}
constexpr std::size_t part_in(std::int64_t place) { return static_cast<std::size_t>(place >> 32); }
constexpr std::int64_t row_in(std::int64_t place) { return place & 0xffffffff; }

/// The rows at these places of parts whose rows have one shape and dtype: [places, ...]. `plain`:
/// no trace follows.
Tensor take_rows(std::vector<Tensor> parts, std::vector<std::int64_t> places, bool plain,
                 Caller caller);
/// stack() of tensors of one kind, without an op if no tape can know them. `plain`: no trace
/// follows.
Tensor beside_each_other(const std::vector<Tensor>& all, bool plain, Caller caller);
}  // namespace reel::batch
