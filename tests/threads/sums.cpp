// SPDX-License-Identifier: BSD-3-Clause
// R7: sums along a middle axis, whose parts threads share, against exact sums of whole numbers.
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
void check_sum(std::int64_t outer, std::int64_t rows, std::int64_t inner) {
  INFO(outer << " x " << rows << " x " << inner);
  std::vector<float> x(static_cast<std::size_t>(outer * rows * inner));
  std::vector<float> exact(static_cast<std::size_t>(outer * inner));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 31 % 23);
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t k = 0; k < inner; ++k)
        exact[static_cast<std::size_t>(o * inner + k)] +=
            x[static_cast<std::size_t>((o * rows + r) * inner + k)];
  const Tensor all = from_span(x, {outer, rows, inner});
  int wrong = 0;
  for (int time = 0; time < 10; ++time) wrong += sum(all, 1).to_vector<float>() != exact;
  CHECK(wrong == 0);
}
}  // namespace

TEST_CASE("sums along a middle axis are exact for whole numbers", "[threads]") {
  const KeepThreads keep;
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    INFO(threads << " threads");
    check_sum(200, 1500, 2);  // each pair of columns has sums that wait for their partners
    check_sum(200, 1500, 3);
    check_sum(6, 64, 8192);  // so few rows that no sum waits
    check_sum(3, 65, 8192);
  }
}
}  // namespace reel::tests
