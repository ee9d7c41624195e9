// SPDX-License-Identifier: BSD-3-Clause
// How many threads an op may use.
#pragma once  // defined in lib/flow
#include <reel/caller.hpp>
#include <reel/export.hpp>

namespace reel {
/// Large ops share their work among this many threads, the calling one among them: what the
/// environment variable REEL_NUM_THREADS says, else OMP_NUM_THREADS, else one for each processor
/// that the process may use. Results have the same bits whatever the number.
REEL_API int num_threads();
/// From the next op on, in all threads of the program. Throws Error unless 1 <= threads <= 256.
REEL_API void set_num_threads(int threads, Caller caller = Caller::here());
}  // namespace reel
