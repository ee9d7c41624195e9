// SPDX-License-Identifier: BSD-3-Clause
// Passes of pointwise ops over all elements, divided into blocks and shared among threads.
#include <algorithm>
#include <utility>

#include "lib/body/dtypes.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/pool/pool.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
namespace {
constexpr int max_inputs = 3;

/// The axes of the output with the steps of the inputs. Adjacent axes are merged if one step works
/// for all operands.
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

/// The offsets of the current row in a pass.
struct Offsets {
  const void* at[max_inputs] = {};
  std::int64_t position[Shape::max_rank] = {};

  /// Moves on by one row, or by more, but not beyond the end of the axis before the last.
  void step(const BroadcastLoop& walk, int count, std::int64_t rows = 1) {
    for (int axis = walk.rank - 2; axis >= 0; --axis, rows = 1) {
      position[axis] += rows;
      const bool carries = position[axis] == walk.lengths[axis];
      move(walk, count, axis, carries ? rows - walk.lengths[axis] : rows);
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

/// Calls f(first, end) for passes of n elements each. A large pass is shared among threads by
/// itself.
template <class F>
void parallel_passes(std::int64_t elements, std::int64_t n, const F& f) {
  constexpr std::int64_t shared = 1 << 18, block = 1 << 16;
  if (elements < shared || n >= shared) return f(std::int64_t{0}, elements / n);
  kernels::parallel_rows(elements / n, n, block, f);
}

/// Several rows of at most `short_row` elements are computed at once, as one row. An operand whose
/// rows do not follow one another is first copied. If each pass needs a copy of its own, only rows
/// of at most `shorter_row` elements are worth it.
constexpr std::int64_t short_row = 64, shorter_row = 16, least_rows = 4, elements_at_once = 1024;
/// The copy of some rows of an operand.
struct Copied {
  alignas(64) std::byte memory[elements_at_once * sizeof(std::int64_t)];
  const void* from = nullptr;
  std::int64_t rows = 0;
};

/// The elements of several rows of an operand, row after row.
template <class Unit>
void copy_rows(const void* from, std::int64_t row_step, std::int64_t step, std::int64_t rows,
               std::int64_t n, void* to) {
  Unit* out = static_cast<Unit*>(to);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < n; ++i)
      *out++ = *reinterpret_cast<const Unit*>(static_cast<const std::byte*>(from) + row * row_step +
                                              i * step);
}

/// How a pass computes several short rows at once, if this pays.
class ShortRows {
 public:
  ShortRows(const BroadcastLoop& walk, const Body* const* inputs, int count)
      : walk_(walk), count_(count) {
    if (walk.rank < 2) return;
    const std::int64_t* const near = walk.steps[walk.rank - 2];
    const std::int64_t* const inner = walk.steps[walk.rank - 1];
    std::int64_t most = short_row;
    for (int i = 0; i < count; ++i) {
      sizes_[i] = size_of(inputs[i]->dtype);
      if (!near[i] && !inner[i]) scalars_ |= 1u << i;
      copied_[i] = near[i] != inner[i] * length();
      if (copied_[i] && near[i]) most = shorter_row;
    }
    pay_ = length() <= most && walk.lengths[walk.rank - 2] >= least_rows;
  }
  bool pay() const { return pay_; }
  unsigned scalars() const { return scalars_; }

  /// The number of rows from this place on, at most `left`, that one pass can compute.
  std::int64_t count_from(const Offsets& place, std::int64_t left) const {
    const int near = walk_.rank - 2;
    return std::min(
        {elements_at_once / length(), walk_.lengths[near] - place.position[near], left});
  }
  /// Stores the addresses of the operands of so many rows.
  void read(const Offsets& place, std::int64_t rows, Copied* copies, const void** from) const {
    for (int i = 0; i < count_; ++i) {
      from[i] = place.at[i];
      if (!copied_[i]) continue;
      const std::int64_t near = walk_.steps[walk_.rank - 2][i];
      Copied& copy = copies[i];
      from[i] = copy.memory;
      if (near == 0 && copy.from == place.at[i] && copy.rows >= rows) continue;
      copy.from = place.at[i];
      copy.rows = rows;
      with_unit(sizes_[i], [&]<class Unit>(Type<Unit>) {
        copy_rows<Unit>(place.at[i], near, walk_.steps[walk_.rank - 1][i], rows, length(),
                        copy.memory);
      });
    }
  }

 private:
  std::int64_t length() const { return walk_.lengths[walk_.rank - 1]; }
  const BroadcastLoop& walk_;
  const int count_;
  int sizes_[max_inputs] = {};
  bool copied_[max_inputs] = {}, pay_ = false;
  unsigned scalars_ = 0;
};

void walk_passes(const Pass& pass, const BroadcastLoop& walk, const Body* const* inputs, int count,
                 Body& output) {
  const int inner = walk.rank - 1;
  const std::int64_t n = walk.rank ? walk.lengths[inner] : 1;
  const std::int64_t step = n * size_of(output.dtype);
  unsigned how = pass.how;
  int sizes[max_inputs];
  Offsets start;
  for (int i = 0; i < count; ++i) {
    start.at[i] = inputs[i]->data;
    sizes[i] = size_of(inputs[i]->dtype);
    if (!walk.rank || walk.steps[inner][i] == 0) how |= 1u << i;
  }
  const ShortRows several(walk, inputs, count);
  parallel_passes(output.elements, n, [&](std::int64_t first, std::int64_t end) {
    Offsets place = start;
    if (first) place.skip(walk, count, first);
    std::byte* to = output.data + first * step;
    if (several.pay()) {
      Copied copies[max_inputs];
      for (std::int64_t left = end - first, rows; left > 0; left -= rows, to += rows * step) {
        rows = several.count_from(place, left);
        const void* from[max_inputs];
        several.read(place, rows, copies, from);
        pass.function(rows * n, from, several.scalars() | pass.how, to);
        place.step(walk, count, rows);
      }
      return;
    }
    for (std::int64_t left = end - first; left > 0; --left, to += step) {
      if (n < least_shared_pass)
        pass.function(n, place.at, how, to);
      else
        CpuBackend::the().share_pass(*pass.passes, pass.function, n, place.at, sizes, count, how,
                                     to, size_of(output.dtype));
      place.step(walk, count);
    }
  });
}

/// Results of this size would leave the caches anyway, so they are stored past the caches.
constexpr std::int64_t streamed_bytes = 16 << 20;

void copy_in_order(const Body& from, Body& to) {
  const Body* input = &from;
  Body* output = &to;
  const DTypeOptions options{to.dtype};
  core_ops.cast.on_cpu().of(Part::value)({&input, &output, &options, 1, 1});
}
}  // namespace

void CpuBackend::share_pass(const Passes& passes, PassFunction function, std::int64_t n,
                            const void* const* inputs, const int* sizes, int count, unsigned how,
                            void* output, int size) {
  const std::int64_t block = passes.slow ? 1 << 14 : 1 << 16;
  if (n < 4 * block) return function(n, inputs, how, output);
  bool streams = n * size >= streamed_bytes && !(how & pass_adds);
  for (int k = 0; k < count; ++k) streams &= inputs[k] != output;
  if (streams) how |= pass_streams;
  kernels::parallel_ranges(n, block, [&](std::int64_t first, std::int64_t end) {
    const void* from[4];
    for (int k = 0; k < count; ++k) {
      const bool walks = inputs[k] && !(how >> k & 1);
      from[k] = walks ? static_cast<const std::byte*>(inputs[k]) + first * sizes[k] : inputs[k];
    }
    function(end - first, from, how, static_cast<std::byte*>(output) + first * size);
  });
}

void CpuBackend::run_rows(const Pass& pass, const Body& x, const Body& row, Body& output) {
  const std::int64_t n = row.elements, rows = x.elements / n;
  const void* repeated = row.data;
  std::int64_t at_once = 1;
  Copied copy;
  if (n <= short_row && rows >= least_rows) {
    at_once = std::min(rows, elements_at_once / n);
    repeated = copy.memory;
    with_unit(size_of(row.dtype), [&]<class Unit>(Type<Unit>) {
      copy_rows<Unit>(row.data, 0, sizeof(Unit), at_once, n, copy.memory);
    });
  }
  const std::int64_t from_step = n * size_of(x.dtype), to_step = n * size_of(output.dtype);
  parallel_passes(x.elements, n, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; i += at_once) {
      const void* inputs[] = {x.data + i * from_step, repeated};
      run_pass(pass, std::min(at_once, end - i) * n, inputs, 2, x.dtype, 0,
               output.data + i * to_step, output.dtype);
    }
  });
}

