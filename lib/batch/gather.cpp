// SPDX-License-Identifier: BSD-3-Clause
#include "lib/batch/gather.hpp"

#include <utility>

#include "lib/batch/rows.hpp"

namespace reel::batch {
namespace {
/// An output of a launch of which calls take rows.
struct Part {
  Launch* launch = nullptr;  // null: tensors that f has given, beside each other
  std::uint32_t output = 0;
};
/// The number of the part among others, which may be a new one.
std::size_t number_of(std::vector<Part>& parts, const Source& source) {
  std::size_t& number = source.launch->part[source.output];
  if (number < parts.size() && parts[number].launch == source.launch &&
      parts[number].output == source.output)
    return number;
  parts.push_back({source.launch, source.output});
  return number = parts.size() - 1;
}
}  // namespace

Input gathered(const Queue& queue, const std::vector<Node*>& calls, std::size_t i, bool plain) {
  if (queue.is_shared(i)) return queue.shared[i];
  std::vector<Part> parts;
  std::vector<Tensor> given;
  std::size_t part_of_given = 0;
  std::vector<std::int64_t> places;
  places.reserve(calls.size());
  for (const Node* const each : calls) {
    const Source& source = each->inputs[i];
    if (source.node) {
      places.push_back(place_of(number_of(parts, source), source.row));
      continue;
    }
    if (given.empty()) {
      part_of_given = parts.size();
      parts.emplace_back();
    }
    if (given.empty() || Access::body(given.back()) != Access::body(source.known))
      given.push_back(source.known);
    places.push_back(place_of(part_of_given, std::ssize(given) - 1));
  }
  if (parts.size() == 1 && given.size() == 1) return {.tensor = given[0]};
  const Caller caller = calls[0]->caller;
  std::vector<Tensor> tensors;
  tensors.reserve(parts.size());
  for (const Part& each : parts)
    tensors.push_back(each.launch ? each.launch->outputs[each.output]
                                  : beside_each_other(given, plain, caller));
  return {.tensor = take_rows(std::move(tensors), std::move(places), plain, caller),
          .batched = true};
}
Tensor row_of(const Node& node, std::uint32_t output) {
  return node.launch->outputs[output](node.row);
}
}  // namespace reel::batch
