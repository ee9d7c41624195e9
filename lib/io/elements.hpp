// SPDX-License-Identifier: BSD-3-Clause
// Elements of tensors on their way between files and memory.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <reel/tensor.hpp>

#include "lib/io/input.hpp"

namespace reel::io {
/// The bytes of so many elements. None where they are more than 2^58, also of the other lengths
/// where one is 0, as strides are their products.
std::optional<std::uint64_t> bytes_of(std::span<const std::int64_t> lengths, DType dtype);

/// A tensor of the host, and the memory of its elements, which the caller fills before anybody
/// else reads it.
struct NewTensor {
  Tensor tensor;
  void* elements;
  std::size_t bytes;
};
NewTensor new_tensor(DType dtype, const Shape& shape, const Input& input);
/// Makes each byte of a bool 0 or 1.
void make_truths(const NewTensor& x);
/// The elements from `at` on, in row-major order.
Tensor read_elements(const Input& input, std::uint64_t at, DType dtype, const Shape& shape);
/// Where load_* functions leave a tensor of the host: on the device of this thread's scope.
Tensor placed(const Tensor& x, Caller caller);

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
