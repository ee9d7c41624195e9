// SPDX-License-Identifier: BSD-3-Clause
// Tensors from memory that their maker fills, for readers of files.
#pragma once
#include <cstddef>
#include <cstdint>

#include <reel/tensor.hpp>

namespace reel {
/// A tensor and its memory, which is that of its device.
struct RawTensor {
  Tensor tensor;  // undefined if there is no memory
  void* elements = nullptr;
  std::size_t bytes = 0;
};
/// A new tensor, on the host by default. The caller fills the memory before it passes the tensor
/// on.
RawTensor raw_tensor(DType dtype, const Shape& shape, Device device = cpu());
/// x, or a copy if it is no row-major array. On a device, earlier work may still write the memory.
RawTensor row_major(const Tensor& x, Caller caller);
/// The elements of x from number `offset` on, with other strides, in the memory of x. The caller
/// checks that all elements of the view are elements of x.
Tensor strided_view(const Tensor& x, const Shape& shape, const std::int64_t* strides,
                    std::int64_t offset);
/// The tensor on the device of this thread's DeviceScope.
Tensor on_current_device(const Tensor& x, Caller caller);
}  // namespace reel
