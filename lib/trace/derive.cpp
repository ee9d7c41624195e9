// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/derive.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "lib/body/dtypes.hpp"
#include "lib/body/shape.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/graph/shapes.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/join.hpp"
#include "lib/trace/loop.hpp"
#include "lib/trace/replay.hpp"

namespace reel::tracing {
namespace {
/// A length in two captured signatures, and in the one that is to be derived.
struct Lengths {
  std::int64_t first = 0, second = 0, here = 0;

  /// Gives false if the number is not whole, or too large.
  bool number(std::int64_t a, std::int64_t b, std::int64_t& made) const {
    made = a;
    if (a == b) return true;
    std::int64_t rise = 0;
    if (__builtin_sub_overflow(b, a, &rise) || __builtin_mul_overflow(rise, here - first, &rise) ||
        rise % (second - first))
      return false;
    return !__builtin_add_overflow(a, rise / (second - first), &made);
  }
  bool shape(const Shape& a, const Shape& b, Shape& made) const {
    if (a.rank() != b.rank()) return false;
    made = a;
    for (std::size_t i = 0; i < a.rank(); ++i)
      if (!number(a.data()[i], b.data()[i], made.data()[i]) || made.data()[i] < 0) return false;
    return true;
  }
  /// A number of C++ that the function computed from a length: p + q * length, or p / (q * length).
  template <class T>
  bool element(T a, T b, T& made) const {
    if constexpr (std::is_same_v<T, bool>) return false;
    const auto same = [](T x, T y) { return !std::memcmp(&x, &y, sizeof x); };
    if constexpr (std::is_integral_v<T>) {
      std::int64_t found = 0;
      const bool is_whole =
          number(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b), found);
      made = static_cast<T>(found);
      return is_whole && static_cast<std::int64_t>(made) == found;
    } else {
      const auto x = static_cast<double>(a), y = static_cast<double>(b);
      constexpr double largest = 1LL << 53;
      int ways = 0;
      std::int64_t found = 0;
      if (std::abs(x) < largest && std::abs(y) < largest && x == std::floor(x) &&
          y == std::floor(y) &&
          number(static_cast<std::int64_t>(x), static_cast<std::int64_t>(y), found)) {
        made = static_cast<T>(static_cast<double>(found));
        ++ways;
      }
      const double product = x * static_cast<double>(first);
      if (!std::isfinite(product) || product == 0) return ways == 1;
      const std::pair<double, double> quotients[] = {{std::round(product * 1024) / 1024, 1},
                                                     {1, std::round(1 / product)}};
      for (const auto& [p, q] : quotients) {
        const auto at = [p = p, q = q](std::int64_t length) {
          return static_cast<T>(p / (q * static_cast<double>(length)));
        };
        if (p == 0 || q == 0 || !same(at(first), a) || !same(at(second), b)) continue;
        made = at(here);
        ++ways;
        break;
      }
      return ways == 1;
    }
  }
};

class Deriver {
 public:
  /// `all_ways`: both trees must have all paths of the other one.
  Deriver(const Tree& a, const Tree& b, const Lengths& lengths, bool all_ways)
      : a_(a), b_(b), lengths_(lengths), all_ways_(all_ways), in_b_(a.values.size(), -1) {}

  bool run() {
    made_.values = a_.values;
    made_.variables = a_.variables;
    made_.loop_paths = a_.loop_paths;
    return !a_.segments.empty() && !b_.segments.empty() && segment(0, 0) && made_.paths;
  }
  Tree take() { return std::move(made_); }
  /// Whether a number differs.
  bool differs() const { return differs_; }

 private:
  const Value& of_a(int i) const { return a_.values[static_cast<std::size_t>(i)]; }
  const Value& of_b(int i) const { return b_.values[static_cast<std::size_t>(i)]; }
  Value& value(int i) { return made_.values[static_cast<std::size_t>(i)]; }

  bool same_variable(int a, int b) const {
    return &Access::cell(a_.variables[static_cast<std::size_t>(a)]) ==
           &Access::cell(b_.variables[static_cast<std::size_t>(b)]);
  }

