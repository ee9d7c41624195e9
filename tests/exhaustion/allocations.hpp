// SPDX-License-Identifier: BSD-3-Clause
// Every allocation of this program: operator new, malloc and its relatives can be made to fail.
#pragma once
#include <cstdint>

namespace reel::tests {
enum class Failing : std::uint8_t { none, one, all_from };

/// Allocations of all threads count while it lives; number k (from 0) fails, or all from k on.
class FailingAllocations {
 public:
  FailingAllocations(std::int64_t k, Failing failing);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
  static std::int64_t counted();
  /// Whether one has failed.
  static bool failed();
};
/// Blocks that were allocated and not freed, of all threads. Zero under AddressSanitizer, which
/// finds leaks itself.
std::int64_t live_allocations();
}  // namespace reel::tests
