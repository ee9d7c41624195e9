// SPDX-License-Identifier: BSD-3-Clause
// Plays a reel backward for one tape: a loop over records from the target down, no recursion.
#pragma once
#include <span>
#include <vector>

#include <reel/tape.hpp>

#include "autograd/gradient_call.hpp"
#include "lib/dispatch/context.hpp"

namespace reel {
// Glossary. A *value* is one output of a record, numbered through the reel. Its *slot* gathers the
// gradient of the target with respect to it. *Wanted* inputs of a record are those the tape tracks.
class Playback {
 public:
  Playback(Context& context, std::uint64_t tape, std::uint32_t start, bool keeps_saved);

  /// The gradient that the target starts with.
  void seed(std::uint32_t record, int output, Tensor dy);
  /// From `record` down to the tape's start. `visit(record)` sees the slots of a record when all
  /// of its gradient has come, before they are used up.
  template <class Visit>
  void play(std::uint32_t record, const Visit& visit) {
    for (std::uint32_t i = record + 1; i-- > start_;) {
      Record& current = context_.reel[i];
      if (!((current.tapes | current.watchers) & tape_)) continue;
      visit(i);
      if (current.tapes & tape_) play_record(current);
    }
  }
  Tensor& slot(const Record& record, int output) {
    return slots_[record.first_value - first_value_ + static_cast<std::uint32_t>(output)];
  }
  Tensor& input_slot(const Record& record, int i) {
    const InputSlot& input = record.inputs[i];
    return slot(context_.reel[input.record], input.output);
  }
  /// Whether this tape follows an input of a record.
  bool wants(const Record& record, int i) const {
    const InputSlot& input = record.inputs[i];
    if (!input.tracked || input.record < start_ || !(wanted_ >> (i < 63 ? i : 63) & 1))
      return false;
    const Record& made = context_.reel[input.record];
    return (made.tapes | made.watchers) & tape_ && is_floating(input.dtype);
  }
  void add(Tensor& slot, Tensor dx);
  const Tensor& dy(int output) const { return dy_[static_cast<std::size_t>(output)]; }
  bool listened() const { return context_.mode != 0; }

 private:
  void play_record(Record& record);
  void play_pointwise(Record& record, const Tiles* tiles);
  void play_fused(Record& record);
  void tile_gradient(const Record& record, int i, GradientTile tile, bool last);

  Context& context_;
  std::uint64_t tape_;
  std::uint32_t start_;
  bool keeps_saved_;
  std::uint32_t first_value_ = 0;
  std::uint64_t wanted_ =
      ~std::uint64_t{0};  // inputs of the record being played that are still to do
  Few<Tensor, 16> slots_;
  Few<Tensor, 2> dy_;
};
}  // namespace reel
