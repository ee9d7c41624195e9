// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/blas.hpp"

#ifdef REEL_BLAS_FILE
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "lib/pool/process.hpp"
#endif

namespace reel::kernels {
#ifdef REEL_BLAS_FILE
namespace {
/// OpenBLAS takes 128 MiB for each of its threads when it is opened, and for each call at the same
/// time. It keeps them. If the system refuses them, it asks again for ever.
constexpr std::size_t bytes_of_call = std::size_t{160} << 20;
/// Whether the system gives the process so many bytes now.
bool has_room(std::size_t bytes) {
  void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return place != MAP_FAILED && munmap(place, bytes) == 0;
}

/// The number of threads of the BLAS library. It is a setting of the process, which may use the
/// library too. While calls of this library run it is 1, because threads of BLAS and of this
/// library would only wait for each other; then it is what the program has set.
class BlasThreads {
 public:
  void open(void* library) {
    constexpr const char* names[][2] = {
        {"openblas_get_num_threads", "openblas_set_num_threads"},
        {"bli_thread_get_num_threads", "bli_thread_set_num_threads"}};
    for (const auto& [get, set] : names) {
      set_ = reinterpret_cast<Set>(dlsym(library, set));
      get_ = set_ ? reinterpret_cast<Get>(dlsym(library, get)) : nullptr;
      if (get_) return;
    }
    set_of_thread_ = reinterpret_cast<SetOfThread>(dlsym(library, "MKL_Set_Num_Threads_Local"));
  }
  /// Returns what end() takes.
  int begin() {
    if (set_of_thread_) return set_of_thread_(1);
    if (!get_) return 0;
    const Turn turn(turn_);
    if (calls_++ == 0) {
      before_ = get_();
      if (before_ != 1) set_(1);
    }
    return 0;
  }
  void end(int of_thread) {
    if (set_of_thread_) set_of_thread_(of_thread);
    if (!get_) return;
    const Turn turn(turn_);
    // Another number than 1 is one that the program has set meanwhile.
    if (--calls_ == 0 && before_ != 1 && get_() == 1) set_(before_);
  }

 private:
  using Get = int (*)();
  using Set = void (*)(std::int64_t);  // OpenBLAS reads the low half
  using SetOfThread = int (*)(int);    // returns the number before; 0 is that of the process
  /// A lock that a fork need not know: it is held under a ForkDelay, for some nanoseconds.
  class Turn {
   public:
    explicit Turn(std::atomic_flag& flag) : flag_(flag) {
      while (flag_.test_and_set(std::memory_order_acquire)) sched_yield();
    }
    ~Turn() { flag_.clear(std::memory_order_release); }

   private:
    std::atomic_flag& flag_;
  };
  Get get_ = nullptr;
  Set set_ = nullptr;
  SetOfThread set_of_thread_ = nullptr;
  std::atomic_flag turn_;
  int calls_ = 0, before_ = 0;
};
constinit BlasThreads threads;

/// The names of Fortran's functions, without the letter of the dtype.
constexpr const char* fortran_names[fortran_functions] = {"potrf_", "getrf_", "getri_", "getrs_",
                                                          "trsm_",  "gemm_",  "gelqf_", "orglq_",
                                                          "syevd_", "gesdd_", "gesvd_"};

using Gemm = void (*)(const char* x_as, const char* y_as, const int* m, const int* n, const int* k,
                      const float* alpha, const float* x, const int* x_step, const float* y,
                      const int* y_step, const float* beta, float* z, const int* z_step,
                      std::size_t, std::size_t);

struct Blas {
  AnyFunction functions[2][fortran_functions] = {};

  /// BLIS lacks some functions. They are in the reference library.
  void find_functions(void* library) {
    void* other = nullptr;
    for (const bool is_double : {false, true})
      for (int i = 0; i < fortran_functions; ++i) {
        char name[16] = {is_double ? 'd' : 's'};
        for (int k = 0; fortran_names[i][k]; ++k) name[k + 1] = fortran_names[i][k];
        void* found = dlsym(library, name);
        if (!found && !other) other = dlopen("liblapack.so.3", RTLD_LAZY | RTLD_LOCAL);
        if (!found && other) found = dlsym(other, name);
        functions[is_double][i] = reinterpret_cast<AnyFunction>(found);
      }
  }

  void open() {
    if (!has_room(bytes_of_call * (std::thread::hardware_concurrency() + 1))) return;
    const bool is_ours = !dlopen(REEL_BLAS_FILE, RTLD_LAZY | RTLD_NOLOAD);
    void* const library = dlopen(REEL_BLAS_FILE, RTLD_LAZY | RTLD_LOCAL);
    if (!library) return;
    // Before a fork OpenBLAS ends its threads. A call at this time would make them again, and the
    // child would wait for ever for a lock that a new thread holds.
    static constinit bool first = true;
    if (std::exchange(first, false)) begin_forks();
    threads.open(library);
    // MKL would load a library of threads at its first call.
    if (auto set = reinterpret_cast<int (*)(int)>(dlsym(library, "MKL_Set_Threading_Layer"));
        set && is_ours)
      set(1);
    find_functions(library);
    auto& gemm = functions[false][static_cast<int>(Fortran::gemm)];
    // The first call takes its memory here. Later calls can wait for this memory, so a result
    // never depends on how much the system gives then.
    constexpr int n = 128;
    constexpr float zero = 0, one = 1;
    const std::unique_ptr<float[]> zeros(new (std::nothrow) float[3 * n * n]());
    if (!gemm || !zeros || !has_room(bytes_of_call)) {
      *this = {};
      return;
    }
    const int before = threads.begin();
    reinterpret_cast<Gemm>(gemm)("N", "N", &n, &n, &n, &one, &zeros[0], &n, &zeros[n * n], &n,
                                 &zero, &zeros[2 * n * n], &n, 1, 1);
    threads.end(before);
  }
};
/// Opened by the first op that may use it: linking it took most of the start time of a small
/// program. The child of a fork opens it anew: OpenBLAS makes its threads there again, also for a
/// call that uses one, and takes memory for them.
const Blas& blas() {
  static constinit Blas blas;
  static constinit std::atomic<pid_t> opened_by = 0;
  const pid_t process = getpid();
  if (opened_by.load(std::memory_order_acquire) == process) return blas;
  const Locked held(Lock::blas);
  if (opened_by != process) {
    blas = {};
    blas.open();
  }
  opened_by.store(process, std::memory_order_release);
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
}  // namespace

AnyFunction fortran(Fortran function, bool is_double) {
  return blas().functions[is_double][static_cast<int>(function)];
}
void call_fortran(void (*f)(const void* work), const void* work) {
  const auto call = [&] {
    const ForkDelay delay;  // OpenBLAS takes the memory for a call under a lock
    if (!begin_call()) return false;
    const int before = threads.begin();
    f(work);
    threads.end(before);
    --running;
    return true;
  };
  while (!call()) sched_yield();
}
#else
AnyFunction fortran(Fortran, bool) { return nullptr; }
void call_fortran(void (*)(const void*), const void*) {}
#endif
}  // namespace reel::kernels
