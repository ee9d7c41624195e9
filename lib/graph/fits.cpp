// SPDX-License-Identifier: BSD-3-Clause
// What kernels and replays rely on, for steps that nobody has checked. The gate, tapes and tracers
// make steps that fit.
#include <algorithm>
#include <bit>
#include <string_view>

#include "lib/body/text.hpp"
#include "lib/graph/shapes.hpp"
#include "lib/table/passes.hpp"

namespace reel::graph {
namespace {
using Kind = Value::Kind;
constexpr std::string_view no_op = "its op does not compute";

class Fit {
 public:
  Fit(const Step& step, const Graph& graph, ThreadMemory& memory)
      : step_(step), graph_(graph), memory_(memory), op_(*step.op) {}

  std::string misfit() const {
    if (step_.op == &gradient_op)
      return step_.inputs.empty() && step_.outputs.empty() ? "" : "it has inputs or outputs";
    if (step_.op == &view_op) return view_misfit();
    if (!op_.shape) return "a program gives its function";
    if (!op_.options != !step_.options.view().type) return "its options are those of another op";
    if (step_.part == Part::gradients) return gradients_misfit();
    if (step_.part != Part::value) return pass_misfit();
    if (op_.updates == step_.updated.empty()) return "it updates no Variable, or one too many";
    if (const std::string misfit = inputs_misfit(); !misfit.empty()) return misfit;
    return op_.updates ? update_misfit() : outputs_misfit();
  }

 private:
  const Value& value(int i) const { return graph_.values[static_cast<std::size_t>(i)]; }
  const Layout& layout(int i) const { return value(i).layout; }
  bool has_all(const std::vector<int>& values) const {
    return std::find(values.begin(), values.end(), -1) == values.end();
  }
  bool on_one_device() const {
    bool one = true;
    for (const auto& list : {step_.inputs, step_.outputs})
      for (const int v : list) one &= v < 0 || layout(v).device == device();
    return one;
  }
  Device device() const {
    for (const int output : step_.outputs)
      if (output >= 0) return layout(output).device;
    return cpu();
  }
  const Kernels& kernels() const { return op_.on(device().kind); }
  static std::string options_misfit(const Step& step, const char* wanted) {
    return "options: expected " + std::string(wanted) + ", got " + to_string(step.options.view());
  }

  std::string view_misfit() const {
    if (step_.inputs.size() != 1 || step_.outputs.size() != 1 || !has_all(step_.inputs) ||
        !has_all(step_.outputs))
      return "it has not one input and one output";
    const Value &from = value(step_.inputs[0]), &made = value(step_.outputs[0]);
    const bool of_view = from.kind == Kind::view;
    return made.kind == Kind::view && made.number == (of_view ? from.number : step_.inputs[0]) &&
                   made.offset == (of_view ? from.offset : 0) && from.layout == made.layout
               ? ""
               : "it is not its input";
  }

  std::string inputs_misfit() const {
    const std::size_t count = step_.inputs.size();
    if (op_.arity < 0 ? count == 0 : count != static_cast<std::size_t>(op_.arity))
      return "it has " + std::to_string(count) + " inputs";
    if (!has_all(step_.inputs) || !has_all(step_.outputs)) return "an input or output is missing";
    if (!op_.changes_device && !on_one_device()) return "its values are on several devices";
    const Layout* first = nullptr;  // of those that promote
    for (std::size_t i = 0; i < count && op_.promote != Promote::none; ++i) {
      if (!(op_.promoted >> std::min<std::size_t>(i, 7) & 1)) continue;
      const Layout& own = layout(step_.inputs[i]);
      if (!first) first = &own;
      if (own.dtype != first->dtype) return "its inputs have several dtypes";
    }
    if (first && op_.promote == Promote::floating && !is_floating(first->dtype))
      return "its inputs are not floating";
    return {};
  }

