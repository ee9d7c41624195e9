// SPDX-License-Identifier: BSD-3-Clause
// Runs a part of a graph eagerly.
#include <unordered_map>

#include <reel/graph.hpp>
#include <reel/tape.hpp>

#include "lib/body/text.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/table/options/random.hpp"
#include "lib/trace/replay.hpp"

namespace reel {
namespace {
using graph::Step, graph::Value, detail::GraphData;

class Run {
 public:
  Run(const GraphData& data, Caller caller)
      : data_(data),
        caller_(caller),
        names_(graph::names_of(data)),
        makers_(data.values.size()),
        values_(data.values.size()),
        fed_(data.values.size()) {
    std::uint64_t position = 0;  // in the order of the graph, whatever is computed first
    for (const graph::Segment& segment : data.segments)
      for (const Step& step : segment.steps) {
        for (const int output : step.outputs)
          if (output >= 0) makers_[static_cast<std::size_t>(output)] = &step;
        if (!tracing::draws(step)) continue;
        positions_[&step] = position;
        position += static_cast<const RandomOptions*>(step.options.view().data)
                        ->blocks(layout(step.outputs[0]).elements);
      }
  }
  void feed(const std::string& name, const Tensor& x) {
    const int i = find(name);
    const graph::Layout& layout = data_.values[static_cast<std::size_t>(i)].layout;
    if (!x.defined() || !(x.shape() == layout.shape))
      fail<ShapeError>(caller_, "run", "\"" + name + "\"", to_text(layout.shape),
                       x.defined() ? to_text(x.shape()) : Text("an empty Tensor"));
    if (x.dtype() != layout.dtype)
      fail<DTypeError>(caller_, "run", "\"" + name + "\"", name_of(layout.dtype),
                       name_of(x.dtype()));
    values_[static_cast<std::size_t>(i)] =
        contiguous_copy(*Access::body(x), caller_).to(layout.device);
    fed_[static_cast<std::size_t>(i)] = true;
  }
  /// Makes what the value needs first, without recursion: a graph may be long.
  Tensor fetch(const std::string& name) {
    std::vector<int> open = {find(name)};
    while (!open.empty()) {
      const int i = open.back();
      if (here(i).defined()) {
        open.pop_back();
        continue;
      }
      const std::size_t before = open.size();
      const Value& value = data_.values[static_cast<std::size_t>(i)];
      const Step* const step = makers_[static_cast<std::size_t>(i)];
      if (value.kind == Value::Kind::view && !changed(i)) {
        need(value.number, open);
      } else if (step) {
        for (const int input : step->inputs) need(input, open);
      }
      if (open.size() == before) make(i, value, step);
    }
    return here(find(name));
  }

 private:
  const graph::Layout& layout(int i) const {
    return data_.values[static_cast<std::size_t>(i)].layout;
  }
  Tensor& here(int i) { return values_[static_cast<std::size_t>(i)]; }
  void need(int i, std::vector<int>& open) {
    if (i >= 0 && !here(i).defined()) open.push_back(i);
  }
  int find(const std::string& name) const {
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return static_cast<int>(i);
    fail<Error>(caller_, "run", "name", "the name of a value in the graph", "\"" + name + "\"",
                "to_string(graph) shows all values; named(x, \"name\") gives a name.");
  }
  void make(int i, const Value& value, const Step* step) {
    const auto number = static_cast<std::size_t>(value.number);
    if (!step &&
        (value.kind == Value::Kind::computed || (value.kind == Value::Kind::view && data_.loaded)))
      fail<Error>(caller_, "run", "name", "a value that a step makes",
                  "\"" + names_[static_cast<std::size_t>(i)] + "\"");
    switch (value.kind) {
      case Value::Kind::argument:
        fail<Error>(caller_, "run", "options.feed",
                    "\"" + names_[static_cast<std::size_t>(i)] + "\"", "no such Tensor",
                    "An argument has no value of its own.");
      case Value::Kind::variable:
        here(i) = data_.variable_value(number);
        return;
      case Value::Kind::constant:
        here(i) = value.constant;
        return;
      case Value::Kind::view: {
        if (changed(i)) return view_again(i, *step);
        Tensor view = make_alias(Context::here(), Access::body(here(value.number)));
        if (!view.defined()) fail_memory(caller_, "run");
        value.layout.set(*Access::body(view));
        Access::body(view)->data += value.offset;
        here(i) = std::move(view);
        return;
      }
      case Value::Kind::computed:
        return compute(*step);
    }
  }
  /// Whether a view's own input, not only what it views, is fed or changed.
  bool changed(int i) const {
    while (data_.values[static_cast<std::size_t>(i)].kind == Value::Kind::view) {
      const Step* const step = makers_[static_cast<std::size_t>(i)];
      if (!step || step->inputs.empty() || step->inputs[0] < 0) return false;
      i = step->inputs[0];
      if (fed_[static_cast<std::size_t>(i)]) return true;
    }
    return false;
  }
  void view_again(int i, const Step& step) {
    if (step.op == &graph::view_op) {
      here(i) = here(step.inputs[0]);
      return;
    }
    std::vector<Operand> inputs;
    for (const int input : step.inputs) inputs.emplace_back(here(input), caller_);
    SmallVector<Tensor, 2> outputs;
    run(*step.op, inputs, step.options.view(), caller_, outputs);
    for (std::size_t k = 0; k < step.outputs.size(); ++k)
      if (step.outputs[k] == i) here(i) = outputs[k];
  }
  /// The value in row-major order if the graph has it so: a view of what is fed may be strided.
  Tensor in_order(int i) {
    const Body& body = *Access::body(here(i));
    return layout(i).contiguous && !body.contiguous ? contiguous_copy(body, caller_) : here(i);
  }
  void compute(const Step& step) {
    if (step.user_code)
      fail<Error>(caller_, "run", "step", "an op of the library",
                  place_of(step) + ", a user's function");
    if (step.loop) return compute_loop(step);
    std::vector<Tensor> held;
    std::vector<const Body*> inputs;
    for (const int input : step.inputs) {
      held.push_back(input < 0 ? Tensor() : in_order(input));
      inputs.push_back(Access::body(held.back()));
    }
    std::vector<Tensor> made;
    std::vector<Body*> outputs;
    for (const int output : step.outputs) {
      made.push_back(
          output < 0 ? Tensor()
                     : tracing::made_for(Context::here(),
                                         data_.values[static_cast<std::size_t>(output)].layout));
      outputs.push_back(output < 0 ? nullptr : Access::body(made.back()));
    }
    RandomOptions random;
    OptionsView options = step.options.view();
    if (tracing::draws(step)) {
      random = *static_cast<const RandomOptions*>(options.data);
      random.position = positions_.at(&step);
      options = random;
    }
    run_kernel({*step.op, inputs.data(), static_cast<int>(inputs.size()), options,
                step.caller.file ? step.caller : caller_, outputs.data(),
                static_cast<int>(outputs.size()), nullptr, step.part});
    for (std::size_t i = 0; i < made.size(); ++i)
      if (step.outputs[i] >= 0 && !here(step.outputs[i]).defined())
        here(step.outputs[i]) = std::move(made[i]);
  }

