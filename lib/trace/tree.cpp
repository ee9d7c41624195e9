// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/tree.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "lib/body/dtypes.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"
#include "lib/table/options.hpp"
#include "lib/trace/loop.hpp"

namespace reel::tracing {
namespace {
/// A row-major copy in the host's memory.
Tensor in_order(const Tensor& x) {
  const Tensor host = on_host(x);
  return Access::body(host)->contiguous ? host : contiguous_copy(*Access::body(host));
}
}  // namespace

bool same_elements(const Tensor& a, const Tensor& b) {
  if (Access::body(a)->data == Access::body(b)->data) return true;
  const Tensor x = in_order(a), y = in_order(b);
  return !std::memcmp(Access::body(x)->data, Access::body(y)->data,
                      static_cast<std::size_t>(Access::body(x)->bytes()));
}

namespace {
std::int64_t first_other_element(const Tensor& a, const Tensor& b) {
  const Tensor x = in_order(a), y = in_order(b);
  const Body &p = *Access::body(x), &q = *Access::body(y);
  std::int64_t i = 0;
  const auto size = static_cast<std::size_t>(size_of(p.dtype));
  const auto same = [&](std::int64_t n) {
    const std::size_t at = static_cast<std::size_t>(n) * size;
    return !std::memcmp(p.data + at, q.data + at, size);
  };
  while (i < p.elements && same(i)) ++i;
  return i;
}

/// Follows a path in the tree. Where the path leaves the tree, it adds the rest of the path.
class Walker {
 public:
  Walker(Tree& tree, const Capture& path, bool compares_results)
      : tree_(tree),
        path_(path),
        known_(path.values.size(), -1),
        compares_results_(compares_results) {
    for (const Variable& variable : tree.variables)
      numbers_.emplace(&Access::cell(variable), static_cast<int>(numbers_.size()));
    for (std::size_t i = 0; i < tree.values.size(); ++i)
      if (is_start(tree.values[i])) starts_.emplace(start_of(tree.values[i]), static_cast<int>(i));
  }

  Difference walk() {
    for (const Variable& variable : path_.variables) variables_.push_back(number_of(variable));
    if (tree_.segments.empty()) {
      start_segment();
      building_ = true;
    }
    for (const Step& step : path_.steps)
      if (!(step.op ? pass(step) : answer(step))) {
        if (!difference_)
          difference_ = {"path through it", expected_here(), "a step to " + name_of(step)};
        return difference_;
      }
    if (!finish() && !difference_) difference_ = {"path through it", expected_here(), "the end"};
    return difference_;
  }
  int end() const { return segment_; }

 private:
  static std::string name_of(const Step& step) {
    if (!step.op) return "a value read on the host, of " + place_of(step);
    return (step.part == Part::value ? "" : "the gradient of ") + place_of(step);
  }
  /// What the tree expects where the path leaves it.
  std::string expected_here() {
    const Segment& here = segment();
    if (next_ < here.steps.size()) return "a step to " + name_of(here.steps[next_]);
    return here.branches.empty() ? "the end" : "a step to " + name_of(here.question);
  }
  /// Notes which part of a step differs: `what` is an input or a result.
  void note(int value, int before, const std::string& what, const Step& step) {
    if (difference_) return;
    const Value &a = path_.values[static_cast<std::size_t>(value)],
                &b = tree_.values[static_cast<std::size_t>(before)];
    if (a.kind == Value::Kind::constant && b.kind == a.kind) return note_constant(a, b, step);
    difference_ = {step.op ? what + " of " + name_of(step) : what,
                   text_of(b, way_value_of(before), tree_.variables),
                   text_of(a, value, path_.variables)};
    if (difference_.before == difference_.now) difference_.now = "another one that looks the same";
  }
  void note_constant(const Value& a, const Value& b, const Step& step) {
    difference_ = {"constant of " + place_of(step), describe(b.layout), describe(a.layout)};
    if (!(a.layout == b.layout)) return;
    const std::int64_t i = first_other_element(a.constant, b.constant);
    if (i == a.layout.elements) return;
    const Tensor was = in_order(b.constant), is = in_order(a.constant);
    if (a.layout.elements > 1)
      difference_.what = "element " + std::to_string(i) + " of a " + difference_.what;
    difference_.before = element_text(*Access::body(was), i);
    difference_.now = element_text(*Access::body(is), i);
  }
  /// The value of the path that corresponds to this value of the tree; -1 if none is known.
  int way_value_of(int value) const {
    const auto found = std::find(known_.begin(), known_.end(), value);
    return found == known_.end() ? -1 : static_cast<int>(found - known_.begin());
  }
  /// Describes a value, number i of the path, and where it comes from.
  std::string text_of(const Value& value, int i, const std::vector<Variable>& variables) const {
    std::string text = "a new value";
    if (value.kind == Value::Kind::argument) text = "argument " + std::to_string(value.number);
    if (value.kind == Value::Kind::constant) text = "a constant";
    if (value.kind == Value::Kind::variable)
      text = "Variable \"" + variables[static_cast<std::size_t>(value.number)].name() + '"';
    for (std::size_t k = 0; k < path_.steps.size(); ++k)
      if (i >= 0 && std::count(path_.steps[k].outputs.begin(), path_.steps[k].outputs.end(), i))
        text = "the result of step " + std::to_string(k) + ", " + name_of(path_.steps[k]);
    return text + ", " + describe(value.layout) + (value.layout.contiguous ? "" : " with strides");
  }
  static std::string describe(const Layout& layout) {
    return std::string(reel::name_of(layout.dtype)) + to_text(layout.shape);
  }

