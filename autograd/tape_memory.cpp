// SPDX-License-Identifier: BSD-3-Clause
// memory() of a tape: lists the tensors that its records keep alive.
#include <algorithm>
#include <ostream>
#include <string_view>

#include <fmt/format.h>

#include "autograd/playing.hpp"

namespace reel {
namespace {
const Body* memory_of(const Body& x) { return x.owner ? x.owner : &x; }

/// The line of the list for this record.
KeptTensors& kept_by(const Record& record, std::vector<KeptTensors>& list) {
  const std::string_view file = record.file ? record.file : "";
  for (KeptTensors& each : list)
    if (each.line == record.line && each.op == record.op->name && each.file == file) return each;
  return list.emplace_back(
      KeptTensors{std::string(record.op->name), std::string(file), record.line});
}
}  // namespace

TapeMemory GradientTape::memory(Caller caller) const try {
  Reel& reel = *own_context(reel_, "memory", caller).reel;
  TapeMemory kept;
  if (spent_) return kept;
  std::vector<const Body*> seen;  // sorted
  const auto is_new = [&](const Body* memory) {
    const auto place = std::lower_bound(seen.begin(), seen.end(), memory);
    if (place != seen.end() && *place == memory) return false;
    seen.insert(place, memory);
    return true;
  };
  for (const Leaf& leaf : reel.leaves()) is_new(memory_of(*Access::body(leaf.value)));
  for (std::uint32_t i = reel.start_of(bit_); i < reel.size(); ++i) {
    const Record& record = reel[i];
    if (!(record.tapes & bit_)) continue;
    const auto add = [&](const Body* saved) {
      if (!saved || !is_new(memory_of(*saved))) return;
      KeptTensors& place = kept_by(record, kept.ops);
      const std::int64_t bytes = memory_of(*saved)->bytes();
      ++place.tensors;
      place.bytes += bytes;
      kept.bytes += bytes;
    };
    for (int k = 0; k < record.input_count; ++k) add(record.inputs[k].saved);
    for (int k = 0; k < record.output_count(); ++k) add(record.outputs[k].saved);
  }
  std::stable_sort(kept.ops.begin(), kept.ops.end(),
                   [](const KeptTensors& a, const KeptTensors& b) { return a.bytes > b.bytes; });
  return kept;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "memory");
}

std::string to_string(const TapeMemory& memory) try {
  std::string text = fmt::format("{:>14} bytes\n", memory.bytes);
  for (const KeptTensors& each : memory.ops)
    text += fmt::format("{:>14} {:>6} {} {}:{}\n", each.bytes, each.tensors, each.op,
                        each.file.substr(each.file.rfind('/') + 1), each.line);
  return text;
} catch (const std::bad_alloc&) {
  fail_memory({}, "to_string");
}
std::ostream& operator<<(std::ostream& out, const TapeMemory& memory) {
  return out << to_string(memory);
}
}  // namespace reel
