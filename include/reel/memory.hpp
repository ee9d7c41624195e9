// SPDX-License-Identifier: BSD-3-Clause
// What reel holds of the machine's memory, and what happens when there is no more.
#pragma once  // defined in lib/flow, lib/memory
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
/// Gives memory that nothing uses back to the system: the cache of all threads, what this thread
/// keeps for tensors and for records of tapes, and free pages of the C library. Every thread keeps
/// up to 256 KiB of each size of up to 128 KiB besides the cache.
REEL_API void trim_memory();
/// At most this many bytes of blocks from 8 KiB on stay in the cache of all threads (default 1
/// GiB).
REEL_API void set_cache_limit(std::size_t bytes);

/// What becomes of std::bad_alloc where it would leave the library, or an op or layer of your own:
/// throws MemoryError without asking for memory.
///
///     Tensor f(Operand x) try {
///       ...
///     } catch (const std::bad_alloc&) {
///       fail_memory(x.caller(), "f");
///     }
[[noreturn]] REEL_API void fail_memory(Caller caller, std::string_view op);
}  // namespace reel
