// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/options/join.hpp"
#include "lib/cpu/bytes.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/walk.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/axis.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
KernelResult concat(const KernelCall& call) {
  Body& output = call.output();
  const std::int64_t axis = call.option<AxisOptions>().axis;
  const int size = size_of(output.dtype);
  std::byte* to = output.data;
  for (int i = 0; i < call.input_count; ++i) {
    const Body& part = call.input(i);
    if (part.elements == 0) continue;
    copy_elements(walk_over(part.shape, part.strides, output.strides), part.elements, part.data, to,
                  size);
    to += part.shape.data()[axis] * output.strides[axis] * size;
  }
  return {};
}

template <class T>
void add_elements(const CopyLoop& walk, const T* from, T* to, bool truth) {
  const int last = walk.rank - 1;
  const std::int64_t n = walk.lengths[last], from_step = walk.from[last], to_step = walk.to[last];
  for_each_row(walk, 1, [=](std::int64_t source, std::int64_t target) {
    const T* const x = from + source;
    T* const y = to + target;
    if (from_step == 1 && to_step == 1) {
      REEL_INDEPENDENT
      for (std::int64_t i = 0; i < n; ++i) y[i] = plus(y[i], x[i], truth);
    } else {
      REEL_INDEPENDENT
      for (std::int64_t i = 0; i < n; ++i)
        y[i * to_step] = plus(y[i * to_step], x[i * from_step], truth);
    }
  });
}

/// Copies a part with the lengths of the slice to its place in the output, or adds it there.
void put(const std::byte* part, std::int64_t elements, const Strides& strides,
         const SliceOptions& slice, Body& output, bool adds) {
  Strides steps;
  std::int64_t start = 0;
  for (int axis = 0; axis < output.rank(); ++axis) {
    start += slice.starts.data()[axis] * output.strides[axis];
    steps[axis] = slice.steps.data()[axis] * output.strides[axis];
  }
  const CopyLoop walk = walk_over(slice.lengths, strides, steps);
  const int size = size_of(output.dtype);
  if (!adds) return copy_elements(walk, elements, part, output.data + start * size, size);
  with_type(output.dtype, [&]<class T>(Type<T>) {
    T* const to = output.as<T>() + start;
    for_parts(walk, elements, [&](const CopyLoop& some, std::int64_t source, std::int64_t target) {
      add_elements(some, reinterpret_cast<const T*>(part) + source, to + target,
                   output.dtype == DType::boolean);
    });
  });
}
/// Puts the part. If the output is not added to, it is cleared before.
KernelResult unslice(const KernelCall& call) {
  Body& output = call.output();
  const Body& part = call.input(0);
  const bool adds = call.accumulate & 1;
  if (!adds) clear_bytes(output.data, output.bytes());
  if (part.elements)
    put(part.data, part.elements, part.strides, call.option<UnsliceOptions>().slice, output, adds);
  return {};
}
KernelResult assign_slice(const KernelCall& call) {
  const Body& before = call.input(0);
  Body& output = call.output();
  if (output.data != before.data) copy_bytes(before.data, output.data, output.bytes());
  const Body& part = call.input(1);
  const auto& place = call.option<PlaceOptions>();
  Strides steps = {};
  for (int axis = 0; axis < part.rank(); ++axis) steps[axis] = place.steps.data()[axis];
  const int size = size_of(output.dtype);
  if (part.elements)
    copy_elements(walk_over(place.lengths, part.strides, steps), part.elements, part.data,
                  output.data + place.start * size, size);
  return {};
}
constexpr NamedKernel kernels[] = {
    {"concat", concat}, {"unslice", unslice}, {"assign_slice", assign_slice}, {nullptr, nullptr}};
constexpr NamedPasses passes[] = {{nullptr, nullptr}};
}  // namespace
extern const Family join_family = {kernels, passes};
}  // namespace reel::kernels::REEL_ISA
