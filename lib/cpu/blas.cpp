// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/blas.hpp"

#ifdef REEL_BLAS_FILE
#include <dlfcn.h>

#include <atomic>
#include <initializer_list>

#include "lib/pool/process.hpp"
#endif

namespace reel::kernels {
#ifdef REEL_BLAS_FILE
namespace {
// CBLAS as its C interface has it, with 32-bit integers.
constexpr int row_major = 101, as_it_lies = 111, transposed = 112;
template <class T>
using Gemm = void (*)(int order, int x_as, int y_as, int n, int m, int k, T alpha, const T* x,
                      int x_step, const T* y, int y_step, T beta, T* c, int c_step);
struct Blas {
  Gemm<float> f32 = nullptr;
  Gemm<double> f64 = nullptr;

  void open() {
    void* const library = dlopen(REEL_BLAS_FILE, RTLD_LAZY | RTLD_LOCAL);
    if (!library) return;
    // Threads of BLAS and threads of this library would only wait for each other.
    for (const char* name :
         {"openblas_set_num_threads", "bli_thread_set_num_threads", "MKL_Set_Threading_Layer"})
      if (auto set = reinterpret_cast<void (*)(std::int64_t)>(dlsym(library, name))) set(1);
    f32 = reinterpret_cast<Gemm<float>>(dlsym(library, "cblas_sgemm"));
    f64 = reinterpret_cast<Gemm<double>>(dlsym(library, "cblas_dgemm"));
  }
};
/// Opened at the first product that may use it: linking it took most of the start time of a small
/// program.
const Blas& blas() {
  static constinit Blas blas;
  static constinit std::atomic<bool> opened = false;
  if (opened.load(std::memory_order_acquire)) return blas;
  const Locked held(Lock::blas);
  if (!opened) blas.open();
  opened.store(true, std::memory_order_release);
  return blas;
}

template <class T>
void call(const BlasProduct& p, Gemm<T> gemm) {
  const auto as = [](bool is_transposed) { return is_transposed ? transposed : as_it_lies; };
  const auto length = [](std::int64_t n) { return static_cast<int>(n); };
  const ForkDelay delay;  // OpenBLAS takes the memory for a call under a lock
  gemm(row_major, as(p.x_transposed), as(p.y_transposed), length(p.n), length(p.m), length(p.k),
       T(1), static_cast<const T*>(p.x), length(p.x_step), static_cast<const T*>(p.y),
       length(p.y_step), T(p.accumulate), static_cast<T*>(p.c), length(p.c_step));
}
}  // namespace

bool has_blas() { return blas().f32 && blas().f64; }
void blas_product_f32(const BlasProduct& product) { call<float>(product, blas().f32); }
void blas_product_f64(const BlasProduct& product) { call<double>(product, blas().f64); }
#else
bool has_blas() { return false; }
void blas_product_f32(const BlasProduct&) {}
void blas_product_f64(const BlasProduct&) {}
#endif
}  // namespace reel::kernels
