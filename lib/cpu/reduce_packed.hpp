// SPDX-License-Identifier: BSD-3-Clause
// Reductions of tensors that are not in row-major order. A block of elements at a time is copied
// and folded, in the order of the whole tensor.
#pragma once
#include "lib/cpu/reduce_fold.hpp"

namespace reel::kernels::REEL_ISA {
/// The elements of a body in row-major order, which are copied block by block.
class Packed {
 public:
  [[gnu::noinline]] explicit Packed(const Body& x)
      : data_(x.data), size_(size_of(x.dtype)), all_(x.elements), most_(x.elements) {
    if (x.contiguous) return;
    Strides steps;
    std::int64_t step = 1;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      steps[axis] = step;
      step *= x.shape.data()[axis];
    }
    walk_ = walk_over(x.shape, x.strides, steps);
    // Where neighbours in memory are in several rows, a block has several rows.
    constexpr std::int64_t least_bytes = 4 << 20, most_bytes = 16 << 20;
    const int last = walk_.rank - 1;
    const std::int64_t rows = walk_.from[last] * walk_.from[last] > 1 ? 16 : 1;
    const std::int64_t bytes = rows == 1 ? 0 : walk_.lengths[last] * rows * size_;
    const std::int64_t block = bytes < least_bytes ? least_bytes : least(bytes, most_bytes);
    most_ = least(x.elements, block / size_);
  }
  /// The most elements of a block.
  std::int64_t most() const { return most_; }
  std::int64_t bytes() const { return most_ * size_; }
  void use(std::byte* memory) { memory_ = memory; }
  /// `rows` times `width` elements. The first one has this number, and rows are `step` apart.
  [[gnu::noinline]] const std::byte* take(std::int64_t first, std::int64_t rows, std::int64_t width,
                                          std::int64_t step) const {
    if (step == width) width *= rows, rows = 1;
    if (rows == 1 && width == all_) {
      copy_elements(walk_, all_, data_, memory_, size_);
      return memory_;
    }
    if (is_plane(first, rows, step)) {
      const std::byte* from = data_;
      for (int axis = 0; axis < walk_.rank; first %= walk_.to[axis++])
        from += first / walk_.to[axis] * walk_.from[axis] * size_;
      CopyLoop plane;
      plane.add_axis(rows, walk_.from[walk_.rank - 2], width);
      plane.add_axis(width, walk_.from[walk_.rank - 1], 1);
      copy_elements(plane, rows * width, from, memory_, size_);
      return memory_;
    }
    for (std::int64_t r = 0; r < rows; ++r)
      copy(0, first + r * step, width, data_, memory_ + r * width * size_);
    return memory_;
  }
  const std::byte* take(std::int64_t first, std::int64_t n) const { return take(first, 1, n, n); }

 private:
  /// Whether these rows are along one axis, and their elements along the last one.
  bool is_plane(std::int64_t first, std::int64_t rows, std::int64_t step) const {
    const int axis = walk_.rank - 2;
    return rows > 1 && axis >= 0 && walk_.to[axis] == step &&
           first / step % walk_.lengths[axis] + rows <= walk_.lengths[axis];
  }
  /// Copies elements of the axes from `axis` on. Whole rows of the next axis are copied at once.
  [[gnu::noinline]] void copy(int axis, std::int64_t first, std::int64_t n, const std::byte* from,
                              std::byte* to) const {
    const std::int64_t inner = walk_.to[axis];
    while (n > 0) {
      const std::int64_t row = first / inner, behind = first % inner;
      const std::byte* const source = from + row * walk_.from[axis] * size_;
      std::int64_t here = behind ? least(n, inner - behind) : n / inner * inner;
      if (behind || here == 0) {
        if (here == 0) here = n;
        copy(axis + 1, behind, here, source, to);
      } else {
        CopyLoop part;
        part.add_axis(here / inner, walk_.from[axis], inner);
        for (int i = axis + 1; i < walk_.rank; ++i)
          part.add_axis(walk_.lengths[i], walk_.from[i], walk_.to[i]);
        if (part.rank == 0) part = {1, {1}, {1}, {1}};
        copy_elements(part, here, source, to, size_);
      }
      first += here;
      n -= here;
      to += here * size_;
    }
  }

