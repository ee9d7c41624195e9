// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/playing.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/body/text.hpp"
#include "lib/gate/devices.hpp"
#include "lib/table/backend.hpp"

namespace reel {
Tensor ones_alike(Context& context, const Body& like, Caller caller) {
  const Device device = device_of(like);
  Body* ones = allocate_on(context, device, like.dtype, like.shape, like.elements);
  if (!ones) fail<MemoryError>(caller, "gradient", "upstream", "memory", "none from the system");
  Tensor result = Access::adopt(ones);
  backend_of(device.kind)->fill(*ones, 1);
  return result;
}

void check_upstream(const Body& like, const Tensor& upstream, Caller caller) {
  if (!(upstream.shape() == like.shape))
    fail<ShapeError>(caller, "gradient", "upstream", "the target's shape " + to_text(like.shape),
                     to_text(upstream.shape()));
  const Device device = device_of(like);
  if (!(upstream.device() == device))
    fail<DeviceError>(caller, "gradient", "upstream", "a tensor on the target's " + to_text(device),
                      "one on " + to_text(upstream.device()));
}

namespace {
using Places = SmallVector<SourceValue, 16>;

bool is_watched(Reel& reel, const Leaf& leaf, std::uint64_t tape) {
  return leaf.cell && reel[leaf.record].watchers & tape;
}
void add_leaf(Reel& reel, const Leaf& leaf, std::size_t source, Places& places) {
  places.push_back({reel[leaf.record].first_value, source, false});
}
/// The place of a tensor that is a source.
[[gnu::noinline]] void find_tensor(Reel& reel, const Tensor& x, std::size_t source,
                                   std::uint64_t tape, std::uint32_t start, Places& places) {
  const Body& body = *read_body(Context::here(), x);
  std::uint32_t record = reel.find(body);
  std::uint32_t value = record == no_record ? 0 : Reel::value_of(body, reel[record]);
  // A leaf that only later tapes watch is the identity for this tape, so the gradient belongs to
  // the value before it.
  while (record != no_record && record >= start && reel.is_leaf(record) &&
         !(reel[record].watchers & tape) && reel[record].tapes & tape) {
    value = reel[record].inputs[0].value;
    record = reel[record].inputs[0].record;
  }
  if (record == no_record || record < start) return;
  const bool played = reel[record].tapes & tape;
  if (played || reel[record].watchers & tape) places.push_back({value, source, played});
}
/// The places of many Variables. Their cells are sorted, so each leaf is looked up at once.
[[gnu::noinline]] void find_variables(Reel& reel, const GradientSources& sources,
                                      std::uint64_t tape, Places& places) {
  std::vector<std::pair<const Cell*, std::size_t>> cells;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].variable()) cells.emplace_back(&Access::cell(*sources[i].variable()), i);
  std::sort(cells.begin(), cells.end());
  for (const Leaf& leaf : reel.leaves()) {
    if (!is_watched(reel, leaf, tape)) continue;
    auto cell = std::lower_bound(cells.begin(), cells.end(), std::pair(leaf.cell, std::size_t{0}));
    for (; cell != cells.end() && leaf.is_of(*cell->first); ++cell)
      add_leaf(reel, leaf, cell->second, places);
  }
}
}  // namespace

void find_sources(Reel& reel, const GradientSources& sources, std::uint64_t tape,
                  std::uint32_t start, SmallVector<SourceValue, 16>& places) {
  const std::size_t count = sources.size();
  const Cell* cells[8];  // of the Variables, null for a Tensor
  for (std::size_t i = 0; i < count; ++i) {
    const Variable* const variable = sources[i].variable();
    if (!variable) find_tensor(reel, *sources[i].tensor(), i, tape, start, places);
    if (i < std::size(cells)) cells[i] = variable ? &Access::cell(*variable) : nullptr;
  }
  if (count > std::size(cells)) return find_variables(reel, sources, tape, places);
  for (const Leaf& leaf : reel.leaves())
    for (std::size_t i = 0; i < count; ++i)
      if (cells[i] && leaf.is_of(*cells[i]) && is_watched(reel, leaf, tape))
        add_leaf(reel, leaf, i, places);
}
}  // namespace reel
