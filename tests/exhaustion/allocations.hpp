// SPDX-License-Identifier: BSD-3-Clause
// Intercepts every allocation of this program: operator new, malloc and its relatives can be made
// to fail.
#pragma once
#include <cstdint>

namespace reel::tests {
enum class Failing : std::uint8_t { none, one, all_from };

/// Counts allocations of all threads during its lifetime. Number k (from 0) fails, or all from k
/// on.
class FailingAllocations {
 public:
  FailingAllocations(std::int64_t k, Failing failing);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
  static std::int64_t counted();
  /// Whether an allocation has failed.
  static bool failed();
};
/// The number of blocks that were allocated and not freed, of all threads. Always zero under
/// AddressSanitizer, which finds leaks itself.
std::int64_t live_allocations();
}  // namespace reel::tests
