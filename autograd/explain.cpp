// SPDX-License-Identifier: BSD-3-Clause
// explain() of a tape: computes a gradient record by record, and describes what happens to it.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "autograd/playing.hpp"
#include "autograd/unconnected.hpp"
#include "lib/body/text.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/recording.hpp"

namespace reel {
namespace {
/// A summary of the elements of a tensor.
struct Elements {
  bool defined = false, all_zero = true, finite = true;
  std::int64_t count = 0, zeros = 0;
  double least = 0, most = 0;
  double odd = 0;           // the first one that is not finite
  std::int64_t odd_at = 0;  // its number
};
Elements elements_of(const Body* body) {
  Elements found;
  if (!body || !is_floating(body->dtype)) return found;
  found.defined = true;
  const Tensor wide = contiguous_copy(*body).to(DType::float64);
  for (const double value : wide.values<double>()) {
    if (!std::isfinite(value) && found.finite) {
      found.finite = false;
      found.odd = value;
      found.odd_at = found.count;
    }
    if (value == 0) ++found.zeros;
    found.least = found.count ? std::fmin(found.least, value) : value;
    found.most = found.count ? std::fmax(found.most, value) : value;
    ++found.count;
  }
  found.all_zero = found.zeros == found.count;
  return found;
}

std::string text_of(const Body& x) {
  return fmt::format("{} {}", name_of(x.dtype), std::string(to_text(x.shape)));
}
std::string place_of(const Record& record) { return place_of(*record.op, record.caller()); }

/// ", where input 0 is -1": the saved element at the place of a gradient's element.
std::string where_input_is(const Record& record, int input, std::int64_t at) {
  const Body* const saved = record.inputs[input].saved;
  if (!saved || !is_floating(saved->dtype) || !(saved->shape == *record.inputs[input].shape))
    return {};
  const Tensor wide = contiguous_copy(*saved).to(DType::float64);
  return fmt::format(", where input {} is {:.6g}", input,
                     wide.values<double>()[static_cast<std::size_t>(at)]);
}
/// ", as its input 1 is 0 everywhere"
std::string reason_of_zeros(const Record& record) {
  for (int k = 0; k < record.input_count; ++k) {
    const Elements saved = elements_of(record.inputs[k].saved);
    if (saved.count > 0 && saved.all_zero)
      return fmt::format(", as its input {} is 0 everywhere", k);
  }
  for (int k = 0; k < record.output_count(); ++k) {
    const Elements saved = elements_of(record.outputs[k].saved);
    if (saved.count > 0 && saved.all_zero) return ", as its result is 0 everywhere";
  }
  return {};
}

/// What the records between a target and a source did to the gradient.
struct Findings {
  std::string odd;                                   // the first NaN or infinity
  std::vector<std::string> zeroed, cancelled, none;  // of each, the records
};

/// Goes through the records one by one, and looks at what each does to the gradient.
class Inquiry {
 public:
  Inquiry(Reel& reel, Playback& playback, std::uint64_t tape, std::uint32_t start,
          const std::vector<bool>& on_path)
      : reel_(reel), playback_(playback), tape_(tape), start_(start), on_path_(on_path) {}

  Findings play(std::uint32_t target) {
    for (std::uint32_t i = target + 1; i-- > start_;) {
      const Record& record = reel_[i];
      if (!(record.tapes & tape_)) continue;
      if (on_path_[i - start_])
        play_and_look(record, i);
      else
        playback_.play_down_to(i);
    }
    playback_.play_rest();
    return std::move(found_);
  }

