// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/unconnected.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "autograd/playing.hpp"
#include "lib/body/dtypes.hpp"
#include "lib/body/line.hpp"
#include "lib/gate/gate.hpp"

namespace reel {
std::string place_of(const Op& op, Caller caller) {
  const std::string text(op.function.empty() ? op.name : op.function);
  return caller.file ? text + " (" + line_text(caller) + ")" : text;
}

std::vector<bool> reached_from(Reel& reel, std::uint64_t tape, std::uint32_t start,
                               GradientSource source) {
  std::vector<bool> reached(reel.size() - start);
  const auto mark = [&](std::uint32_t record) {
    if (record != no_record && record >= start) reached[record - start] = true;
  };
  if (source.tensor())
    mark(reel.find(*read_body(Context::here(), *source.tensor())));
  else
    for (const Leaf& leaf : reel.leaves())
      if (leaf.is_of(Access::cell(*source.variable())) && reel[leaf.record].watchers & tape)
        mark(leaf.record);
  for (std::uint32_t i = start; i < reel.size(); ++i)
    for (int k = 0; k < reel[i].input_count; ++k) {
      const InputSlot& input = reel[i].inputs[k];
      if (input.tracked && input.record >= start && reached[input.record - start])
        reached[i - start] = true;
    }
  return reached;
}

namespace {
/// The reason why the tape does not know the source; empty if it does.
Cause unknown(Reel& reel, std::uint64_t tape, GradientSource source) {
  const bool watches_variables = reel.watching_variables & tape;
  if (const Variable* variable = source.variable()) {
    const Cell& cell = Access::cell(*variable);
    const auto& leaves = reel.leaves();
    const bool read = std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) {
      return leaf.is_of(cell) && reel[leaf.record].watchers & tape;
    });
    if (!read && !watches_variables)
      return {"a Variable that this tape does not watch", "Call watch() of the tape for it."};
    if (!read)
      return {"a Variable that nothing read while this tape recorded",
              "Read it and compute the target after the tape is made, on the thread of the tape, "
              "outside of pause(). If the target is not to read it, ask for Unconnected::zero."};
  } else {
    const std::uint32_t known = reel.find(*read_body(Context::here(), *source.tensor()));
    if (known == no_record || !((reel[known].tapes | reel[known].watchers) & tape))
      return {"a tensor that this tape does not watch",
              "Call watch() of the tape for it before it is used."};
  }
  return {};
}
/// Whether the target depends on tensors of which the tape has no record, and so perhaps on the
/// result of an op without a gradient.
bool has_unknown_inputs(Reel& reel, const AskedTarget& target) {
  if (target.record < target.start) return true;
  std::vector<bool> used(target.record - target.start + 1);
  used.back() = true;
  for (std::uint32_t i = target.record + 1; i-- > target.start;) {
    if (!used[i - target.start] || reel.is_leaf(i)) continue;
    for (int k = 0; k < reel[i].input_count; ++k) {
      const InputSlot& input = reel[i].inputs[k];
      if (!input.tracked) return true;
      if (input.record >= target.start) used[input.record - target.start] = true;
    }
  }
  return false;
}
constexpr const char* zero_advice = "Ask for Unconnected::zero if zeros are meant.";
/// The reason why the tape has no record of the target. `cut` is the place of an op without a
/// gradient that may be the reason, or empty.
Cause unrecorded(Context& context, const AskedTarget& target, GradientSource source,
                 const std::string& cut) {
  Reel& reel = *context.reel;
  const std::uint64_t made_on = id_of(*target.body).reel;
  const std::uint32_t record = reel.find(*target.body);
  if (record < target.start && reel.has_steps(target.tape))
    return {"a target from a time step that truncate() has dropped",
            "Compute the gradient in its time step, or truncate to more steps."};
  if (record != no_record && record < target.start)
    return {"a target from before this tape", "Compute the target after the tape is made."};
  if (!(reel.open & target.tape))
    return {"a target that this tape did not record, as it is paused",
            "Compute the target after the pause has ended."};
  if (record != no_record || Reel::number_of(made_on) == Reel::number_of(reel.uid()))
    return {"a target that only another tape recorded",
            "Compute the target while this tape records."};
  if (made_on && made_on != watched_only)
    return {"a target from another thread", "Compute the target on the thread of the tape."};
  if (const Cause cause = unknown(reel, target.tape, source); !cause.got.empty()) return cause;
  const bool paused = reel.paused & target.tape;
  std::string got = "a target that this tape did not record", more;
  if (paused) more = " The tape was paused for a while.";
  if (!cut.empty() && paused)
    more += " It was perhaps cut at " + cut + ".";
  else if (!cut.empty())
    got += ", perhaps cut at " + cut;
  if (!cut.empty()) more.append(" ").append(zero_advice);
  return {
      got,
      "Compute the target from the source after the tape is made (and after watch() of a tensor), "
      "on the thread of the tape, outside of pause(), and without item(). For a gradient of a "
      "gradient, make a second tape around this one." +
          more};
}
}  // namespace

Cause cause_of(Context& context, const AskedTarget& target, GradientSource source) {
  Reel& reel = *context.reel;
  const std::uint32_t start = target.start;
  const DType dtype = source.variable() ? source.variable()->dtype() : source.tensor()->dtype();
  if (!is_floating(dtype))
    return {"a source of dtype " + std::string(name_of(dtype)),
            "Only floating tensors have gradients: convert it with to(DType::float32) before it is "
            "used."};
  const std::string zero = zero_advice;
  const std::vector<bool> reached = reached_from(reel, target.tape, start, source);
  std::string cut_at;
  for (const Cut& cut : reel.cuts()) {
    if (cut.record < start || !reached[cut.record - start]) continue;
    cut_at = place_of(*cut.op, cut.caller) + ", which has no gradient";
  }
  if (target.record == no_record) return unrecorded(context, target, source, cut_at);
  if (reel.is_leaf(target.record))
    return {
        "a target that is the value of a Variable, or a tensor that the tape watches",
        "A tape does not record the assignment of a Variable: ask for the gradient of the Tensor "
        "that was assigned. " +
            zero};
  const std::string perhaps =
      cut_at.empty() || !has_unknown_inputs(reel, target) ? "" : ", perhaps cut at " + cut_at;
  for (std::size_t k = reached.size(); k-- > 0;) {
    const std::uint32_t last = start + static_cast<std::uint32_t>(k);
    if (!reached[k] || reel.is_leaf(last)) continue;
    return {"one that ends at " + place_of(*reel[last].op, reel[last].caller()) + perhaps, zero};
  }
  if (const Cause cause = unknown(reel, target.tape, source); !cause.got.empty()) return cause;
  return {"a source that no recorded op uses" + perhaps,
          "Read it and compute the target after the tape is made, and after watch() of a tensor. " +
              zero};
}

std::string name_of(GradientSource source, std::size_t i) {
  std::string name = "source " + std::to_string(i);
  if (source.variable()) name += " \"" + source.variable()->name() + "\"";
  return name;
}

void unconnected_source(Context& context, const AskedTarget& target, GradientSource source,
                        std::size_t i, Caller caller) {
  const Cause cause = cause_of(context, target, source);
  fail<TapeError>(caller, "gradient", name_of(source, i), "a path to the target", cause.got,
                  cause.advice);
}
}  // namespace reel
