// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/late_tapes.hpp"

#include <algorithm>

#include "autograd/gradient_call.hpp"
#include "lib/gate/recording.hpp"

namespace reel {
namespace {
void late_rule(GradientCall& call) {
  call.listed_inputs();
  call.give(0, call.dy());
}
constinit Op late_op{.name = "gradient", .arity = -1, .gradient = {late_rule}};

/// Marks the records before `end` that depend on a marked one.
void follow(Reel& reel, std::uint32_t start, std::uint32_t end, std::vector<bool>& marked) {
  for (std::uint32_t i = start; i < end; ++i)
    for (int k = 0; k < reel[i].input_count; ++k) {
      const InputSlot& input = reel[i].inputs[k];
      if (input.tracked && input.record >= start && marked[input.record - start])
        marked[i - start] = true;
    }
}
/// Whether the gradient of this record reads a value of a marked record that the tape does not
/// know.
bool reads_marked(Reel& reel, std::uint32_t i, std::uint32_t start, std::uint64_t tape,
                  const std::vector<bool>& marked) {
  const Record& record = reel[i];
  const auto is_unknown = [&](const Body* saved) {
    const std::uint32_t known = saved ? reel.find(*saved) : no_record;
    return saved && !(known != no_record && reel[known].watchers & tape);
  };
  const bool holds = record.options_type && record.options_type->destroy;  // values, perhaps
  for (int k = 0; k < record.input_count; ++k) {
    const InputSlot& input = record.inputs[k];
    if (input.tracked && input.record >= start && marked[input.record - start] &&
        (holds || is_unknown(input.saved)))
      return true;
  }
  for (int k = 0; marked[i - start] && k < record.output_count(); ++k)
    if (is_unknown(record.outputs[k].saved)) return true;
  return false;
}
}  // namespace

void LateTapes::find(Context& context, std::uint64_t inner, std::uint32_t start,
                     std::uint32_t target) {
  Reel& reel = *context.reel;
  std::uint64_t late = 0;
  for (std::uint64_t left = reel.active & ~inner; left; left &= left - 1)
    if (reel.start_of(left & -left) > start) late |= left & -left;
  if (!late) return;
  std::vector<bool> used(target + 1 - start);  // by the target
  used.back() = true;
  for (std::uint32_t i = target + 1; i-- > start;)
    for (int k = 0; used[i - start] && k < reel[i].input_count; ++k)
      if (const InputSlot& input = reel[i].inputs[k]; input.tracked && input.record >= start)
        used[input.record - start] = true;
  for (std::uint64_t left = late; left; left &= left - 1) {
    const std::uint64_t tape = left & -left;
    const std::uint32_t end = std::min(reel.start_of(tape), target + 1);
    for (const Leaf& leaf : reel.leaves()) {
      std::uint32_t known = leaf.record;  // the value's record from before the tape
      if (reel[known].watchers & tape)
        while (known != no_record && known >= end)
          known = reel[known].input_count ? reel[known].inputs[0].record : no_record;
      else if (!leaf.cell || !(reel.watching_variables & tape))
        continue;
      if (known == no_record || known < start || known >= end) continue;
      std::vector<bool> marked(end - start);
      marked[known - start] = true;
      follow(reel, start, end, marked);
      for (std::uint32_t i = start; i < end; ++i)
        if (used[i - start] && reel[i].tapes & inner &&
            reads_marked(reel, i, start, tape, marked)) {
          lost_.push_back({leaf.value, leaf.cell, leaf.cell_id, tape});
          break;
        }
    }
  }
}

void LateTapes::mark(Context& context, Tensor* gradients, std::size_t count, Caller caller) const {
  Reel& reel = *context.reel;
  for (std::size_t i = 0; i < count && !lost_.empty(); ++i) {
    Tensor& gradient = gradients[i];
    if (!gradient.defined()) continue;
    Body* const body = Access::body(gradient);
    SmallVector<Body*, 4> inputs;
    SmallVector<Origin, 4> origins;
    inputs.push_back(body);
    origins.push_back(origin_of(context, Operand(gradient, caller), body));
    std::uint64_t tapes = origins[0].tapes;
    for (const Lost& lost : lost_) {
      if (!(reel.active & lost.tape)) continue;  // it has ended in the meantime
      Body* const value = Access::body(lost.value);
      // Another leaf of a tensor would hide the one that the tape knows.
      const std::uint32_t leaf =
          lost.cell ? reel.watch_gone(value, lost.cell, lost.cell_id, lost.tape, caller)
                    : reel.find(*value);
      if (leaf == no_record) continue;
      inputs.push_back(value);
      origins.push_back({leaf, Reel::value_of(*value, reel[leaf]), lost.tape});
      tapes |= lost.tape;
    }
    if (inputs.size() == 1) continue;
    Tensor marked = make_alias(context, body);
    Body* output = Access::body(marked);
    if (!output) fail<MemoryError>(caller, late_op.name, "gradient", "memory", "none");
    leave_record(context, late_op, {}, caller, inputs.data(), origins.data(),
                 static_cast<int>(inputs.size()), &output, 1, tapes,
                 static_cast<int>(inputs.size()) - 1);
    gradient = std::move(marked);
  }
}
}  // namespace reel
