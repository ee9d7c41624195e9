// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/completion.hpp"

#include <algorithm>

#include "lib/flow/observer.hpp"

namespace reel {
Completion::Completion(Context& context, Playback& playback, const GradientSources& sources,
                       std::span<const SourceValue> places, Tensor* out)
    : context_(context), playback_(playback), sources_(sources), places_(places), out_(out) {
  const std::vector<std::uint32_t> first = playback.first_uses();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::uint32_t record = no_record;
    for (const SourceValue& place : places)
      if (place.source == i) record = std::min(record, playback.first_use_of(place.value, first));
    if (record != no_record) first_uses_.push_back({record, i});
  }
  std::stable_sort(first_uses_.begin(), first_uses_.end(),
                   [](const FirstUse& a, const FirstUse& b) { return a.record > b.record; });
}

void Completion::play() {
  std::vector<std::size_t> late;
  for (const auto& [record, source] : first_uses_) {
    playback_.play_down_to(record);
    bool done = true;
    for (const SourceValue& place : places_)
      if (place.source == source) done &= playback_.add_deferred(place.value);
    done ? complete(source) : late.push_back(source);
  }
  playback_.play_rest();
  for (const std::size_t source : late) complete(source);
}

void Completion::complete(std::size_t source) {
  for (const SourceValue& place : places_)
    if (place.source == source)
      playback_.take_requested(place.value, out_[source], place.is_played);
  if (out_[source].defined())
    tell_gradient_complete(context_, sources_[source], source, out_[source]);
}
}  // namespace reel
