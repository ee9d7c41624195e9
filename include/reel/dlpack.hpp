// SPDX-License-Identifier: BSD-3-Clause
// Arrays from and for other libraries (NumPy, PyTorch, JAX, CuPy, ...) through DLPack, without a
// copy. Not part of reel.hpp. The structs have the layouts of <dlpack/dlpack.h>, which is not
// needed; the functions take its DLManagedTensor and DLManagedTensorVersioned too.
#pragma once  // defined in lib/tensor
#include <cstdint>
#include <type_traits>

#include <reel/share.hpp>

namespace reel {
namespace dlpack {
/// DLDeviceType: those that reel knows.
enum DeviceType : std::int32_t { device_cpu = 1, device_cuda = 2, device_cuda_host = 3 };
/// DLDevice.
struct Device {
  std::int32_t device_type, device_id;
};
/// DLDataTypeCode.
enum TypeCode : std::uint8_t {
  code_int = 0,
  code_uint = 1,
  code_float = 2,
  code_bfloat = 4,
  code_complex = 5,
  code_bool = 6
};
/// DLDataType: the kind of number, and its bits.
struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
/// An array. The first element is `byte_offset` bytes after `data`; strides are in elements, and
/// null for row-major.
struct Array {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
/// DLManagedTensor, of DLPack below 1.0: a Python capsule of the name "dltensor".
struct ManagedTensor {
  Array dl_tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);
};
/// DLPackVersion.
struct Version {
  std::uint32_t major, minor;
};
/// Bits of ManagedTensorVersioned::flags.
inline constexpr std::uint64_t read_only = 1;
/// Another bit of ManagedTensorVersioned::flags.
inline constexpr std::uint64_t is_copied = 2;
/// DLManagedTensorVersioned, of DLPack 1: a Python capsule of the name "dltensor_versioned".
struct ManagedTensorVersioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned* self);
  std::uint64_t flags;
  Array dl_tensor;
};
}  // namespace dlpack

/// Options of from_dlpack() and to_dlpack().
struct DlpackOptions {
  Copy copy = Copy::if_needed;
};

namespace detail {
REEL_API Tensor import_dlpack(dlpack::ManagedTensor* array, DlpackOptions options, Caller caller);
REEL_API Tensor import_dlpack(dlpack::ManagedTensorVersioned* array, DlpackOptions options,
                              Caller caller);
REEL_API void export_dlpack(const Tensor& x, dlpack::ManagedTensor*& to, DlpackOptions options,
                            Caller caller);
REEL_API void export_dlpack(const Tensor& x, dlpack::ManagedTensorVersioned*& to,
                            DlpackOptions options, Caller caller);
template <class M>
concept Versioned = requires(M m) {
  m.version.major;
};
/// Our struct with the layout of M.
template <class M>
using ManagedLike =
    std::conditional_t<Versioned<M>, dlpack::ManagedTensorVersioned, dlpack::ManagedTensor>;
/// Ours, or that of <dlpack/dlpack.h>.
template <class M>
concept Managed = requires(M m) {
  m.dl_tensor.byte_offset;
  m.manager_ctx;
  m.deleter(&m);
}
&&sizeof(M) == sizeof(ManagedLike<M>);
}  // namespace detail

/// A tensor over the memory of `array`, or a copy (see below). Takes `array` over: its deleter is
/// called once, when the last tensor over the memory is gone, or at once after a copy. If this
/// throws, the array is still the caller's, and its deleter was not called.
///
/// Nobody may write to memory that a tensor uses. Elements are copied if the array is empty, not
/// aligned to its elements, or of bools with other bytes than 0 and 1, and where new tensors are
/// made on another device (DeviceScope).
///
/// Reads bool, uint8, int8 to int64, float16, bfloat16, float32 and float64 with one lane, in the
/// host's memory, with any strides, of DLPack 0 and 1. Throws DTypeError, DeviceError or ShapeError
/// for others.
template <detail::Managed M>
Tensor from_dlpack(M* array, DlpackOptions options = {}, Caller caller = Caller::here()) {
  return detail::import_dlpack(reinterpret_cast<detail::ManagedLike<M>*>(array), options, caller);
}

/// x as an array of DLPack. Whoever takes it calls its deleter once; until then it keeps x's
/// memory.
///
///     auto* array = to_dlpack(tensor({1.0, 2.0}));
///     array->dl_tensor.shape[0]                      // 2
///     from_dlpack(array)                             // [1., 2.]
///
/// The array shares x's memory and says that it must not be written (dlpack::read_only). It is a
/// copy, and says so (dlpack::is_copied), if x is on another device or if a stride is negative or
/// 0. A DLManagedTensor cannot forbid writing: `to_dlpack<dlpack::ManagedTensor>(x)` is a copy,
/// unless Copy::never asks to share. Then the reader must not write.
template <detail::Managed M = dlpack::ManagedTensorVersioned>
M* to_dlpack(const Tensor& x, DlpackOptions options = {}, Caller caller = Caller::here()) {
  detail::ManagedLike<M>* array = nullptr;
  detail::export_dlpack(x, array, options, caller);
  return reinterpret_cast<M*>(array);
}
}  // namespace reel