  Segment& segment() { return tree_.segments[static_cast<std::size_t>(segment_)]; }

  int number_of(const Variable& variable) {
    const auto [found, is_new] =
        numbers_.try_emplace(&Access::cell(variable), static_cast<int>(numbers_.size()));
    if (is_new) tree_.variables.push_back(variable);
    return found->second;
  }
  /// Whether a call starts with this value.
  static bool is_start(const Value& value) {
    return value.kind == Value::Kind::argument || value.kind == Value::Kind::variable;
  }
  static std::int64_t start_of(const Value& value) {
    return std::int64_t{value.number} * 2 + (value.kind == Value::Kind::variable);
  }

  /// Finds the value of the tree for a value of the path. `before` is the expected value, or -1 for
  /// a new one.
  bool match(int value, int before, int& is) {
    is = -1;
    if (value < 0) return before < 0;
    int& known = known_[static_cast<std::size_t>(value)];
    if (known < 0 && before >= 0 && alike(value, before)) known = before;
    if (known < 0 && building_) known = add(value);
    is = known;
    return known >= 0 && (building_ || known == before);
  }

  bool alike(int value, int before) {
    const Value &a = path_.values[static_cast<std::size_t>(value)],
                &b = tree_.values[static_cast<std::size_t>(before)];
    if (a.kind != b.kind || !(a.layout == b.layout)) return false;
    switch (a.kind) {
      case Value::Kind::argument:
        return a.number == b.number;
      case Value::Kind::variable:
        return variables_[static_cast<std::size_t>(a.number)] == b.number;
      case Value::Kind::constant:
        return same_elements(a.constant, b.constant);
      case Value::Kind::view:
        return known_[static_cast<std::size_t>(a.number)] == b.number && a.offset == b.offset;
      case Value::Kind::computed:
        return true;
    }
    return false;
  }

  int add(int value) {
    Value made = path_.values[static_cast<std::size_t>(value)];
    if (made.kind == Value::Kind::variable)
      made.number = variables_[static_cast<std::size_t>(made.number)];
    if (made.kind == Value::Kind::view) {
      int base;
      match(made.number, -1, base);
      made.number = base;
    }
    // A value that a call starts with has one number in the tree, whichever path uses it first.
    const auto next = static_cast<int>(tree_.values.size());
    if (is_start(made)) {
      const auto [found, is_new] = starts_.try_emplace(start_of(made), next);
      if (!is_new) return found->second;
    }
    tree_.values.push_back(std::move(made));
    return next;
  }

  /// `what` is the role of the values in the step: inputs, or results.
  bool meet_all(const Step* step, const std::string& what, const std::vector<int>& values,
                const std::vector<int>* before, std::vector<int>& are) {
    if (before && before->size() != values.size()) {
      if (step)
        difference_ = {"number of " + what + "s of " + name_of(*step),
                       std::to_string(before->size()), std::to_string(values.size())};
      return false;
    }
    are.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int known = before ? (*before)[i] : -1;
      if (match(values[i], known, are[i])) continue;
      if (step && values[i] >= 0 && known >= 0)
        note(values[i], known, what + ' ' + std::to_string(i), *step);
      else if (step)
        difference_ = {what + ' ' + std::to_string(i) + " of " + name_of(*step),
                       known < 0 ? "none" : "a tensor", known < 0 ? "a tensor" : "none"};
      return false;
    }
    return true;
  }

