// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/unconnected.hpp"

#include <string>
#include <vector>

#include "lib/dispatch/gate.hpp"

namespace reel {
namespace {
std::string place(std::string_view op, Caller site) {
  std::string text(op);
  if (!site.file) return text;
  const std::string_view file(site.file);
  const std::size_t slash = file.rfind('/');
  return text.append(" (")
      .append(file.substr(slash == std::string_view::npos ? 0 : slash + 1))
      .append(":")
      .append(std::to_string(site.line))
      .append(")");
}

/// The records that depend on the source, marked by number from `start`.
std::vector<bool> reached_from(Reel& reel, std::uint64_t tape, std::uint32_t start, Source source) {
  std::vector<bool> reached(reel.size() - start);
  const auto mark = [&](std::uint32_t record) {
    if (record != no_record && record >= start) reached[record - start] = true;
  };
  if (source.tensor())
    mark(reel.find(*Access::body(*source.tensor())));
  else
    for (const Leaf& leaf : reel.leaves())
      if (leaf.cell == &Access::cell(*source.variable()) && reel[leaf.record].watchers & tape)
        mark(leaf.record);
  for (std::uint32_t i = start; i < reel.size(); ++i)
    for (int k = 0; k < reel[i].input_count; ++k) {
      const InputSlot& input = reel[i].inputs[k];
      if (input.tracked && input.record >= start && reached[input.record - start])
        reached[i - start] = true;
    }
  return reached;
}
}  // namespace

void unconnected_source(Context& context, std::uint64_t tape, std::uint32_t start,
                        std::uint32_t target, Source source, std::size_t i, Caller caller) {
  Reel& reel = context.reel;
  std::string name = "source " + std::to_string(i);
  if (source.variable()) name += " \"" + source.variable()->name() + "\"";
  const std::vector<bool> reached = reached_from(reel, tape, start, source);
  std::string got;
  for (const Cut& cut : reel.cuts())
    if (cut.record >= start && reached[cut.record - start])
      got = "one that was cut at " + place(cut.op->name, cut.site) + ", which has no gradient";
  std::uint32_t last = no_record;
  for (std::size_t k = 0; k < reached.size(); ++k)
    if (reached[k] && !reel.is_leaf(start + static_cast<std::uint32_t>(k)))
      last = start + static_cast<std::uint32_t>(k);
  if (got.empty() && target == no_record) got = "a target that this tape did not record";
  if (got.empty() && last != no_record)
    got = "one that ends at " + place(reel[last].op->name, reel[last].site());
  if (got.empty()) got = "no recorded op that uses it; was it watched before it was used?";
  fail<TapeError>(caller, "gradient", name, "a path to the target", got,
                  "Ask for Unconnected::zero if zeros are meant.");
}
}  // namespace reel
