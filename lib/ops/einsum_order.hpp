// SPDX-License-Identifier: BSD-3-Clause
// The order of the products of einsum().
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <reel/shape.hpp>

namespace reel {
/// A set of indices. Letters are indices 0 to 51; the axes of "..." are 52 to 59, the last axis 59.
using Indices = std::uint64_t;
inline constexpr int index_count = 60;
constexpr Indices set_of(int index) { return Indices{1} << index; }
inline int count_of(Indices set) { return std::popcount(set); }

/// The length of each index. An axis of length 1 has no index.
struct Lengths {
  std::int64_t of[index_count];
  double elements(Indices set) const {
    double product = 1;
    for (; set; set &= set - 1) product *= static_cast<double>(of[std::countr_zero(set)]);
    return product;
  }
};

/// Finds the order in which up to five factors are multiplied: the one with the least work, which
/// is one for each multiplication and 16 for each element written. Of equal ones it takes the one
/// whose products hold the fewest elements at a time. A product with more elements than `limit`
/// must save nine tenths of the work.
class Search {
 public:
  static constexpr std::size_t most = 5;
  struct Pair {
    std::size_t first, second;  // the product takes the place of the first one
  };
  struct Order {
    double work = std::numeric_limits<double>::infinity(), peak = work;
    Pair pairs[most - 1];
    bool operator<(const Order& other) const {
      return work != other.work ? work < other.work : peak < other.peak;
    }
  };
  Search(const Lengths& lengths, Indices result, double limit)
      : lengths_(lengths), result_(result), limit_(limit) {}

  /// The indices of the product of two factors among `count` ones.
  Indices product(const Indices* factors, std::size_t count, Pair pair) const {
    Indices keep = result_;
    for (std::size_t i = 0; i < count; ++i)
      if (i != pair.first && i != pair.second) keep |= factors[i];
    return (factors[pair.first] | factors[pair.second]) & keep;
  }
  double work(Indices first, Indices second, Indices product) const {
    return lengths_.elements(first | second) + 16 * lengths_.elements(product);
  }
  Order best(const Indices* factors, std::size_t count) {
    Indices all[most];
    std::copy(factors, factors + count, all);
    Order order;
    order.work = order.peak = 0;
    extend(all, count, 0, 0, 0, false, order);
    return best_[1].work * 10 <= best_[0].work ? best_[1] : best_[0];
  }

 private:
  /// Tries all pairs. `made` has a bit for each factor that is a product, and `live` is what these
  /// hold.
  void extend(const Indices* factors, std::size_t count, std::size_t step, unsigned made,
              double live, bool large, const Order& before) {
    if (count == 1) {
      if (before < best_[large]) best_[large] = before;
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = i + 1; k < count; ++k) {
        const Indices one = product(factors, count, {i, k});
        const double elements = lengths_.elements(one);
        Order order = before;
        order.pairs[step] = {i, k};
        order.work += work(factors[i], factors[k], one);
        order.peak = std::max(order.peak, live + elements);
        if (count_of(one) > static_cast<int>(Shape::max_rank)) continue;
        Indices rest[most];
        unsigned rest_made = 0;
        std::size_t kept = 0;
        double held = live + elements;
        for (std::size_t f = 0; f < count; ++f) {
          if ((f == i || f == k) && made >> f & 1) held -= lengths_.elements(factors[f]);
          if (f == k) continue;
          if (f == i || made >> f & 1) rest_made |= 1u << kept;
          rest[kept++] = f == i ? one : factors[f];
        }
        extend(rest, kept, step + 1, rest_made, held, large || elements > limit_, order);
      }
    }
  }
  const Lengths& lengths_;
  Indices result_;
  double limit_;
  Order best_[2];  // within the limit; with a larger product
};

}  // namespace reel
