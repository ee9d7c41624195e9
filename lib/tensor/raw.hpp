// SPDX-License-Identifier: BSD-3-Clause
// Tensors from memory that their maker fills, for readers of files.
#pragma once
#include <cstddef>
#include <cstdint>

#include <reel/tensor.hpp>

namespace reel {
/// A tensor on the host, and its memory. The caller fills this memory before it passes the tensor
/// on.
struct RawTensor {
  Tensor tensor;  // undefined if there is no memory
  void* elements = nullptr;
  std::size_t bytes = 0;
};
RawTensor raw_tensor(DType dtype, const Shape& shape);
/// The elements of x from number `offset` on, with other strides, in the memory of x. The caller
/// checks that all elements of the view are elements of x.
Tensor strided_view(const Tensor& x, const Shape& shape, const std::int64_t* strides,
                    std::int64_t offset);
/// The tensor on the device of this thread's DeviceScope.
Tensor on_current_device(const Tensor& x, Caller caller);
}  // namespace reel