  std::string outputs_misfit() const {
    if (step_.outputs.empty()) return "it has no output";
    const Inferred inferred(step_, graph_.values, memory_, true);
    if (inferred.wanted()) return options_misfit(step_, inferred.wanted());
    if (inferred.output_count() != step_.outputs.size())
      return "it has " + std::to_string(step_.outputs.size()) + " outputs";
    for (std::size_t i = 0; i < step_.outputs.size(); ++i) {
      const Value& made = value(step_.outputs[i]);
      const std::string name = "%" + std::to_string(step_.outputs[i]);
      if (inferred.is_view(i) != (made.kind == Kind::view) ||
          (made.kind != Kind::view && made.kind != Kind::computed))
        return name + " is computed, and not a view, or the other way round";
      if (made.kind == Kind::view && !is_view_of_input(made, inferred, i))
        return name + " is not the view that its op makes";
    }
    if (!inferred.computes() || op_.changes_device) return {};
    if (!kernels().computes()) return std::string(no_op) + " on its device";
    const int promoted = std::countr_zero(op_.promoted);
    if (device() == cpu() && op_.on_cpu().passes &&
        promoted < static_cast<int>(step_.inputs.size()))
      if (!pass_of(op_, layout(step_.inputs[static_cast<std::size_t>(promoted)]).dtype))
        return std::string(no_op) + " its dtype";
    return {};
  }
  bool is_view_of_input(const Value& made, const Inferred& inferred, std::size_t i) const {
    const Value& from = value(step_.inputs[0]);
    const bool of_view = from.kind == Kind::view;
    const int root = of_view ? from.number : step_.inputs[0];
    Layout own = made.layout, ruled(inferred.output(i));
    own.live = ruled.live = false;
    ruled.contiguous = is_row_major(ruled.shape, ruled.strides);
    if (made.number != root || !(own == ruled) ||
        made.offset != (of_view ? from.offset : 0) + inferred.offset(i))
      return false;
    // A view of a strided value has some of its elements, as its options are right.
    return !value(root).layout.contiguous || lies_inside(made);
  }
  /// Whether all elements of a view are those of what it views.
  bool lies_inside(const Value& view) const {
    const Layout& layout = view.layout;
    const Layout& base = value(view.number).layout;
    const std::int64_t size = size_of(layout.dtype);
    if (base.dtype != layout.dtype || view.offset % size != 0) return false;
    if (layout.elements == 0) return view.offset >= 0 && view.offset <= base.bytes();
    __int128 low = view.offset / size, high = low;
    for (std::size_t i = 0; i < layout.shape.rank(); ++i) {
      const __int128 span = static_cast<__int128>(layout.shape.data()[i] - 1) * layout.strides[i];
      (span < 0 ? low : high) += span;
    }
    return low >= 0 && high < base.elements;
  }

  /// How many arguments have names; updates of rows have one more.
  std::size_t named_arguments() const {
    const std::string_view names = op_.argument_names;
    return 1 + static_cast<std::size_t>(std::count(names.begin(), names.end(), ','));
  }
  std::string update_misfit() const {
    const std::size_t written = step_.outputs.size(), count = step_.inputs.size();
    if (count < written) return "it has fewer inputs than outputs";
    for (std::size_t i = 0; i < written; ++i) {
      const Layout &before = layout(step_.inputs[i]), &after = layout(step_.outputs[i]);
      if (before.dtype != after.dtype || !(before.shape == after.shape) || !before.contiguous)
        return "an output is not like the Variable";
      if (value(step_.outputs[i]).kind != Kind::computed) return "an output is not computed";
    }
    if (op_.numbers == 0) {  // assignments
      const Layout &to = layout(step_.outputs[0]), &from = layout(step_.inputs[1]);
      const bool part = op_.options;
      if (written != 1 || from.dtype != to.dtype ||
          (!part && from.shape.rank() && !(from.shape == to.shape)))
        return "the value does not fit the Variable";
    } else if (const std::string misfit = numbers_misfit(written, count); !misfit.empty()) {
      return misfit;
    }
    const Inferred inferred(step_, graph_.values, memory_, true);
    if (inferred.wanted()) return options_misfit(step_, inferred.wanted());
    return kernels().computes() ? "" : std::string(no_op) + " on its device";
  }
  /// The inputs of a step of an optimizer: see lib/ops/update.cpp.
  std::string numbers_misfit(std::size_t written, std::size_t count) const {
    const bool rows = std::string_view(op_.argument_names).find("rows") != std::string_view::npos;
    const std::size_t numbers = op_.numbers, each = named_arguments() - numbers - 1 - rows;
    const std::size_t parameters = written / each;
    if (written % each || (rows && parameters != 1) ||
        count != written + parameters * (1 + rows) + numbers)
      return "its inputs do not fit its Variables";
    if (layout(step_.inputs[count - numbers]).dtype != DType::float64)
      return "its rate is no double";
    for (std::size_t i = written; rows && i < count; ++i)
      if (!layout(step_.inputs[i]).contiguous) return "its rows are not in order";
    return {};
  }

  /// A pass of a pointwise op: dy, x, y and out, of which those are missing that it does not read.
  std::string pass_misfit() const {
    if (step_.inputs.size() != 4 || step_.outputs.size() != 1 || step_.outputs[0] < 0)
      return "it has not four inputs and one output";
    const int part = step_.part == Part::gradient_1;
    const Layout& out = layout(step_.outputs[0]);
    const bool computes = device() == cpu()
                              ? static_cast<bool>(gradient_pass_of(op_.on_cpu(), part, out.dtype))
                              : kernels().has(step_.part);
    if (!computes || !on_one_device() || value(step_.outputs[0]).kind != Kind::computed)
      return std::string(no_op) + " this gradient";
    const unsigned needs = op_.needs.of[part];
    const bool needed[] = {true, (needs & 1) != 0, (needs & 2) != 0, (needs & 256) != 0};
    for (std::size_t i = 0; i < 4; ++i) {
      const int input = step_.inputs[i];
      if (input < 0) {
        if (needed[i]) return "an input is missing that its gradient needs";
        continue;
      }
      const Layout& own = layout(input);
      if (own.dtype != out.dtype || (own.elements == 0 && out.elements != 0))
        return "%" + std::to_string(input) + " does not fit its gradient";
    }
    return {};
  }

