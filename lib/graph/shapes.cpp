// SPDX-License-Identifier: BSD-3-Clause
#include "lib/graph/shapes.hpp"

#include "lib/body/dtypes.hpp"
#include "lib/body/text.hpp"

namespace reel::graph {
namespace {
std::string type_of(DType dtype, const Shape& shape) {
  return std::string(name_of(dtype)).append(to_text(shape));
}
}  // namespace

Inferred::Inferred(const Step& step, const std::vector<Value>& values, ThreadMemory& memory,
                   bool checked)
    : step_(step), headers_(step.inputs.size() + 1) {
  for (Body& header : headers_) {
    header.references = 1;
    header.data = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // not read
  }
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const Value* const value =
        step.inputs[i] < 0 ? nullptr : &values[static_cast<std::size_t>(step.inputs[i])];
    if (value && value->constant.defined()) {
      inputs_.push_back(Access::body(value->constant));
      continue;
    }
    if (value) value->layout.set(headers_[i]);
    inputs_.push_back(value ? &headers_[i] : nullptr);
  }
  Layout().set(headers_.back());
  Inference inference{
      memory,      *step.op, inputs_.data(), static_cast<int>(inputs_.size()), step.options.view(),
      step.caller, outputs_};
  inference.stand_in = &headers_.back();
  for (const int output : step.outputs)  // what an op keeps for its gradient depends on the device
    if (output >= 0) inference.device = values[static_cast<std::size_t>(output)].layout.device;
  if (checked && step.op->options)
    wanted_ = step.op->check ? step.op->check(inference) : "none, which nothing checks";
  if (wanted_) return;
  step.op->shape(inference);
  computes_ = inference.computes;
}

std::string Inferred::difference(const std::vector<Value>& values) const {
  if (outputs_.size() < step_.outputs.size()) return "it makes more values than its op";
  for (std::size_t i = 0; i < step_.outputs.size(); ++i) {
    if (step_.outputs[i] < 0) continue;
    const Layout& layout = values[static_cast<std::size_t>(step_.outputs[i])].layout;
    const Body& made = output(i);
    if (made.dtype != layout.dtype || !(made.shape == layout.shape))
      return "%" + std::to_string(step_.outputs[i]) + " is " + type_of(layout.dtype, layout.shape) +
             ", and by the rule of its op " + type_of(made.dtype, made.shape);
  }
  return {};
}
}  // namespace reel::graph
