// SPDX-License-Identifier: BSD-3-Clause
// Views, indices, texts and shared arrays at points that few programs reach.
#include <cstdint>
#include <string>
#include <vector>

#include <reel/dlpack.hpp>
#include <reel/format.hpp>
#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// An array of DLPack over `data`. It needs no deleter.
dlpack::ManagedTensor array_of(void* data, dlpack::DataType type, std::vector<std::int64_t>& shape,
                               std::int64_t* strides = nullptr) {
  dlpack::ManagedTensor array = {};
  array.dl_tensor = {data,
                     {dlpack::device_cpu, 0},
                     static_cast<std::int32_t>(shape.size()),
                     type,
                     shape.data(),
                     strides,
                     0};
  return array;
}
template <class F>
std::string text_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}
std::string line_of(unsigned line) { return "narrow.cpp:" + std::to_string(line) + ": "; }
}  // namespace

TEST_CASE("an axis of length 1 with any stride belongs to a view that is assigned") {
  Variable w("w", tensor({1.0f, 2.0f, 3.0f}));
  w.view([](const Tensor& x) { return broadcast_to(x, {1, 3}); }).assign_add(1);
  w.view([](const Tensor& x) { return expand_dims(x, -1); }).assign_add(1);
  w.view([](const Tensor& x) { return expand_dims(x(range(1, 2)), 0); }).assign_add(1);
  CHECK(equal(w, tensor({3.0f, 5.0f, 5.0f})));
  check_refused<Error>(
      [&] { w.view([](const Tensor& x) {
               return broadcast_to(x, {2, 3});
             }).assign(1); },
      "view: f: expected a view of the Variable's value in which each element occurs once");
}

TEST_CASE("a Live number that has axes does not give a slice another shape", "[cpu]") {
  Variable w("w", ones({3}));
  const Live<float> number{2.0f};
  const Tensor x = reshape(Tensor(number), {1, 1});
  check_refused<ShapeError>([&] { w(range(0, 2)).assign_add(x); }, "got (1, ");
  CHECK(equal(w, ones({3})));
}

TEST_CASE("an array is refused whose type has no name, or that has no lengths", "[dlpack][cpu]") {
  float data[3] = {1, 2, 3};
  std::vector<std::int64_t> shape = {3};
  dlpack::ManagedTensor array = array_of(data, {7, 8, 1}, shape);
  CHECK_THAT(text_of([&] { from_dlpack(&array); }), Catch::Contains("got code 7 of 8 bits"));
  array = array_of(data, {dlpack::code_float, 32, 1}, shape);
  array.dl_tensor.shape = nullptr;
  CHECK_THAT(text_of([&] { from_dlpack(&array); }),
             Catch::Contains("shape: expected 1 length, got a null pointer"));
}

TEST_CASE("a copy of an array has each element at its place, whatever its bytes", "[dlpack][cpu]") {
  std::int32_t data[6] = {10, 20, 30, 40, 50, 60};
  std::vector<std::int64_t> shape = {3, 2}, strides = {1, 3};
  dlpack::ManagedTensor array = array_of(data, {dlpack::code_int, 32, 1}, shape, strides.data());
  const Tensor x = from_dlpack(&array, {Copy::always});
  CHECK(equal(x, tensor({{10, 40}, {20, 50}, {30, 60}})));
  data[0] = 0;
  CHECK(x(0, 0).item<std::int32_t>() == 10);
}

TEST_CASE("a single element is shared, and a bool of the byte 2 is not", "[dlpack][cpu]") {
  float number = 5;
  std::vector<std::int64_t> shape = {1};
  dlpack::ManagedTensor array = array_of(&number, {dlpack::code_float, 32, 1}, shape);
  CHECK(from_dlpack(&array, {Copy::never}).values<float>().data() == &number);
  std::uint8_t truth = 2;
  array = array_of(&truth, {dlpack::code_bool, 8, 1}, shape);
  CHECK_THAT(text_of([&] { from_dlpack(&array, {Copy::never}); }),
             Catch::Contains("bools with other bytes than 0 and 1"));
  CHECK(from_dlpack(&array).item<bool>());
}

TEST_CASE("texts of the smallest numbers, of wide ones and of devices") {
  // 2^-23: 1e-7 is nearer to it than to any other number of 16 bits.
  CHECK(to_string(tensor({0x1p-23f}).to(DType::float16)) == "[1.e-07]");
  const std::string one(77, ' ');
  CHECK(to_string(tensor({1.0f, 2.0f}), "80.1f") == "[" + one + "1.0,\n " + one + "2.0]");
  CHECK(to_string(cpu()) == "cpu");
  CHECK(to_string(cuda(1)) == "cuda:1");
}

TEST_CASE("an error of a type advises the conversion that would help") {
  const Tensor x = ones({2});
  CHECK_THAT(text_of([&] { x.values<bool>(); }), Catch::Contains("x.to(DType::boolean)"));
  CHECK_THAT(text_of([&] { x.values<std::int32_t>(); }), Catch::Contains("x.to(DType::int32)"));
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

TEST_CASE("errors and records name the line of the first index") {
  const Tensor x = ones({1, 1, 1, 1, 1, 1, 1, 2});
  const unsigned line = __LINE__ + 1;
  std::vector<Index> indices = {Index(newaxis)};
  indices.emplace_back(Index(tensor({{0}, {0}})));
  const std::string text = text_of([&] { x(indices); });
  INFO(text);
  CHECK(text.find(line_of(line)) == 0);
  CHECK(text.find("expected at most 8 axes in the result") != std::string::npos);

  const Variable w("w", ones({2, 3}));
  const unsigned first = __LINE__ + 1;
  std::vector<Index> places = {Index(0)};
  places.emplace_back(Index(1));
  GradientTape tape;
  const Tensor y = w(places) * 2;
  CHECK(equal(tape.gradient(y, w), tensor({{0.0f, 2.0f, 0.0f}, {0.0f, 0.0f, 0.0f}})));
  GradientTape other;
  const Tensor z = w(places) * 2;
  REQUIRE(!other.ops().empty());
  CHECK(other.ops()[0].line == first);
}
}  // namespace reel::tests
