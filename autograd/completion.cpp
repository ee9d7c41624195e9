// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/completion.hpp"

#include <algorithm>

#include "autograd/unconnected.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/devices.hpp"

namespace reel {
namespace {
/// Throws unless the function returned a tensor that can stand for the gradient.
void check_returned(const Tensor& found, const Tensor& gradient, const std::string& source,
                    Caller caller) {
  const std::string argument = "on_complete for " + source;
  if (!found.defined())
    fail<Error>(caller, "gradient", argument, "a tensor", "an undefined Tensor");
  if (!(found.shape() == gradient.shape()))
    fail<ShapeError>(caller, "gradient", argument, "shape " + to_text(gradient.shape()),
                     to_text(found.shape()));
  if (found.dtype() != gradient.dtype())
    fail<DTypeError>(caller, "gradient", argument, name_of(gradient.dtype()),
                     name_of(found.dtype()));
  if (!(found.device() == gradient.device()))
    fail<DeviceError>(caller, "gradient", argument, to_text(gradient.device()),
                      to_text(found.device()));
}
}  // namespace

void Completed::operator()(std::size_t source, const ResultMarks& marks,
                           const LateTapes* late) const {
  Tensor& gradient = out_[source];
  if (late) late->mark(context_, &gradient, 1, caller_);
  if (marks) marks.mark(context_, gradient, caller_);
  if (context_.mode & observed)
    tell_gradient_complete(context_, sources_[source], source, gradient);
  if (!options_.on_complete) return;
  const OwnLines lines(context_);
  Tensor found = options_.on_complete(source, gradient);
  check_returned(found, gradient, name_of(sources_[source], source), caller_);
  gradient = std::move(found);
}

Completion::Completion(Playback& playback, std::size_t sources, std::span<const SourceValue> places)
    : playback_(playback), places_(places) {
  const std::vector<std::uint32_t> first = playback.first_uses();
  for (std::size_t i = 0; i < sources; ++i) {
    std::uint32_t record = no_record;
    for (const SourceValue& place : places)
      if (place.source == i) record = std::min(record, playback.first_use_of(place.value, first));
    if (record != no_record) first_uses_.push_back({record, i});
  }
  std::stable_sort(first_uses_.begin(), first_uses_.end(),
                   [](const FirstUse& a, const FirstUse& b) { return a.record > b.record; });
}

void Completion::play(const Completed& completed, const ResultMarks& marks, const LateTapes* late) {
  const auto complete = [&](std::size_t source) {
    Tensor& gradient = completed[source];
    for (const SourceValue& place : places_)
      if (place.source == source) playback_.take_requested(place.value, gradient, place.is_played);
    if (gradient.defined()) completed(source, marks, late);
  };
  std::vector<std::size_t> put_off;
  for (const auto& [record, source] : first_uses_) {
    playback_.play_down_to(record);
    bool done = true;
    for (const SourceValue& place : places_)
      if (place.source == source) done &= playback_.add_deferred(place.value);
    done ? complete(source) : put_off.push_back(source);
  }
  playback_.play_rest();
  for (const std::size_t source : put_off) complete(source);
}
}  // namespace reel
