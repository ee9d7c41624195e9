// SPDX-License-Identifier: BSD-3-Clause
// Graphs with steps of a function that the program gives.
#include <algorithm>

#include <reel/graph.hpp>

#include "lib/body/text.hpp"
#include "lib/flow/interceptor.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/graph/passes/passes.hpp"
#include "lib/graph/shapes.hpp"
#include "lib/table/backend.hpp"
#include "lib/trace/replay.hpp"

namespace reel {
namespace {
using detail::GraphData, graph::Segment, graph::Step, graph::Value;
using Function = detail::Function<Tensor(const std::vector<Tensor>&)>;

class Edit {
 public:
  Edit(const Graph& graph, const char* op, Caller caller)
      : data_(make_shared_of<GraphData>(graph.data())), op_(op), caller_(caller) {}

  int find(std::string_view name) const {
    const auto names = graph::names_of(*data_);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return static_cast<int>(found - names.begin());
    fail<Error>(caller_, op_, "name", "the name of a value in the graph", quoted(name),
                "to_string(graph) shows all values.");
  }
  void refuse_known(std::string_view name) const {
    const auto names = graph::names_of(*data_);
    if (name.empty() || std::find(names.begin(), names.end(), name) != names.end())
      fail<Error>(caller_, op_, "name", "a name that no value of the graph has", quoted(name));
  }

  /// Adds the steps of f(values) behind the steps that make the values. Returns its result.
  int add(const std::vector<int>& values, const Function& f) {
    const tracing::Capture path = capture(values, f);
    const int first = static_cast<int>(data_->values.size());
    std::vector<int> numbers;  // of the capture's values
    for (const Value& value : path.values) {
      const auto number = static_cast<std::size_t>(value.number);
      numbers.push_back(value.kind == Value::Kind::argument
                            ? values[number]
                            : static_cast<int>(data_->values.size()));
      if (value.kind == Value::Kind::argument) continue;
      Value& added = data_->values.emplace_back(value);
      if (value.kind == Value::Kind::variable) added.number = variable(path.variables[number]);
      if (value.kind == Value::Kind::view) added.number = numbers[number];
    }
    std::vector<Step> steps = path.steps;
    for (Step& step : steps)
      for (std::vector<int>* const each : {&step.inputs, &step.outputs})
        for (int& value : *each)
          if (value >= 0) value = numbers[static_cast<std::size_t>(value)];
    changed_.assign(data_->values.size(), false);
    for (const int value : values) changed_[static_cast<std::size_t>(value)] = true;
    auto [segment, at] = place_behind(values);
    for (Step& step : steps) view_again(step);
    auto& list = data_->segments[segment].steps;
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(at),
                std::make_move_iterator(steps.begin()), std::make_move_iterator(steps.end()));
    end_ = {segment, at + path.steps.size()};
    const int result = numbers[static_cast<std::size_t>(path.results[0])];
    // A result that f was given gets a header of its own, and with it a name.
    return result >= first ? result : alias(result);
  }

  /// What read the value `from` reads `to`, but for the steps that were added.
  void read_instead(int from, int to) {
    std::fill(changed_.begin(), changed_.end(), false);
    changed_[static_cast<std::size_t>(to)] = true;
    const auto replace = [&](std::vector<int>& list) {
      std::replace(list.begin(), list.end(), from, to);
    };
    for (std::size_t i = end_.segment; i < data_->segments.size(); ++i) {
      Segment& segment = data_->segments[i];
      for (std::size_t k = i == end_.segment ? end_.step : 0; k < segment.steps.size(); ++k) {
        replace(segment.steps[k].inputs);
        view_again(segment.steps[k]);
      }
      replace(segment.question.inputs);
      replace(segment.results);
      for (auto& [number, value] : segment.assigned)
        if (value == from) value = to;
    }
  }
  void name(int value, std::string_view name) {
    data_->values[static_cast<std::size_t>(value)].name = name;
  }
  void check_alike(int from, int to) const {
    const graph::Layout &a = layout(from), &b = layout(to);
    if (!(a.shape == b.shape))
      fail<ShapeError>(caller_, op_, "result", to_text(a.shape), to_text(b.shape));
    if (a.dtype != b.dtype)
      fail<DTypeError>(caller_, op_, "result", name_of(a.dtype), name_of(b.dtype));
  }
  Graph finish() {
    const std::string fault = graph::fault_of(*data_, data_->variables.size(), Context::here());
    if (!fault.empty()) fail<Error>(caller_, op_, "result", "a graph that verify() accepts", fault);
    return Graph(std::move(data_));
  }

 private:
  struct Place {
    std::size_t segment = 0, step = 0;
  };
  static std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }
  Value& value(int i) { return data_->values[static_cast<std::size_t>(i)]; }
  const graph::Layout& layout(int i) const {
    return data_->values[static_cast<std::size_t>(i)].layout;
  }

