// SPDX-License-Identifier: BSD-3-Clause
// What is known of each dtype follows from the C++ type of its elements.
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

#include <reel/reel.hpp>

#include "lib/body/dtypes.hpp"
#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
struct Known {
  int size;
  bool floating, arithmetic;
  bool operator==(const Known&) const = default;
};
constexpr bool is_known_by_type() {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Known known = with_element(dtype, []<class T>(Type<T>) {
      const bool stored = std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) < 4;
      return Known{sizeof(T), !std::is_integral_v<T>, !stored};
    });
    if (known != Known{size_of(dtype), is_floating(dtype), has_arithmetic(dtype)}) return false;
    if (is_half(dtype) != (known.floating && known.size == 2)) return false;
  }
  return true;
}
static_assert(is_known_by_type());
// Checks of arguments ask these before they refuse what is no DType.
static_assert(!has_arithmetic(static_cast<DType>(dtype_count)));
static_assert(!has_arithmetic(static_cast<DType>(255)));
static_assert(size_of(static_cast<DType>(dtype_count)) == 1);
}  // namespace

TEST_CASE("dtypes have names of their own") {
  std::set<std::string_view> names;
  for (int i = 0; i < dtype_count; ++i) names.insert(name_of(static_cast<DType>(i)));
  CHECK(names.size() == std::size_t{dtype_count});
  CHECK(!names.contains(name_of(static_cast<DType>(dtype_count))));
}

TEST_CASE("elements with gaps, backwards and repeated convert as their copies do") {
  for (const std::int64_t n : {1, 3, 511, 512, 513, 1100})
    for (int from = 0; from < dtype_count; ++from) {
      const Tensor x =
          (arange(0.0, 5.0 * static_cast<double>(n)) % 251.0 - 100.0).to(static_cast<DType>(from));
      const Tensor views[] = {x(range({}, {}, 5)), x(range({}, n))(range({}, {}, -1)),
                              broadcast_to(x(range(0, 1)), {n}),
                              transpose(x.reshape({n, 5}))(range(1, 4))};
      for (const Tensor& view : views) {
        const Tensor together = concat({view, view})(range(0, view.shape()[0]));
        for (int to = 0; to < dtype_count; ++to) {
          const auto dtype = static_cast<DType>(to);
          INFO(n << " of " << name_of(x.dtype()) << " to " << name_of(dtype));
          CHECK(equal(view.to(dtype), together.to(dtype)));
        }
      }
    }
}
TEST_CASE("a unit has the size of the elements that it represents") {
  for (int i = 0; i < dtype_count; ++i) {
    const int bytes = size_of(static_cast<DType>(i));
    with_unit(bytes, [&]<class Unit>(Type<Unit>) {
      CHECK(int{sizeof(Unit)} == bytes);
      CHECK(std::is_unsigned_v<Unit>);
    });
  }
}

TEST_CASE("an operand has the shape and the dtype of its argument") {
  const auto describe = [](Operand x) { return std::pair(x.shape(), x.dtype()); };
  const Variable w("w", zeros({2, 3}, {.dtype = DType::float64}));
  CHECK(describe(w) == std::pair(Shape({2, 3}), DType::float64));
  CHECK(describe(ones({4, 1}, {.dtype = DType::int32})) == std::pair(Shape({4, 1}), DType::int32));
  CHECK(describe(3) == std::pair(Shape(), DType::int32));
  CHECK(describe(0.5) == std::pair(Shape(), DType::float32));
  const auto last = [](Operand x) { return x.shape(-1); };
  CHECK(last(w) == 3);
  check_refused<ShapeError>([&] { last(5); }, "axis");
  check_refused<Error>([&] { Tensor().to(cpu()); }, "to: x: expected a tensor, got an undefined");
  check_refused<Error>([&] { describe(Tensor()); }, "an undefined Tensor");
}

TEST_CASE("elements are read as their own type, or as one that holds each of their numbers") {
  CHECK(tensor(0.1f).item<double>() == double{0.1f});
  CHECK(tensor(-7).item<double>() == -7);
  CHECK(tensor(-7).item<std::int64_t>() == -7);
  CHECK(tensor(true).item<std::int64_t>() == 1);
  CHECK(tensor(std::uint8_t{200}).item<double>() == 200);
  const Tensor x = tensor({{1.5f, 2.5f}, {3.5f, 4.5f}});
  CHECK(transpose(x).to_vector<double>() == std::vector<double>{1.5, 3.5, 2.5, 4.5});
  const Values<double> values = x(all, 1).values<double>();
  CHECK(std::vector<double>(values.begin(), values.end()) == std::vector<double>{2.5, 4.5});
  CHECK(tensor({true, false}).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(zeros({0}).values<double>().size() == 0);
  const char* text = "expected the C++ type of the tensor's ";
  check_refused<DTypeError>([] { tensor(1L).item<double>(); }, text);
  check_refused<DTypeError>([] { tensor(1).item<float>(); }, text);
  check_refused<DTypeError>([] { tensor(1.0).item<std::int64_t>(); }, text);
  check_refused<DTypeError>([] { tensor<double>(1.0).item<float>(); }, text);
  check_refused<DTypeError>([] { tensor(1L).values<std::int32_t>(); }, text);
  check_refused<DTypeError>([] { ones({2}, float16).values<double>(); }, text);
  check_refused<DTypeError>([] { tensor(true).to_vector<std::uint8_t>(); }, text);
}
}  // namespace reel::tests
