// SPDX-License-Identifier: BSD-3-Clause
#include "lib/body/dtypes.hpp"

#include <string>

#include <reel/error.hpp>
#include <reel/tensor.hpp>

#include "lib/body/refuse_type.hpp"
#include "lib/body/text.hpp"

namespace reel {
namespace {
constexpr ByDType<const char*> type_names = {
    "bool",   "std::uint8_t", "std::int32_t", "std::int64_t", "float",
    "double", "Float16",      "BFloat16",     "std::int8_t",  "std::int16_t"};
}  // namespace

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::uint8:
      return "uint8";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::int8:
      return "int8";
    case DType::int16:
      return "int16";
  }
  return "no dtype";
}

void refuse_type(std::string_view op, DType dtype, DType asked, Caller caller) {
  fail<DTypeError>(
      caller, op, "type", "the C++ type of the tensor's " + Text(name_of(dtype)), name_of(asked),
      "Use " + Text(op) + "<" + type_names[dtype] + ">(), or convert first: x.to(DType::" +
          (asked == DType::boolean ? "boolean" : std::string(name_of(asked))) + ").");
}

namespace detail {
void number_does_not_fit(Scalar value, DType dtype, Caller caller) {
  fail<DTypeError>(caller, "tensor", "value", "a number that fits " + Text(name_of(dtype)),
                   to_text(value));
}
void ragged_list(std::size_t expected, std::size_t got, Caller caller) {
  fail<ShapeError>(caller, "tensor", "lists", "lists of one length, " + to_text(expected),
                   to_text(got));
}
}  // namespace detail
}  // namespace reel
