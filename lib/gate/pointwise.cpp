// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/pointwise.hpp"

#include <algorithm>
#include <utility>

#include "lib/flow/context.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
namespace {
constexpr int max_inputs = 3;

/// The output's axes as the inputs see them; neighbouring axes that all can walk as one are merged.
struct BroadcastLoop {
  int rank = 0;
  std::int64_t lengths[Shape::max_rank] = {};
  std::int64_t steps[Shape::max_rank][max_inputs] = {};  // bytes
};

void add_axis(BroadcastLoop& walk, int inputs, std::int64_t length, const std::int64_t* steps) {
  if (length == 1) return;
  if (walk.rank > 0) {
    bool merges = true;
    for (int i = 0; i < inputs; ++i) merges &= walk.steps[walk.rank - 1][i] == steps[i] * length;
    if (merges) {
      walk.lengths[walk.rank - 1] *= length;
      for (int i = 0; i < inputs; ++i) walk.steps[walk.rank - 1][i] = steps[i];
      return;
    }
  }
  walk.lengths[walk.rank] = length;
  for (int i = 0; i < inputs; ++i) walk.steps[walk.rank][i] = steps[i];
  ++walk.rank;
}

BroadcastLoop plan(const Shape& shape, const Body* const* inputs, int count) {
  BroadcastLoop walk;
  const int rank = static_cast<int>(shape.rank());
  for (int axis = 0; axis < rank; ++axis) {
    std::int64_t steps[max_inputs] = {};
    for (int i = 0; i < count; ++i) {
      const int own = axis - rank + inputs[i]->rank();
      if (own >= 0 && inputs[i]->shape.data()[own] != 1)
        steps[i] = inputs[i]->strides[own] * size_of(inputs[i]->dtype);
    }
    add_axis(walk, count, shape.data()[axis], steps);
  }
  return walk;
}

/// Where a pass of an op stands: at a row of the output.
struct Offsets {
  const void* at[max_inputs] = {};
  std::int64_t position[Shape::max_rank] = {};

  void step(const BroadcastLoop& walk, int count) {
    for (int axis = walk.rank - 2; axis >= 0; --axis) {
      const bool carries = ++position[axis] == walk.lengths[axis];
      move(walk, count, axis, carries ? 1 - walk.lengths[axis] : 1);
      if (!carries) break;
      position[axis] = 0;
    }
  }
  void skip(const BroadcastLoop& walk, int count, std::int64_t rows) {
    for (int axis = walk.rank - 2; axis >= 0; rows /= walk.lengths[axis--]) {
      position[axis] = rows % walk.lengths[axis];
      move(walk, count, axis, position[axis]);
    }
  }

 private:
  void move(const BroadcastLoop& walk, int count, int axis, std::int64_t steps) {
    for (int i = 0; i < count; ++i)
      at[i] = static_cast<const std::byte*>(at[i]) + steps * walk.steps[axis][i];
  }
};

void walk_tiles(const Tiles& tiles, Tile tile, const BroadcastLoop& walk, const Body* const* inputs,
                int count, Body& output) {
  const int inner = walk.rank - 1;
  const std::int64_t n = walk.rank ? walk.lengths[inner] : 1;
  const std::int64_t step = n * size_of(output.dtype);
  unsigned scalars = 0;
  int sizes[max_inputs];
  Offsets start;
  for (int i = 0; i < count; ++i) {
    start.at[i] = inputs[i]->data;
    sizes[i] = size_of(inputs[i]->dtype);
    if (!walk.rank || walk.steps[inner][i] == 0) scalars |= 1u << i;
  }
  parallel_passes(output.elements, n, [&](std::int64_t first, std::int64_t end) {
    Offsets place = start;
    if (first) place.skip(walk, count, first);
    std::byte* to = output.data + first * step;
    for (std::int64_t left = end - first; left > 0; --left, to += step) {
      if (n < least_shared_pass)
        tile(n, place.at, scalars, to);
      else
        share_pass(tiles, tile, n, place.at, sizes, count, scalars, to, size_of(output.dtype));
      place.step(walk, count);
    }
  });
}

/// What leaves the caches anyway is stored past them.
constexpr std::int64_t streamed_bytes = 16 << 20;

/// A pass over fewer elements costs more than to copy them in order.
constexpr std::int64_t short_row = 64;

}  // namespace

bool walks_neighbours(const Body& input, const Shape& shape) {
  // The last axis of the output longer than 1 must be walked in steps of one element or none.
  if (input.contiguous) return true;
  const int rank = static_cast<int>(shape.rank());
  for (int axis = rank - 1; axis >= 0; --axis) {
    const int own = axis - rank + input.rank();
    if (shape.data()[axis] == 1) continue;
    if (own < 0 || input.shape.data()[own] == 1 || input.strides[own] == 0) return true;
    return input.strides[own] == 1 && shape.data()[axis] >= short_row;
  }
  return true;
}

namespace {
void copy_in_order(const Body& from, Body& to) {
  const Body* input = &from;
  Body* output = &to;
  const DTypeOptions options{to.dtype};
  cast_op.cpu({&input, &output, &options, 1, 1});
}
}  // namespace