  /// Sets dtype, shape and elements of a value, and row-major strides or those of both trees.
  bool layout(int a, int b) {
    const Layout &x = of_a(a).layout, &y = of_b(b).layout;
    Layout& made = value(a).layout;
    if (x.dtype != y.dtype || x.live != y.live || !(x.device == y.device) ||
        !lengths_.shape(x.shape, y.shape, made.shape))
      return false;
    differs_ |= !(x.shape == y.shape);
    made.elements = count_elements(made.shape, "trace", {});
    made.contiguous = x.contiguous && y.contiguous;
    Body body;
    made.set(body);
    if (made.contiguous) {
      set_row_major(body);
      std::copy_n(body.strides, made.shape.rank(), made.strides);
      return true;
    }
    bool known = true;
    for (std::size_t i = 0; i < made.shape.rank(); ++i)
      known &= lengths_.number(x.strides[i], y.strides[i], made.strides[i]);
    set_exact(a, known);
    return true;
  }
  /// Notes whether strides and offset of a view are known without its shape rule.
  void set_exact(int a, bool known) {
    if (!known) inexact_ = a;
  }

  bool constant(int a, int b) {
    const Tensor &x = of_a(a).constant, &y = of_b(b).constant;
    const Layout &p = of_a(a).layout, &q = of_b(b).layout;
    if (p == q && same_elements(x, y)) return true;
    if (p.dtype != q.dtype || !(p.device == q.device) || p.live != q.live) return false;
    differs_ = true;
    const Body &first = *Access::body(x), &second = *Access::body(y);
    return part(a, first, second) || filled(a, first, second);
  }
  static bool has_one_number(const Body& x) {
    if (!(x.device() == cpu()) || x.elements < 1) return false;
    const auto size = static_cast<std::size_t>(size_of(x.dtype));
    return x.contiguous
               ? !std::memcmp(x.data, x.data + size, static_cast<std::size_t>(x.bytes()) - size)
               : std::all_of(x.strides, x.strides + x.rank(), [](auto step) { return !step; });
  }
  /// A number, or a tensor that has one everywhere, as the gradient of a mean.
  bool filled(int a, const Body& x, const Body& y) {
    Layout& made = value(a).layout;
    if (x.contiguous != y.contiguous || !has_one_number(x) || !has_one_number(y) ||
        !lengths_.shape(x.shape, y.shape, made.shape))
      return false;
    made.elements = count_elements(made.shape, "trace", {});
    Body header;
    made.set(header);
    if (x.contiguous) set_row_major(header);
    std::copy_n(header.strides, made.shape.rank(), made.strides);
    Layout stored = made;
    if (!x.contiguous) {
      stored.shape = Shape();
      stored.elements = 1;
      stored.contiguous = true;
    }
    const Tensor all = made_for(Context::here(), stored);
    value(a).constant = x.contiguous ? all : named_apart(all);
    made.set(*Access::body(value(a).constant));
    return with_element(x.dtype, [&]<class T>(Type<T>) {
      T number = *x.as<T>();
      if (std::memcmp(x.data, y.data, sizeof number) &&
          !lengths_.element(*x.as<T>(), *y.as<T>(), number))
        return false;
      std::fill_n(Access::body(all)->as<T>(), stored.elements, number);
      return true;
    });
  }
  /// Parts of one tensor, as of a table with a row for each position.
  bool part(int a, const Body& x, const Body& y) {
    Body* const whole = x.owner;
    Layout& made = value(a).layout;
    std::int64_t offset = 0;
    if (!whole || whole != y.owner || !whole->contiguous || x.dtype != whole->dtype ||
        !lengths_.shape(x.shape, y.shape, made.shape) ||
        !lengths_.number(x.data - whole->data, y.data - whole->data, offset))
      return false;
    const std::int64_t size = size_of(x.dtype);
    made.elements = count_elements(made.shape, "trace", {});
    for (std::size_t i = 0; i < made.shape.rank(); ++i)
      if (!lengths_.number(x.strides[i], y.strides[i], made.strides[i])) return false;
    if (offset % size || !are_inside(offset / size, made.shape, made.strides, whole->elements))
      return false;
    made.contiguous = is_row_major(made.shape, made.strides);
    Tensor view = Access::adopt(allocate_view(Context::here(), whole));
    if (!view.defined()) return false;
    made.set(*Access::body(view));
    Access::body(view)->data = whole->data + offset;
    value(a).constant = std::move(view);
    return true;
  }

