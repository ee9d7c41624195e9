// SPDX-License-Identifier: BSD-3-Clause
// A loop over the elements of two bodies with any strides.
#pragma once
#include <cstdint>

#include "lib/body/body.hpp"
#include "lib/pool/pool.hpp"

namespace reel::kernels::REEL_ISA {
/// Axes of length 1 are left out. Adjacent axes are merged if one step works for both bodies. At
/// least one axis remains. Steps are in elements.
struct CopyLoop {
  int rank = 0;
  std::int64_t lengths[Shape::max_rank];
  std::int64_t from[Shape::max_rank], to[Shape::max_rank];

  void add_axis(std::int64_t length, std::int64_t from_step, std::int64_t to_step) {
    if (length == 1) return;
    const int last = rank - 1;
    if (rank && from[last] == from_step * length && to[last] == to_step * length) {
      lengths[last] *= length;
      from[last] = from_step;
      to[last] = to_step;
      return;
    }
    lengths[rank] = length;
    from[rank] = from_step;
    to[rank++] = to_step;
  }
};

/// The loop over all of `shape`, with the strides of both bodies.
inline CopyLoop walk_over(const Shape& shape, const Strides& from, const Strides& to) {
  CopyLoop walk;
  for (int axis = 0; axis < static_cast<int>(shape.rank()); ++axis)
    walk.add_axis(shape.data()[axis], from[axis], to[axis]);
  if (walk.rank) return walk;
  walk.rank = 1;
  walk.lengths[0] = walk.from[0] = walk.to[0] = 1;
  return walk;
}

/// Calls row(from, to), offsets in elements, for each position of all axes but the last `inner`.
template <class Row>
void for_each_row(const CopyLoop& walk, int inner, const Row& row) {
  const int near = walk.rank - inner - 1;  // the axis of the inner loop
  if (near < 0) return row(std::int64_t{0}, std::int64_t{0});
  const std::int64_t near_length = walk.lengths[near];
  std::int64_t position[Shape::max_rank] = {};
  std::int64_t rounds = 1, from = 0, to = 0;
  for (int axis = 0; axis < near; ++axis) rounds *= walk.lengths[axis];
  for (; rounds > 0; --rounds) {
    for (std::int64_t i = 0; i < near_length; ++i)
      row(from + i * walk.from[near], to + i * walk.to[near]);
    for (int axis = near - 1; axis >= 0; --axis) {
      from += walk.from[axis];
      to += walk.to[axis];
      if (++position[axis] < walk.lengths[axis]) break;
      position[axis] = 0;
      from -= walk.from[axis] * walk.lengths[axis];
      to -= walk.to[axis] * walk.lengths[axis];
    }
  }
}

/// The axis along which a loop is cut into so many parts. Of the axes that are long enough, it is
/// the one with the largest strides in both memories, so that parts have whole rows. If
/// no axis is long enough, it is the longest one.
inline int axis_to_cut(const CopyLoop& walk, std::int64_t parts) {
  const auto distance = [&](int axis) -> std::int64_t {
    const std::int64_t from = walk.from[axis] < 0 ? -walk.from[axis] : walk.from[axis];
    const std::int64_t to = walk.to[axis] < 0 ? -walk.to[axis] : walk.to[axis];
    if (walk.lengths[axis] < parts) return 0;
    return from && from < to ? from : to;
  };
  int best = 0;
  for (int axis = 1; axis < walk.rank; ++axis) {
    const std::int64_t more = distance(axis) - distance(best);
    if (more > 0 || (more == 0 && walk.lengths[axis] > walk.lengths[best])) best = axis;
  }
  return best;
}

/// Calls f(part, from, to) for a loop over this number of elements: for the whole loop, or for
/// parts, which run on several threads. Offsets are in elements.
template <class F>
void for_parts(const CopyLoop& walk, std::int64_t elements, const F& f) {
  constexpr std::int64_t shared = 1 << 18, block = 1 << 16;
  if (elements < shared) return f(walk, std::int64_t{0}, std::int64_t{0});
  const std::int64_t parts = (elements + block - 1) / block;
  const int axis = axis_to_cut(walk, parts);
  const std::int64_t length = walk.lengths[axis];
  parallel_blocks(length, (length + parts - 1) / parts, 1,
                  [&](std::int64_t first, std::int64_t end) {
                    CopyLoop part = walk;
                    part.lengths[axis] = end - first;
                    f(part, first * walk.from[axis], first * walk.to[axis]);
                  });
}

/// Copies `elements` elements of `size` bytes each.
void copy_elements(const CopyLoop& walk, std::int64_t elements, const void* from, void* to,
                   int size);
}  // namespace reel::kernels::REEL_ISA
