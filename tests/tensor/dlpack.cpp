// SPDX-License-Identifier: BSD-3-Clause
// Arrays that are imported and exported by DLPack. tests/io/dlpack.py does the same with NumPy.
#include <reel/dlpack.hpp>

#include <cstring>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/error_text.hpp"

namespace reel::tests {
namespace {
using dlpack::ManagedTensor;
using dlpack::ManagedTensorVersioned;

/// An array of another library. It counts its deletions.
template <class M>
struct Foreign {
  M managed = {};
  std::vector<std::int64_t> shape, strides;
  int deleted = 0;
  Foreign(void* data, dlpack::DataType type, std::vector<std::int64_t> lengths,
          std::vector<std::int64_t> steps = {})
      : shape(std::move(lengths)), strides(std::move(steps)) {
    if constexpr (std::is_same_v<M, ManagedTensorVersioned>) managed.version = {1, 1};
    managed.dl_tensor = {data,
                         {dlpack::device_cpu, 0},
                         static_cast<std::int32_t>(shape.size()),
                         type,
                         shape.data(),
                         strides.empty() ? nullptr : strides.data(),
                         0};
    managed.manager_ctx = this;
    managed.deleter = [](M* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
  }
};
constexpr dlpack::DataType f32 = {dlpack::code_float, 32, 1};
}  // namespace

TEMPLATE_TEST_CASE("an array is used in place and deleted once", "[dlpack][cpu]", ManagedTensor,
                   ManagedTensorVersioned) {
  std::vector<float> data = {0, 1, 2, 3, 4, 5};
  Foreign<TestType> array(data.data(), f32, {2, 3});
  {
    const Tensor x = from_dlpack(&array.managed);
    CHECK(x.values<float>().data() == data.data());
    CHECK(equal(x, arange(0.0f, 6.0f).reshape({2, 3})));
    const Tensor column = x(all, 1);
    CHECK(array.deleted == 0);
  }
  CHECK(array.deleted == 1);
}

TEST_CASE("strides and offsets of an array are kept", "[dlpack]") {
  std::vector<float> data = {0, 1, 2, 3, 4, 5};
  const auto imported = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                            std::uint64_t offset) {
    Foreign<ManagedTensor> array(data.data(), f32, std::move(shape), std::move(strides));
    array.managed.dl_tensor.byte_offset = offset;
    const Tensor x = from_dlpack(&array.managed) + 0;
    CHECK(array.deleted == 1);
    return x;
  };
  const Tensor x = arange(0.0f, 6.0f).reshape({2, 3});
  CHECK(equal(imported({3, 2}, {1, 3}, 0), transpose(x)));
  CHECK(equal(imported({2, 2}, {3, 2}, 0), x(all, range({}, {}, 2))));
  CHECK(equal(imported({6}, {-1}, 20), tensor({5.0f, 4.0f, 3.0f, 2.0f, 1.0f, 0.0f})));
  CHECK(equal(imported({2, 3}, {0, 1}, 12), tensor({{3.0f, 4.0f, 5.0f}, {3.0f, 4.0f, 5.0f}})));
  CHECK(equal(imported({}, {}, 4), tensor(1.0f)));
  CHECK(imported({0, 3}, {3, 1}, 0).shape() == Shape({0, 3}));
  CHECK(imported({3, 0}, {}, 0).shape() == Shape({3, 0}));
}

TEST_CASE("every dtype goes out and in", "[dlpack]") {
  for (int i = 0; i < dtype_count; ++i) {
    const Tensor x = tensor({0, 1, 2}).to(static_cast<DType>(i));
    for (const Copy copy : {Copy::if_needed, Copy::always}) {
      const Tensor y = from_dlpack(to_dlpack(x, {copy}));
      CHECK(y.dtype() == x.dtype());
      CHECK(equal(y.to(DType::int32), x.to(DType::int32)));
      CHECK(equal(from_dlpack(to_dlpack<ManagedTensor>(x, {copy})).to(DType::int32),
                  x.to(DType::int32)));
    }
  }
}

TEST_CASE("a new axis is exported with length 1 and step 1", "[dlpack][cpu]") {
  const Tensor x = arange(0.0f, 6.0f).reshape({2, 3});
  for (const Tensor& y : {x(newaxis), x(newaxis, all, range(0, 2)), expand_dims(x, 0)}) {
    ManagedTensorVersioned* const array = to_dlpack(y);
    CHECK(array->dl_tensor.ndim == 3);
    CHECK(array->dl_tensor.shape[0] == 1);
    CHECK(array->dl_tensor.strides[0] == 1);
    CHECK(array->dl_tensor.strides[1] == 3);
    array->deleter(array);
  }
}

TEST_CASE("an exported array shares and keeps the memory, and is read-only", "[dlpack][cpu]") {
  const std::int64_t tensors = memory_statistics().live_tensors;
  {
    Tensor x = arange(0.0f, 6.0f).reshape({2, 3});
    const void* const first = x.values<float>().data();
    ManagedTensorVersioned* const rows = to_dlpack(x);
    ManagedTensorVersioned* const columns = to_dlpack(transpose(x)(range(1, 3)));
    CHECK(rows->dl_tensor.data == first);
    CHECK(rows->flags == dlpack::read_only);
    CHECK(columns->dl_tensor.shape[0] == 2);
    CHECK(columns->dl_tensor.shape[1] == 2);
    CHECK(columns->dl_tensor.strides[0] == 1);
    CHECK(columns->dl_tensor.strides[1] == 3);
    x = Tensor();
    CHECK(static_cast<const float*>(columns->dl_tensor.data)[4] == 5);
    rows->deleter(rows);
    CHECK(static_cast<const float*>(columns->dl_tensor.data)[4] == 5);
    columns->deleter(columns);
  }
  CHECK(memory_statistics().live_tensors == tensors);
}

TEST_CASE("an exported array says that it is a copy, and writing to it changes no tensor",
          "[dlpack][cpu]") {
  const Tensor x = arange(0.0f, 3.0f);
  const auto copy_of = [](const Tensor& y, DlpackOptions options) {
    ManagedTensorVersioned* const array = to_dlpack(y, options);
    CHECK(array->flags == dlpack::is_copied);
    static_cast<float*>(array->dl_tensor.data)[0] = 9;
    array->deleter(array);
  };
  copy_of(x, {Copy::always});
  copy_of(x(range({}, {}, -1)), {});
  copy_of(broadcast_to(x, {2, 3}), {});
  CHECK_THROWS_WITH(to_dlpack(x(range({}, {}, -1)), {Copy::never}),
                    Catch::Contains("to_dlpack: copy: expected memory that an array can share, got "
                                    "a stride that is negative or 0"));
  // The older struct cannot forbid writes.
  ManagedTensor* array = to_dlpack<ManagedTensor>(x);
  CHECK(array->dl_tensor.data != x.values<float>().data());
  static_cast<float*>(array->dl_tensor.data)[0] = 9;
  array->deleter(array);
  CHECK(equal(x, tensor({0.0f, 1.0f, 2.0f})));
  array = to_dlpack<ManagedTensor>(x, {Copy::never});
  CHECK(array->dl_tensor.data == x.values<float>().data());
  array->deleter(array);
}

TEST_CASE("the values of a tensor under a tape go out, and its gradients stay", "[dlpack]") {
  const Tensor x = tensor({1.0f, 2.0f, 3.0f});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = square(x);
  ManagedTensor* const array = to_dlpack<ManagedTensor>(x);
  static_cast<float*>(array->dl_tensor.data)[0] = 100;
  array->deleter(array);
  CHECK(equal(tape.gradient(sum(y), x), tensor({2.0f, 4.0f, 6.0f})));
}

TEST_CASE("copies where they are asked for or needed", "[dlpack][cpu]") {
  std::vector<float> data = {1, 2, 3};
  Foreign<ManagedTensor> array(data.data(), f32, {3});
  const Tensor copy = from_dlpack(&array.managed, {Copy::always});
  CHECK(array.deleted == 1);
  data[0] = 7;
  CHECK(equal(copy, tensor({1.0f, 2.0f, 3.0f})));
  Foreign<ManagedTensor> odd(data.data(), f32, {2});
  odd.managed.dl_tensor.byte_offset = 2;
  CHECK_THROWS_WITH(from_dlpack(&odd.managed, {Copy::never}),
                    Catch::Contains("from_dlpack: copy: expected memory that a tensor can share, "
                                    "got an address that is not a multiple of the element size"));
  CHECK(odd.deleted == 0);
  CHECK(from_dlpack(&odd.managed).shape() == Shape({2}));
  CHECK(odd.deleted == 1);
}

TEST_CASE("what a tensor cannot hold is refused and stays the caller's", "[dlpack]") {
  std::vector<float> data(6);
  Foreign<ManagedTensorVersioned> array(data.data(), f32, {2, 3}, {3, 1});
  const ManagedTensorVersioned before = array.managed;
  const std::vector<std::int64_t> shape = array.shape, strides = array.strides;
  const auto refused = [&](const char* words, auto change) {
    change(array.managed);
    CHECK_THROWS_WITH(from_dlpack(&array.managed), Catch::Contains(words));
    array.managed = before;
    array.shape = shape;
    array.strides = strides;
  };
  refused(
      "dtype: expected bool, uint8, int8 to int64, float16, bfloat16, float32 or float64, got "
      "uint16",
      [](auto& m) {
        m.dl_tensor.dtype = {dlpack::code_uint, 16, 1};
      });
  refused("got complex64", [](auto& m) { m.dl_tensor.dtype = {dlpack::code_complex, 64, 1}; });
  refused("got float32 with 4 lanes", [](auto& m) { m.dl_tensor.dtype.lanes = 4; });
  refused("got code 17 of 8 bits", [](auto& m) { m.dl_tensor.dtype = {17, 8, 1}; });
  refused("device: expected the memory of the host, got that of CUDA device 1", [](auto& m) {
    m.dl_tensor.device = {dlpack::device_cuda, 1};
  });
  refused("got that of a device of type 8", [](auto& m) { m.dl_tensor.device.device_type = 8; });
  refused("ndim: expected 0 to 8, got 9", [](auto& m) { m.dl_tensor.ndim = 9; });
  refused("ndim: expected 0 to 8, got -1", [](auto& m) { m.dl_tensor.ndim = -1; });
  refused("shape: expected 2 lengths, got a null pointer",
          [](auto& m) { m.dl_tensor.shape = nullptr; });
  refused("shape: expected lengths of at least 0, got -3",
          [](auto& m) { m.dl_tensor.shape[1] = -3; });
  refused("at most 2^58 elements",
          [](auto& m) { m.dl_tensor.shape[0] = m.dl_tensor.shape[1] = INT64_MAX; });
  refused("strides: expected elements that lie within 2^63 bytes",
          [](auto& m) { m.dl_tensor.strides[0] = INT64_MAX; });
  refused("data: expected the address of the elements, got a null pointer",
          [](auto& m) { m.dl_tensor.data = nullptr; });
  refused("version: expected DLPack 0 or 1, got 2.3", [](auto& m) { m.version = {2, 3}; });
  CHECK_THROWS_WITH(from_dlpack(static_cast<ManagedTensor*>(nullptr)),
                    Catch::Contains("array: expected an array, got a null pointer"));
  CHECK_THROWS_WITH(to_dlpack(Tensor()), Catch::Contains("an undefined Tensor"));
  CHECK(array.deleted == 0);
}

TEST_CASE("an array without a deleter is taken too", "[dlpack]") {
  std::vector<float> data = {1, 2};
  Foreign<ManagedTensor> array(data.data(), f32, {2});
  array.managed.deleter = nullptr;
  CHECK(equal(from_dlpack(&array.managed), tensor({1.0f, 2.0f})));
}

TEST_CASE("an array is refused whose type has no name, or that has no lengths", "[dlpack][cpu]") {
  float data[3] = {1, 2, 3};
  Foreign<ManagedTensor> unknown(data, {7, 8, 1}, {3}), shapeless(data, f32, {3});
  shapeless.managed.dl_tensor.shape = nullptr;
  CHECK_THAT(error_text([&] { from_dlpack(&unknown.managed); }),
             Catch::Contains("got code 7 of 8 bits"));
  CHECK_THAT(error_text([&] { from_dlpack(&shapeless.managed); }),
             Catch::Contains("shape: expected 1 length, got a null pointer"));
}

TEST_CASE("elements are copied or shared one by one, and a bool may be any byte", "[dlpack][cpu]") {
  std::int32_t data[6] = {10, 20, 30, 40, 50, 60};
  Foreign<ManagedTensor> columns(data, {dlpack::code_int, 32, 1}, {3, 2}, {1, 3});
  const Tensor x = from_dlpack(&columns.managed, {Copy::always});
  CHECK(equal(x, tensor({{10, 40}, {20, 50}, {30, 60}})));
  data[0] = 0;
  CHECK(x(0, 0).item<std::int32_t>() == 10);
  float number = 5;
  Foreign<ManagedTensor> single(&number, f32, {1});
  CHECK(from_dlpack(&single.managed, {Copy::never}).values<float>().data() == &number);
  std::uint8_t truth = 2;
  const dlpack::DataType boolean = {dlpack::code_bool, 8, 1};
  Foreign<ManagedTensor> refused(&truth, boolean, {1}), copied(&truth, boolean, {1});
  CHECK_THAT(error_text([&] { from_dlpack(&refused.managed, {Copy::never}); }),
             Catch::Contains("bools with other bytes than 0 and 1"));
  CHECK(from_dlpack(&copied.managed).item<bool>());
}
}  // namespace reel::tests
