// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/elements.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include <reel/error.hpp>

#include "lib/body/text.hpp"

namespace reel::io {
namespace {
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 58;

constexpr FileDType dtypes[] = {{"bool", 1, DType::boolean},    {"uint8", 1, DType::uint8},
                                {"int32", 4, DType::int32},     {"int64", 8, DType::int64},
                                {"float16", 2, DType::float16}, {"bfloat16", 2, DType::bfloat16},
                                {"float32", 4, DType::float32}, {"float64", 8, DType::float64},
                                {"int8", 1, DType::int8},       {"int16", 2, DType::int16},
                                {"uint16", 2, DType::int32},    {"uint32", 4, DType::int64},
                                {"uint64", 8, DType::int64}};
static_assert(std::size(dtypes) == dtype_count + 3);

template <class T>
void swap_bytes(void* elements, std::size_t count) {
  auto* at = static_cast<char*>(elements);
  for (std::size_t i = 0; i < count; ++i, at += sizeof(T)) std::reverse(at, at + sizeof(T));
}
void swap_bytes(void* elements, std::size_t count, std::size_t bytes) {
  if (bytes == 2) swap_bytes<std::uint16_t>(elements, count);
  if (bytes == 4) swap_bytes<std::uint32_t>(elements, count);
  if (bytes == 8) swap_bytes<std::uint64_t>(elements, count);
}
/// Elements at the end of a block become wider ones that fill it. An element is written over
/// elements that were read before.
template <class From, class To>
void widen(void* block, std::size_t count) {
  auto* to = static_cast<char*>(block);
  const char* from = to + count * (sizeof(To) - sizeof(From));
  for (std::size_t i = 0; i < count; ++i, from += sizeof(From), to += sizeof(To)) {
    From narrow{};
    std::memcpy(&narrow, from, sizeof narrow);
    const To wide = narrow;
    std::memcpy(to, &wide, sizeof wide);
  }
}
void widen(const FileDType& type, void* block, std::size_t count) {
  if (type.name == "uint16") widen<std::uint16_t, std::int32_t>(block, count);
  if (type.name == "uint32") widen<std::uint32_t, std::int64_t>(block, count);
}
/// Makes each byte of a bool 0 or 1.
void make_truths(const RawTensor& x) {
  auto* const bytes = static_cast<unsigned char*>(x.elements);
  for (std::size_t i = 0; i < x.bytes; ++i) bytes[i] = bytes[i] != 0;
}
void check_uint64(const RawTensor& x, const Input& input, std::string_view name) {
  const auto* const first = static_cast<const std::uint64_t*>(x.elements);
  const auto* const last = first + x.tensor.size();
  const auto* const large =
      std::find_if(first, last, [](std::uint64_t value) { return value > INT64_MAX; });
  if (large == last) return;
  std::string got = std::to_string(*large) + " in element " + std::to_string(large - first);
  if (!name.empty()) got += " of \"" + escaped(name.substr(0, 60)) + "\"";
  input.fail("uint64 of at most 2^63 - 1", got);
}
}  // namespace

const FileDType* file_dtype(std::string_view name) {
  const auto* const found = std::find_if(std::begin(dtypes), std::end(dtypes),
                                         [&](const FileDType& type) { return type.name == name; });
  return found == std::end(dtypes) ? nullptr : found;
}

std::optional<std::uint64_t> bytes_of(std::span<const std::int64_t> lengths,
                                      std::int64_t element_bytes) {
  auto others = static_cast<std::uint64_t>(element_bytes);
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

Tensor read_elements(Bytes& bytes, const FileDType& type, bool big_endian, const Shape& shape,
                     const Input& input, std::string_view name) {
  const RawTensor made = raw_tensor(type.dtype, shape);
  if (!made.tensor.defined())
    fail<MemoryError>(input.caller(), input.op(), "result", "memory for shape " + to_text(shape),
                      "none from the system");
  const auto count = static_cast<std::size_t>(made.tensor.size());
  const std::size_t file_bytes = count * type.bytes;
  char* const first = static_cast<char*>(made.elements) + (made.bytes - file_bytes);
  bytes.read(first, file_bytes);
  if (big_endian) swap_bytes(first, count, type.bytes);
  widen(type, made.elements, count);
  if (type.dtype == DType::boolean) make_truths(made);
  if (type.name == "uint64") check_uint64(made, input, name);
  return made.tensor;
}

HostElements::HostElements(const Tensor& x, Caller caller)
    : host_(reel::detail::contiguous_host(x, x.dtype(), &first_, "values", caller)) {}
std::size_t HostElements::bytes() const {
  return static_cast<std::size_t>(host_.size() * size_of(host_.dtype()));
}
}  // namespace reel::io
