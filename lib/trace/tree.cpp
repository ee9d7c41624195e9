// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/tree.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "lib/dispatch/call_kernel.hpp"
#include "lib/dispatch/options.hpp"
#include "lib/tensor/dtypes.hpp"

namespace reel::tracing {
namespace {
Tensor in_order(const Tensor& x) {
  return Access::body(x)->contiguous ? x : contiguous_copy(*Access::body(x));
}
/// Of constants that lie alike.
bool same_elements(const Tensor& a, const Tensor& b) {
  if (Access::body(a)->data == Access::body(b)->data) return true;
  const Tensor x = in_order(a), y = in_order(b);
  return !std::memcmp(Access::body(x)->data, Access::body(y)->data,
                      static_cast<std::size_t>(Access::body(x)->bytes()));
}

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

/// Walks a way along the tree, and from where it leaves it on adds what is new.
class Walker {
 public:
  Walker(Tree& tree, const Capture& way) : tree_(tree), way_(way), known_(way.values.size(), -1) {}

  Difference walk() {
    for (const Variable& variable : way_.variables) variables_.push_back(number_of(variable));
    if (tree_.segments.empty()) {
      tree_.segments.emplace_back();
      building_ = true;
    }
    for (const Step& step : way_.steps)
      if (!(step.op ? pass(step) : answer(step))) {
        if (!difference_)
          difference_ = {"way through it", expected_here(), "a step to " + name_of(step)};
        return difference_;
      }
    if (!finish()) difference_ = {"way through it", expected_here(), "the end"};
    return difference_;
  }

 private:
  static std::string name_of(const Step& step) {
    return step.op ? place_of(step) : "a value read on the host, of " + place_of(step);
  }
  /// What the tree has where the way leaves it.
  std::string expected_here() {
    const Segment& here = segment();
    if (next_ < here.steps.size()) return "a step to " + name_of(here.steps[next_]);
    return here.branches.empty() ? "the end" : "a step to " + name_of(here.question);
  }
  void note(int value, int before, const Step& step) {
    const Value &a = way_.values[static_cast<std::size_t>(value)],
                &b = tree_.values[static_cast<std::size_t>(before)];
    if (a.kind != Value::Kind::constant || b.kind != a.kind || difference_) return;
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
  static std::string describe(const Layout& layout) {
    return std::string(reel::name_of(layout.dtype)) + to_text(layout.shape);
  }

  Segment& segment() { return tree_.segments[static_cast<std::size_t>(segment_)]; }

  int number_of(const Variable& variable) {
    auto& all = tree_.variables;
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const Variable& other) { return other.same_cell(variable); });
    const auto number = static_cast<int>(found - all.begin());
    if (found == all.end()) all.push_back(variable);
    return number;
  }

  /// A value of the way as one of the tree; `before` is the one it should be, -1 if it is new.
  bool meet(int value, int before, int& is) {
    is = -1;
    if (value < 0) return before < 0;
    int& known = known_[static_cast<std::size_t>(value)];
    if (known < 0 && before >= 0 && alike(value, before)) known = before;
    if (known < 0 && building_) known = add(value);
    is = known;
    return known >= 0 && (building_ || known == before);
  }

  bool alike(int value, int before) {
    const Value &a = way_.values[static_cast<std::size_t>(value)],
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
    Value made = way_.values[static_cast<std::size_t>(value)];
    if (made.kind == Value::Kind::variable)
      made.number = variables_[static_cast<std::size_t>(made.number)];
    if (made.kind == Value::Kind::view) {
      int base;
      meet(made.number, -1, base);
      made.number = base;
    }
    // What a call starts with is one value, whichever way meets it first.
    if (made.kind == Value::Kind::argument || made.kind == Value::Kind::variable)
      for (std::size_t i = 0; i < tree_.values.size(); ++i)
        if (tree_.values[i].kind == made.kind && tree_.values[i].number == made.number)
          return static_cast<int>(i);
    tree_.values.push_back(std::move(made));
    return static_cast<int>(tree_.values.size()) - 1;
  }

  bool meet_all(const Step* step, const std::vector<int>& values, const std::vector<int>* before,
                std::vector<int>& are) {
    if (before && before->size() != values.size()) return false;
    are.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (meet(values[i], before ? (*before)[i] : -1, are[i])) continue;
      if (step && values[i] >= 0 && (*before)[i] >= 0) note(values[i], (*before)[i], *step);
      return false;
    }
    return true;
  }

  bool pass(const Step& step) {
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
    if (!meet_all(&step, step.inputs, before ? &before->inputs : nullptr, mine.inputs) ||
        !meet_all(&step, step.outputs, before ? &before->outputs : nullptr, mine.outputs))
      return false;
    for (const int variable : step.updated)
      mine.updated.push_back(variables_[static_cast<std::size_t>(variable)]);
    if (before) {
      const bool same = before->updated == mine.updated;
      next_ += same;
      return same;
    }
    mine.op = step.op;
    mine.part = step.part;
    mine.options = step.options;
    mine.site = step.site;
    segment().steps.push_back(std::move(mine));
    return true;
  }

  bool answer(const Step& step) {
    if (!building_) {
      int asked;
      const Segment& here = segment();
      if (next_ != here.steps.size() || here.branches.empty() || here.question.read != step.read ||
          !meet(step.inputs[0], here.question.inputs[0], asked))
        return false;
    } else {
      Step question;
      question.read = step.read;
      question.site = step.site;
      meet_all(nullptr, step.inputs, nullptr, question.inputs);
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
    tree_.segments.emplace_back();
    return true;
  }

  bool finish() {
    // Another thread may have been here first.
    if (!building_) return next_ == segment().steps.size() && segment().ending;
    auto ending = std::make_shared<Ending>();
    meet_all(nullptr, way_.results, nullptr, ending->results);
    for (const auto& [variable, value] : way_.assigned) {
      int last;
      meet(value, -1, last);
      ending->assigned.emplace_back(variables_[static_cast<std::size_t>(variable)], last);
    }
    ending->result = way_.result;
    segment().ending = std::move(ending);
    ++tree_.ways;
    return true;
  }

  Tree& tree_;
  const Capture& way_;
  std::vector<int> known_;  // values of the way as values of the tree
  std::vector<int> variables_;
  int segment_ = 0;
  std::size_t next_ = 0;  // step of the segment
  bool building_ = false;
  Difference difference_;
};
}  // namespace

std::string place_of(const Step& step) {
  std::string text(step.op ? step.op->name : "an op");
  if (!step.site.file) return text;
  const std::string_view path = step.site.file;
  return text.append(" at ").append(path.substr(path.rfind('/') + 1)) + ":" +
         std::to_string(step.site.line);
}

std::string element_text(const Body& x, std::int64_t i) {
  return with_element(x.dtype, [&]<class T>(Type<T>) -> std::string {
    if constexpr (std::is_same_v<T, bool>) return x.as<bool>()[i] ? "true" : "false";
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
      return to_text(Scalar(x.as<T>()[i]));
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, static_cast<float>(x.as<T>()[i])).ptr};
  });
}

Difference Tree::add(const Capture& way) {
  Tree grown = *this;
  Difference difference = Walker(grown, way).walk();
  if (!difference) *this = std::move(grown);
  return difference;
}
}  // namespace reel::tracing