  const std::byte* data_;
  std::byte* memory_ = nullptr;
  int size_;
  std::int64_t all_, most_;
  CopyLoop walk_;
};

/// How [gone, inner] is cut into blocks: `width` columns, and rows that are a branch of the tree.
struct ColumnBlocks {
  std::int64_t width, rows;
  ColumnBlocks(std::int64_t most, std::int64_t gone, std::int64_t inner)
      : width(least(inner, most / least(gone, fold_rows))), rows(fold_rows) {
    while (rows < gone && 2 * rows * width <= most) rows *= 2;
  }
  /// The most results of blocks that wait for their partner.
  std::int64_t waiting(std::int64_t gone) const { return 2 + fold_depth(gone / rows * fold_rows); }
};
/// The memory for the results of blocks that wait.
inline std::int64_t packed_memory(const Fold& fold, const Packed& x, std::int64_t gone,
                                  std::int64_t inner) {
  if (inner == 1 || gone * inner <= x.most()) return 0;
  const ColumnBlocks blocks(x.most(), gone, inner);
  return blocks.waiting(gone) * blocks.width * fold.to_size;
}

/// Folds a row that is longer than a block, by halves as fold_row().
inline void fold_packed_row(const Fold& fold, const Packed& x, std::int64_t first, std::int64_t n,
                            std::byte* to) {
  if (n <= x.most()) return fold_long_row(fold, x.take(first, n), n, to);
  const std::int64_t half = (n / 2 + leaf - 1) / leaf * leaf;
  alignas(64) std::byte rest[sizeof(std::int64_t)];
  fold_packed_row(fold, x, first, half, to);
  fold_packed_row(fold, x, first + half, n - half, rest);
  fold.join(rest, 1, to);
}
/// Folds columns that are larger than a block.
inline void fold_packed_columns(const Fold& fold, const Packed& x, std::int64_t first,
                                std::int64_t gone, std::int64_t inner, std::byte* to,
                                std::byte* tree, std::byte* waiting) {
  const ColumnBlocks blocks(x.most(), gone, inner);
  const std::int64_t step = blocks.width * fold.to_size;
  for (std::int64_t column = 0; column < inner; column += blocks.width) {
    const std::int64_t width = least(blocks.width, inner - column);
    std::int64_t depth = 0;
    const auto join_pair = [&] {
      --depth;
      fold.join(waiting + depth * step, width, waiting + (depth - 1) * step);
    };
    for (std::int64_t block = 0, row = 0; row < gone; ++block, row += blocks.rows) {
      const std::int64_t rows = least(blocks.rows, gone - row);
      fold_columns(fold, x.take(first + row * inner + column, rows, width, inner), rows, width,
                   waiting + depth++ * step, tree);
      for (std::int64_t pairs = block; pairs & 1; pairs >>= 1) join_pair();
    }
    while (depth > 1) join_pair();
    __builtin_memcpy(to + column * fold.to_size, waiting,
                     static_cast<std::size_t>(width * fold.to_size));
  }
}

/// fold_all() of a body that is not in row-major order.
[[gnu::noinline]] inline void fold_packed(const Fold& fold, const Packed& x, std::int64_t outer,
                                          std::int64_t gone, std::int64_t inner, std::byte* to,
                                          std::byte* tree, std::byte* waiting) {
  const std::int64_t each = gone * inner, at_once = each <= x.most() ? x.most() / each : 1;
  for (std::int64_t o = 0; o < outer; o += at_once) {
    std::byte* const target = to + o * inner * fold.to_size;
    if (each <= x.most()) {
      const std::int64_t n = least(at_once, outer - o);
      fold_all(fold, x.take(o * each, n * each), n, gone, inner, in_tiles(outer, gone, inner),
               target, tree);
    } else if (inner == 1) {
      fold_packed_row(fold, x, o * each, gone, target);
    } else {
      fold_packed_columns(fold, x, o * each, gone, inner, target, tree, waiting);
    }
  }
}
}  // namespace reel::kernels::REEL_ISA
