// SPDX-License-Identifier: BSD-3-Clause
// What the trips of a loop rely on, for a loop that nobody has checked.
#include <algorithm>
#include <set>

#include "lib/graph/graph.hpp"

namespace reel::graph {
namespace {
using Kind = Value::Kind;

class LoopFit {
 public:
  LoopFit(const Step& step, const Graph& graph)
      : step_(step), graph_(graph), loop_(*step.loop), inputs_(step.inputs) {}

  std::string misfit() {
    if (step_.op != &loop_op) return "its op is no loop";
    if (!step_.updated.empty() || step_.options.view().type) return "a loop has no options";
    for (const auto& list : {step_.inputs, step_.outputs})
      for (const int v : list) {
        if (v < 0) return "an input or output is missing";
        if (!is_plain(layout(v))) return "%" + std::to_string(v) + " is not in order on the CPU";
      }
    // run() has no way to start one of these.
    if (loop_.gradient || loop_.counts) return {};
    if (!counts_fit()) return "its numbers of inputs and outputs do not fit";
    if (!arrays_fit()) return "its arrays do not fit";
    const std::vector<const Graph*> bodies = loop_.bodies();
    if (bodies.size() != 1) return "it has not one body";
    return body_misfit(*bodies[0]);
  }

 private:
  const Layout& layout(int v) const { return graph_.values[static_cast<std::size_t>(v)].layout; }
  const Layout& input(std::size_t i) const { return layout(inputs_[i]); }
  const Layout& output(std::size_t i) const { return layout(step_.outputs[i]); }
  static bool is_plain(const Layout& layout) { return layout.contiguous && layout.device == cpu(); }
  static bool alike(const Layout& a, const Layout& b) {
    return a.dtype == b.dtype && a.shape == b.shape;
  }
  /// Whether `row` is what one trip takes of an array or adds to one.
  static bool is_row(const Layout& row, const Layout& array) {
    return row.dtype == array.dtype && row.shape.rank() + 1 == array.shape.rank() &&
           std::equal(row.shape.begin(), row.shape.end(), array.shape.begin() + 1);
  }

  bool counts_fit() const {
    const std::size_t in = inputs_.size(), out = step_.outputs.size();
    if (loop_.states > in || loop_.arrays > in || loop_.reads || loop_.results > out ||
        loop_.made > out || loop_.fixed_inputs() > in || loop_.results + loop_.made != out)
      return false;
    if (loop_.once ? loop_.arrays + loop_.states != 0 : loop_.results != loop_.states) return false;
    return loop_.made == 0 || loop_.once || loop_.arrays > 0;
  }
  bool arrays_fit() const {
    std::int64_t length = loop_.once ? 1 : -1;
    const auto fits = [&](const Layout& array) {
      if (array.shape.rank() == 0) return false;
      if (length < 0) length = array.shape.data()[0];
      return array.shape.data()[0] == length;
    };
    for (std::size_t i = 0; i < loop_.arrays; ++i)
      if (!fits(input(loop_.states + i))) return false;
    for (std::size_t i = 0; i < loop_.made; ++i)
      if (!fits(output(loop_.results + i))) return false;
    for (std::size_t i = 0; i < loop_.states; ++i)
      if (!alike(input(i), output(i))) return false;
    return true;
  }

  std::string body_misfit(const Graph& body) const {
    std::set<int> arguments;
    for (const Value& value : body.values) {
      if (!(value.layout.device == cpu())) return "its body is not on the CPU";
      if (value.kind != Kind::argument) continue;
      const auto number = static_cast<std::size_t>(value.number);
      if (value.number < 0 || number >= inputs_.size() || !arguments.insert(value.number).second)
        return "its body has other arguments";
      const bool array = number >= loop_.states && number < loop_.fixed_inputs();
      if (!value.layout.contiguous ||
          !(array ? is_row(value.layout, input(number)) : alike(value.layout, input(number))))
        return "its body has another argument " + std::to_string(number);
    }
    for (std::size_t i = 0; i < body.segments.size(); ++i) {
      for (const Step& step : body.segments[i].steps)
        if (step.op == &gradient_op || (step.loop && (step.loop->gradient || step.loop->counts)))
          return "its body has a gradient";
      if (body.segments[i].ends && !results_fit(body, i)) return "its body has other results";
    }
    return {};
  }
  bool results_fit(const Graph& body, std::size_t segment) const {
    const std::vector<int>& results = body.segments[segment].results;
    const bool makes = loop_.once || !loop_.stops_at(segment);
    if (results.size() < loop_.results + (makes ? loop_.made : 0)) return false;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i] < 0) return false;
      const Layout& own = body.values[static_cast<std::size_t>(results[i])].layout;
      if (!own.contiguous) return false;
      if (i < loop_.results && !alike(own, output(i))) return false;
      if (i >= loop_.results && i < step_.outputs.size() && !is_row(own, output(i))) return false;
    }
    return true;
  }

  const Step& step_;
  const Graph& graph_;
  const Loop& loop_;
  const std::vector<int>& inputs_;
};
}  // namespace

std::string loop_misfit_of(const Step& step, const Graph& graph) {
  return LoopFit(step, graph).misfit();
}
}  // namespace reel::graph
