// SPDX-License-Identifier: BSD-3-Clause
#include <reel/dlpack.hpp>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include <reel/error.hpp>
#include <reel/share.hpp>

#include "lib/body/access.hpp"
#include "lib/body/text.hpp"
#include "lib/gate/call_kernel.hpp"

namespace reel::detail {
namespace {
using dlpack::Array;
using dlpack::DataType;

/// In the order of DType.
constexpr DataType types[] = {{dlpack::code_bool, 8, 1},   {dlpack::code_uint, 8, 1},
                              {dlpack::code_int, 32, 1},   {dlpack::code_int, 64, 1},
                              {dlpack::code_float, 32, 1}, {dlpack::code_float, 64, 1},
                              {dlpack::code_float, 16, 1}, {dlpack::code_bfloat, 16, 1},
                              {dlpack::code_int, 8, 1},    {dlpack::code_int, 16, 1}};
static_assert(std::size(types) == dtype_count);

std::string text_of(DataType type) {
  constexpr const char* names[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  std::string text =
      type.code < std::size(names) ? names[type.code] : "code " + to_text(type.code) + " of ";
  text += to_text(type.bits) + (type.code < std::size(names) ? "" : " bits");
  if (type.lanes != 1) text += " with " + to_text(type.lanes) + " lanes";
  return text;
}

DType dtype_of(DataType type, Caller caller) {
  for (int i = 0; i < dtype_count; ++i)
    if (types[i].code == type.code && types[i].bits == type.bits && type.lanes == 1)
      return static_cast<DType>(i);
  fail<DTypeError>(caller, "from_dlpack", "dtype",
                   "bool, uint8, int8 to int64, float16, bfloat16, float32 or float64",
                   text_of(type), "Convert the array before it is exported.");
}

void check_device(dlpack::Device device, Caller caller) {
  if (device.device_type == dlpack::device_cpu || device.device_type == dlpack::device_cuda_host)
    return;
  fail<DeviceError>(caller, "from_dlpack", "device", "the memory of the host",
                    device.device_type == dlpack::device_cuda
                        ? "that of CUDA device " + to_text(device.device_id)
                        : "that of a device of type " + to_text(device.device_type),
                    "Copy the array to the host before it is exported.");
}

Shape shape_of(const Array& array, Caller caller) {
  if (array.ndim < 0 || array.ndim > static_cast<int>(Shape::max_rank))
    fail<ShapeError>(caller, "from_dlpack", "ndim", "0 to 8", to_text(array.ndim));
  if (array.ndim > 0 && !array.shape)
    fail<ShapeError>(caller, "from_dlpack", "shape",
                     to_text(array.ndim) + (array.ndim == 1 ? " length" : " lengths"),
                     "a null pointer");
  Shape shape;
  shape.resize(static_cast<std::size_t>(array.ndim), caller);
  for (int i = 0; i < array.ndim; ++i) {
    if (array.shape[i] < 0)
      fail<ShapeError>(caller, "from_dlpack", "shape", "lengths of at least 0",
                       to_text(array.shape[i]));
    shape.data()[i] = array.shape[i];
  }
  shape.elements(caller);  // not too many
  return shape;
}

template <class Managed>
void call_deleter(void* what) noexcept {
  auto* const array = static_cast<Managed*>(what);
  if (array->deleter) array->deleter(array);
}

template <class Managed>
Tensor imported(Managed* managed, DlpackOptions options, Caller caller) {
  const Array& array = managed->dl_tensor;
  check_device(array.device, caller);
  const DType dtype = dtype_of(array.dtype, caller);
  const Shape shape = shape_of(array, caller);
  if (!array.data && shape.elements() > 0)
    fail<Error>(caller, "from_dlpack", "data", "the address of the elements", "a null pointer");
  const HostArray elements = {static_cast<const std::byte*>(array.data) + array.byte_offset, dtype,
                              shape, array.strides};
  return share_array("from_dlpack", elements, options.copy, {call_deleter<Managed>, managed},
                     caller);
}

/// What an exported array points to.
template <class Managed>
struct Exported {
  Managed managed = {};
  Tensor tensor;
  std::int64_t shape[Shape::max_rank] = {}, strides[Shape::max_rank] = {};
};

/// An array over x's memory, or over a copy.
template <class Managed>
std::unique_ptr<Exported<Managed>> exported(const Tensor& x, Copy copy, bool& copied,
                                            Caller caller) try {
  SharedView view = view_on_host("to_dlpack", x, x.dtype(caller), caller);
  if (view.copied && copy == Copy::never)
    fail<Error>(caller, "to_dlpack", "copy", "memory that an array can share",
                x.device() == cpu() ? "a stride that is negative or 0"
                                    : "a tensor on " + to_text(x.device()),
                "Copy::if_needed copies the elements.");
  if (!view.copied && copy == Copy::always) {
    view.tensor = contiguous_copy(*Access::body(view.tensor), caller);
    view.copied = true;
  }
  copied = view.copied;
  const Body& body = *Access::body(view.tensor);
  auto result = std::make_unique<Exported<Managed>>();
  std::copy_n(body.shape.data(), body.rank(), result->shape);
  std::copy_n(body.strides, body.rank(), result->strides);
  result->managed.manager_ctx = result.get();
  result->managed.deleter = [](Managed* self) {
    delete static_cast<Exported<Managed>*>(self->manager_ctx);
  };
  result->managed.dl_tensor = {.data = body.data,
                               .device = {dlpack::device_cpu, 0},
                               .ndim = body.rank(),
                               .dtype = types[static_cast<int>(body.dtype)],
                               .shape = result->shape,
                               .strides = result->strides,
                               .byte_offset = 0};
  result->tensor = std::move(view.tensor);
  return result;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to_dlpack");
}
}  // namespace

Tensor import_dlpack(dlpack::ManagedTensor* array, DlpackOptions options, Caller caller) {
  if (!array) fail<Error>(caller, "from_dlpack", "array", "an array", "a null pointer");
  return imported(array, options, caller);
}
Tensor import_dlpack(dlpack::ManagedTensorVersioned* array, DlpackOptions options, Caller caller) {
  if (!array) fail<Error>(caller, "from_dlpack", "array", "an array", "a null pointer");
  if (array->version.major > 1)
    fail<Error>(caller, "from_dlpack", "version", "DLPack 0 or 1",
                to_text(array->version.major) + "." + to_text(array->version.minor));
  return imported(array, options, caller);
}

void export_dlpack(const Tensor& x, dlpack::ManagedTensor*& to, DlpackOptions options,
                   Caller caller) {
  bool copied = false;
  const Copy copy = options.copy == Copy::if_needed ? Copy::always : options.copy;
  to = &exported<dlpack::ManagedTensor>(x, copy, copied, caller).release()->managed;
}
void export_dlpack(const Tensor& x, dlpack::ManagedTensorVersioned*& to, DlpackOptions options,
                   Caller caller) {
  bool copied = false;
  auto result = exported<dlpack::ManagedTensorVersioned>(x, options.copy, copied, caller);
  result->managed.version = {1, 0};
  result->managed.flags = copied ? dlpack::is_copied : dlpack::read_only;
  to = &result.release()->managed;
}
}  // namespace reel::detail