  /// The inputs of a loop that its trips read besides the state and the rows may come in another
  /// order, and paths of its trips may be new.
  bool pass_loop(const Step& step) {
    const Loop& other = loop_of(step);
    Step mine;
    Step* before = nullptr;
    if (!building_) {
      if (next_ == segment().steps.size()) return false;
      before = &segment().steps[next_];
      if (!before->loop || before->loop->name != other.name ||
          before->loop->gradient != other.gradient)
        return false;
      if (before->loop->fixed_inputs() != other.fixed_inputs() ||
          before->outputs.size() != step.outputs.size()) {
        // The trips of this run took paths that read other Variables.
        difference_ = {"gradient of " + name_of(step), std::to_string(before->outputs.size()),
                       std::to_string(step.outputs.size()), true};
        return false;
      }
    }
    const auto fixed = static_cast<std::ptrdiff_t>(other.fixed_inputs());
    const std::vector<int> given(step.inputs.begin(), step.inputs.begin() + fixed);
    std::vector<int> expected;
    if (before) expected.assign(before->inputs.begin(), before->inputs.begin() + fixed);
    if (!meet_all(&step, "input", given, before ? &expected : nullptr, mine.inputs) ||
        !meet_all(&step, "result", step.outputs, before ? &before->outputs : nullptr,
                  mine.outputs)) {
      difference_.is_chance = other.gradient;
      return false;
    }
    auto loop = std::make_shared<Loop>(before ? loop_of(*before) : other);
    if (before) {
      mine.inputs = before->inputs;
    } else {
      loop->tree = Tree();
      loop->stops.clear();
      loop->gradient_bodies.clear();
      loop->paths.clear();
      loop->segments.clear();
    }
    std::vector<int> places;
    for (auto v = step.inputs.begin() + fixed; v != step.inputs.end(); ++v) {
      int& known = known_[static_cast<std::size_t>(*v)];
      if (known < 0 && (building_ || is_start(path_.values[static_cast<std::size_t>(*v)])))
        known = add(*v);
      if (known < 0) return false;
      auto at = std::find(mine.inputs.begin() + fixed, mine.inputs.end(), known);
      if (at == mine.inputs.end()) at = mine.inputs.insert(at, known);
      places.push_back(static_cast<int>(at - mine.inputs.begin() - fixed));
    }
    const auto of = other.gradient ? trips_.find(mine.inputs[0]) : trips_.end();
    std::vector<int> ends;
    for (std::size_t i = 0; i < other.paths.size(); ++i) {
      int other_end = -1;
      if (other.gradient) {  // `segments` are those of the loop as this path captured it
        if (of == trips_.end()) return false;
        const auto found = of->second.find(other.segments[i]);
        if (found == of->second.end()) return false;
        other_end = found->second;
      }
      ends.push_back(loop->add(renumbered(other.paths[i], other, places), other_end));
      if (ends.back() < 0) {
        difference_ = {"trip of " + name_of(step), "what it did before", "something else",
                       other.gradient || other.counts};
        return false;
      }
    }
    if (other.counts)
      for (std::size_t i = 0; i < ends.size(); ++i)
        trips_[mine.outputs.back()][other.segments[i]] = ends[i];
    if (before) {
      const std::size_t known = loop_of(*before).paths.size();
      tree_.loop_paths += loop->paths.size() - known;
      before->inputs = mine.inputs;
      before->loop = std::move(loop);
      return ++next_;
    }
    mine.op = step.op;
    mine.caller = step.caller;
    mine.scope = step.scope;
    mine.loop = std::move(loop);
    segment().steps.push_back(std::move(mine));
    return true;
  }

