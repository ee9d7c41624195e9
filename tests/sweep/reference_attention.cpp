// SPDX-License-Identifier: BSD-3-Clause
// References of attention: the formula, one query after the other.
#include <cmath>
#include <limits>

#include "lib/formulas/philox.hpp"
#include "lib/table/options/attention.hpp"
#include "sweep/reference.hpp"

namespace reel::tests {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

double factor_of(double dropout, double seed, std::uint64_t head, std::int64_t query,
                 std::int64_t key) {
  const auto number = static_cast<std::uint64_t>(seed);
  std::uint32_t words[4] = {static_cast<std::uint32_t>(key / 4), static_cast<std::uint32_t>(query),
                            static_cast<std::uint32_t>(head), 0};
  formulas::philox(words, static_cast<std::uint32_t>(number),
                   static_cast<std::uint32_t>(number >> 32));
  return words[key % 4] < static_cast<std::uint64_t>((1 - dropout) * 0x1p32) ? 1 / (1 - dropout)
                                                                             : 0;
}
Hosts attention(const Hosts& in, const void* given) {
  const auto& options = as<AttentionSettings>(given);
  const Host &q = in[0], &k = in[1], &v = in[2];
  const std::int64_t width = q.shape[-1], keys = k.shape[-2], queries = q.shape[-2];
  const std::int64_t heads = q.shape[-3], group = heads ? heads / k.shape[-3] : 1;
  Shape rows = q.shape, scores = q.shape, result = q.shape;
  rows.resize(q.shape.rank() - 1);
  scores.data()[q.shape.rank() - 1] = keys;
  result.data()[q.shape.rank() - 1] = v.shape[-1];
  Hosts made = {filled(result, [](const auto&) { return 0.0; }),
                filled(rows, [](const auto&) { return 0.0; })};
  each_position(rows, [&](std::vector<std::int64_t> index, std::size_t row) {
    const std::size_t head = row / static_cast<std::size_t>(queries);
    const std::size_t first =
        head / static_cast<std::size_t>(group) * static_cast<std::size_t>(keys);  // its keys
    const std::int64_t query = index.back();
    std::int64_t length = keys;
    if (options.has_lengths)
      length = static_cast<std::int64_t>(in[static_cast<std::size_t>(options.lengths())]
                                             .values[head / static_cast<std::size_t>(heads)]);
    std::vector<double> score(static_cast<std::size_t>(keys), -infinity);
    double most = -infinity, sum = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      if (options.causal && j - keys > query - queries) continue;
      if (options.window && j - keys <= query - queries - options.window) continue;
      double product = 0;
      for (std::int64_t e = 0; e < width; ++e)
        product +=
            q.values[row * static_cast<std::size_t>(width) + static_cast<std::size_t>(e)] *
            k.values[(first + static_cast<std::size_t>(j)) * static_cast<std::size_t>(width) +
                     static_cast<std::size_t>(e)];
      double& found = score[static_cast<std::size_t>(j)];
      found = product * options.scale;
      if (options.has_mask) {
        const Host& mask = in[static_cast<std::size_t>(options.mask())];
        index.push_back(j);
        const double m = at(mask, index);
        index.pop_back();
        if (mask.dtype != DType::boolean)
          found += m;
        else if (m == 0)
          found = -infinity;
      }
      most = std::fmax(most, found);
    }
    if (most == -infinity) return;
    for (double& each : score) sum += each = std::exp(each - most);
    made[1].values[row] = most + std::log(sum);
    for (std::int64_t j = 0; j < length; ++j) {
      double weight = score[static_cast<std::size_t>(j)] / sum;
      if (weight == 0) continue;
      if (options.dropout > 0)
        weight *= factor_of(options.dropout, in[static_cast<std::size_t>(options.seed())].values[0],
                            head, query, j);
      const auto wide = static_cast<std::size_t>(v.shape[-1]);
      for (std::size_t e = 0; e < wide; ++e)
        made[0].values[row * wide + e] +=
            weight * v.values[(first + static_cast<std::size_t>(j)) * wide + e];
    }
  });
  return made;
}
}  // namespace

void add_attention_references(References& table) {
  table["attention"] = attention;
  table["attention_dropout"] = [](const Hosts& in, const void* given) {
    const auto& options = as<AttentionDropoutOptions>(given);
    const std::int64_t queries = options.shape[-2];
    std::int64_t row = -1;
    return Hosts{filled(options.shape, [&](const std::vector<std::int64_t>& index) {
      row += index.back() == 0;
      return factor_of(options.dropout, in[0].values[0], static_cast<std::uint64_t>(row / queries),
                       row % queries, index.back());
    })};
  };
}
}  // namespace reel::tests
