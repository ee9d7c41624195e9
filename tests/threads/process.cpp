// SPDX-License-Identifier: BSD-3-Clause
// The pool after a fork, at the end of a program, and with environment variables.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "lib/cpu/blas.hpp"
#include "lib/cpu/install.hpp"
#include "lib/pool/thread_count.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"
#include "threads/process.hpp"
#include "threads/threads.hpp"

bool reel::tests::in_child = false;
// A child of a fork cannot reach what the threads of its parent hold. The leak checker would report
// it.
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off() {
  return reel::tests::in_child;
}

namespace reel::tests {
namespace {
[[maybe_unused]] Tensor work() {
  const Tensor x = arange(0.0f, 600'000.0f) * 1e-6f;
  return exp(x) + x;
}
[[maybe_unused]] bool same(const Tensor& x, const Tensor& y) { return all(x == y).item<bool>(); }

[[maybe_unused]] std::ptrdiff_t threads_here() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

bool has_blas() { return kernels::fortran(kernels::Fortran::potrf, false) != nullptr; }
/// Whether LAPACK, if there is one, factorizes a matrix so often without an error.
[[maybe_unused]] bool factorizes(int times = 1) {
  constexpr std::int64_t n = 24;  // cholesky() computes up to 16 rows by itself
  bool right = true;
  for (int i = 0; has_blas() && i < times; ++i)
    right &= same(linalg::cholesky(4.0f * eye(n)), 2.0f * eye(n));
  return right;
}

bool tells(const std::string& text, int threads) {
  return text.find("threads: " + std::to_string(threads) + "\n") != text.npos;
}
}  // namespace

TEST_CASE("tells its number of threads", "[.tells]") {
  std::cout << "threads: " << num_threads() << '\n';
}

TEST_CASE("the environment says how many threads there are") {
  const int processors = kernels::usable_processors();
  CHECK(tells(printed_under("[.tells]", ""), processors));
  CHECK(tells(printed_under("[.tells]", "REEL_NUM_THREADS="), processors));
  CHECK(printed_under("[.tells]", "REEL_NUM_THREADS= OMP_NUM_THREADS=").find("expected") ==
        std::string::npos);
  CHECK(tells(printed_under("[.tells]", "REEL_NUM_THREADS=3"), 3));
  CHECK(tells(printed_under("[.tells]", "OMP_NUM_THREADS=5"), 5));
  CHECK(tells(printed_under("[.tells]", "OMP_NUM_THREADS=4,2"), 4));
  CHECK(tells(printed_under("[.tells]", "REEL_NUM_THREADS=3 OMP_NUM_THREADS=5"), 3));
  for (const std::string bad : {"0", "-1", "257", "two", "2x", "99999999999999999999"}) {
    const std::string text =
        printed_under("[.tells]", "REEL_NUM_THREADS=" + bad + " OMP_NUM_THREADS=6");
    CHECK(tells(text, 6));
    CHECK(text.find("reel: REEL_NUM_THREADS: expected a whole number in [1, 256], got \"" + bad +
                    "\"") != text.npos);
  }
}

TEST_CASE("tells its instruction set", "[.computes]") {
  const char* const name = kernels::isa_name();
  std::cout << "set: " << (name ? name : "none") << '\n'
            << "kernels: " << (kernels::active_families(nullptr) != nullptr) << '\n';
  try {
    std::cout << "sum: " << sum(ones({3})).item<float>() << '\n';
  } catch (const Error& error) {
    std::cout << error.what() << '\n';
  }
}

TEST_CASE("the environment says which instruction set computes", "[cpu]") {
  std::string known, widest;
  for (const auto& set : kernels::instruction_sets()) {
    if (!set.supported()) continue;
    const std::string name = set.name;
    known += (known.empty() ? "" : ", ") + name;
    if (!set.pays || set.pays()) widest = name;
    const std::string text = printed_under("[.computes]", "REEL_ISA=" + name);
    CHECK(text.find("set: " + name + "\nkernels: 1\nsum: 3\n") != text.npos);
  }
  for (const char* none : {"unset REEL_ISA;", "REEL_ISA="})
    CHECK(printed_under("[.computes]", none).find("set: " + widest + "\n") != std::string::npos);
  if (!std::getenv("REEL_ISA")) CHECK(kernels::isa_name() == widest);
  const std::string bad = "another_set_with_a_name_of_40_characters";
  for (const std::string more : {"", "_and_more"}) {
    const std::string text = printed_under("[.computes]", "REEL_ISA=" + bad + more);
    CHECK(text.find("set: none\nkernels: 0\n") != text.npos);
    CHECK(text.find("REEL_ISA: expected one of " + known + ", got \"" + bad + "\"") != text.npos);
  }
}

TEST_CASE("no more threads than the process may use") {
  CHECK(true_in_child([] {
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    return sched_setaffinity(0, sizeof mask, &mask) == 0 && kernels::usable_processors() == 1;
  }));
}

#ifndef __SANITIZE_THREAD__  // which allows no threads after a fork
TEST_CASE("a child of a fork has a pool of its own") {
  const KeepThreads keep;
  set_num_threads(3);
  const Tensor expected = work();
  const auto computes = [&] {
    for (int i = 0; i < 20; ++i)
      if (!same(work(), expected)) return false;
    return true;
  };
  CHECK(true_in_child(computes));
  CHECK(true_in_child([&] { return threads_here() == 1 && computes() && threads_here() == 3; }));
  CHECK(true_in_child([&] { return computes() && true_in_child(computes) && computes(); }));
  CHECK(computes());
}

TEST_CASE("a child may be forked while another thread computes") {
  const KeepThreads keep;
  set_num_threads(3);
  const Tensor expected = work();
  std::atomic<bool> done = false, wrong = false;
  std::thread other([&] {
    while (!done)
      if (!same(work(), expected)) wrong = true;
  });
  for (int i = 0; i < 50; ++i) CHECK(true_in_child([&] { return same(work(), expected); }));
  done = true;
  other.join();
  CHECK_FALSE(wrong);
}

namespace {
/// Calls that take a mutex of the library.
void make_traces() {
  const auto f = trace([](Tensor x) { return x * x + x; });
  const Tensor x = ones({3});
  for (int i = 0; i < 3; ++i) f(x);
  if (f.explain().empty() || f.trace_count() != 1) throw Error("nothing was captured");
}
void register_ops() {
  static std::atomic<int> made = 0;
  const std::string name = "fork_op_" + std::to_string(made++);
  register_op(name, [](const OpCall& call) { return Tensors{call.input(0) * 2.0f}; });
  register_gradient(name, [](const OpCall&, Tensor dy) { return Tensors{dy * 2.0f}; });
  call_op(name, {ones({2})});
}
void look_ops_up() {
  if (op_names().empty()) throw Error("no ops");
  call_op("add", {ones({2}), ones({2})});
}
void use_memory() {
  memory_statistics();
  set_cache_limit(std::size_t{1} << 30);
  const Tensor large = ones({300'000});
  trim_memory();
}
void end_threads() {
  std::thread([] {
    const Tensor x = ones({2});
    GradientTape tape;
  }).join();
}
void end_elsewhere() {
  auto tape = std::make_unique<GradientTape>();
  auto scope = std::make_unique<TrainScope>(false);
  const auto pause = tape->pause();
  std::thread([&] { tape.reset(), scope.reset(); }).join();
}
}  // namespace

TEST_CASE("a child may be forked while another thread holds any mutex of the library") {
  if (sanitized) SKIP("a child inherits the locked allocator of AddressSanitizer");
  const KeepThreads keep;
  set_num_threads(2);
  const int forks = std::getenv("REEL_TEST_LONG") ? 200 : 20;
  using Activity = void (*)();
  const std::pair<const char*, Activity> activities[] = {
      {"make_traces", make_traces}, {"register_ops", register_ops},
      {"look_ops_up", look_ops_up}, {"use_memory", use_memory},
      {"end_threads", end_threads}, {"end_elsewhere", end_elsewhere}};
  for (const auto& [name, activity] : activities) {
    INFO(name);
    std::atomic<bool> done = false;
    std::vector<std::thread> others;
    for (int i = 0; i < 2; ++i)
      others.emplace_back([&done, run = activity] {
        while (!done) run();
      });
    int ended = 0;
    for (int i = 0; i < forks; ++i)
      ended += true_in_child([&] {
        for (const auto& [each, run] : activities) run();
        return true;
      });
    CHECK(ended == forks);
    done = true;
    for (std::thread& other : others) other.join();
  }
}

TEST_CASE("a child may be forked while another thread opens the BLAS library") {
  if (sanitized) SKIP("a child inherits the locked allocator of AddressSanitizer");
  for (int i = 0; i < 10; ++i)
    CHECK(true_in_child([] {  // nothing has opened the library in the child yet
      std::atomic<bool> begun = false;
      std::thread other([&] {
        begun = true;
        factorizes();
      });
      while (!begun) std::this_thread::yield();
      const bool well = true_in_child([] { return factorizes(); });
      other.join();
      return well;
    }));
}

TEST_CASE("LAPACK ends where the system refuses the BLAS library its memory") {
  if (sanitized) SKIP("a sanitizer needs the address space");
  const auto in_little_memory = [&] {
    alarm(60);  // ends a child that hangs
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * 4096 + (rlim_t{120} << 20);
    const rlimit limits{most, most};
    if (setrlimit(RLIMIT_AS, &limits)) return false;
    std::vector<std::thread> others;
    for (int i = 0; i < 3; ++i) others.emplace_back([] { factorizes(20); });
    const bool right = factorizes(20);
    for (std::thread& other : others) other.join();
    return right;
  };
  CHECK(true_in_child(in_little_memory));  // before the library is opened, unless another test did
  has_blas();
  CHECK(true_in_child(in_little_memory));
}

TEST_CASE("LAPACK leaves the number of threads of the BLAS library as the program has set it") {
  void* const library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL);
  if (!library || !has_blas()) SKIP("no OpenBLAS");
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto get = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  REQUIRE(set);
  REQUIRE(get);
  const int before = get();
  for (const int threads : {2, 1, before}) {
    set(threads);
    CHECK(factorizes());
    CHECK(get() == threads);
    std::vector<std::thread> others;
    for (int i = 0; i < 3; ++i) others.emplace_back([] { factorizes(20); });
    for (std::thread& other : others) other.join();
    CHECK(get() == threads);
  }
  set(2);
  CHECK(true_in_child([&] { return factorizes() && get() == 2; }));
  set(before);
}

TEST_CASE("a child may be forked while other threads are inside the BLAS library") {
  if (sanitized) SKIP("a child inherits the locked allocator of AddressSanitizer");
  if (!has_blas()) SKIP("no BLAS library");
  const auto forks_too = [] { return factorizes() && true_in_child([] { return factorizes(); }); };
  std::atomic<bool> done = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i)
    others.emplace_back([&] {
      while (!done) factorizes();
    });
  int ended = 0;
  const int forks = std::getenv("REEL_TEST_LONG") ? 300 : 60;
  for (int i = 0; i < forks && ended == i; ++i) ended += true_in_child(forks_too);
  done = true;
  for (std::thread& other : others) other.join();
  CHECK(ended == forks);
}

namespace {
std::atomic<bool> called = false, called_in_fork = false;
std::thread caller;
void call_in_fork() {
  caller = std::thread([] { called = factorizes(); });
  for (int i = 0; i < 100 && !called; ++i) usleep(1000);
  called_in_fork = called.load();
}
}  // namespace

TEST_CASE("forks while another thread calls the BLAS library", "[.forks]") {
  pthread_atfork(call_in_fork, nullptr, nullptr);
  if (!has_blas()) SKIP("no BLAS library");
  CHECK(true_in_child([] { return true; }));
  caller.join();
  std::cout << (called_in_fork ? "called" : "waited") << " before OpenBLAS had ended its threads\n";
}

// OpenBLAS ends its threads before a fork. A call at this time makes them again, and a new one may
// hold a lock that the child then waits for.
TEST_CASE("a call of the BLAS library waits until a fork is over") {
  if (!has_blas()) SKIP("no BLAS library");
  const std::string text = printed_under("[.forks]", "");
  INFO(text);
  CHECK(text.find("waited before OpenBLAS") != std::string::npos);
}

TEST_CASE("a child that is forked within a tape or a gradient goes on with it") {
  const KeepThreads keep;
  set_num_threads(3);
  const Tensor x = arange(0.0f, 200'000.0f) * 1e-6f;
  const auto goes_on = [&](const Tensor& y, GradientTape& tape) {
    return same(tape.gradient(sum(y * y), x), 4.0f * x * x * x);
  };
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = x * x;
  CHECK(true_in_child([&] { return goes_on(y, tape); }));
  bool child = false;
  const auto forks = custom_gradient([&](Tensor a) {
    return std::pair{a * 1.0f, [&](Tensor dy) {
                       child = true_in_child([&] {
                         GradientTape inner;
                         inner.watch(x);
                         return goes_on(x * x, inner);
                       });
                       return dy * 1.0f;
                     }};
  });
  CHECK(same(tape.gradient(sum(forks(y) * y), x), 4.0f * x * x * x));
  CHECK(child);
}

TEST_CASE("a program ends while helpers sleep and while they work") {
  for (const bool at_work : {false, true})
    for (int i = 0; i < 10; ++i)
      CHECK(true_in_child([&] {
        set_num_threads(3);
        work();
        if (at_work)
          std::thread([] {
            for (;;) work();
          }).detach();
        std::exit(0);  // runs everything that the end of a program runs
        return false;
      }));
}
#endif

TEST_CASE("without a quota there are as many threads as processors") {
  std::string quota;
  std::ifstream("/sys/fs/cgroup/cpu.max") >> quota;
  if (!quota.empty() && quota != "max") SKIP("this process has a quota");
  cpu_set_t mask;
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  CHECK(kernels::usable_processors() == std::min(CPU_COUNT(&mask), kernels::most_threads));
}
}  // namespace reel::tests