  /// An input of a step, or a result: it is known, or a call starts with it.
  bool match(int a, int b) {
    if (a < 0 || b < 0) return a == b;
    int& known = in_b_[static_cast<std::size_t>(a)];
    if (known >= 0) return known == b;
    const Value &x = of_a(a), &y = of_b(b);
    if (x.kind != y.kind) return false;
    known = b;
    switch (x.kind) {
      case Value::Kind::argument:
        return x.number == y.number && layout(a, b) && inexact_ < 0;
      case Value::Kind::variable:
        return same_variable(x.number, y.number) && x.layout == y.layout;
      case Value::Kind::constant:
        return constant(a, b);
      default:
        return false;
    }
  }
  bool meet_all(const std::vector<int>& a, const std::vector<int>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!match(a[i], b[i])) return false;
    return true;
  }
  bool make(int a, int b) {
    if (a < 0 || b < 0) return a == b;
    const Value &x = of_a(a), &y = of_b(b);
    if (x.kind != y.kind || in_b_[static_cast<std::size_t>(a)] >= 0) return false;
    in_b_[static_cast<std::size_t>(a)] = b;
    if (!layout(a, b)) return false;
    if (x.kind != Value::Kind::view) return inexact_ < 0;
    if (in_b_[static_cast<std::size_t>(x.number)] != y.number) return false;
    set_exact(a, lengths_.number(x.offset, y.offset, value(a).offset));
    return true;
  }

