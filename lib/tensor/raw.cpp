// SPDX-License-Identifier: BSD-3-Clause
#include "lib/tensor/raw.hpp"

#include <new>
#include <utility>

#include "lib/flow/context.hpp"
#include "lib/gate/call_kernel.hpp"

namespace reel {
RawTensor raw_tensor(DType dtype, const Shape& shape, Device device) {
  Body* const body = allocate_on(Context::here(), device, dtype, shape, shape.elements());
  if (!body) return {};
  return {Access::adopt(body), body->data, static_cast<std::size_t>(body->bytes())};
}

RawTensor row_major(const Tensor& x, Caller caller) {
  Body* const body = Access::body(x);
  Tensor kept = body->contiguous ? x : contiguous_copy(*body, caller);
  Body& found = *Access::body(kept);
  return {std::move(kept), found.data, static_cast<std::size_t>(found.bytes())};
}

Tensor strided_view(const Tensor& x, const Shape& shape, const std::int64_t* strides,
                    std::int64_t offset) {
  Body* const body = allocate_view(Context::here(), Access::body(x));
  if (!body) throw std::bad_alloc();
  body->shape = shape;
  for (std::size_t i = 0; i < shape.rank(); ++i) body->strides[i] = strides[i];
  body->elements = shape.elements();
  body->contiguous = is_row_major(body->shape, body->strides);
  if (body->elements) body->data += offset * size_of(body->dtype);
  return Access::adopt(body);
}

Tensor on_current_device(const Tensor& x, Caller caller) {
  return x.to(Context::here().device, caller);
}
}  // namespace reel
