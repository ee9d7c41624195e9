// SPDX-License-Identifier: BSD-3-Clause
// How the inputs of an op are converted to one dtype. A floating tensor wins over integers, and a
// C++ number takes the dtype of the tensors.
#include "lib/table/promotion.hpp"
#include "lib/body/dtypes.hpp"
#include "lib/body/live.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

namespace reel {
namespace {
/// Rows and columns in the order of DType.
constexpr auto b1 = DType::boolean, u1 = DType::uint8, i4 = DType::int32, i8 = DType::int64,
               f4 = DType::float32, f8 = DType::float64, f2 = DType::float16, b2 = DType::bfloat16,
               i1 = DType::int8, i2 = DType::int16;
constexpr DType promotions[][dtype_count] = {
    {b1, u1, i4, i8, f4, f8, f2, b2, i1, i2}, {u1, u1, i4, i8, f4, f8, f2, b2, i2, i2},
    {i4, i4, i4, i8, f4, f8, f2, b2, i4, i4}, {i8, i8, i8, i8, f4, f8, f2, b2, i8, i8},
    {f4, f4, f4, f4, f4, f8, f4, f4, f4, f4}, {f8, f8, f8, f8, f8, f8, f8, f8, f8, f8},
    {f2, f2, f2, f2, f4, f8, f2, f4, f2, f2}, {b2, b2, b2, b2, f4, f8, f4, b2, b2, b2},
    {i1, i2, i4, i8, f4, f8, f2, b2, i1, i2}, {i2, i2, i4, i8, f4, f8, f2, b2, i2, i2}};
static_assert(std::size(promotions) == dtype_count);
static_assert(
    [] {
      for (int i = 0; i < dtype_count; ++i) {
        if (promotions[i][i] != static_cast<DType>(i)) return false;
        for (int k = 0; k < i; ++k)
          if (promotions[i][k] != promotions[k][i]) return false;
      }
      return true;
    }(),
    "every row has a column for each dtype, and the order of two dtypes does not matter");

/// The largest dtypes among the promoted inputs of a call.
struct Largest {
  DType tensor = DType::boolean, number = DType::boolean;
  DType live_integer = DType::boolean;  // whose value is not known here
  bool any_tensor = false, any_number = false;

  Largest(const Op& op, std::span<const Operand> operands, Body* const* bodies) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!(op.promoted >> std::min<std::size_t>(i, 7) & 1)) continue;
      const bool is_tensor = bodies[i] && !is_live(*bodies[i]);
      const DType dtype = bodies[i] ? bodies[i]->dtype : operands[i].scalar().dtype();
      DType& largest = is_tensor ? tensor : number;
      largest = promoted(largest, dtype);
      if (bodies[i] && !is_tensor && !is_floating(dtype))
        live_integer = promoted(live_integer, dtype);
      (is_tensor ? any_tensor : any_number) = true;
    }
  }
};

/// Bits of the largest integer up to which a dtype holds all integers, of either sign or of one.
int integer_bits(DType dtype) {
  return with_element(dtype, []<class T>(Type<T>) {
    if constexpr (std::is_same_v<T, Float16>)
      return 11;
    else if constexpr (std::is_same_v<T, BFloat16>)
      return 8;
    else
      return std::numeric_limits<T>::digits;
  });
}
/// Whether a dtype holds all numbers of another one.
bool holds(DType dtype, DType other) {
  if (is_floating(other)) return promoted(dtype, other) == dtype;
  return integer_bits(dtype) >= integer_bits(other);
}
}  // namespace

DType promoted(DType a, DType b) { return promotions[static_cast<int>(a)][static_cast<int>(b)]; }

DType common_dtype(const Op& op, std::span<const Operand> operands, Body* const* bodies) {
  const Largest largest(op, operands, bodies);
  DType common = largest.tensor;
  if (!largest.any_tensor || common == DType::boolean)
    common = largest.number;
  else if (is_floating(largest.number) && !is_floating(common))
    common = DType::float32;
  if (!is_floating(common)) common = promoted(common, largest.live_integer);
  return op.promote == Promote::floating && !is_floating(common) ? DType::float32 : common;
}

std::optional<DType> exact_dtype(const Op& op, std::span<const Operand> operands,
                                 Body* const* bodies) {
  DType common = common_dtype(op, operands, bodies);
  // Only a floating tensor rounds a number with a fraction to its own precision.
  if (is_floating(common) && !is_floating(Largest(op, operands, bodies).tensor))
    common = DType::float64;
  if (!has_arithmetic(common)) common = DType::int32;
  const auto keeps = [&](std::size_t i) {
    if (!bodies[i]) return holds(common, operands[i].scalar());
    const DType dtype = bodies[i]->dtype;
    return (is_live(*bodies[i]) && is_floating(dtype)) ? is_floating(common) : holds(common, dtype);
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
  const double value = with_element(
      dtype, [&]<class T>(Type<T>) { return static_cast<double>(static_cast<T>(number.real())); });
  return value >= -0x1p63 && value < 0x1p63 && static_cast<std::int64_t>(value) == number.integer();
}

bool fits(Scalar number, DType dtype) {
  if (is_floating(dtype) || dtype == DType::boolean) return true;
  if (is_floating(number.dtype())) return false;
  const std::int64_t value = number.integer();
  return with_element(dtype, [&]<class T>(Type<T>) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return std::in_range<T>(value);
    else
      return true;
  });
}

void store_number(void* to, Scalar number, DType dtype) {
  with_element(dtype, [&]<class T>(Type<T>) {
    T value;
    if constexpr (std::is_same_v<T, bool>)
      value = number.real() != 0;
    else if constexpr (std::is_integral_v<T>)
      value = static_cast<T>(number.integer());
    else
      value = static_cast<T>(number.real());
    std::memcpy(to, &value, sizeof value);
  });
}
}  // namespace reel
