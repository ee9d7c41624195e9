// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/lapack_batch.hpp"

#include <cfenv>

#include "lib/pool/pool.hpp"
#include "lib/pool/scratch.hpp"

namespace reel::kernels::lapack {
Batch::Batch(const Body& x) {
  const int rank = x.rank();
  for (int a = 0; a < rank - 2; ++a) count *= x.shape.data()[a];
  rows = x.shape.data()[rank - 2];
  columns = x.shape.data()[rank - 1];
  has_axes = rank > 2;
}

KernelResult Findings::result(const Batch& batch, const char* expected, const char* got) const {
  const std::uint64_t first = first_.load(std::memory_order_relaxed);
  if (first == none) return {};
  KernelResult result;
  const auto wrong = static_cast<Wrong>(first & 3);
  result.counts = true;
  result.expected = wrong == Wrong::pivot        ? expected
                    : wrong == Wrong::not_finite ? "finite numbers"
                                                 : "a matrix for which LAPACK's iteration ends";
  result.failure = wrong == Wrong::pivot        ? got
                   : wrong == Wrong::not_finite ? "NaN or infinity"
                                                : "one for which it does not";
  result.got = wrong == Wrong::pivot ? static_cast<Int>(first >> 2 & 0x3ffff) : -1;
  result.limit = batch.has_axes ? static_cast<Int>(first >> 20) : -1;
  return result;
}

KernelResult no_library() {
  KernelResult result;
  result.counts = true;
  result.argument = "library";
  result.expected = "LAPACK, as in Debian's package libopenblas0-pthread";
  result.failure = "none";
  result.got = result.limit = -1;
  return result;
}
bool has_lapack() {
  for (int i = 0; i < fortran_functions; ++i)
    if (!fortran(static_cast<Fortran>(i), true) || !fortran(static_cast<Fortran>(i), false))
      return false;
  return true;
}

void call_lapack(void (*f)(const void* work), const void* work) {
  std::fenv_t before;
  std::feholdexcept(&before);
  call_fortran(f, work);
  std::fesetenv(&before);
}

void share_blocks(const Batch& batch, double operations, bool lapack, std::size_t bytes,
                  MatrixBlock block, const void* work) {
  const auto matrices = static_cast<Int>(std::min(65536 / std::max(operations, 1.0), 1e9));
  parallel_blocks(batch.count, std::max<Int>(1, matrices), 1, [&](Int first, Int end) {
    const Memory memory(static_cast<std::byte*>(lasting_scratch(bytes + 1)));
    const auto run = [&] { block(work, first, end, memory); };
    lapack ? with_lapack(run) : run();
  });
}
}  // namespace reel::kernels::lapack
