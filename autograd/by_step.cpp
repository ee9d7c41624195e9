// SPDX-License-Identifier: BSD-3-Clause
// debug::gradients_by_step(): the gradient of a Variable by the ops that read it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/playing.hpp"
#include "autograd/tape_access.hpp"
#include "autograd/unconnected.hpp"
#include "lib/body/line.hpp"
#include "lib/body/text.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/recording.hpp"

namespace reel {
namespace {
std::vector<double> numbers_of(const Tensor& x) {
  if (!x.defined()) return {};
  return contiguous_copy(*Access::body(x)).to(cpu()).to(DType::float64).to_vector<double>();
}
/// Of the differences; of `after` where there is no `before`.
double norm_of(const std::vector<double>& after, const std::vector<double>& before = {}) {
  double sum = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double x = after[i] - (i < before.size() ? before[i] : 0);
    sum += x * x;
  }
  return std::sqrt(sum);
}
}  // namespace

debug::GradientsByStep TapeAccess::by_step(GradientTape& tape, const Operand& target,
                                           const Variable& variable) {
  const Caller caller = target.caller();
  Context& context = own_context(tape.reel_, "gradients_by_step", caller);
  tape.require_unspent("gradients_by_step", caller);
  tell_interceptors("it calls gradients_by_step()");
  const Operand asked = read_target(context, target);
  Body* const body = body_of(asked);
  if (!body)
    fail<TapeError>(caller, "gradients_by_step", "loss", "a tensor of the tape", "another value");
  const Origin origin = origin_of(context, asked, body);
  FlowReel& reel = *context.reel;
  const std::uint64_t bit = tape.bit_;
  const std::uint32_t start = reel.start_of(bit);
  std::uint32_t record = origin.record;
  if (record != no_record && !((reel[record].tapes | reel[record].watchers) & bit))
    record = no_record;
  const std::vector<Variable> list = {variable};
  SmallVector<SourceValue, 16> places;
  find_sources(reel, GradientSources(list), bit, start, places);
  if (places.size() == 0 || record == no_record || record < start ||
      !reached_from(reel, bit, start, variable)[record - start])
    unconnected_source(context, {bit, start, record, body}, variable, 0, caller);

  debug::GradientsByStep found;
  found.name = variable.name();
  const Playing playing(reel, bit);
  const RecordingPause pause(context);
  const ObserverPause unobserved(context);
  const PlaybackScope scope(context, bit);
  ResultMarks marks;
  Playback playback(context, marks, bit, start, record, true, caller);
  playback.add_at_once();
  for (const SourceValue& place : places) playback.request(place.value);
  playback.ignore_other_leaves();
  playback.begin(origin.value, ones_alike(context, *body, caller));
  const auto total = [&] {
    std::vector<double> sum;
    for (const SourceValue& place : places) {
      const std::vector<double> part = numbers_of(playback.gradient_of(place.value));
      sum.resize(std::max(sum.size(), part.size()));
      for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
    }
    return sum;
  };
  for (std::uint32_t i = record + 1; i-- > start;) {
    const Record& each = reel[i];
    bool reads = false;
    for (int k = 0; k < each.input_count; ++k)
      for (const SourceValue& place : places)
        reads |= each.inputs[k].tracked && each.inputs[k].value == place.value;
    if (!reads || !(each.tapes & bit)) continue;
    playback.play_down_to(i + 1);
    const std::vector<double> before = total();
    const double upstream = norm_of(numbers_of(playback.gradient_of(each.first_value)));
    const std::string op(each.op->name);
    const Caller caller = each.caller();
    playback.play_down_to(i);
    found.uses.push_back({op, line_text(caller), upstream, norm_of(total(), before), 0});
  }
  playback.play_rest();
  found.norm = norm_of(total());
  double sum = 0;
  for (const debug::GradientUse& use : found.uses) sum += use.contribution;
  for (debug::GradientUse& use : found.uses) use.share = sum > 0 ? use.contribution / sum : 0;
  std::reverse(found.uses.begin(), found.uses.end());
  return found;
}

namespace debug {
GradientsByStep gradients_by_step(GradientTape& tape, Operand loss, const Variable& variable) try {
  return TapeAccess::by_step(tape, loss, variable);
} catch (const std::bad_alloc&) {
  fail_memory(loss.caller(), "gradients_by_step");
}

std::string GradientsByStep::to_text() const try {
  std::string text =
      fmt::format("the gradient of \"{}\" has norm {:.4g}\n{:>4}  {:>10}  {:>12}  {:>6}  op\n",
                  name, norm, "use", "upstream", "contribution", "share");
  for (std::size_t i = 0; i < uses.size(); ++i)
    text +=
        fmt::format("{:>4}  {:>10.4g}  {:>12.4g}  {:>5.1f}%  {} at {}\n", i + 1, uses[i].upstream,
                    uses[i].contribution, 100 * uses[i].share, uses[i].op, uses[i].line);
  return text;
} catch (const std::bad_alloc&) {
  fail_memory({}, "to_text");
}
std::string GradientsByStep::to_svg() const try {
  constexpr double width = 640, height = 240, margin = 40;
  double low = INFINITY, high = 0;
  for (const GradientUse& use : uses)
    for (const double x : {use.upstream, use.contribution})
      if (std::isfinite(x) && x > 0) low = std::min(low, x), high = std::max(high, x);
  if (!(low <= high)) low = high = 1;
  const double bottom = std::floor(std::log10(low)),
               top = std::max(std::ceil(std::log10(high)), bottom + 1);
  const auto y = [&](double x) {
    const double share = x > 0 ? (std::log10(x) - bottom) / (top - bottom) : 0;
    return height - margin - std::clamp(share, 0.0, 1.0) * (height - 2 * margin);
  };
  const double step =
      (width - 2 * margin) / static_cast<double>(std::max<std::size_t>(uses.size(), 1));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"11\"><rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>",
      width, height);
  for (int power = static_cast<int>(bottom); power <= static_cast<int>(top); ++power)
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"4\" y=\"{2:.1f}\">1e{3}</text>",
        margin, width - margin, y(std::pow(10, power)), power);
  std::string points;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const double x = margin + step * static_cast<double>(i), at = y(uses[i].contribution);
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#4c78a8\">"
        "<title>use {}: {:.4g}, {:.1f} %</title></rect>",
        x, at, 0.8 * step, height - margin - at, i + 1, uses[i].contribution, 100 * uses[i].share);
    points += fmt::format("{:.1f},{:.1f} ", x + 0.4 * step, y(uses[i].upstream));
  }
  return svg + fmt::format(
                   "<polyline points=\"{}\" fill=\"none\" stroke=\"#e45756\" stroke-width=\"2\"/>"
                   "<text x=\"{}\" y=\"20\">uses 1 to {}: bars are contributions, the line is "
                   "upstream</text></svg>\n",
                   points, margin, uses.size());
} catch (const std::bad_alloc&) {
  fail_memory({}, "to_svg");
}
}  // namespace debug
}  // namespace reel