 private:
  bool is_on_path(const InputSlot& input) const {
    return input.tracked && input.record >= start_ && on_path_[input.record - start_];
  }
  Elements look(std::uint32_t value) const {
    return elements_of(Access::body(playback_.gradient_of(value)));
  }
  void play_and_look(const Record& record, std::uint32_t i) {
    bool given = false, zero = true, finite = true;
    for (int k = 0; k < record.output_count(); ++k) {
      const Elements dy = look(record.first_value + static_cast<std::uint32_t>(k));
      given |= dy.defined;
      zero &= dy.all_zero;
      finite &= dy.finite;
    }
    std::vector<Elements> before;
    for (int k = 0; k < record.input_count; ++k)
      before.push_back(is_on_path(record.inputs[k]) ? look(record.inputs[k].value) : Elements());
    playback_.play_down_to(i);
    if (!given) return;
    for (int k = 0; k < record.input_count; ++k) {
      const InputSlot& input = record.inputs[k];
      if (!is_on_path(input)) continue;
      judge(record, k, before[static_cast<std::size_t>(k)], look(input.value), zero, finite);
    }
  }
  void judge(const Record& record, int k, const Elements& before, const Elements& after, bool zero,
             bool finite) {
    if (found_.odd.empty() && finite && before.finite && !after.finite)
      found_.odd = fmt::format("the gradient of {} makes {}{}{}", place_of(record),
                               std::isnan(after.odd) ? "nan" : fmt::format("{}", after.odd),
                               std::string(place_text(*record.inputs[k].shape, after.odd_at)),
                               where_input_is(record, k, after.odd_at));
    if (zero) return;
    if (!after.defined)
      found_.none.push_back(
          fmt::format("{} gives no gradient for its input {}", place_of(record), k));
    else if (after.all_zero && !before.all_zero)
      found_.cancelled.push_back(place_of(record));
    else if (after.all_zero)
      found_.zeroed.push_back(place_of(record) + reason_of_zeros(record));
  }
  Reel& reel_;
  Playback& playback_;
  std::uint64_t tape_;
  std::uint32_t start_;
  const std::vector<bool>& on_path_;
  Findings found_;
};

std::string listed(std::vector<std::string> places) {
  places.erase(std::unique(places.begin(), places.end()), places.end());
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < places.size() && i < most; ++i) text += (i ? "; " : "") + places[i];
  if (places.size() > most) text += fmt::format("; and {} more", places.size() - most);
  return text;
}

/// The records that depend on the source and that the target depends on.
std::vector<bool> path_between(Reel& reel, std::uint64_t tape, std::uint32_t start,
                               std::uint32_t target, GradientSource source) {
  std::vector<bool> reached = reached_from(reel, tape, start, source);
  std::vector<bool> used(reached.size());
  used[target - start] = true;
  for (std::uint32_t i = target + 1; i-- > start;) {
    const Record& record = reel[i];
    for (int k = 0; used[i - start] && k < record.input_count; ++k) {
      const InputSlot& input = record.inputs[k];
      if (input.tracked && input.record >= start) used[input.record - start] = true;
    }
  }
  for (std::size_t i = 0; i < reached.size(); ++i) reached[i] = reached[i] && used[i];
  return reached;
}

std::string path_text(Reel& reel, std::uint32_t start, const std::vector<bool>& on_path) {
  std::vector<std::string> places;
  for (std::size_t i = on_path.size(); i-- > 0;) {
    const std::uint32_t record = start + static_cast<std::uint32_t>(i);
    if (!on_path[i] || reel.is_leaf(record)) continue;
    const std::string place = place_of(reel[record]);
    // The ops of one call of a function are one place.
    if (reel[record].op->function.empty() || places.empty() || places.back() != place)
      places.push_back(place);
  }
  constexpr std::size_t most = 8;
  std::string text = places.empty() ? "The target is the source itself" : "Its path: ";
  for (std::size_t i = 0; i < places.size() && i < most; ++i) text += (i ? " < " : "") + places[i];
  if (places.size() > most) text += fmt::format(" < {} more", places.size() - most);
  return text;
}
}  // namespace

