// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/playing.hpp"

#include <algorithm>
#include <utility>

#include "lib/body/text.hpp"
#include "lib/gate/devices.hpp"
#include "lib/table/backend.hpp"

namespace reel {
PlaybackScope::PlaybackScope(Context& context, std::uint64_t tape)
    : context_(context),
      muted_(tape & ~context.reel->muted),
      site_(context.site),
      names_(context.site_name.empty()) {
  if (names_) context_.site_name = "gradient";
  context_.reel->muted |= tape;
  context_.update_recording();
}
PlaybackScope::~PlaybackScope() {
  context_.reel->muted &= ~muted_;
  context_.update_recording();
  context_.site = site_;
  if (names_) context_.site_name = {};
}

namespace {
Tensor ones_alike(Context& context, const Body& like, Caller caller) {
  const Device device = device_of(like);
  Body* ones = allocate_on(context, device, like.dtype, like.shape, like.elements);
  if (!ones) fail<MemoryError>(caller, "gradient", "upstream", "memory", "none from the system");
  Tensor result = Access::adopt(ones);
  backend_of(device.kind)->fill(*ones, 1);
  return result;
}
}  // namespace

Tensor upstream_for(Context& context, const Body& like, const Tensor& upstream, Caller caller) {
  if (!upstream.defined()) return ones_alike(context, like, caller);
  if (!(upstream.shape() == like.shape))
    fail<ShapeError>(caller, "gradient", "upstream", "the target's shape " + to_text(like.shape),
                     to_text(upstream.shape()));
  const Device device = device_of(like);
  if (!(upstream.device() == device))
    fail<DeviceError>(caller, "gradient", "upstream", "a tensor on the target's " + to_text(device),
                      "one on " + to_text(upstream.device()));
  return upstream.to(like.dtype, caller);
}

void find_sources(Reel& reel, const GradientSources& sources, std::uint64_t tape,
                  std::uint32_t start, SmallVector<SourceValue, 16>& places) {
  SmallVector<std::pair<const Cell*, std::size_t>, 16> cells;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].variable()) {
      cells.push_back({&Access::cell(*sources[i].variable()), i});
      continue;
    }
    const Body& body = *read_body(Context::here(), *sources[i].tensor());
    std::uint32_t record = reel.find(body);
    std::uint32_t value = record == no_record ? 0 : Reel::value_of(body, reel[record]);
    // A leaf that only later tapes watch is the identity for this tape, so the gradient belongs to
    // the value before it.
    while (record != no_record && record >= start && reel.is_leaf(record) &&
           !(reel[record].watchers & tape) && reel[record].tapes & tape) {
      value = reel[record].inputs[0].value;
      record = reel[record].inputs[0].record;
    }
    if (record == no_record || record < start) continue;
    const bool played = reel[record].tapes & tape;
    if (played || reel[record].watchers & tape) places.push_back({value, i, played});
  }
  if (cells.size() > 1) std::sort(cells.begin(), cells.end());
  for (const Leaf& leaf : reel.leaves()) {
    if (!leaf.cell || !(reel[leaf.record].watchers & tape)) continue;
    auto* cell = std::lower_bound(cells.begin(), cells.end(),
                                  std::pair<const Cell*, std::size_t>(leaf.cell, 0));
    for (; cell != cells.end() && cell->first == leaf.cell; ++cell)
      places.push_back({reel[leaf.record].first_value, cell->second, false});
  }
}
}  // namespace reel
