// SPDX-License-Identifier: BSD-3-Clause
// How much memory the library holds, and what happens when there is no more.
#pragma once  // defined in lib/body, lib/flow, lib/memory
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <reel/caller.hpp>
#include <reel/export.hpp>

namespace reel {
/// Memory and tensors of the process at one moment.
struct MemoryStatistics {
  std::int64_t live_tensors = 0;  // tensors and views alive in the process, all threads
  std::int64_t live_records = 0;  // records held by tapes, all threads
  std::int64_t live_bytes = 0;    // bytes of tensors, headers included
  std::int64_t cached_bytes = 0;  // bytes that no tensor uses, in the cache of all threads
  std::int64_t large_blocks = 0;  // large blocks ever asked of the system
};
/// What the library holds now.
REEL_API MemoryStatistics memory_statistics();
/// Returns unused memory to the system: the cache that all threads share, the memory that this
/// thread keeps for tensors and for records of tapes, free pages of the C library, and unused
/// memory of devices. (A thread keeps blocks of up to 128 KiB for itself, at most 256 KiB of each
/// size. Larger blocks are in the shared cache.)
REEL_API void trim_memory();
/// Sets the most bytes that the shared cache keeps, in blocks of 8 KiB and more. It is 1 GiB at
/// first.
REEL_API void set_cache_limit(std::size_t bytes);

/// Throws MemoryError without allocating memory. The library calls it where a std::bad_alloc would
/// leave it; call it in ops and layers of your own:
///
///     Tensor f(Operand x) try {
///       ...
///     } catch (const std::bad_alloc&) {
///       fail_memory(x.caller(), "f");
///     }
[[noreturn]] REEL_API void fail_memory(Caller caller, std::string_view op);
}  // namespace reel
