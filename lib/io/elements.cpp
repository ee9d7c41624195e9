// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/elements.hpp"

#include <reel/error.hpp>

#include "lib/body/text.hpp"
#include "lib/flow/context.hpp"

namespace reel::io {
namespace {
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 58;
}

std::optional<std::uint64_t> bytes_of(std::span<const std::int64_t> lengths, DType dtype) {
  auto others = static_cast<std::uint64_t>(size_of(dtype));
  bool none = false;
  for (const std::int64_t length : lengths) {
    none |= length == 0;
    if (length != 0 &&
        (__builtin_mul_overflow(others, static_cast<std::uint64_t>(length), &others) ||
         others > most_bytes))
      return std::nullopt;
  }
  return none ? 0 : others;
}

NewTensor new_tensor(DType dtype, const Shape& shape, const Input& input) {
  Body* const body = allocate(Context::here(), dtype, shape, shape.elements());
  if (!body)
    fail<MemoryError>(input.caller(), input.op(), "result", "memory for shape " + to_text(shape),
                      "none from the system");
  return {Access::adopt(body), body->data, static_cast<std::size_t>(body->bytes())};
}

Tensor view_of(const Tensor& x, const Shape& shape, const std::int64_t* strides,
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

void make_truths(const NewTensor& x) {
  if (x.tensor.dtype() != DType::boolean) return;
  auto* const bytes = static_cast<unsigned char*>(x.elements);
  for (std::size_t i = 0; i < x.bytes; ++i) bytes[i] = bytes[i] != 0;
}

Tensor read_elements(const Input& input, std::uint64_t at, DType dtype, const Shape& shape) {
  const NewTensor made = new_tensor(dtype, shape, input);
  input.read(at, made.elements, made.bytes);
  make_truths(made);
  return made.tensor;
}

Tensor placed(const Tensor& x, Caller caller) { return x.to(Context::here().device, caller); }

HostElements::HostElements(const Tensor& x, Caller caller)
    : host_(reel::detail::contiguous_host(x, x.dtype(), &first_, "values", caller)) {}
std::size_t HostElements::bytes() const {
  return static_cast<std::size_t>(Access::body(host_)->bytes());
}
}  // namespace reel::io