std::string GradientTape::explain(Operand target, GradientSource source) try {
  const Caller caller = target.caller();
  Context& context = own_context(reel_, "explain", caller);
  require_unspent("explain", caller);
  tell_interceptors("it calls explain() of a tape");
  if (target.kind() == Operand::Kind::scalar)
    fail<TapeError>(caller, "explain", "target", "a tensor", "a number");
  const Operand asked = read_target(context, target);
  Body* const body = body_of(asked);
  if (!body) fail<Error>(caller, "explain", "target", "a tensor", "an undefined Tensor");
  if (source.tensor() && !source.tensor()->defined())
    fail<Error>(caller, "explain", "source", "a tensor", "an undefined Tensor");
  const Body& x = source.variable() ? *Access::body(Access::cell(*source.variable()).value)
                                    : *Access::body(*source.tensor());
  const std::string about =
      fmt::format("The gradient of {} for {}{} ", text_of(*body),
                  source.variable() ? "\"" + source.variable()->name() + "\" " : "", text_of(x));
  if (!is_floating(body->dtype))
    return about + fmt::format(
                       "is missing: the target is {}, and only floating tensors have "
                       "gradients.",
                       name_of(body->dtype));
  const Origin origin = origin_of(context, asked, body);
  FlowReel& reel = *context.reel;
  std::uint32_t record = origin.record;
  if (record != no_record && !((reel[record].tapes | reel[record].watchers) & bit_))
    record = no_record;
  const std::uint32_t start = reel.start_of(bit_);
  const auto missing = [&] {
    const Cause cause = cause_of(context, {bit_, start, record, body}, source);
    return about + "is missing: expected a path to the target, got " + cause.got + ". " +
           cause.advice;
  };
  if (!is_floating(x.dtype) || record == no_record || record < start) return missing();
  const std::vector<bool> on_path = path_between(reel, bit_, start, record, source);
  SmallVector<SourceValue, 16> places;
  const GradientSources sources(source);
  find_sources(reel, sources, bit_, start, places);
  if (places.size() == 0 || !on_path[record - start]) return missing();

  const std::uint64_t bit = bit_;
  const Playing playing(reel, bit);
  const RecordingPause pause(context);
  const ObserverPause unobserved(context);
  Findings findings;
  Tensor gradient;
  {
    const PlaybackScope scope(context, bit);
    ResultMarks marks;
    Playback playback(context, marks, bit, start, record, true, caller);
    playback.add_at_once();
    for (const SourceValue& place : places) playback.request(place.value);
    playback.ignore_other_leaves();
    playback.begin(origin.value, ones_alike(context, *body, caller));
    findings = Inquiry(reel, playback, bit, start, on_path).play(record);
    for (const SourceValue& place : places) playback.take_requested(place.value, gradient);
  }
  if (reel.ended & bit)
    fail<TapeError>(caller, "explain", "tape", "a tape that lives until explain() has ended",
                    "one that was destroyed inside one of its gradient functions");
  if (!gradient.defined())
    return findings.none.empty() ? missing() : about + "is missing: " + listed(findings.none) + ".";
  const Elements all = elements_of(Access::body(gradient));
  if (!all.finite)
    return about + fmt::format("is not finite: {}.",
                               findings.odd.empty() ? "the sum of the gradients of its uses is not"
                                                    : findings.odd);
  if (all.count > 0 && all.all_zero) {
    if (!findings.zeroed.empty())
      return about + "is zero everywhere: it becomes zero at " + listed(findings.zeroed) + ".";
    if (!findings.cancelled.empty())
      return about + "is zero everywhere: the gradients of several uses cancel at " +
             listed(findings.cancelled) + ".";
  }
  return about + fmt::format("is there: {} elements from {:.6g} to {:.6g}, {} of them 0. {}.",
                             all.count, all.least, all.most, all.zeros,
                             path_text(reel, start, on_path));
} catch (const std::bad_alloc&) {
  fail_memory(target.caller(), "explain");
}
}  // namespace reel