  /// A fused gradient: the gradients of the op's outputs, its inputs and its outputs.
  std::string gradients_misfit() const {
    const std::size_t inputs = step_.outputs.size();
    const std::size_t outputs = (step_.inputs.size() - std::min(step_.inputs.size(), inputs)) / 2;
    if (step_.inputs.size() != inputs + 2 * outputs || outputs == 0 || inputs == 0 ||
        (op_.arity >= 0 && inputs != static_cast<std::size_t>(op_.arity)))
      return "its inputs and outputs are not those of its gradient";
    if (!kernels().has(Part::gradients) || !on_one_device())
      return std::string(no_op) + " this gradient";
    const std::vector<int>& all = step_.inputs;
    const auto at = [&](std::size_t i) { return all[i]; };
    unsigned needs = 0;
    for (std::size_t i = 0; i < inputs; ++i)
      if (step_.outputs[i] >= 0) needs |= op_.needs.of[std::min<std::size_t>(i, 3)] | 1u << 16;
    bool given = false;  // of an output that has a gradient
    for (std::size_t i = 0; i < outputs; ++i)
      given |= static_cast<int>(i) != op_.kept && at(i) >= 0;
    bool complete = needs >> 16 && given;
    for (std::size_t i = 0; i < inputs && i < 8; ++i)
      complete &= !(needs >> i & 1) || at(outputs + i) >= 0;
    for (std::size_t i = 0; i < outputs && i < 8; ++i)
      complete &= !(needs >> (8 + i) & 1) || at(outputs + inputs + i) >= 0;
    if (!complete) return "an input is missing that its gradient needs";
    for (const int v : all)
      if (v >= 0 && !layout(v).contiguous) return "an input is not in order";
    return gradients_misfit_of(inputs, outputs);
  }
  std::string gradients_misfit_of(std::size_t inputs, std::size_t outputs) const {
    // The op itself, over the layouts of its inputs.
    Step forward;
    forward.op = step_.op;
    forward.options = step_.options;
    Graph own;
    for (std::size_t i = 0; i < inputs; ++i) {
      int from = step_.inputs[outputs + i];
      if (from < 0) from = step_.outputs[i];
      if (from < 0 && i > 0) from = step_.inputs[outputs + i - 1];  // it is not read
      if (from < 0) return "an input is missing that its gradient needs";
      own.values.push_back({.kind = Kind::computed, .layout = layout(from)});
      forward.inputs.push_back(static_cast<int>(i));
    }
    own.values.push_back({.kind = Kind::computed, .layout = {}});
    own.values.back().layout.device = device();
    forward.outputs = {static_cast<int>(inputs)};
    if (const std::string misfit = Fit(forward, own, memory_).inputs_misfit(); !misfit.empty())
      return misfit;
    const Inferred inferred(forward, own.values, memory_, true);
    if (inferred.wanted()) return options_misfit(step_, inferred.wanted());
    if (inferred.output_count() != outputs) return "its op has other outputs";
    const auto is = [&](int v, DType dtype, const Shape& shape) {
      return v < 0 || (layout(v).dtype == dtype && layout(v).shape == shape);
    };
    for (std::size_t i = 0; i < outputs; ++i)
      for (const int v : {step_.inputs[i], step_.inputs[outputs + inputs + i]})
        if (!is(v, inferred.output(i).dtype, inferred.output(i).shape))
          return "%" + std::to_string(v) + " is not like the output of its op";
    for (std::size_t i = 0; i < inputs; ++i) {
      const int made = step_.outputs[i];
      const Layout& of = own.values[i].layout;
      if (made >= 0 && (!is(made, of.dtype, of.shape) || !is_floating(of.dtype) ||
                        value(made).kind != Kind::computed))
        return "%" + std::to_string(made) + " is not like the input of its op";
    }
    // The kernel of the value checks lengths, and that of the gradient believes them.
    if (std::string_view(op_.argument_names).ends_with("lengths") &&
        own.values[inputs - 1].layout.elements)
      return "its kernel believes the lengths that it gets";
    return {};
  }

  const Step& step_;
  const Graph& graph_;
  ThreadMemory& memory_;
  const Op& op_;
};
}  // namespace

std::string misfit_of(const Step& step, const Graph& graph, ThreadMemory& memory) {
  if (!step.op) return "it has no op";
  if (step.user_code) return "it is a user's function";
  return step.loop ? loop_misfit_of(step, graph) : Fit(step, graph, memory).misfit();
}
std::string misfit_of(const Value& value) {
  if (value.kind == Kind::argument && value.number < 0) return " is no argument";
  if (value.kind == Kind::computed && !value.layout.contiguous)
    return " is computed, and not in order";
  if (value.kind == Kind::constant &&
      (!value.constant.defined() || !(Layout(*Access::body(value.constant)) == value.layout)))
    return " is a constant without its elements";
  return {};
}
}  // namespace reel::graph
