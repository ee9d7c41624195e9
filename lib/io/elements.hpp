// SPDX-License-Identifier: BSD-3-Clause
// Elements of tensors that are read from files and written to them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <reel/tensor.hpp>

#include "lib/io/input.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::io {
/// The number of bytes for these lengths; none if it exceeds 2^58. A length of 0 is left out of
/// this product, because strides are products of the other lengths.
std::optional<std::uint64_t> bytes_of(std::span<const std::int64_t> lengths, DType dtype);

/// Throws MemoryError if there is no memory.
RawTensor new_tensor(DType dtype, const Shape& shape, const Input& input);
/// Makes each byte of a bool 0 or 1.
void make_truths(const RawTensor& x);
/// The elements from `at` on, in row-major order.
Tensor read_elements(const Input& input, std::uint64_t at, DType dtype, const Shape& shape);

/// A tensor's elements in row-major order on the host, while it lives.
class HostElements {
 public:
  HostElements(const Tensor& x, Caller caller);
  const void* data() const { return first_; }
  std::size_t bytes() const;
  std::string_view text() const { return {static_cast<const char*>(first_), bytes()}; }

 private:
  const void* first_ = nullptr;
  Tensor host_;
};
}  // namespace reel::io
