// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/blas.hpp"

#if REEL_BLAS
#include <cblas.h>
#endif

namespace reel::kernels {
#if REEL_BLAS
namespace {
/// Threads of its own beside ours would only wait for each other.
const bool one_thread = [] {
#ifdef OPENBLAS_VERSION
  openblas_set_num_threads(1);
#endif
  return true;
}();

template <class T, class Gemm>
void call(const BlasProduct& p, Gemm gemm) {
  const auto transposed = [](bool yes) { return yes ? CblasTrans : CblasNoTrans; };
  const auto length = [](std::int64_t n) { return static_cast<blasint>(n); };
  gemm(CblasRowMajor, transposed(p.x_transposed), transposed(p.y_transposed), length(p.n),
       length(p.m), length(p.k), T(1), static_cast<const T*>(p.x), length(p.x_step),
       static_cast<const T*>(p.y), length(p.y_step), T(p.accumulate), static_cast<T*>(p.c),
       length(p.c_step));
}
}  // namespace

bool has_blas() { return one_thread; }
void blas_product_f32(const BlasProduct& product) { call<float>(product, cblas_sgemm); }
void blas_product_f64(const BlasProduct& product) { call<double>(product, cblas_dgemm); }
#else
bool has_blas() { return false; }
void blas_product_f32(const BlasProduct&) {}
void blas_product_f64(const BlasProduct&) {}
#endif
}  // namespace reel::kernels
