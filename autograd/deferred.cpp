// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/deferred.hpp"

#include <cstring>

#include "lib/dispatch/gate.hpp"

namespace reel {
namespace {
std::int64_t width_of(const Body& x) { return x.shape.end()[-1]; }
std::int64_t rows_of(const Body& x) { return x.elements / width_of(x); }

/// Whether each row has its elements side by side, and the next one a step further.
bool in_rows(const Body& x) { return x.contiguous || (x.rank() == 2 && x.strides[1] == 1); }

void append_to(Context& context, Tensor& block, std::int64_t at, const Body& rows) {
  const std::int64_t width = width_of(rows), size = size_of(rows.dtype);
  if (!block.defined()) {
    const std::int64_t most = DeferredProduct::most_rows;
    Body* made = allocate(context, rows.dtype, Shape({most, width}), most * width);
    if (!made)
      fail<MemoryError>({}, "matmul", "gradient", "memory for the rows of its uses", "none");
    block = Access::adopt(made);
  }
  std::byte* to = Access::body(block)->data + at * width * size;
  if (rows.contiguous)
    std::memcpy(to, rows.data, static_cast<std::size_t>(rows.bytes()));
  else
    for (std::int64_t i = 0; i < rows_of(rows); ++i)
      std::memcpy(to + i * width * size, rows.data + i * rows.strides[0] * size,
                  static_cast<std::size_t>(width * size));
}

void set_rows(const Tensor& block, std::int64_t rows) {
  Body& body = *Access::body(block);
  const std::int64_t width = width_of(body);
  body.shape = Shape({rows, width});
  body.elements = rows * width;
}
}  // namespace

bool DeferredProduct::fits(const Body& x, const Body& dz) {
  return x.elements > 0 && dz.elements > 0 && 2 * rows_of(x) <= most_rows && x.dtype == dz.dtype &&
         in_rows(x) && in_rows(dz);
}

bool DeferredProduct::has_room(const Body& x) const { return rows_ + rows_of(x) <= most_rows; }

void DeferredProduct::append(Context& context, const Body& x, const Body& dz) {
  append_to(context, x_, rows_, x);
  append_to(context, dz_, rows_, dz);
  rows_ += rows_of(x);
}

DeferredProduct::Rows DeferredProduct::take() {
  set_rows(x_, rows_);
  set_rows(dz_, rows_);
  rows_ = 0;
  return {x_, dz_};
}
}  // namespace reel
