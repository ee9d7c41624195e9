// SPDX-License-Identifier: BSD-3-Clause
#include "lib/bench/live_blocks.hpp"

#include <algorithm>

namespace reel::detail {
void LiveBlocks::take(const void* block, std::int64_t bytes, const SpanKey& maker) {
  alive_.insert_or_assign(block, Block{bytes, maker, false, ++number_});
}
void LiveBlocks::name(const void* block, const SpanKey& maker) {
  const auto found = alive_.find(block);
  if (found == alive_.end() || found->second.is_result) return;
  found->second.maker = maker;
  found->second.is_result = true;
}
void LiveBlocks::give(const void* block, std::int64_t bytes) {
  const auto found = alive_.find(block);
  if (found == alive_.end()) {
    before_ = std::max(before_ - bytes, std::int64_t{0});
    return;
  }
  if (found->second.number <= peak_number_) given_.push_back(found->second);
  alive_.erase(found);
}
void LiveBlocks::count(std::int64_t bytes, Ticks now) {
  if (bytes <= peak_) return;
  peak_ = bytes;
  peak_time_ = now;
  peak_number_ = number_;
  before_at_peak_ = before_;
  given_.clear();
}

std::map<SpanKey, std::int64_t> LiveBlocks::at_peak() const {
  std::map<SpanKey, std::int64_t> sums;
  for (const Block& block : given_) sums[block.maker] += block.bytes;
  for (const auto& [place, block] : alive_)
    if (block.number <= peak_number_) sums[block.maker] += block.bytes;
  return sums;
}
}  // namespace reel::detail
