// SPDX-License-Identifier: BSD-3-Clause
// Values that are not kept are computed again from those that are.
#include "lib/debug/compute.hpp"

#include <fmt/format.h>

#include <cstring>

namespace reel::debugger {
namespace {
Layout row_major(const Shape& shape) {
  Layout strides(shape.rank());
  std::int64_t step = 1;
  for (std::size_t axis = shape.rank(); axis-- > 0; step *= shape.data()[axis])
    strides[axis] = step;
  return strides;
}
[[noreturn]] void not_kept(const Step& step) {
  mistake("a value that is kept", fmt::format("one of step {} that is not", step.number),
          "A Watch keeps values with {.values = true} and enough .bytes; a value in a block of a "
          "replay does not exist alone: the command `eager` runs the function eagerly from its "
          "next call on");
}
}  // namespace

Ref Again::of(const Input& input) {
  if (input.outside < 0) return input.node < 0 ? Ref() : of(input.node, input.output);
  const Outside& outside = step_.outsides[static_cast<std::size_t>(input.outside)];
  if (!outside.source.absent()) {
    const Ref base = of(outside.source);
    const Layout& strides = outside.layout;
    const Ref view(host->view(*base, outside.shape,
                              strides.empty() ? row_major(outside.shape).data() : strides.data(),
                              0));
    return copy_of(*view);
  }
  if (!outside.value) not_kept(step_);
  return outside.value;
}
/// The value as it lay in memory: kernels may add in another order for another layout.
Ref Again::operand(const Input& input) {
  Ref value = of(input);
  if (!value) return value;
  const Layout* strides = nullptr;
  if (input.outside >= 0) {
    strides = &step_.outsides[static_cast<std::size_t>(input.outside)].layout;
  } else {
    const Node& node = step_.nodes[static_cast<std::size_t>(input.node)];
    strides = &step_.outputs[static_cast<std::size_t>(node.first_output + input.output)].layout;
  }
  if (strides->empty()) return value;
  std::int64_t first = 0, last = 0;
  for (std::size_t axis = 0; axis < strides->size(); ++axis) {
    const std::int64_t reach = ((value->shape.data()[axis]) - 1) * (*strides)[axis];
    (reach < 0 ? first : last) += reach;
  }
  const std::int64_t room = last - first + 1;
  if (value->elements == 0 || room > 4 * value->elements + 1024) return value;
  const Ref base(host->sized(value->dtype, &room, 1));
  std::memset(base->data, 0, static_cast<std::size_t>(base->bytes()));
  Ref view(host->view(*base, value->shape, strides->data(), -first));
  const auto size = static_cast<std::size_t>(size_of(value->dtype));
  for (std::int64_t i = 0; i < value->elements; ++i) {
    std::int64_t rest = i, place = -first;
    for (std::size_t axis = strides->size(); axis-- > 0;) {
      place += rest % value->shape.data()[axis] * (*strides)[axis];
      rest /= value->shape.data()[axis];
    }
    std::memcpy(base->data + static_cast<std::size_t>(place) * size,
                value->data + static_cast<std::size_t>(i) * size, size);
  }
  return view;
}
Ref Again::known(int node, int output) const {
  const auto found = values_.find({node, output});
  if (found != values_.end()) return found->second;
  if (changed_.count(node)) return {};
  const Node& its = step_.nodes[static_cast<std::size_t>(node)];
  return step_.outputs[static_cast<std::size_t>(its.first_output + output)].value;
}
Ref Again::of(int node, int output) {
  if (output < 0 || output >= step_.nodes[static_cast<std::size_t>(node)].outputs)
    mistake(fmt::format("an output from 0 to {} of #{}",
                        step_.nodes[static_cast<std::size_t>(node)].outputs - 1, node + 1),
            std::to_string(output));
  if (Ref value = known(node, output)) return value;
  // What must be computed, without recursion: a long program is a long chain.
  std::vector<bool> wanted(static_cast<std::size_t>(node) + 1);
  wanted[static_cast<std::size_t>(node)] = true;
  for (int i = node; i >= 0; --i) {
    if (!wanted[static_cast<std::size_t>(i)]) continue;
    const auto want = [&](const Input& input) {
      const Input at = maker_of(step_, input);
      if (at.node >= 0 && !known(at.node, at.output))
        wanted[static_cast<std::size_t>(at.node)] = true;
    };
    const Node& its = step_.nodes[static_cast<std::size_t>(i)];
    for (int k = 0; k < its.inputs; ++k)
      want(step_.inputs[static_cast<std::size_t>(its.first_input + k)]);
    for (const Input& before : its.before) want(before);
  }
  for (int i = 0; i <= node; ++i)
    if (wanted[static_cast<std::size_t>(i)]) compute(i);
  if (Ref value = known(node, output)) return value;
  not_kept(step_);
}

void Again::compute(int number) {
  const Node& node = step_.nodes[static_cast<std::size_t>(number)];
  if (node.inner) mistake("an op of the library", name_of(node) + ", which runs other ops inside");
  // A null body of a replay may be a value in a block.
  bool some = !node.replayed || node.outputs == 0;
  for (int k = 0; k < node.outputs; ++k)
    some |= !step_.outputs[static_cast<std::size_t>(node.first_output + k)].absent;
  for (int k = 0; k < node.inputs && node.replayed; ++k)
    some &= !step_.inputs[static_cast<std::size_t>(node.first_input + k)].absent();
  if (!some) not_kept(step_);
  std::vector<Ref> held;
  std::vector<const Body*> inputs;
  for (int k = 0; k < node.inputs; ++k) {
    held.push_back(operand(step_.inputs[static_cast<std::size_t>(node.first_input + k)]));
    inputs.push_back(held.back().get());
  }
  std::vector<Body*> outputs;
  std::vector<Ref> made;
  const bool is_view = node.op->fusion == Fusion::layout && node.part == Part::value;
  for (int k = 0; k < node.outputs && !is_view; ++k) {
    const Output& output = step_.outputs[static_cast<std::size_t>(node.first_output + k)];
    const Body* from = nullptr;
    Ref before;
    if (!node.before.empty() && (node.accumulates >> k & 1)) {
      before = of(node.before[static_cast<std::size_t>(k)]);
      from = before.get();
    }
    if (!node.updated.empty()) from = inputs[static_cast<std::size_t>(k)];
    made.emplace_back(output.absent
                          ? nullptr
                          : host->filled(output.dtype, output.shape, from ? from->data : nullptr));
    outputs.push_back(made.back().get());
    if (!node.updated.empty()) inputs[static_cast<std::size_t>(k)] = outputs.back();
  }
  const GateCall call{const_cast<Op&>(*node.op),
                      inputs.data(),
                      node.inputs,
                      node.options.view(),
                      node.caller,
                      nullptr,
                      0,
                      nullptr,
                      node.part,
                      node.accumulates};
  const std::string error = host->compute(call, outputs);
  if (is_view)
    for (Body* const body : outputs) made.emplace_back(body);
  if (!error.empty())
    throw Mistake{fmt::format("#{} {} cannot be computed again: {}", number + 1, name_of(node),
                              printable(error))};
  for (std::size_t k = 0; k < made.size(); ++k)
    if (made[k]) values_[{number, static_cast<int>(k)}] = made[k];
}

Ref Again::anew(int node, int output) {
  compute(node);
  return values_.at({node, output});
}

int Again::change(int node, int output, Ref value) {
  values_[{node, output}] = std::move(value);
  changed_.insert(node);
  int count = 0;
  for (int i = node + 1; i < static_cast<int>(step_.nodes.size()); ++i) {
    const Node& its = step_.nodes[static_cast<std::size_t>(i)];
    bool depends = false;
    const auto look = [&](const Input& input) {
      const Input at = maker_of(step_, input);
      depends |= at.node >= 0 && changed_.count(at.node);
    };
    for (int k = 0; k < its.inputs; ++k)
      look(step_.inputs[static_cast<std::size_t>(its.first_input + k)]);
    for (const Input& before : its.before) look(before);
    if (!depends) continue;
    changed_.insert(i);
    if (its.inner) continue;
    compute(i);
    ++count;
  }
  return count;
}

Ref Recorder::value(Step& step, int node, int output) {
  const Node& its = step.nodes[static_cast<std::size_t>(node)];
  if (output >= 0 && output < its.outputs) {
    const Output& found = step.outputs[static_cast<std::size_t>(its.first_output + output)];
    const std::int64_t bytes = found.absent ? 0 : elements_of(found.shape) * size_of(found.dtype);
    if (!found.value && bytes > std::max<std::int64_t>(settings.bytes, 1 << 20))
      mistake("a value that fits into `config bytes`, " + bytes_text(settings.bytes),
              "one of " + bytes_text(bytes));
  }
  return Again(step).of(node, output);
}
Ref Recorder::value(Step& step, const Input& input) {
  if (input.absent()) mistake("a tensor", "an input that is not there");
  return Again(step).of(input);
}
}  // namespace reel::debugger
