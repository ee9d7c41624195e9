// SPDX-License-Identifier: BSD-3-Clause
// Concat and slices: copies parts of tensors to their places, or adds them there.
#include "lib/table/options/join.hpp"

#include "cuda/pack.hpp"
#include "cuda/places.hpp"
#include "lib/table/options/axis.hpp"

namespace reel::gpu {
namespace {
/// A strided copy.
struct Part {
  Places<2> places;  // from, to
  std::int64_t n;    // units
  const std::byte* from;
  std::byte* to;
};
/// Parts with one size of units. Kernel arguments have at most 4096 bytes.
struct Parts {
  static constexpr int most = 12;
  Part of[most];
  int count = 0;
};

/// Whether the part consists of aligned units of `elements` adjacent elements.
bool in_units(const Part& part, int elements, int bytes) {
  const Places<2>& places = part.places;
  const int last = places.rank - 1;
  const auto address =
      reinterpret_cast<std::uintptr_t>(part.from) | reinterpret_cast<std::uintptr_t>(part.to);
  bool fits = last >= 0 && places.length[last] % elements == 0 &&
              address % static_cast<unsigned>(bytes) == 0;
  for (int k = 0; k < 2; ++k) {
    fits = fits && places.step[k][last] == 1;
    for (int i = 0; i < last; ++i) fits = fits && places.step[k][i] % elements == 0;
  }
  return fits;
}
void make_units(Part& part, int elements) {
  Places<2>& places = part.places;
  const int last = places.rank - 1;
  part.n /= elements;
  places.length[last] /= elements;
  for (int i = 0; i < last; ++i)
    for (int k = 0; k < 2; ++k) places.step[k][i] /= elements;
}

/// Blocks with the same blockIdx.y copy one part.
template <class Unit>
__global__ void copy_parts(const Parts parts) {
  const Part& part = parts.of[blockIdx.y];
  const auto* const from = reinterpret_cast<const Unit*>(part.from);
  auto* const to = reinterpret_cast<Unit*>(part.to);
  for (std::int64_t i = first_index(); i < part.n; i += grid_step()) {
    std::int64_t at[2];
    part.places.find(i, at);
    to[at[1]] = from[at[0]];
  }
}
/// Copies all parts in one launch, in units of up to 16 bytes.
void copy_all(const Queue& queue, Parts& parts, int size) {
  if (parts.count == 0) return;
  int bytes = 16;
  const auto all_fit = [&] {
    for (int i = 0; i < parts.count; ++i)
      if (!in_units(parts.of[i], bytes / size, bytes)) return false;
    return true;
  };
  while (bytes > size && !all_fit()) bytes /= 2;
  std::int64_t most = 0;
  for (int i = 0; i < parts.count; ++i) {
    if (bytes > size) make_units(parts.of[i], bytes / size);
    most = std::max(most, parts.of[i].n);
  }
  const std::int64_t threads = std::min<std::int64_t>(256, (most + 31) / 32 * 32);
  const dim3 grid(
      static_cast<unsigned>(std::min((most + threads - 1) / threads, queue.most_blocks())),
      static_cast<unsigned>(parts.count));
  const auto run = [&]<class Unit>(Type<Unit>) {
    queue.launch(copy_parts<Unit>, grid, dim3(static_cast<unsigned>(threads)), 0, parts);
  };
  if (bytes == 16)
    run(Type<uint4>());
  else
    with_unit(bytes, run);
}

/// A part with this shape and the strides of its source and its destination.
Part part_of(const Shape& shape, std::int64_t elements, const Strides& from_steps,
             const Strides& to_steps, const std::byte* from, std::byte* to) {
  Body bodies[2] = {};
  for (Body& body : bodies) body.shape = shape;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    bodies[0].strides[axis] = from_steps[axis];
    bodies[1].strides[axis] = to_steps[axis];
  }
  return {places_of<2>(shape, {&bodies[0], &bodies[1]}), elements, from, to};
}

KernelResult concat(const Call& call) {
  Body& output = call.output();
  const std::int64_t axis = call.option<AxisOptions>().axis;
  const int size = size_of(output.dtype);
  std::byte* to = output.data;
  Parts parts;
  for (int i = 0; i < call.input_count; ++i) {
    const Body& part = call.input(i);
    if (part.elements == 0) continue;
    if (parts.count == Parts::most) {
      copy_all(call.queue, parts, size);
      parts.count = 0;
    }
    parts.of[parts.count++] =
        part_of(part.shape, part.elements, part.strides, output.strides, part.data, to);
    to += part.shape.data()[axis] * output.strides[axis] * size;
  }
  copy_all(call.queue, parts, size);
  return {};
}

template <class T>
__global__ void add_part(const Part part, bool truth) {
  const auto* const from = reinterpret_cast<const T*>(part.from);
  auto* const to = reinterpret_cast<T*>(part.to);
  for (std::int64_t i = first_index(); i < part.n; i += grid_step()) {
    std::int64_t at[2];
    part.places.find(i, at);
    to[at[1]] = plus(to[at[1]], from[at[0]], truth);
  }
}
/// Writes a part, in the shape of the slice, to its place in the output, or adds it there.
void put(const Queue& queue, const Body& part, const Strides& strides, const SliceOptions& slice,
         Body& output, bool adds) {
  if (part.elements == 0) return;
  Strides steps = {};
  std::int64_t start = 0;
  for (int axis = 0; axis < output.rank(); ++axis) {
    start += slice.starts.data()[axis] * output.strides[axis];
    steps[axis] = slice.steps.data()[axis] * output.strides[axis];
  }
  const int size = size_of(output.dtype);
  Parts parts;
  parts.count = 1;
  parts.of[0] =
      part_of(slice.lengths, part.elements, strides, steps, part.data, output.data + start * size);
  if (!adds) return copy_all(queue, parts, size);
  with_type(output.dtype, [&]<class T>(Type<T>) {
    queue.launch_for(part.elements, add_part<T>, parts.of[0], output.dtype == DType::boolean);
  });
}
/// Puts the part. The rest of the output becomes 0, unless the call adds to the output.
KernelResult unslice(const Call& call) {
  Body& output = call.output();
  const Body& part = call.input(0);
  const bool adds = call.accumulate & 1;
  if (!adds && part.elements < output.elements)
    call.queue.check(cudaMemsetAsync(output.data, 0, static_cast<std::size_t>(output.bytes()),
                                     call.queue.stream));
  put(call.queue, part, part.strides, call.option<UnsliceOptions>().slice, output, adds);
  return {};
}
KernelResult assign_slice(const Call& call) {
  const Body &before = call.input(0), &part = call.input(1);
  Body& output = call.output();
  if (output.data != before.data && output.elements > 0)
    call.queue.check(cudaMemcpyAsync(output.data, before.data,
                                     static_cast<std::size_t>(output.bytes()),
                                     cudaMemcpyDeviceToDevice, call.queue.stream));
  if (part.elements == 0) return {};
  const auto& place = call.option<PlaceOptions>();
  Strides steps = {};
  for (int axis = 0; axis < part.rank(); ++axis) steps[axis] = place.steps.data()[axis];
  const int size = size_of(output.dtype);
  Parts parts;
  parts.count = 1;
  parts.of[0] = part_of(place.lengths, part.elements, part.strides, steps, part.data,
                        output.data + place.start * size);
  copy_all(call.queue, parts, size);
  return {};
}
}  // namespace

extern const NamedKernel join_kernels[] = {
    {"concat", concat}, {"unslice", unslice}, {"assign_slice", assign_slice}, {nullptr, nullptr}};
}  // namespace reel::gpu
