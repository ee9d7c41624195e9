// SPDX-License-Identifier: BSD-3-Clause
// Runs blocks of work on several threads. The blocks of a sum depend on the shape of the work,
// never on the number of threads, so results have the same bits for any number. A block uses memory
// only: it makes no tensors, and the helper threads have no Context.
#pragma once
#include <cstdint>

namespace reel::kernels {
using Block = void (*)(const void* work, std::int64_t i);

/// Calls block(work, i) once for each i < count, in any order, and returns when all have ended. If
/// a block throws, this function throws the same, and other blocks may not be called. If the
/// helpers are busy, because another thread uses them or because a block calls this function, all
/// blocks run on this thread.
void run_blocks(std::int64_t count, Block block, const void* work);

/// run_blocks() with f(i).
template <class F>
void parallel_for(std::int64_t count, const F& f) {
  run_blocks(
      count, [](const void* work, std::int64_t i) { (*static_cast<const F*>(work))(i); }, &f);
}

/// The number of blocks for [0, n): one below 2 * grain, else blocks of at most `grain`, in a
/// number that two, four and eight threads can share evenly.
inline std::int64_t block_count(std::int64_t n, std::int64_t grain) {
  if (n < 2 * grain) return 1;
  const std::int64_t least = (n + grain - 1) / grain, even = least > 4 ? 8 : least > 2 ? 4 : 2;
  return (least + even - 1) / even * even;
}

/// f(first, end) over [0, n) in blocks of one length, a multiple of `unit`.
template <class F>
void parallel_blocks(std::int64_t n, std::int64_t grain, std::int64_t unit, const F& f) {
  const std::int64_t count = block_count(n, grain);
  if (count == 1) return f(std::int64_t{0}, n);
  const std::int64_t length = ((n + count - 1) / count + unit - 1) / unit * unit;
  parallel_for((n + length - 1) / length, [&](std::int64_t i) {
    const std::int64_t first = i * length;
    f(first, n - first < length ? n : first + length);
  });
}
/// parallel_blocks() over elements or bytes: blocks begin at multiples of 64.
template <class F>
void parallel_ranges(std::int64_t n, std::int64_t grain, const F& f) {
  parallel_blocks(n, grain, 64, f);
}
/// f(first, end) over rows that hold `width` elements each, in blocks of about `block` elements.
template <class F>
void parallel_rows(std::int64_t rows, std::int64_t width, std::int64_t block, const F& f) {
  if (rows * width < 2 * block) return f(std::int64_t{0}, rows);
  parallel_blocks(rows, width < block ? block / width : 1, 1, f);
}

/// Called in the child of a fork: no other thread exists there, and work in progress is lost.
void forget_helpers();
}  // namespace reel::kernels