namespace {
/// A pass over a matrix and a transposed one. If it is large, threads share its rows.
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

void CpuBackend::run_transposed(const Pass& pass, const Body& transposed, const Body& in_order,
                                bool transposed_first, Body& output) {
  constexpr std::int64_t least = 16;  // the most elements of a vector
  const std::int64_t* const lengths = output.shape.data();
  if (pass.passes->transposed && output.dtype == DType::float32 && output.rank() == 2 &&
      transposed.strides[0] == 1 && lengths[0] >= least && lengths[1] >= least)
    return share_transposed(pass.passes->transposed,
                            {lengths[0], lengths[1], transposed.data, transposed.strides[1],
                             in_order.data, transposed_first, output.data});
  // the output is unused so far, so it holds a copy of the input
  copy_in_order(transposed, output);
  const void* inputs[] = {output.data, in_order.data};
  if (!transposed_first) std::swap(inputs[0], inputs[1]);
  run_pass(pass, output.elements, inputs, 2, output.dtype, 0, output.data, output.dtype);
}

namespace {
/// Whether x has one element for each element of the output, in the same order, or a single
/// element.
bool is_flat(const Body& x, const Body& output) {
  return x.elements == 1 || (x.contiguous && x.shape == output.shape);
}

/// One pass over all elements.
void run_flat(const Pass& pass, const Body* const* inputs, int count, const Body& output) {
  const void* from[max_inputs];
  int sizes[max_inputs];
  unsigned how = pass.how;
  for (int i = 0; i < count; ++i) {
    from[i] = inputs[i]->data;
    sizes[i] = size_of(inputs[i]->dtype);
    if (inputs[i]->elements == 1) how |= 1u << i;
  }
  if (output.elements < least_shared_pass)
    return pass.function(output.elements, from, how, output.data);
  CpuBackend::the().share_pass(*pass.passes, pass.function, output.elements, from, sizes, count,
                               how, output.data, size_of(output.dtype));
}
}  // namespace

void CpuBackend::run_pointwise(const Op& op, const KernelCall& call) {
  Body& output = call.output();
  if (output.elements == 0) return;
  const DType dtype = call.input(op.promoted & 1 ? 0 : 1).dtype;
  const Pass pass = reel::pass_of(op, dtype);
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
      // the output is unused so far, so it holds a row-major copy of the input
      copy_in_order(*inputs[i], output);
      inputs[i] = &output;
      in_place = true;
      continue;
    }
    copies.push_back(contiguous_copy(*inputs[i]));
    inputs[i] = Access::body(copies[copies.size() - 1]);
    flat &= is_flat(*inputs[i], output);
  }
  if (flat)
    run_flat(pass, inputs, call.input_count, output);
  else
    walk_passes(pass, plan(output.shape, inputs, call.input_count), inputs, call.input_count,
                output);
}

void CpuBackend::run_pointwise_gradient(const DeviceCall& call) {
  Body& output = call.kernel.output();
  const Pass pass = gradient_pass_of(call.op.on_cpu(), call.part == Part::gradient_1, output.dtype);
  const void* from[4] = {};
  unsigned how = call.kernel.accumulate & 1 ? pass_adds : 0;
  for (int i = 0; i < call.kernel.input_count; ++i) {
    const Body* const input = call.kernel.inputs[i];
    if (!input) continue;
    from[i] = input->data;
    if (!input->contiguous || input->elements != output.elements) how |= 1u << i;
  }
  run_pass(pass, output.elements, from, 4, output.dtype, how, output.data, output.dtype);
}
}  // namespace reel
