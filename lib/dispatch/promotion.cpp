// SPDX-License-Identifier: BSD-3-Clause
// How the inputs of an op come to one dtype: tensors as in NumPy, C++ numbers as they are told.
#include "lib/dispatch/promotion.hpp"

#include <cstring>

namespace reel {
DType promoted(DType a, DType b) {
  const DType low = a < b ? a : b, high = a < b ? b : a;
  const bool loses_digits = high == DType::float32 && (low == DType::int32 || low == DType::int64);
  return loses_digits ? DType::float64 : high;
}

DType common_dtype(const Op& op, std::span<const Operand> operands, Body* const* bodies) {
  DType common = DType::boolean;
  bool any = false;
  const auto takes_part = [&](std::size_t i) { return op.promoted >> (i < 7 ? i : 7) & 1; };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!bodies[i] || !takes_part(i)) continue;
    common = any ? promoted(common, bodies[i]->dtype) : bodies[i]->dtype;
    any = true;
  }
  const bool any_tensor = any;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (bodies[i] || !takes_part(i)) continue;
    const DType number = operands[i].scalar().dtype();
    if (!any_tensor)
      common = any ? promoted(common, number) : number;
    else if (is_floating(number) && !is_floating(common))
      common = DType::float32;
    else if (common == DType::boolean)
      common = number;
    any = true;
  }
  return op.promote == Promote::floating && !is_floating(common) ? DType::float32 : common;
}

bool fits(Scalar number, DType dtype) {
  if (is_floating(dtype) || dtype == DType::boolean) return true;
  if (is_floating(number.dtype())) return false;
  const std::int64_t value = number.integer();
  if (dtype == DType::uint8) return value >= 0 && value <= 255;
  if (dtype == DType::int32) return value == static_cast<std::int32_t>(value);
  return true;
}

void store_number(void* to, Scalar number, DType dtype) {
  const auto store = [to](auto value) { std::memcpy(to, &value, sizeof value); };
  switch (dtype) {
    case DType::boolean:
      return store(number.real() != 0);
    case DType::uint8:
      return store(static_cast<std::uint8_t>(number.integer()));
    case DType::int32:
      return store(static_cast<std::int32_t>(number.integer()));
    case DType::int64:
      return store(number.integer());
    case DType::float32:
      return store(static_cast<float>(number.real()));
    case DType::float64:
      return store(number.real());
  }
}
}  // namespace reel
