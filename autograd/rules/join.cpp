// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/join.hpp"

namespace reel {
namespace {
// y = part of x        dx = dy at that part, else 0
void slice_rule(GradientCall& call) {
  UnsliceOptions place{call.option<SliceOptions>(), call.input_shape(0)};
  if (place.slice.keeps_axes()) return call.give(0, core_ops.unslice, {call.dy()}, place);
  place.slice.dropped = place.slice.added = 0;
  call.give(0, core_ops.unslice, {reshape(call.dy(), place.slice.lengths)}, place);
}
void unslice_rule(GradientCall& call) {
  call.give(0, run(core_ops.slice, call.dy(), call.option<UnsliceOptions>().slice));
}

// y = parts side by side        d part = its slice of dy
void concat_rule(GradientCall& call) {
  const int axis = static_cast<int>(call.option<AxisOptions>().axis);
  SmallVector<std::int64_t, 8> lengths;
  for (int i = 0; i < call.input_count(); ++i) lengths.push_back(call.input_shape(i)[axis]);
  const std::vector<Tensor> parts =
      split(call.dy(), std::span<const std::int64_t>(lengths.data(), lengths.size()), axis);
  for (int i = 0; i < call.input_count(); ++i) call.give(i, parts[static_cast<std::size_t>(i)]);
}
}  // namespace

const NamedRule join_rules[] = {
    {"slice", slice_rule}, {"unslice", unslice_rule}, {"concat", concat_rule}, {nullptr, nullptr}};
}  // namespace reel
