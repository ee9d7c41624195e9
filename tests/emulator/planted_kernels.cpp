// SPDX-License-Identifier: BSD-3-Clause
// Faults in kernels: bounds, barriers, races within a block and between blocks.
#include <numeric>

#include "emulator/kernels.hpp"
#include "emulator/programs.hpp"

namespace programs {
namespace {
using reel::gpu::launch;

std::vector<float> small_integers(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = float(i % 7);
  return values;
}

// Sizes are rounded up to 256 bytes, so a closed page does not always catch one float too many.
// With this size the block ends at the end of its page.
bool scale_at(int n, bool fault) {
  const std::vector<float> values = small_integers(std::size_t(n) + 1);
  const float* const x = on_device(values);
  float* const y = device_memory<float>(std::size_t(n));
  ok(launch(kernels::scale, 3, 32, 0, nullptr, n, 2.0f, x, y, fault));
  ok(cudaDeviceSynchronize());
  const std::vector<float> got = from_device(y, std::size_t(n));
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i] != 2 * values[i]) return false;
  return true;
}
bool write_behind_page(bool fault) { return scale_at(256, fault); }
bool write_behind_block(bool fault) { return scale_at(250, fault); }

bool read_behind_block(bool fault) {
  constexpr int n = 250;
  const std::vector<float> values = small_integers(n);
  const float* const x = on_device(values);
  float* const y = device_memory<float>(n + 6);
  ok(launch(kernels::scale, 3, 32, 0, nullptr, n, 2.0f, x, y, fault));
  ok(cudaDeviceSynchronize());
  float sum = 0, want = 0;
  for (const float v : from_device(y, std::size_t(n) + fault)) sum += v;
  for (const float v : values) want += 2 * v;
  return sum == want;
}

bool misaligned_vector(bool fault) {
  constexpr int n = 256;
  const std::vector<float> values = small_integers(n);
  const float* const x = on_device(values);
  float* const y = device_memory<float>(n);
  ok(launch(kernels::scale4, 3, 32, 0, nullptr, n, 2.0f, x, y, fault));
  ok(cudaDeviceSynchronize());
  const std::vector<float> got = from_device(y, n);
  for (std::size_t i = 0; i < n - 4; ++i)
    if (got[i] != 2 * values[i + (fault ? 1 : 0)]) return false;
  return true;
}

bool sums(kernels::SumFault fault) {
  constexpr int n = 1000, blocks = 3;
  const std::vector<float> values = small_integers(n);
  const float* const x = on_device(values);
  float* const y = device_memory<float>(blocks);
  ok(launch(kernels::block_sums, blocks, 256, 0, nullptr, n, x, y, fault));
  ok(cudaDeviceSynchronize());
  const std::vector<float> got = from_device(y, blocks);
  return std::accumulate(got.begin(), got.end(), 0.0f) ==
         std::accumulate(values.begin(), values.end(), 0.0f);
}
template <kernels::SumFault planted>
bool sums_with(bool fault) {
  return sums(fault ? planted : kernels::SumFault::none);
}

bool last_block(bool fault) {
  constexpr int n = 1000, blocks = 5;
  const std::vector<float> values = small_integers(n);
  const float* const x = on_device(values);
  float *const parts = device_memory<float>(blocks), *const y = device_memory<float>(1);
  unsigned* const counter = on_device(std::vector<unsigned>{0});
  ok(launch(kernels::total, blocks, 64, 0, nullptr, n, x, parts, counter, y, fault));
  ok(cudaDeviceSynchronize());
  return from_device(y, 1)[0] == std::accumulate(values.begin(), values.end(), 0.0f);
}

bool plain_counts(bool fault) {
  std::vector<int> values(1000), want(10);
  for (std::size_t i = 0; i < values.size(); ++i) ++want[std::size_t(values[i] = int(i * i % 10))];
  const int* const x = on_device(values);
  int* const counts = on_device(std::vector<int>(10));
  ok(launch(kernels::histogram, 3, 64, 0, nullptr, 1000, x, counts, fault));
  ok(cudaDeviceSynchronize());
  return from_device(counts, 10) == want;
}

