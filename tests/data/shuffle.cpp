// SPDX-License-Identifier: BSD-3-Clause
// The orders that shuffle() gives.
#include <cmath>
#include <map>
#include <numeric>

#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Numbers = std::vector<std::int64_t>;
/// A stream of the numbers 0 to n - 1.
data::Pipeline<std::int64_t> stream_of(std::int64_t n) {
  return data::generate<std::int64_t>([n] {
    return [n, i = std::int64_t{0}](std::int64_t& x) mutable {
      return i < n ? (x = i++, true) : false;
    };
  });
}
}  // namespace

TEST_CASE("a shuffle is fair", "[cpu][data]") {
  // The places of the first two elements, over many seeds: chi-square as distance in standard
  // deviations.
  for (const std::int64_t n : {2, 3, 8, 50, 200}) {
    const int seeds = n < 50 ? 4000 : 40000;
    std::map<std::pair<std::int64_t, std::int64_t>, int> count;
    for (int s = 0; s < seeds; ++s) {
      std::int64_t first[2] = {0, 1};
      data::detail::permute(data::detail::mixed(static_cast<std::uint64_t>(s), 9), n, first);
      ++count[{first[0], first[1]}];
    }
    const auto cells = static_cast<double>(n * (n - 1));
    const double expected = seeds / cells;
    double chi = (cells - static_cast<double>(count.size())) * expected;
    for (const auto& [pair, times] : count)
      chi += (times - expected) * (times - expected) / expected;
    INFO(n);
    CHECK(std::abs(chi - (cells - 1)) < 5 * std::sqrt(2 * cells));
  }
  // Neighbours of a large one, in 16 x 16 fields; each number occurs once.
  for (const std::int64_t n : {5000, 100000}) {
    Numbers order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    data::detail::permute(42, n, order);
    double chi = 0;
    std::vector<int> fields(256);
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      ++fields[static_cast<std::size_t>(order[i] * 16 / n * 16 + order[i + 1] * 16 / n)];
    const double expected = static_cast<double>(n - 1) / 256;
    for (const int times : fields) chi += (times - expected) * (times - expected) / expected;
    CHECK(std::abs(chi - 255) < 5 * std::sqrt(2 * 255));
    std::sort(order.begin(), order.end());
    CHECK(order.front() == 0);
    CHECK(order.back() == n - 1);
    CHECK(std::adjacent_find(order.begin(), order.end()) == order.end());
  }
  // A buffer that holds the whole stream gives each order equally often.
  std::map<Numbers, int> orders;
  for (std::uint64_t s = 0; s < 2400; ++s) {
    auto line = stream_of(4).shuffle({.seed = s, .buffer = 10});
    Numbers order;
    for (const std::int64_t x : line) order.push_back(x);
    ++orders[order];
  }
  CHECK(orders.size() == 24);
  for (const auto& [order, times] : orders) CHECK(std::abs(times - 100) < 60);
}

TEST_CASE("a resume of a stream's shuffle has the exceptions that were not given", "[cpu][data]") {
  // What is given, with the item of each exception as a negative number.
  const auto line_of = [](std::int64_t buffer) {
    return stream_of(300)
        .map([](std::int64_t i) {
          if (i % 41 == 3 || i == 45 || i == 299) throw std::runtime_error(std::to_string(i));
          return i;
        })
        .shuffle({.seed = 5, .buffer = buffer});
  };
  const auto rest = [](auto& line) {
    Numbers all;
    for (bool more = true; more;) try {
        for (const std::int64_t x : line) all.push_back(x);
        more = false;
      } catch (const data::ItemError& error) {
        try {
          std::rethrow_exception(error.cause());
        } catch (const std::runtime_error& cause) {
          all.push_back(-std::stoll(cause.what()));
        }
      }
    return all;
  };
  for (const std::int64_t buffer : {1, 7, 100, 1000}) {
    auto whole = line_of(buffer);
    const Numbers all = rest(whole);
    REQUIRE(all.size() == 300);
    for (std::size_t stop = 0; stop < 300; ++stop) {
      auto line = line_of(buffer);
      std::size_t seen = 0;
      while (seen < stop) try {
          for ([[maybe_unused]] const std::int64_t x : line)
            if (++seen == stop) break;
        } catch (const data::ItemError&) {
          ++seen;
        }
      Tensor kept;
      line.fields([&](std::string_view, const Tensor& state) { kept = state; });
      auto resumed = line_of(buffer);
      resumed.fields([&](std::string_view, Tensor& state) { state = kept; });
      INFO("buffer " << buffer << ", stop " << stop);
      REQUIRE(rest(resumed) == Numbers(all.begin() + static_cast<std::ptrdiff_t>(stop), all.end()));
    }
  }
}
}  // namespace reel::tests
