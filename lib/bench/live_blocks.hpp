// SPDX-License-Identifier: BSD-3-Clause
// Which lines made the elements that were alive when tensors had the most memory.
#pragma once
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "lib/table/op.hpp"

namespace reel::detail {
using Ticks = std::uint64_t;

/// What the calls of one op at one line have in common.
struct SpanKey {
  const Op* op;  // null: a backward pass, or no op
  Part part;
  const char* file;
  unsigned line;
  auto operator<=>(const SpanKey&) const = default;
};

/// Blocks of elements with more than small_bytes that are alive, and what made them. Used behind
/// Lock::profiles.
class LiveBlocks {
 public:
  explicit LiveBlocks(std::int64_t live_before) : before_(live_before), peak_(live_before) {}
  /// `maker` is what runs now. An op that ends later may be the block's maker.
  void take(const void* block, std::int64_t bytes, const SpanKey& maker);
  /// The elements in this block are a result of `maker`, unless an earlier op has made the block.
  void name(const void* block, const SpanKey& maker);
  void give(const void* block, std::int64_t bytes);
  /// All tensors of the process have so many bytes now.
  void count(std::int64_t bytes, Ticks now);

  std::int64_t peak() const { return peak_; }
  Ticks peak_time() const { return peak_time_; }
  /// Of the tensors that lived before, at the peak.
  std::int64_t before_at_peak() const { return before_at_peak_; }
  std::map<SpanKey, std::int64_t> at_peak() const;

 private:
  struct Block {
    std::int64_t bytes;
    SpanKey maker;
    bool is_result;
    std::uint64_t number;  // of take()
  };
  std::unordered_map<const void*, Block> alive_;
  std::vector<Block> given_;  // since the peak, at which they were alive
  std::int64_t before_, before_at_peak_ = before_, peak_;
  std::uint64_t number_ = 0, peak_number_ = 0;
  Ticks peak_time_ = 0;
};
}  // namespace reel::detail
