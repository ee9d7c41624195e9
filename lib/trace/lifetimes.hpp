// SPDX-License-Identifier: BSD-3-Clause
// Finds out when the values of a tree are read.
#pragma once
#include <vector>

#include "lib/trace/tree.hpp"

namespace reel::tracing {
class Lifetimes {
 public:
  explicit Lifetimes(const Tree& tree);

  /// The segments in an order in which all descendants of a segment follow it directly.
  const std::vector<int>& order() const { return order_; }
  /// The value whose elements this one views, or itself.
  int root(int value) const {
    const Value& v = tree_.values[static_cast<std::size_t>(value)];
    return v.kind == Value::Kind::view ? v.number : value;
  }
  /// Whether a root is read after this step of this segment, or in later segments.
  bool used_after(int value, int segment, int step) const {
    return next_use(value, segment, step) != nullptr;
  }
  /// Whether it is read at this step, and at no other step after `after`.
  bool only_used_at(int value, int segment, int after, int step) const {
    const Use* const next = next_use(value, segment, after);
    return next && next->segment == rank_of(segment).first && next->step == step &&
           !used_after(value, segment, step);
  }

 private:
  struct Rank {
    int first, last;  // the rank of a segment, and the rank of its last descendant
  };
  struct Use {
    int segment;  // the rank of the segment
    int step;
    friend auto operator<=>(const Use&, const Use&) = default;
  };
  const Use* next_use(int value, int segment, int step) const;
  const Rank& rank_of(int segment) const { return ranks_[static_cast<std::size_t>(segment)]; }
  void order_segments();
  void find_uses();

  const Tree& tree_;
  std::vector<int> order_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<Use>> uses_;  // of roots, in order
};
}  // namespace reel::tracing
