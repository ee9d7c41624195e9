// SPDX-License-Identifier: BSD-3-Clause
// Linear algebra beside LAPACK of OpenBLAS, called directly on one matrix after the other. One
// thread, its CPU time, both sides in turn. Prints milliseconds and the median of the ratios.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <vector>

#include <reel/reel.hpp>

using namespace reel;

namespace {
void* library = nullptr;
template <class F>
F* function(const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}
using Work = std::function<void()>;
double milliseconds(const Work& work) {
  const double start = now();
  work();
  return now() - start;
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}
void compare(int n, int count, const char* name, const Work& ours, const Work& theirs) {
  ours(), theirs();
  std::vector<double> a, b, ratios;
  for (int round = 0; round < 15; ++round) {
    a.push_back(milliseconds(ours));
    b.push_back(milliseconds(theirs));
    ratios.push_back(a.back() / b.back());
  }
  std::printf("%5d of %3d x %3d %-9s %8.3f %8.3f  %.2f\n", count, n, n, name, median(a), median(b),
              median(ratios));
  std::fflush(stdout);
}
}  // namespace

int main() {
  set_num_threads(1);
  library = dlopen("libopenblas.so.0", RTLD_NOW);
  if (!library) return std::puts("no libopenblas.so.0"), 1;
  using Text = const char*;
  using Int = const int*;
  function<void(int)>("openblas_set_num_threads")(1);
  const auto potrf = function<void(Text, Int, double*, Int, int*, std::size_t)>("dpotrf_");
  const auto gesv = function<void(Int, Int, double*, Int, int*, double*, Int, int*)>("dgesv_");
  const auto getrf = function<void(Int, Int, double*, Int, int*, int*)>("dgetrf_");
  const auto getri = function<void(Int, double*, Int, Int, double*, Int, int*)>("dgetri_");
  const auto geqrf = function<void(Int, Int, double*, Int, double*, double*, Int, int*)>("dgeqrf_");
  const auto orgqr =
      function<void(Int, Int, Int, double*, Int, double*, double*, Int, int*)>("dorgqr_");
  const auto syevd = function<void(Text, Text, Int, double*, Int, double*, double*, Int, int*, Int,
                                   int*, std::size_t, std::size_t)>("dsyevd_");
  const auto gesdd = function<void(Text, Int, Int, double*, Int, double*, double*, Int, double*,
                                   Int, double*, Int, int*, int*, std::size_t)>("dgesdd_");
  std::puts("matrices of float64        reel   LAPACK  ratio");
  for (const auto& [side, matrices] :
       {std::pair{4, 4096}, {8, 2048}, {16, 1024}, {32, 256}, {64, 64}, {256, 2}, {512, 1}}) {
    const int n = side, count = matrices, one = 1;
    const auto size = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
    const Tensor x = random::normal({count, n, n}, {.dtype = float64});
    const Tensor a = matmul(x, matrix_transpose(x)) + eye(n, {.dtype = float64}) * n;
    const Tensor b = random::normal({count, n, 1}, {.dtype = float64});
    const std::vector<double> given = a.to_vector<double>(), given_b = b.to_vector<double>();
    std::vector<double> w, y, values(size), u(size), v(size), work(200'000 + 60 * size);
    std::vector<int> pivots(size), integers(20 * size);
    int info = 0;
    const int room = static_cast<int>(work.size()), places = static_cast<int>(integers.size());
    const auto each = [&](auto f) {
      return [&, f] {
        w = given;
        y = given_b;
        for (std::size_t m = 0; m < static_cast<std::size_t>(count); ++m)
          f(&w[m * size], &y[m * static_cast<std::size_t>(n)]);
      };
    };
    compare(
        n, count, "cholesky", [&] { linalg::cholesky(a); },
        each([&](double* m, double*) { potrf("U", &n, m, &n, &info, 1); }));
    compare(
        n, count, "solve", [&] { linalg::solve(a, b); },
        each([&](double* m, double* r) { gesv(&n, &one, m, &n, pivots.data(), r, &n, &info); }));
    compare(
        n, count, "inverse", [&] { linalg::inverse(a); }, each([&](double* m, double*) {
          getrf(&n, &n, m, &n, pivots.data(), &info);
          getri(&n, m, &n, pivots.data(), work.data(), &room, &info);
        }));
    compare(
        n, count, "det", [&] { linalg::det(a); },
        each([&](double* m, double*) { getrf(&n, &n, m, &n, pivots.data(), &info); }));
    compare(
        n, count, "qr", [&] { linalg::qr(a); }, each([&](double* m, double*) {
          geqrf(&n, &n, m, &n, values.data(), work.data(), &room, &info);
          orgqr(&n, &n, &n, m, &n, values.data(), work.data(), &room, &info);
        }));
    compare(
        n, count, "eigh", [&] { linalg::eigh(a); }, each([&](double* m, double*) {
          syevd("V", "U", &n, m, &n, values.data(), work.data(), &room, integers.data(), &places,
                &info, 1, 1);
        }));
    compare(
        n, count, "svd", [&] { linalg::svd(a); }, each([&](double* m, double*) {
          gesdd("S", &n, &n, m, &n, values.data(), u.data(), &n, v.data(), &n, work.data(), &room,
                integers.data(), &info, 1);
        }));
  }
}
