// SPDX-License-Identifier: BSD-3-Clause
// The number of threads, from the environment and the machine.
#pragma once

namespace reel::kernels {
inline constexpr int most_threads = 256;

/// Processors that this process may use: its affinity mask, and the quota of its control group.
int usable_processors();
/// By REEL_NUM_THREADS, else OMP_NUM_THREADS, else the processors. If a value is not a number of
/// threads, a line on stderr says so, and the next source is used.
int threads_of_environment();
/// What num_threads() gives (pool.cpp).
int thread_count();
/// From the next op on: 1 to most_threads.
void set_thread_count(int count);
}  // namespace reel::kernels