  bool options(const KeptOptions& a, const KeptOptions& b, KeptOptions& made) {
    made = a;
    if (a == b) return true;
    const OptionsType* const type = a.view().type;
    if (type != b.view().type) return false;
    KeptOptions other = b;
    const auto x = numbers_of(*type, made.data()), y = numbers_of(*type, other.data());
    if (x.size() != y.size()) return false;
    std::vector<std::int64_t> numbers(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!lengths_.number(*x[i], *y[i], numbers[i])) return false;
      *x[i] = *y[i];
    }
    if (!(made == b)) return false;  // something else differs
    for (std::size_t i = 0; i < x.size(); ++i) *x[i] = numbers[i];
    return differs_ = true;
  }

  /// What shape rules do not check, as the functions of ops have done so before.
  bool fits(const Step& step) {
    const OptionsView options = step.options.view();
    if (step.op == &core_ops.reshape)
      return value(step.inputs[0]).layout.elements == value(step.outputs[0]).layout.elements;
    if (options.type == &options_type<PlaceOptions>) {
      const auto& place = *static_cast<const PlaceOptions*>(options.data);
      return are_inside(place.start, place.lengths, place.steps.data(),
                        value(step.inputs[0]).layout.elements);
    }
    if (options.type == &options_type<UnsliceOptions>) {
      const auto& [slice, shape] = *static_cast<const UnsliceOptions*>(options.data);
      for (std::size_t i = 0; i < shape.rank(); ++i)
        if (!are_inside(slice.starts.data()[i], Shape({slice.lengths.data()[i]}),
                        slice.steps.data() + i, shape.data()[i]))
          return false;
    }
    return true;
  }
  bool view_fits(const Value& view) {
    const Layout& base = value(view.number).layout;
    const std::int64_t size = size_of(view.layout.dtype);
    return !view.layout.elements ||
           (view.offset % size == 0 && view.layout.dtype == base.dtype &&
            are_inside(view.offset / size, view.layout.shape, view.layout.strides, base.elements));
  }

  /// Compares what the shape rule gives for the inputs, and takes strides and offsets from it.
  bool infer(const Step& step) {
    const graph::Inferred inferred(step, made_.values, Context::here());
    if (!inferred.difference(made_.values).empty()) return false;
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] < 0) continue;
      Value& made = value(step.outputs[i]);
      if (made.kind != Value::Kind::view) continue;
      if (inferred.computes() || step.inputs[0] < 0) return false;
      const Value& base = value(step.inputs[0]);
      const Body& body = inferred.output(i);
      made.offset = (base.kind == Value::Kind::view ? base.offset : 0) + inferred.offset(i);
      std::copy_n(body.strides, body.shape.rank(), made.layout.strides);
      made.layout.contiguous = is_row_major(body.shape, body.strides);
      if (inexact_ == step.outputs[i]) inexact_ = -1;
    }
    return true;
  }
  /// The result of a step without a rule is another name of its input.
  bool alias(const Step& a, const Step& b) {
    const int x = a.inputs[0], made = a.outputs[0];
    const auto offset = [](const Value& v) { return v.kind == Value::Kind::view ? v.offset : 0; };
    const auto same = [&](const Value& from, const Value& to) {
      return from.layout == to.layout && offset(from) == offset(to);
    };
    if (!same(of_a(x), of_a(made)) || !same(of_b(b.inputs[0]), of_b(b.outputs[0]))) return true;
    value(made).layout = value(x).layout;
    value(made).offset = offset(value(x));
    if (inexact_ == made) inexact_ = -1;
    return true;
  }
  /// A pass over gradients takes an input with another number of elements for one number.
  bool same_sizes(const Step& step) {
    const auto size = [&](int i) { return value(i).layout.elements; };
    for (const int input : step.inputs)
      for (const int output : step.outputs)
        if (input >= 0 && output >= 0 &&
            (of_a(input).layout.elements == of_a(output).layout.elements) !=
                (size(input) == size(output)))
          return false;
    return true;
  }

  std::shared_ptr<const graph::Loop> loop(const Loop& a, const Loop& b) {
    if (a.name != b.name || a.states != b.states || a.arrays != b.arrays ||
        a.results != b.results || a.made != b.made || a.reverse != b.reverse || a.once != b.once ||
        a.gradient != b.gradient || a.counts != b.counts || a.reads != b.reads ||
        a.stops != b.stops || a.segments != b.segments ||
        a.gradient_bodies.size() != b.gradient_bodies.size() || a.paths.size() != b.paths.size())
      return nullptr;
    auto made = std::make_shared<Loop>();
    static_cast<graph::Loop&>(*made) = a;
    made->stops = a.stops;
    made->segments = a.segments;
    made->paths.resize(a.paths.size());
    const auto body = [&](const Tree& x, const Tree& y, Tree& out) {
      Deriver deriver(x, y, lengths_, true);
      if (!deriver.run()) return false;
      differs_ |= deriver.differs();
      out = deriver.take();
      return true;
    };
    if (!a.gradient && !body(a.tree, b.tree, made->tree)) return nullptr;
    for (std::size_t i = 0; i < a.gradient_bodies.size(); ++i) {
      const Loop::GradientBody &x = a.gradient_bodies[i], &y = b.gradient_bodies[i];
      Loop::GradientBody& joined =
          made->gradient_bodies.emplace_back(Loop::GradientBody{x.segment, x.kept, {}});
      if (x.segment != y.segment || x.kept != y.kept || !body(x.tree, y.tree, joined.tree))
        return nullptr;
    }
    return made;
  }

  bool step(const Step& a, const Step& b, Step& made) {
    if (a.op != b.op || a.part != b.part || a.user_code != b.user_code || !a.loop != !b.loop ||
        a.updated.size() != b.updated.size() || a.outputs.size() != b.outputs.size() ||
        !meet_all(a.inputs, b.inputs))
      return false;
    for (std::size_t i = 0; i < a.updated.size(); ++i)
      if (!same_variable(a.updated[i], b.updated[i])) return false;
    inexact_ = -1;
    for (std::size_t i = 0; i < a.outputs.size(); ++i)
      if (!make(a.outputs[i], b.outputs[i])) return false;
    made.op = a.op;
    made.part = a.part;
    made.inputs = a.inputs;
    made.outputs = a.outputs;
    made.updated = a.updated;
    made.caller = a.caller;
    made.scope = a.scope;
    made.user_code = a.user_code;
    if (!options(a.options, b.options, made.options) || !fits(made)) return false;
    if (!find_layouts(a, b, made) || inexact_ >= 0) return false;
    return std::all_of(made.outputs.begin(), made.outputs.end(), [&](int output) {
      return output < 0 || value(output).kind != Value::Kind::view || view_fits(value(output));
    });
  }
  /// Compares the layouts of results with what the step needs, and completes those of views.
  bool find_layouts(const Step& a, const Step& b, Step& made) {
    if (a.loop) {
      auto derived = loop(loop_of(a), loop_of(b));
      made.loop = derived;
      return derived != nullptr;
    }
    if (graph::has_rule(a)) return infer(made);
    if (a.user_code || !a.updated.empty() || a.op == &graph::gradient_op) return true;
    if (a.part != Part::value) return same_sizes(a);
    return a.outputs.size() == 1 && of_a(a.outputs[0]).kind == Value::Kind::view && alias(a, b);
  }

  static bool same_sources(const Ending& a, const Ending& b) {
    if (a.sources.size() != b.sources.size()) return false;
    for (std::size_t i = 0; i < a.sources.size(); ++i) {
      const detail::TapedSource &x = a.sources[i], &y = b.sources[i];
      if (x.argument != y.argument || x.variable.size() != y.variable.size() ||
          Access::body(x.tensor) != Access::body(y.tensor) ||
          (!x.variable.empty() && &Access::cell(x.variable[0]) != &Access::cell(y.variable[0])))
        return false;
    }
    return true;
  }
  bool end(const Segment& a, const Segment& b, const Ending& of_a, const Ending& of_b,
           Segment& made) {
    const auto *const x = of_a.result.get(), *const y = of_b.result.get();
    if (!x != !y || (x && !(x->equal == y->equal && x->equal(x->object, y->object))) ||
        !same_sources(of_a, of_b) || !meet_all(a.results, b.results) ||
        a.assigned.size() != b.assigned.size())
      return false;
    for (std::size_t i = 0; i < a.assigned.size(); ++i)
      if (!same_variable(a.assigned[i].first, b.assigned[i].first) ||
          !match(a.assigned[i].second, b.assigned[i].second))
        return false;
    made.ends = true;
    made.results = a.results;
    made.assigned = a.assigned;
    return true;
  }

  /// Adds what two segments have in common, and the segments behind them.
  bool segment(int of_a, int of_b) {
    const Segment &a = a_.segments[static_cast<std::size_t>(of_a)],
                  &b = b_.segments[static_cast<std::size_t>(of_b)];
    if (a.steps.size() != b.steps.size() || a.ends != b.ends) return false;
    const std::size_t at = made_.segments.size();
    Segment made;
    made.steps.resize(a.steps.size());
    for (std::size_t i = 0; i < a.steps.size(); ++i)
      if (!step(a.steps[i], b.steps[i], made.steps[i])) return false;
    std::shared_ptr<Ending> ending;
    if (a.ends) {
      const Ending &x = *a_.endings[static_cast<std::size_t>(of_a)],
                   &y = *b_.endings[static_cast<std::size_t>(of_b)];
      if (!end(a, b, x, y, made)) return false;
      ending = std::make_shared<Ending>();
      ending->segment = at;
      ending->result = x.result;
      ending->sources = x.sources;
      ending->until_check = !all_ways_;  // 0 in the trip of a loop
      ending->derived = !all_ways_;
      ending->checks = !all_ways_;  // the captured paths were checked
      ++made_.paths;
    } else {
      if (a.question.read != b.question.read || !meet_all(a.question.inputs, b.question.inputs))
        return false;
      made.question.read = a.question.read;
      made.question.inputs = a.question.inputs;
      made.question.caller = a.question.caller;
    }
    made_.segments.push_back(std::move(made));
    made_.endings.push_back(std::move(ending));
    if (all_ways_ && a.branches.size() != b.branches.size()) return false;
    for (std::size_t i = 0; i < a.branches.size(); ++i) {
      const Branch& x = a.branches[i];
      const auto y = std::find_if(b.branches.begin(), b.branches.end(),
                                  [&](const Branch& other) { return other.answer == x.answer; });
      if (y == b.branches.end()) {
        if (all_ways_) return false;
        continue;
      }
      // `stops` and `segments` of a loop name segments, so their numbers stay.
      const int next = static_cast<int>(made_.segments.size());
      if (all_ways_ && (x.segment != y->segment || x.segment != next)) return false;
      made_.segments[at].branches.push_back({x.answer, next});
      if (!segment(x.segment, y->segment)) return false;
    }
    return a.ends || !made_.segments[at].branches.empty();
  }

  const Tree &a_, &b_;
  const Lengths& lengths_;
  const bool all_ways_;
  std::vector<int> in_b_;  // the value of the other tree for each value
  Tree made_;
  int inexact_ = -1;  // a value whose strides or offset are not known yet
  bool differs_ = false;
};

