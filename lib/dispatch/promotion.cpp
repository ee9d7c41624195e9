// SPDX-License-Identifier: BSD-3-Clause
// How the inputs of an op come to one dtype: floating tensors before integers, C++ numbers as the
// tensors are.
#include "lib/dispatch/promotion.hpp"
#include "lib/tensor/live.hpp"

#include <algorithm>
#include <cstring>

namespace reel {
namespace {
/// The largest dtypes among the promoted inputs of a call.
struct Largest {
  DType tensor = DType::boolean, number = DType::boolean;
  bool any_tensor = false, any_number = false;

  Largest(const Op& op, std::span<const Operand> operands, Body* const* bodies) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!(op.promoted >> (i < 7 ? i : 7) & 1)) continue;
      const bool is_tensor = bodies[i] && !is_live(*bodies[i]);
      const DType dtype = bodies[i] ? bodies[i]->dtype : operands[i].scalar().dtype();
      DType& largest = is_tensor ? tensor : number;
      largest = promoted(largest, dtype);
      (is_tensor ? any_tensor : any_number) = true;
    }
  }
};

/// Whether a dtype holds all numbers of another one.
bool holds(DType dtype, DType other) {
  if (!is_floating(dtype) || is_floating(other)) return dtype >= other;
  return other < (dtype == DType::float32 ? DType::int32 : DType::int64);
}
}  // namespace

DType common_dtype(const Op& op, std::span<const Operand> operands, Body* const* bodies) {
  const Largest largest(op, operands, bodies);
  DType common = largest.tensor;
  if (!largest.any_tensor || common == DType::boolean)
    common = largest.number;
  else if (is_floating(largest.number) && !is_floating(common))
    common = DType::float32;
  return op.promote == Promote::floating && !is_floating(common) ? DType::float32 : common;
}

std::optional<DType> exact_dtype(const Op& op, std::span<const Operand> operands,
                                 Body* const* bodies) {
  DType common = common_dtype(op, operands, bodies);
  // Only floating tensors round a number with a fraction to their own precision.
  if (is_floating(common) && !is_floating(Largest(op, operands, bodies).tensor))
    common = DType::float64;
  const auto keeps = [&](std::size_t i) {
    return bodies[i] ? holds(common, bodies[i]->dtype) : holds(common, operands[i].scalar());
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (keeps(i)) continue;
    common = is_floating(common) ? DType::float64 : DType::int64;
    if (!keeps(i)) return {};
  }
  return common;
}

bool holds(DType dtype, Scalar number) {
  if (is_floating(number.dtype())) return is_floating(dtype);
  if (!is_floating(dtype)) return dtype == DType::boolean || fits(number, dtype);
  const double value =
      dtype == DType::float32 ? static_cast<float>(number.integer()) : number.real();
  return value < 0x1p63 && static_cast<std::int64_t>(value) == number.integer();
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
