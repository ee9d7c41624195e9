// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/elements.hpp"

#include <reel/error.hpp>

#include "lib/body/text.hpp"

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

RawTensor new_tensor(DType dtype, const Shape& shape, const Input& input) {
  RawTensor made = raw_tensor(dtype, shape);
  if (!made.tensor.defined())
    fail<MemoryError>(input.caller(), input.op(), "result", "memory for shape " + to_text(shape),
                      "none from the system");
  return made;
}

void make_truths(const RawTensor& x) {
  if (x.tensor.dtype() != DType::boolean) return;
  auto* const bytes = static_cast<unsigned char*>(x.elements);
  for (std::size_t i = 0; i < x.bytes; ++i) bytes[i] = bytes[i] != 0;
}

Tensor read_elements(const Input& input, std::uint64_t at, DType dtype, const Shape& shape) {
  const RawTensor made = new_tensor(dtype, shape, input);
  input.read(at, made.elements, made.bytes);
  make_truths(made);
  return made.tensor;
}

HostElements::HostElements(const Tensor& x, Caller caller)
    : host_(reel::detail::contiguous_host(x, x.dtype(), &first_, "values", caller)) {}
std::size_t HostElements::bytes() const {
  return static_cast<std::size_t>(host_.size() * size_of(host_.dtype()));
}
}  // namespace reel::io