  /// Runs the step as a graph of its own.
  void compute_loop(const Step& step) {
    if (step.loop->gradient || step.loop->counts)
      fail<Error>(caller_, "run", "step", "an op, or a loop without a gradient", place_of(step));
    tracing::Tree tree;
    Step own = step;
    std::vector<Tensor> inputs;
    for (int& input : own.inputs) {
      Value value{.kind = Value::Kind::argument, .number = static_cast<int>(tree.values.size())};
      inputs.push_back(in_order(input));
      value.layout = graph::Layout(*Access::body(inputs.back()));
      if (value.layout.contiguous != layout(input).contiguous)
        fail<Error>(caller_, "run", "options.feed", "a value that no strided input of a loop views",
                    place_of(step));
      tree.values.push_back(std::move(value));
      input = static_cast<int>(tree.values.size()) - 1;
    }
    for (int& output : own.outputs) {
      tree.values.push_back({.kind = Value::Kind::computed});
      tree.values.back().layout = layout(output);
      output = static_cast<int>(tree.values.size()) - 1;
    }
    graph::Segment& segment = tree.segments.emplace_back();
    segment.ends = true;
    segment.results = own.outputs;
    segment.steps.push_back(std::move(own));
    tree.endings.push_back(std::make_shared<tracing::Ending>());
    tree.endings[0]->segment = 0;
    tree.endings[0]->until_check = 0;
    tracing::Plan plan(tree);
    tracing::Replay replay(Context::here(), plan);
    for (std::size_t i = 0; i < inputs.size(); ++i) replay.argument(static_cast<int>(i), inputs[i]);
    if (!replay.run())
      fail<Error>(caller_, "run", "step", "a path through its trips that was captured",
                  place_of(step));
    for (std::size_t i = 0; i < step.outputs.size(); ++i)
      here(step.outputs[i]) = replay.result(tree.segments[0].results[i]);
  }

  const GraphData& data_;
  Caller caller_;
  std::vector<std::string> names_;
  std::vector<const Step*> makers_;  // of each value; null where a call starts with it
  std::vector<Tensor> values_;
  std::vector<bool> fed_;
  std::unordered_map<const Step*, std::uint64_t> positions_;  // in a stream of random numbers
};
}  // namespace

Fetched run(const Graph& graph, const RunOptions& options, Caller caller) try {
  Run running(graph.data(), caller);
  for (const auto& [name, x] : options.feed) running.feed(name, x);
  Fetched fetched;
  for (const std::string& name : options.fetch)
    fetched.values.emplace_back(name, running.fetch(name));
  return fetched;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "run");
}
const Tensor& Fetched::at(std::string_view name, Caller caller) const {
  for (const auto& [known, value] : values)
    if (known == name) return value;
  fail<IndexError>(caller, "Fetched", "name", "the name of a value that was fetched", name);
}
}  // namespace reel
