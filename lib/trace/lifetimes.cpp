// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/lifetimes.hpp"

#include <algorithm>

namespace reel::tracing {
namespace {
constexpr int at_end = 1 << 30;
}

Lifetimes::Lifetimes(const Tree& tree)
    : tree_(tree), ranks_(tree.segments.size()), uses_(tree.values.size()) {
  order_segments();
  find_uses();
}

void Lifetimes::order_segments() {
  std::vector<int> waiting{0};
  while (!waiting.empty()) {
    const int segment = waiting.back();
    waiting.pop_back();
    ranks_[static_cast<std::size_t>(segment)].first = static_cast<int>(order_.size());
    order_.push_back(segment);
    for (const Branch& branch : tree_.segments[static_cast<std::size_t>(segment)].branches)
      waiting.push_back(branch.segment);
  }
  for (auto i = order_.rbegin(); i != order_.rend(); ++i) {
    auto& [first, last] = ranks_[static_cast<std::size_t>(*i)];
    last = first;
    for (const Branch& branch : tree_.segments[static_cast<std::size_t>(*i)].branches)
      last = std::max(last, rank_of(branch.segment).last);
  }
}

void Lifetimes::find_uses() {
  for (const int i : order_) {
    const Segment& segment = tree_.segments[static_cast<std::size_t>(i)];
    const int rank = rank_of(i).first;
    const auto use = [&](int value, int step) {
      if (value >= 0) uses_[static_cast<std::size_t>(root(value))].push_back({rank, step});
    };
    int step = 0;
    for (const Step& s : segment.steps) {
      for (const int input : s.inputs) use(input, step);
      ++step;
    }
    if (!segment.branches.empty()) use(segment.question.inputs[0], at_end);
    if (!segment.ends) continue;
    for (const int result : segment.results) use(result, at_end);
  }
}

const Lifetimes::Use* Lifetimes::next_use(int value, int segment, int step) const {
  const auto& uses = uses_[static_cast<std::size_t>(value)];
  const auto [first, last] = rank_of(segment);
  const auto next = std::upper_bound(uses.begin(), uses.end(), Use{first, step});
  return next != uses.end() && next->segment <= last ? &*next : nullptr;
}
}  // namespace reel::tracing
