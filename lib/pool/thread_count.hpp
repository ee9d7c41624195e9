// SPDX-License-Identifier: BSD-3-Clause
// How many threads there should be, as the environment and the machine say.
#pragma once

namespace reel::kernels {
inline constexpr int most_threads = 256;

/// Processors that this process may use: its affinity mask, and the quota of its control group.
int usable_processors();
/// By REEL_NUM_THREADS, else OMP_NUM_THREADS, else the processors. A value that is no number of
/// threads is named on stderr, and the next source asked.
int threads_of_environment();
/// What num_threads() gives (pool.cpp).
int thread_count();
/// From the next op on: 1 to most_threads.
void set_thread_count(int count);
}  // namespace reel::kernels