std::optional<Tree> derived_tree(const Tree& a, const Tree& b, const Lengths& lengths) try {
  Deriver deriver(a, b, lengths, false);
  if (!deriver.run()) return {};
  Tree made = deriver.take();
  if (!graph::fault_of(made, made.variables.size(), Context::here()).empty()) return {};
  return made;
} catch (const Error&) {  // a shape rule refuses its inputs
  return {};
}
}  // namespace
}  // namespace reel::tracing

namespace reel::detail {
namespace {
/// A captured signature that differs from a new one in lengths only: each is `length` there, and
/// `here` in the new one.
struct Near {
  const TraceEntry* entry;
  std::int64_t length = 0, here = 0;
  std::vector<std::uint32_t> places;  // of the lengths in the key
  std::int64_t distance() const { return std::abs(length - here); }
};

/// Whether two keys differ in lengths only, which are of one number.
bool differ_in_one_length(const Key& there, const Key& here, Near& near) {
  if (there.size() != here.size()) return false;
  std::size_t lengths = 0;  // how many words from here on are lengths of a tensor
  for (std::size_t i = 0; i < here.size(); ++i) {
    const bool is_length = lengths > 0;
    if (is_length)
      --lengths;
    else if (here[i] >> 40 == tensor_word >> 40)
      lengths = here[i] >> 8 & 0xff;
    if (there[i] == here[i]) continue;
    const auto a = static_cast<std::int64_t>(there[i]), b = static_cast<std::int64_t>(here[i]);
    if (!is_length || (!near.places.empty() && (a != near.length || b != near.here))) return false;
    near.length = a;
    near.here = b;
    near.places.push_back(static_cast<std::uint32_t>(i));
  }
  // Axes of length 1 are broadcast, and have any stride.
  return near.length > 1 && near.here > 1;
}
}  // namespace

Derived derive(const TraceCache& cache, const Key& key) {
  Derived made;
  if (cache.differences >= TraceCache::most_differences) return made;
  std::vector<Near> all;
  cache.for_each([&](const TraceEntry& entry) {
    Near near{&entry, 0, 0, {}};
    if (entry.tree.paths && !entry.derived && !entry.eager &&
        differ_in_one_length(entry.key, key, near))
      all.push_back(std::move(near));
  });
  std::sort(all.begin(), all.end(), [](const Near& a, const Near& b) {
    return a.distance() != b.distance() ? a.distance() < b.distance() : a.length < b.length;
  });
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = i + 1; k < all.size(); ++k) {
      if (all[i].places != all[k].places) continue;
      const tracing::Lengths lengths{all[i].length, all[k].length, all[i].here};
      auto tree = tracing::derived_tree(all[i].entry->tree, all[k].entry->tree, lengths);
      if (!tree) return made;
      made.plan = std::make_unique<tracing::Plan>(*tree);
      if (!tracing::fault_of(*made.plan).empty()) return {};
      made.tree = std::move(*tree);
      made.names = all[i].entry->signature + " and " + all[k].entry->signature;
      return made;
    }
  return made;
}
}  // namespace reel::detail