void share_pass(const Tiles& tiles, Tile tile, std::int64_t n, const void* const* inputs,
                const int* sizes, int count, unsigned how, void* output, int size) {
  const std::int64_t block = tiles.slow ? 1 << 14 : 1 << 16;
  if (n < 4 * block) return tile(n, inputs, how, output);
  bool streams = n * size >= streamed_bytes && !(how & pass_adds);
  for (int k = 0; k < count; ++k) streams &= inputs[k] != output;
  if (streams) how |= pass_streams;
  kernels::parallel_ranges(n, block, [&](std::int64_t first, std::int64_t end) {
    const void* from[4];
    for (int k = 0; k < count; ++k) {
      const bool walks = inputs[k] && !(how >> k & 1);
      from[k] = walks ? static_cast<const std::byte*>(inputs[k]) + first * sizes[k] : inputs[k];
    }
    tile(end - first, from, how, static_cast<std::byte*>(output) + first * size);
  });
}

Tensor contiguous_copy(const Body& body) {
  Body* made = allocate_on(Context::here(), device_of(body), body.dtype, body.shape, body.elements);
  if (!made) fail<MemoryError>({}, "copy", "result", "memory", "none from the system");
  Tensor result = Access::adopt(made);
  if (on_cpu(body)) [[likely]] {
    copy_in_order(body, *made);
  } else {
    const Body* input = &body;
    const DTypeOptions options{body.dtype};
    run_on_device(cast_op, options, {&input, &made, &options, 1, 1}, {});
  }
  return result;
}

namespace {
/// A crossing pass, shared among threads by rows where it is large.
void share_transposed(TransposedPass pass, const TransposedPair& whole) {
  constexpr std::int64_t shared = 1 << 18, block = 1 << 16, least_rows = 32;
  const std::int64_t elements = whole.rows * whole.columns;
  if (elements < shared) return pass(whole);
  const std::int64_t parts = std::clamp(whole.rows / least_rows, std::int64_t{1}, elements / block);
  kernels::parallel_for(parts, [&](std::int64_t i) {
    const std::int64_t first = whole.rows * i / parts, end = whole.rows * (i + 1) / parts;
    TransposedPair part = whole;
    part.rows = end - first;
    part.transposed = static_cast<const float*>(whole.transposed) + first;
    part.in_rows = static_cast<const float*>(whole.in_rows) + first * whole.columns;
    part.output = static_cast<float*>(whole.output) + first * whole.columns;
    pass(part);
  });
}
}  // namespace

void run_transposed(const Tiles& tiles, Tile tile, const Body& transposed, const Body& in_order,
                    bool transposed_first, Body& output) {
  constexpr std::int64_t least = 16;  // elements of a vector, at most
  const std::int64_t* const lengths = output.shape.data();
  if (tiles.transposed && output.dtype == DType::float32 && output.rank() == 2 &&
      transposed.strides[0] == 1 && lengths[0] >= least && lengths[1] >= least)
    return share_transposed(tiles.transposed,
                            {lengths[0], lengths[1], transposed.data, transposed.strides[1],
                             in_order.data, transposed_first, output.data});
  copy_in_order(transposed, output);  // nobody has the output yet: it stands for the input
  const void* inputs[] = {output.data, in_order.data};
  if (!transposed_first) std::swap(inputs[0], inputs[1]);
  run_pass(tiles, tile, output.elements, inputs, 2, output.dtype, 0, output.data, output.dtype);
}

namespace {
/// Whether a pass sees x as the output: one element for each, in the same order, or one for all.
bool is_flat(const Body& x, const Body& output) {
  return x.elements == 1 || (x.contiguous && x.shape == output.shape);
}

/// One pass over all elements.
void run_flat(const Tiles& tiles, Tile tile, const Body* const* inputs, int count,
              const Body& output) {
  const void* from[max_inputs];
  int sizes[max_inputs];
  unsigned scalars = 0;
  for (int i = 0; i < count; ++i) {
    from[i] = inputs[i]->data;
    sizes[i] = size_of(inputs[i]->dtype);
    if (inputs[i]->elements == 1) scalars |= 1u << i;
  }
  if (output.elements < least_shared_pass) return tile(output.elements, from, scalars, output.data);
  share_pass(tiles, tile, output.elements, from, sizes, count, scalars, output.data,
             size_of(output.dtype));
}
}  // namespace

KernelResult run_tiles(const Op& op, const KernelCall& call) {
  Body& output = call.output();
  if (output.elements == 0) return {};
  const Tile tile = op.tiles->value[static_cast<int>(tile_dtype(op, call.inputs))];
  const Body* inputs[max_inputs] = {};
  SmallVector<Tensor, max_inputs> copies;
  bool in_place = false, flat = true;
  for (int i = 0; i < call.input_count; ++i) {
    inputs[i] = call.inputs[i];
    if (is_flat(*inputs[i], output)) continue;
    if (walks_neighbours(*inputs[i], output.shape)) {
      flat = false;
      continue;
    }
    if (!in_place && inputs[i]->dtype == output.dtype && inputs[i]->shape == output.shape) {
      copy_in_order(*inputs[i], output);  // nobody has the output yet: it is the input, in order
      inputs[i] = &output;
      in_place = true;
      continue;
    }
    copies.push_back(contiguous_copy(*inputs[i]));
    inputs[i] = Access::body(copies[copies.size() - 1]);
    flat &= is_flat(*inputs[i], output);
  }
  if (flat)
    run_flat(*op.tiles, tile, inputs, call.input_count, output);
  else
    walk_tiles(*op.tiles, tile, plan(output.shape, inputs, call.input_count), inputs,
               call.input_count, output);
  return {};
}
}  // namespace reel
