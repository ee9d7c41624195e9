// SPDX-License-Identifier: BSD-3-Clause
// How many threads an op may use.
#pragma once  // defined in lib/flow
#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/shape.hpp>

namespace reel {
/// How many threads share the work of a large op, the calling thread included. At first this is the
/// environment variable REEL_NUM_THREADS, else OMP_NUM_THREADS, else the number of processors that
/// the process may use. Results have the same bits for any number.
REEL_API int num_threads();
/// Sets the number for all threads of the program, from the next op on. Throws Error unless it is 1
/// to 256.
REEL_API void set_num_threads(CountNumber threads, Caller caller = Caller::here());
}  // namespace reel
