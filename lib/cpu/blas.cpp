// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/blas.hpp"

#ifdef REEL_BLAS_FILE
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <initializer_list>
#include <memory>
#include <new>
#include <thread>

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
/// OpenBLAS takes 128 MiB for each of its threads when it is opened, and for each call at the same
/// time. It keeps them. If the system refuses them, it asks again for ever.
constexpr std::size_t bytes_of_call = std::size_t{160} << 20;
/// Whether the system gives the process so many bytes now.
bool has_room(std::size_t bytes) {
  void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return place != MAP_FAILED && munmap(place, bytes) == 0;
}

struct Blas {
  Gemm<float> f32 = nullptr;
  Gemm<double> f64 = nullptr;

  void open() {
    if (!has_room(bytes_of_call * (std::thread::hardware_concurrency() + 1))) return;
    void* const library = dlopen(REEL_BLAS_FILE, RTLD_LAZY | RTLD_LOCAL);
    if (!library) return;
    // Threads of BLAS and threads of this library would only wait for each other.
    for (const char* name :
         {"openblas_set_num_threads", "bli_thread_set_num_threads", "MKL_Set_Threading_Layer"})
      if (auto set = reinterpret_cast<void (*)(std::int64_t)>(dlsym(library, name))) set(1);
    const auto multiply = reinterpret_cast<Gemm<float>>(dlsym(library, "cblas_sgemm"));
    // The first call takes its memory here. Later calls can wait for this memory, so a product
    // never depends on how much the system gives then.
    constexpr int n = 128;
    const std::unique_ptr<float[]> zeros(new (std::nothrow) float[3 * n * n]());
    if (!multiply || !zeros || !has_room(bytes_of_call)) return;
    multiply(row_major, as_it_lies, as_it_lies, n, n, n, 1, &zeros[0], n, &zeros[n * n], n, 0,
             &zeros[2 * n * n], n);
    f32 = multiply;
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

constinit std::atomic<int> running = 0;
/// Begins a call. False if there is no memory for it until another call has ended. A single call
/// has the memory that open() made OpenBLAS take; how much the other calls have taken already is
/// not known.
bool begin_call() {
  const int others = running++;
  if (others == 0 || has_room(bytes_of_call * static_cast<std::size_t>(others + 1))) return true;
  --running;
  return false;
}

template <class T>
void call(const BlasProduct& p, Gemm<T> gemm) {
  const auto as = [](bool is_transposed) { return is_transposed ? transposed : as_it_lies; };
  const auto length = [](std::int64_t n) { return static_cast<int>(n); };
  const auto multiply = [&] {
    const ForkDelay delay;  // OpenBLAS takes the memory for a call under a lock
    if (!begin_call()) return false;
    gemm(row_major, as(p.x_transposed), as(p.y_transposed), length(p.n), length(p.m), length(p.k),
         T(1), static_cast<const T*>(p.x), length(p.x_step), static_cast<const T*>(p.y),
         length(p.y_step), T(p.accumulate), static_cast<T*>(p.c), length(p.c_step));
    --running;
    return true;
  };
  while (!multiply()) sched_yield();
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
