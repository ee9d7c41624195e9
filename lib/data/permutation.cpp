// SPDX-License-Identifier: BSD-3-Clause
#include <numeric>

#include <reel/data/stage.hpp>

#include "lib/body/hash.hpp"
#include "lib/pool/process.hpp"

namespace reel::data::detail {
namespace {
constexpr std::int64_t smallest_network = 4096;

/// The permutation of a small n, by the method of Fisher and Yates. A thread keeps the last ones.
struct Tables {
  struct Table {
    std::uint64_t key = 0;
    std::vector<std::int64_t> order;
  } tables[4];
  std::size_t next = 0;

  const std::vector<std::int64_t>& of(std::uint64_t key, std::int64_t n) {
    for (const Table& table : tables)
      if (table.key == key && static_cast<std::int64_t>(table.order.size()) == n)
        return table.order;
    Table& table = tables[next++ % 4];
    table.key = key;
    table.order.resize(static_cast<std::size_t>(n));
    std::iota(table.order.begin(), table.order.end(), 0);
    __extension__ using Wide = unsigned __int128;
    for (std::uint64_t left = table.order.size(); left > 1; --left) {
      const auto drawn = static_cast<std::size_t>(static_cast<Wide>(mixed(key, left)) * left >> 64);
      std::swap(table.order[left - 1], table.order[drawn]);
    }
    return table.order;
  }
};
constinit thread_local OfThread<Tables> of_thread;

/// A network of Feistel (1973) over the least even number of bits that holds n; positions outside
/// of n go through it again. Six rounds are fair for large n only.
class Network {
 public:
  Network(std::uint64_t key, std::int64_t n) : key_(key), n_(static_cast<std::uint64_t>(n)) {
    while ((std::uint64_t{1} << (2 * half_)) < n_) ++half_;
    mask_ = (std::uint64_t{1} << half_) - 1;
  }
  std::int64_t operator()(std::int64_t position) const {
    auto x = static_cast<std::uint64_t>(position);
    do {
      std::uint64_t left = x >> half_, right = x & mask_;
      for (std::uint64_t round = 0; round < 6; ++round) {
        const std::uint64_t next =
            left ^ (mix_bits(right + key_ + round * 0x9e3779b97f4a7c15u) & mask_);
        left = right;
        right = next;
      }
      x = left << half_ | right;
    } while (x >= n_);
    return static_cast<std::int64_t>(x);
  }

 private:
  std::uint64_t key_, n_, mask_ = 0;
  int half_ = 1;
};
}  // namespace

void permute(std::uint64_t key, std::int64_t n, std::span<std::int64_t> positions) {
  if (n < smallest_network) {
    const std::vector<std::int64_t>& order = of_thread.get().of(key, n);
    for (std::int64_t& position : positions) position = order[static_cast<std::size_t>(position)];
  } else {
    const Network network(key, n);
    for (std::int64_t& position : positions) position = network(position);
  }
}
}  // namespace reel::data::detail
