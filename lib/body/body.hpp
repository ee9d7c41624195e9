// SPDX-License-Identifier: BSD-3-Clause
// The object that a Tensor points to. A single block of memory holds the header and the elements,
// if they are few.
#pragma once
#include <cstddef>
#include <cstdint>

#include <reel/device.hpp>
#include <reel/dtype.hpp>
#include <reel/references.hpp>
#include <reel/shape.hpp>

namespace reel {
/// Which record made a tensor; none where the reel is 0. See Note [Record ids] in record.hpp.
struct RecordId {
  std::uint64_t reel = 0;
  std::uint32_t record = 0;
  std::uint32_t output = 0;
};

inline constexpr std::uint32_t no_record = 0xffffffffu;

/// Steps between adjacent elements along each axis, in elements.
using Strides = std::int64_t[Shape::max_rank];

namespace detail {
struct Body {
  std::uint32_t references;  // first: Tensor counts it inline
  DType dtype;
  bool contiguous;  // elements lie in row-major order without gaps
  std::uint8_t device_kind;
  std::int8_t device_index;
  std::byte* data;  // the first element
  Body* owner;      // the body whose memory this one views; null if it has its own
  std::int64_t elements;
  RecordId id;
  Shape shape;
  Strides strides;
  std::uint16_t block_class;  // size class of this block, see storage.cpp
  std::uint16_t large_class;  // size class of a separate block of elements; 0 if there is none
  std::uint32_t leaf;         // probably its record as a leaf of some thread's tapes

  int rank() const { return static_cast<int>(shape.rank()); }
  Device device() const { return {static_cast<Device::Kind>(device_kind), device_index}; }
  std::int64_t bytes() const { return elements * size_of(dtype); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};
}  // namespace detail
using detail::Body;
static_assert(offsetof(Body, references) == 0);
/// The most kinds of devices of a process, by Device::Kind.
inline constexpr int device_kinds = 4;
/// The value of Body::large_class for elements in the memory of a device other than the CPU.
inline constexpr std::uint16_t device_class = 0xffff;
/// The value for elements in memory that the library did not allocate, and never writes.
inline constexpr std::uint16_t borrowed_class = 0xfffe;
inline constexpr std::size_t body_bytes = 192;  // elements of small tensors follow
static_assert(sizeof(Body) <= body_bytes);

inline std::uint32_t references(const Body& body) {
  return __atomic_load_n(&body.references, __ATOMIC_ACQUIRE);
}
inline void retain(Body* body) { detail::add_reference(body->references); }

/// Whether nothing else uses this body's elements, so that they may be overwritten.
inline bool unshared(const Body& body) {
  return references(body) == 1 && (!body.owner || (references(*body.owner) == 1 &&
                                                   body.owner->large_class != borrowed_class));
}

inline void set_row_major(Body& body) {
  std::int64_t step = 1;
  for (int i = body.rank() - 1; i >= 0; --i) {
    body.strides[i] = step;
    step *= body.shape.data()[i];
  }
}
inline bool is_row_major(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  for (int i = static_cast<int>(shape.rank()) - 1; i >= 0; --i) {
    const std::int64_t length = shape.data()[i];
    if (length == 0) return true;
    if (length != 1 && strides[i] != step) return false;
    step *= length;
  }
  return true;
}

/// The library's access to the private members of Tensor and Variable.
struct Access;
}  // namespace reel
