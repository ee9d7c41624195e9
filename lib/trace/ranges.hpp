// SPDX-License-Identifier: BSD-3-Clause
// Offsets in memory that is laid out once.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace reel::tracing {
/// The free ranges of a memory, and the end of the memory so far.
class FreeRanges {
 public:
  std::size_t take(std::size_t bytes) {
    auto best = ranges_.end();
    for (auto range = ranges_.begin(); range != ranges_.end(); ++range)
      if (range->second >= bytes && (best == ranges_.end() || range->second < best->second))
        best = range;
    if (best == ranges_.end()) {
      const std::size_t offset = end_;
      end_ += bytes;
      return offset;
    }
    const std::size_t offset = best->first;
    best->first += bytes;
    best->second -= bytes;
    if (!best->second) ranges_.erase(best);
    return offset;
  }
  void give(std::size_t offset, std::size_t bytes) {
    auto after = std::lower_bound(ranges_.begin(), ranges_.end(), std::pair(offset, bytes));
    after = ranges_.insert(after, {offset, bytes});
    if (after + 1 != ranges_.end() && offset + bytes == after[1].first) {
      after->second += after[1].second;
      ranges_.erase(after + 1);
    }
    if (after != ranges_.begin() && after[-1].first + after[-1].second == offset) {
      after[-1].second += after->second;
      ranges_.erase(after);
    }
  }
  std::size_t end() const { return end_; }

 private:
  std::vector<std::pair<std::size_t, std::size_t>> ranges_;  // offset and bytes, in order
  std::size_t end_ = 0;
};
}  // namespace reel::tracing