  bool pass(const Step& step) {
    if (step.loop) return pass_loop(step);
    const Step* before = nullptr;
    if (!building_) {
      if (next_ == segment().steps.size()) return false;
      before = &segment().steps[next_];
      if (before->op != step.op || before->part != step.part) return false;
      if (!(before->options == step.options)) {
        difference_ = {"options of " + place_of(step), to_string(before->options.view()),
                       to_string(step.options.view())};
        return false;
      }
    }
    Step mine;
    if (!meet_all(&step, "input", step.inputs, before ? &before->inputs : nullptr, mine.inputs) ||
        !meet_all(&step, "result", step.outputs, before ? &before->outputs : nullptr, mine.outputs))
      return false;
    for (const int variable : step.updated)
      mine.updated.push_back(variables_[static_cast<std::size_t>(variable)]);
    if (before) {
      if (before->updated == mine.updated) return ++next_;
      difference_ = {"Variables that " + name_of(step) + " writes", names_of(before->updated),
                     names_of(mine.updated)};
      if (difference_.before == difference_.now) difference_.now = "others of these names";
      return false;
    }
    mine.op = step.op;
    mine.part = step.part;
    mine.user_code = step.user_code;
    mine.options = step.options;
    mine.caller = step.caller;
    mine.scope = step.scope;
    segment().steps.push_back(std::move(mine));
    return true;
  }

  std::string names_of(const std::vector<int>& variables) const {
    std::string names;
    for (const int variable : variables)
      names +=
          (names.empty() ? "" : ", ") + tree_.variables[static_cast<std::size_t>(variable)].name();
    return names;
  }

  bool answer(const Step& step) {
    if (!building_) {
      int asked;
      const Segment& here = segment();
      if (next_ != here.steps.size() || here.branches.empty()) return false;
      const Step& known = here.question;
      if (known.read != step.read) {
        const auto read = [](const Step& s) {
          return s.read == HostRead::truth ? "its truth" : "its elements";
        };
        difference_ = {"what is read of a value", read(known), read(step)};
        return false;
      }
      if (!match(step.inputs[0], known.inputs[0], asked)) {
        note(step.inputs[0], known.inputs[0], "value read on the host", step);
        return false;
      }
    } else {
      Step question;
      question.read = step.read;
      question.caller = step.caller;
      meet_all(nullptr, {}, step.inputs, nullptr, question.inputs);
      segment().question = std::move(question);
    }
    next_ = 0;
    for (const Branch& branch : segment().branches)
      if (branch.answer == step.answer) {
        segment_ = branch.segment;
        return true;
      }
    building_ = true;
    const int next = static_cast<int>(tree_.segments.size());
    segment().branches.push_back({step.answer, next});
    segment_ = next;
    start_segment();
    return true;
  }

  void start_segment() {
    tree_.segments.emplace_back();
    tree_.endings.emplace_back();
  }

  bool finish() {
    // Another thread may have added this path before.
    if (!building_) {
      if (next_ != segment().steps.size() || !segment().ends) return false;
      return !compares_results_ ||
             meet_all(nullptr, {}, path_.results, &segment().results, results_);
    }
    meet_all(nullptr, {}, path_.results, nullptr, segment().results);
    for (const auto& [variable, value] : path_.assigned) {
      int last;
      match(value, -1, last);
      segment().assigned.emplace_back(variables_[static_cast<std::size_t>(variable)], last);
    }
    segment().ends = true;
    auto ending = std::make_shared<Ending>();
    ending->segment = static_cast<std::size_t>(segment_);
    ending->result = path_.result;
    ending->sources = path_.sources;
    tree_.endings[ending->segment] = std::move(ending);
    ++tree_.paths;
    return true;
  }

  Tree& tree_;
  const Capture& path_;
  std::vector<int> known_;  // the value of the tree for each value of the path
  std::vector<int> variables_;
  std::unordered_map<const Cell*, int> numbers_;  // of the tree's Variables
  std::unordered_map<std::int64_t, int> starts_;  // values of the tree that a call starts with
  int segment_ = 0;
  std::size_t next_ = 0;  // the next step of the segment
  bool building_ = false;
  bool compares_results_;
  std::vector<int> results_;
  /// For the number of trips of each loop: segments as this path captured them -> of the tree.
  std::unordered_map<int, std::unordered_map<int, int>> trips_;
  Difference difference_;
};
}  // namespace

Difference Tree::add(const Capture& path, Walked* walked) {
  Tree grown = *this;
  Walker walker(grown, path, walked);
  Difference difference = walker.walk();
  if (walked) walked->segment = walker.end();
  if (!difference) *this = std::move(grown);
  return difference;
}
}  // namespace reel::tracing