bool blocks_write_one_place(bool fault) {
  constexpr int rows = 20, columns = 13, side = 8;
  const std::vector<float> values = small_integers(rows * columns);
  const float* const x = on_device(values);
  float* const y = device_memory<float>(rows * columns);
  ok(launch(kernels::transpose, dim3(2, 3), dim3(side, side), side * (side + 1) * sizeof(float),
            nullptr, rows, columns, x, y, fault));
  ok(cudaDeviceSynchronize());
  const std::vector<float> got = from_device(y, rows * columns);
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column)
      if (got[std::size_t(column * rows + row)] != values[std::size_t(row * columns + column)])
        return false;
  return true;
}

// Deliberate out-of-bounds indices would hide the race.
bool shared_memory_too_small(bool fault) {
  constexpr int rows = 8, columns = 8, side = 8;
  const std::vector<float> values = small_integers(rows * columns);
  const float* const x = on_device(values);
  float* const y = device_memory<float>(rows * columns);
  const std::size_t floats = fault ? side * side : side * (side + 1);
  ok(launch(kernels::transpose, 1, dim3(side, side), floats * sizeof(float), nullptr, rows, columns,
            x, y, false));
  ok(cudaDeviceSynchronize());
  return from_device(y, 2)[1] == values[columns];
}

std::vector<int> lane_numbers() {
  std::vector<int> values(32);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

bool missing_lanes(bool fault) {
  const int* const x = on_device(lane_numbers());
  int* const y = device_memory<int>(32);
  ok(launch(kernels::warp_scan, 1, 32, 0, nullptr, x, y, fault));
  ok(cudaDeviceSynchronize());
  return from_device(y, 32)[31] == 31 * 32 / 2;
}

bool missing_warp_barrier(bool fault) {
  const int* const x = on_device(lane_numbers());
  int* const y = device_memory<int>(32);
  ok(launch(kernels::rotate_lanes, 1, 32, 0, nullptr, x, y, fault));
  ok(cudaDeviceSynchronize());
  const std::vector<int> got = from_device(y, 32);
  for (int lane = 0; lane < 32; ++lane)
    if (got[std::size_t(lane)] != (lane + 1) % 32) return false;
  return true;
}

bool too_many_threads(bool fault) {
  float* const x = device_memory<float>(100);
  ok(launch(kernels::fill, 1, fault ? 1025 : 1024, 0, nullptr, 100, 1.0f, x));
  ok(cudaDeviceSynchronize());
  return from_device(x, 100)[99] == 1;
}

bool unread_sticky_error(bool fault) {
  float* const x = device_memory<float>(100);
  if (fault) ok(launch(kernels::fail, 1, 1, 0, nullptr));
  if (!expect_success(cudaDeviceSynchronize())) {
    // The error is sticky: it is not cleared, and every later call returns it.
    (void)cudaGetLastError();
    return cudaGetLastError() == cudaSuccess && cudaFree(x) == cudaSuccess;
  }
  return true;
}

using F = kernels::SumFault;
constexpr Program list[] = {
    {"write past a page", write_behind_page, closed_memory | address, "out of bounds"},
    {"write past a block", write_behind_block, check | address, "past the end of a block"},
    {"read past a block", read_behind_block, comparison | address, ""},
    {"misaligned vector", misaligned_vector, undefined, "misaligned"},
    {"missing barrier", sums_with<F::no_barrier>, comparison | thread, ""},
    {"barrier in a branch", sums_with<F::barrier_in_branch>, check, "barrier"},
    {"two different barriers", sums_with<F::two_barriers>, check, "different barriers"},
    {"thread ends before a barrier", sums_with<F::left_early>, check, "other threads have ended"},
    {"write past shared memory", sums_with<F::out_of_shared>, check | address, ""},
    {"shared memory too small", shared_memory_too_small, check | address, ""},
    {"last block does not wait", last_block, thread, "data race"},
    {"plain instead of atomic", plain_counts, thread, "data race"},
    {"blocks write one address", blocks_write_one_place, comparison | thread, ""},
    {"lanes missing in a shuffle", missing_lanes, check, "do not arrive"},
    {"missing warp barrier", missing_warp_barrier, comparison | thread, ""},
    {"too many threads", too_many_threads, check, "cudaErrorInvalidConfiguration"},
    {"sticky error", unread_sticky_error, check, "cudaErrorLaunchFailure"},
};
}  // namespace

std::span<const Program> in_kernels() { return list; }
}  // namespace programs