  tracing::Capture capture(const std::vector<int>& values, const Function& f) {
    Context& context = Context::here();
    const RecordingPause unrecorded(context);
    const InterceptorPause unseen;
    std::vector<Tensor> arguments;
    tracing::Tracer tracer;
    for (const int value : values) {
      graph::Layout plain = layout(value);
      plain.contiguous = true;
      const Tensor x = tracing::made_for(context, plain);
      if (plain.elements) backend_of(plain.device.kind)->fill(*Access::body(x), 0);
      arguments.push_back(tracing::named_apart(x));
      tracer.argument(arguments.back());
    }
    std::vector<Tensor> results;
    {
      const InterceptorScope scope(tracer);
      results = {f(arguments)};
    }
    if (!results[0].defined()) fail<Error>(caller_, op_, "result", "a Tensor", "an empty Tensor");
    tracing::Capture path = tracer.finish(results);
    if (!tracer.trouble().empty())
      fail<Error>(caller_, op_, "f", "ops alone", std::string(tracer.trouble()));
    for (const Step& step : path.steps)
      if (!step.op || !step.updated.empty())
        fail<Error>(caller_, op_, "f", "ops alone",
                    step.op ? "a step that writes a Variable, " + graph::place_of(step)
                            : "a value that it reads on the host, of " + graph::place_of(step));
    return path;
  }
  /// The number of a Variable of the program.
  int variable(const Variable& x) {
    for (std::size_t i = 0; i < data_->program.size(); ++i)
      if (&Access::cell(data_->program[i]) == &Access::cell(x)) return static_cast<int>(i);
    if (data_->program.size() != data_->variables.size())
      fail<Error>(caller_, op_, "f", "constants, in a graph of a file", "the Variable " + x.name());
    data_->program.push_back(x);
    data_->variables.push_back(x.name());
    data_->variable_values.push_back(Access::cell(x).value);
    return static_cast<int>(data_->variables.size()) - 1;
  }
  /// The place behind the steps that make these values, which must be on one path.
  Place place_behind(const std::vector<int>& values) const {
    std::vector<int> before(data_->segments.size(), -1);
    Place place;
    for (std::size_t i = 0; i < data_->segments.size(); ++i) {
      const Segment& segment = data_->segments[i];
      for (const graph::Branch& branch : segment.branches)
        before[static_cast<std::size_t>(branch.segment)] = static_cast<int>(i);
      for (std::size_t k = 0; k < segment.steps.size(); ++k)
        for (const int output : segment.steps[k].outputs)
          if (output >= 0 && std::count(values.begin(), values.end(), output)) {
            int leads = static_cast<int>(i);
            while (leads > static_cast<int>(place.segment))
              leads = before[static_cast<std::size_t>(leads)];
            if (leads != static_cast<int>(place.segment))
              fail<Error>(caller_, op_, "names", "values of one path",
                          "values of blocks " + std::to_string(place.segment) + " and " +
                              std::to_string(i));
            place = {i, k + 1};
          }
    }
    return place;
  }
  /// If an input of the step has changed, its output may be another view, or none.
  void view_again(Step& step) {
    const bool reads = std::any_of(step.inputs.begin(), step.inputs.end(), [&](int input) {
      return input >= 0 && changed_[static_cast<std::size_t>(input)];
    });
    if (!reads || step.outputs.size() != 1 || step.outputs[0] < 0) return;
    Value& made = value(step.outputs[0]);
    if (made.kind != Value::Kind::view) return;
    const int base = step.inputs[0];
    std::int64_t offset = value(base).kind == Value::Kind::view ? value(base).offset : 0;
    if (graph::has_rule(step)) {
      const graph::Inferred inferred(step, data_->values, Context::here());
      made.layout = graph::Layout(inferred.output(0));
      made.layout.device = layout(base).device;
      if (inferred.computes()) {
        made.kind = Value::Kind::computed;
        made.number = 0;
        made.offset = 0;
        return;
      }
      offset += inferred.offset(0);
      made.layout.contiguous = is_row_major(made.layout.shape, made.layout.strides);
    } else {
      made.layout = layout(base);
    }
    made.number = graph::root_of(*data_, base);
    made.offset = offset;
    changed_[static_cast<std::size_t>(step.outputs[0])] = true;
  }
  int alias(int of) {
    Step step;
    step.op = &graph::view_op;
    step.inputs = {of};
    step.outputs = {static_cast<int>(data_->values.size())};
    const Value& base = value(of);
    Value made{.kind = Value::Kind::view, .number = graph::root_of(*data_, of)};
    made.offset = base.kind == Value::Kind::view ? base.offset : 0;
    made.layout = base.layout;
    data_->values.push_back(std::move(made));
    changed_.push_back(false);
    auto& steps = data_->segments[end_.segment].steps;
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(end_.step++), step);
    return step.outputs[0];
  }

  Shared<GraphData> data_;
  const char* op_;
  Caller caller_;
  std::vector<char> changed_;  // values that became another view, or whose elements are elsewhere
  Place end_;                  // behind the steps that were added
};
}  // namespace

Graph replace(const Graph& graph, std::string_view name,
              const detail::Function<Tensor(const Tensor&)>& f, Caller caller) try {
  Edit edit(graph, "replace", caller);
  const int value = edit.find(name);
  const int made = edit.add({value}, [&](const std::vector<Tensor>& x) { return f(x[0]); });
  edit.check_alike(value, made);
  edit.read_instead(value, made);
  return edit.finish();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "replace");
}
Graph append(const Graph& graph, std::string_view name, const std::vector<std::string>& inputs,
             const Function& f, Caller caller) try {
  Edit edit(graph, "append", caller);
  edit.refuse_known(name);
  std::vector<int> values;
  for (const std::string& input : inputs) values.push_back(edit.find(input));
  edit.name(edit.add(values, f), name);
  return edit.finish();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "append");
}
}  // namespace reel
