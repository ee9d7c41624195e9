// SPDX-License-Identifier: BSD-3-Clause
#include "lib/batch/gather.hpp"

#include <algorithm>
#include <utility>

#include <reel/ops.hpp>

namespace reel::batch {
namespace {
/// From the outputs of launches, which may be several; undefined if some call has another input.
Tensor rows_of_launches(const std::vector<Node*>& calls, std::size_t i) {
  struct Part {
    const Launch* launch;
    std::uint32_t output;
    std::vector<std::int64_t> rows;
  };
  std::vector<Part> parts;  // in the order of the calls
  for (const Node* const each : calls) {
    const Source& source = each->inputs[i];
    if (!source.node) return {};
    if (parts.empty() || parts.back().launch != source.launch ||
        parts.back().output != source.output)
      parts.push_back({source.launch, source.output, {}});
    parts.back().rows.push_back(source.row);
  }
  if (parts.size() * 2 > calls.size() && parts.size() > 2) {  // mixed: sort, and put into order
    std::vector<std::size_t> order(calls.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const Source &x = calls[a]->inputs[i], &y = calls[b]->inputs[i];
      return x.launch != y.launch ? x.launch->number < y.launch->number : x.output < y.output;
    });
    std::vector<Node*> sorted;
    for (const std::size_t k : order) sorted.push_back(calls[k]);
    std::vector<std::int64_t> back(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) back[order[k]] = static_cast<std::int64_t>(k);
    std::vector<std::pair<const Launch*, std::uint32_t>> kinds;
    for (const Node* const each : sorted) {
      const std::pair<const Launch*, std::uint32_t> kind(each->inputs[i].launch,
                                                         each->inputs[i].output);
      if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
    }
    if (kinds.size() < parts.size())
      return take(Operand(rows_of_launches(sorted, i), calls[0]->site), tensor(back));
  }
  std::vector<Tensor> found;
  for (const Part& part : parts) {
    const Tensor& all = part.launch->outputs[part.output];
    const std::int64_t first = part.rows.front(),
                       count = static_cast<std::int64_t>(part.rows.size());
    bool adjoins = true;
    for (std::int64_t k = 0; k < count && adjoins; ++k)
      adjoins = part.rows[static_cast<std::size_t>(k)] == first + k;
    if (adjoins && count == part.launch->rows)
      found.push_back(all);
    else if (adjoins)
      found.push_back(all(range(first, first + count)));
    else
      found.push_back(take(Operand(all, calls[0]->site), tensor(part.rows)));
  }
  return found.size() == 1 ? found[0] : concat(Operands(found, calls[0]->site), 0);
}
}  // namespace

Input gathered(const Queue& queue, const std::vector<Node*>& calls, std::size_t i) {
  if (const Kind& kind = queue.kinds[i]; kind.variable || kind.is_number) return queue.shared[i];
  const Source& first = calls[0]->inputs[i];
  if (!first.node) {
    const auto same = [&](const Node* each) {
      return !each->inputs[i].node &&
             Access::body(each->inputs[i].known) == Access::body(first.known);
    };
    if (std::all_of(calls.begin(), calls.end(), same)) return {.tensor = first.known};
  }
  if (Tensor rows = rows_of_launches(calls, i); rows.defined())
    return {.tensor = std::move(rows), .batched = true};
  std::vector<Tensor> all;
  for (const Node* const each : calls) {
    const Source& source = each->inputs[i];
    all.push_back(source.node ? row_of(*source.node, source.output) : source.known);
  }
  return {.tensor = stack(Operands(all, calls[0]->site)), .batched = true};
}
Tensor row_of(const Node& node, std::uint32_t output) {
  return node.launch->outputs[output](node.row);
}
}  // namespace reel::batch
