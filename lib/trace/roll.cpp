// SPDX-License-Identifier: BSD-3-Clause
// Makes one step of a loop whose trips were captured one by one.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "lib/trace/loop.hpp"

namespace reel::tracing {
namespace {
constexpr std::size_t most_ways = 64;

class Roller {
 public:
  explicit Roller(Capture& path)
      : path_(path),
        makers_(path.values.size(), none),
        offsets_(path.values.size()),
        rolled_(path.loops.size()) {
    for (std::size_t i = 0; i < path.steps.size(); ++i)
      for (const int output : path.steps[i].outputs) {
        if (output < 0) continue;
        makers_[static_cast<std::size_t>(output)] = i;
        if (value(output).kind != Value::Kind::view) continue;
        const Value& base = value(path.steps[i].inputs[0]);
        offsets_[static_cast<std::size_t>(output)] =
            value(output).offset - (base.kind == Value::Kind::view ? base.offset : 0);
      }
  }

  void run() {
    std::vector<Step> all = steps(0, path_.steps.size(), -1);
    path_.steps = std::move(all);
    for (const Step& step : path_.steps)
      for (const int output : step.outputs)
        if (output >= 0 && value(output).kind == Value::Kind::view)
          set_view(value(output), offsets_[static_cast<std::size_t>(output)], step.inputs[0],
                   value(step.inputs[0]));
    for (std::size_t i = 0; i < rolled_.size(); ++i)
      if (rolled_[i].tried && !rolled_[i].step && !has_line(path_.apart, path_.loops[i].caller))
        path_.apart.push_back(path_.loops[i].caller);
    path_.loops.clear();
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  /// A trip as a capture of its own.
  struct Slice {
    LoopPath path;
    std::unordered_map<int, int> values;  // of the whole path -> of the capture
    std::vector<int> kept;                // values of the capture of another loop's trip
  };
  struct Rolled {
    bool tried = false;
    std::shared_ptr<Step> step;  // null: its trips stay as they are
  };

  /// A view names what it shows part of, and not another view of that.
  static void set_view(Value& view, std::int64_t offset, int base, const Value& of) {
    const bool of_view = of.kind == Value::Kind::view;
    view.number = of_view ? of.number : base;
    view.offset = offset + (of_view ? of.offset : 0);
  }
  LoopPart& part(int i) { return path_.loops[static_cast<std::size_t>(i)]; }
  Value& value(int i) { return path_.values[static_cast<std::size_t>(i)]; }
  bool made_in(int v, std::size_t first, std::size_t end) const {
    const std::size_t maker = v < 0 ? none : makers_[static_cast<std::size_t>(v)];
    return maker != none && maker >= first && maker < end;
  }

  /// The steps of a range, with loops of this surrounding part as one step each.
  std::vector<Step> steps(std::size_t first, std::size_t end, int around) {
    std::vector<Step> all;
    std::vector<int> inside = {around};  // parts whose trips stay as they are
    for (std::size_t i = first; i < end;) {
      int found = -1;
      for (std::size_t r = 0; r < path_.loops.size() && found < 0; ++r) {
        const LoopPart& each = path_.loops[r];
        if (each.first == i && each.end > i && each.end <= end &&
            std::count(inside.begin(), inside.end(), each.around) &&
            !std::count(inside.begin(), inside.end(), static_cast<int>(r)))
          found = static_cast<int>(r);
      }
      if (found < 0) {
        all.push_back(path_.steps[i++]);
        continue;
      }
      try_to_roll(found);
      if (const auto& step = rolled_[static_cast<std::size_t>(found)].step) {
        all.push_back(*step);
        i = part(found).end;
      } else {
        inside.push_back(found);
      }
    }
    return all;
  }

  /// A loop and its gradient become steps together.
  void try_to_roll(int number) {
    Rolled& rolled = rolled_[static_cast<std::size_t>(number)];
    if (std::exchange(rolled.tried, true) || part(number).gradient_of >= 0 ||
        has_line(path_.apart, part(number).caller))
      return;
    int gradient = -1;
    for (std::size_t i = 0; i < path_.loops.size(); ++i)
      if (path_.loops[i].gradient_of == number) {
        if (gradient >= 0) return;
        gradient = static_cast<int>(i);
      }
    // The paths of a branch read different things, so their gradients have different results.
    if (gradient >= 0 && (part(number).once || part(number).around >= 0 ||
                          part(gradient).around >= 0 || !part(gradient).end))
      return;
    if (!is_closed(number, gradient) || (gradient >= 0 && !is_closed(gradient, -1))) return;
    std::vector<int> read, gradient_read;
    std::vector<Slice> trips, back;
    if (!slices(number, nullptr, read, trips)) return;
    if (gradient >= 0 && !slices(gradient, &trips, gradient_read, back)) return;
    roll(number, gradient, read, gradient_read, trips, back);
  }

  /// Whether nothing but `gradient` reads what trips make, other than through the loop's results.
  bool is_closed(int number, int gradient) {
    const LoopPart& own = part(number);
    const auto is_inner = [&](int v) {
      return made_in(v, own.first, own.end) && !std::count(own.last.begin(), own.last.end(), v) &&
             !std::count(own.joined.begin(), own.joined.end(), v);
    };
    const auto any = [&](const std::vector<int>& values) {
      return std::any_of(values.begin(), values.end(), is_inner);
    };
    for (std::size_t i = own.end; i < path_.steps.size(); ++i) {
      if (gradient >= 0 && i == part(gradient).first) i = part(gradient).end;
      if (i < path_.steps.size() && any(path_.steps[i].inputs)) return false;
    }
    for (std::size_t r = 0; r < path_.loops.size(); ++r) {
      const LoopPart& other = path_.loops[r];
      if (static_cast<int>(r) == number || (other.first >= own.first && other.end <= own.end))
        continue;
      if (any(other.state) || any(other.arrays)) return false;
      for (const LoopTrip& trip : other.trips)
        if (any(trip.next) || any(trip.made)) return false;
    }
    for (const auto& [variable, last] : path_.assigned)
      if (is_inner(last)) return false;
    return !any(path_.results);
  }

  /// Loops over values of other devices stay as they are.
  bool on_cpu(const std::vector<int>& values) {
    return std::all_of(values.begin(), values.end(),
                       [&](int v) { return v < 0 || value(v).layout.device == cpu(); });
  }

  bool slices(int number, const std::vector<Slice>* forward, std::vector<int>& read,
              std::vector<Slice>& all) {
    const LoopPart& own = part(number);
    std::size_t count = 0;  // of trips that the gradient goes through
    if (forward)
      for (const Slice& each : *forward) count += !each.path.stops || part(own.gradient_of).once;
    if (forward && count != own.trips.size()) return false;
    for (std::size_t k = 0; k < own.trips.size(); ++k)
      if (!slice(number, own.trips[k], forward ? &(*forward)[count - 1 - k] : nullptr, read,
                 all.emplace_back()))
        return false;
    return true;
  }

  bool slice(int number, const LoopTrip& trip, const Slice* forward, std::vector<int>& read,
             Slice& out) {
    const LoopPart& own = part(number);
    if (trip.end < trip.first) return false;
    Capture& made = out.path.capture;
    const auto add = [&](int v, Value what) {
      made.values.push_back(std::move(what));
      return out.values[v] = static_cast<int>(made.values.size()) - 1;
    };
    const auto argument = [&](int v, std::size_t place) {
      Value taken{.kind = Value::Kind::argument, .number = static_cast<int>(place)};
      taken.layout = value(v).layout;
      taken.name = value(v).name;
      return add(v, std::move(taken));
    };
    for (std::size_t i = 0; i < trip.state.size(); ++i) argument(trip.state[i], i);
    for (std::size_t i = 0; i < trip.rows.size(); ++i)
      argument(trip.rows[i], trip.state.size() + i);
    const std::size_t fixed = trip.state.size() + trip.rows.size();
    std::vector<std::pair<int, std::size_t>> others;  // arguments that come after the kept ones
    const auto find = [&](int v, int& found) {
      found = -1;
      if (v < 0) return true;
      if (const auto known = out.values.find(v); known != out.values.end()) {
        found = known->second;
        return true;
      }
      if (value(v).kind == Value::Kind::constant) {
        found = add(v, value(v));
        return true;
      }
      if (made_in(v, own.first, own.end)) return false;  // of another trip
      if (forward && made_in(v, part(own.gradient_of).first, part(own.gradient_of).end)) {
        const auto kept = forward->values.find(v);
        if (kept == forward->values.end()) return false;
        out.kept.push_back(kept->second);
        found = argument(v, fixed + out.kept.size() - 1);
        return true;
      }
      auto at = std::find(read.begin(), read.end(), v);
      if (at == read.end()) at = read.insert(read.end(), v);
      found = argument(v, 0);
      others.emplace_back(found, static_cast<std::size_t>(at - read.begin()));
      return true;
    };
    for (Step step : steps(trip.first, trip.end, number)) {
      if (!step.updated.empty() || step.user_code || !on_cpu(step.inputs) || !on_cpu(step.outputs))
        return false;
      for (int& input : step.inputs)
        if (!find(input, input)) return false;
      for (int& output : step.outputs) {
        if (output < 0) continue;
        Value copy = value(output);
        if (copy.kind == Value::Kind::view)
          set_view(copy, offsets_[static_cast<std::size_t>(output)], step.inputs[0],
                   made.values[static_cast<std::size_t>(step.inputs[0])]);
        output = add(output, std::move(copy));
      }
      made.steps.push_back(std::move(step));
    }
    for (const auto& list : {trip.next, trip.made})
      for (const int v : list) {
        int result;
        if (!find(v, result)) return false;
        made.results.push_back(result);
      }
    for (std::size_t i = 0; !own.once && i < trip.next.size(); ++i)
      if (!(value(trip.next[i]).layout == value(trip.state[i]).layout)) return false;
    for (std::size_t i = 0; i < trip.made.size(); ++i)
      if (value(trip.made[i]).layout.dtype != value(own.joined[i]).layout.dtype) return false;
    out.path.stops = trip.stops;
    if (forward) out.path.kept = out.kept.size();
    for (const auto& [v, place] : others)
      made.values[static_cast<std::size_t>(v)].number =
          static_cast<int>(fixed + out.path.kept + place);
    return true;
  }

  void roll(int number, int gradient, const std::vector<int>& read,
            const std::vector<int>& gradient_read, std::vector<Slice>& trips,
            std::vector<Slice>& back) {
    const auto loop = begun(number), other = gradient >= 0 ? begun(gradient) : nullptr;
    loop->counts = gradient >= 0;
    for (std::size_t i = 0; i < back.size(); ++i) {
      Slice& trip = trips[back.size() - 1 - i];
      for (const int kept : back[i].kept) trip.path.capture.results.push_back(kept);
      trip.path.kept = back[i].kept.size();
    }
    for (std::size_t i = 0; i < trips.size(); ++i) {
      const int segment = loop->add(trips[i].path);
      if (segment < 0 || loop->paths.size() > most_ways) return;
      if (i < back.size() && other->add(back[back.size() - 1 - i].path, segment) < 0) return;
    }
    int count = -1;
    if (other) {
      count = static_cast<int>(path_.values.size());
      Value trips_value{.kind = Value::Kind::computed};
      trips_value.layout.dtype = DType::int64;
      trips_value.layout.elements = 1;
      path_.values.push_back(std::move(trips_value));
      makers_.push_back(none);
      finish(gradient, other, gradient_read, count);
    }
    finish(number, loop, read, count);
  }
  std::shared_ptr<Loop> begun(int number) {
    const LoopPart& own = part(number);
    auto loop = std::make_shared<Loop>();
    loop->name = own.name;
    loop->states = own.state.size();
    loop->arrays = own.arrays.size();
    loop->reads = own.reads.size();
    loop->results = own.last.size();
    loop->made = own.joined.size();
    loop->reverse = own.reverse;
    loop->once = own.once;
    loop->most = own.most;
    loop->gradient = own.gradient_of >= 0;
    return loop;
  }
  void finish(int number, std::shared_ptr<Loop> loop, const std::vector<int>& read, int count) {
    const LoopPart& own = part(number);
    auto step = std::make_shared<Step>();
    step->op = &graph::loop_op;
    step->caller = own.caller;
    if (loop->gradient) step->inputs.push_back(count);
    for (const auto& list : {own.reads, own.state, own.arrays, read})
      step->inputs.insert(step->inputs.end(), list.begin(), list.end());
    for (const auto& list : {own.last, own.joined})
      step->outputs.insert(step->outputs.end(), list.begin(), list.end());
    if (loop->counts) step->outputs.push_back(count);
    for (const int last : own.last) {
      value(last).kind = Value::Kind::computed;
      value(last).number = 0;
      value(last).offset = 0;
    }
    step->loop = std::move(loop);
    Rolled& rolled = rolled_[static_cast<std::size_t>(number)];
    rolled.tried = true;
    rolled.step = std::move(step);
  }

  Capture& path_;
  std::vector<std::size_t> makers_;    // the step that makes each value
  std::vector<std::int64_t> offsets_;  // of each view in what its step takes
  std::vector<Rolled> rolled_;
};
}  // namespace

bool has_line(const std::vector<Caller>& lines, Caller line) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](Caller each) { return each.file == line.file && each.line == line.line; });
}
void roll_loops(Capture& path, std::vector<Caller> apart) {
  path.apart = std::move(apart);
  if (!path.loops.empty()) Roller(path).run();
}

std::vector<const graph::Graph*> Loop::bodies() const {
  std::vector<const graph::Graph*> all;
  if (!gradient) all.push_back(&tree);
  for (const GradientBody& body : gradient_bodies) all.push_back(&body.tree);
  return all;
}

int Loop::add(const LoopPath& path, int of) {
  GradientBody* body = nullptr;
  for (GradientBody& each : gradient_bodies)
    if (each.segment == of) body = &each;
  if (gradient && !body) body = &gradient_bodies.emplace_back(GradientBody{of, path.kept, {}});
  if (body && body->kept != path.kept) return -1;
  Tree& grown = body ? body->tree : tree;
  Walked walked;
  const std::size_t before = grown.paths;
  if (grown.add(path.capture, &walked)) return -1;
  if (grown.paths == before) return walked.segment;
  if (body && before) return -1;  // the other loop's path decides, so nothing asks again
  grown.ending()->until_check = 0;
  paths.push_back(path);
  segments.push_back(gradient ? of : walked.segment);
  if (gradient) return walked.segment;
  stops.resize(tree.segments.size());
  stops[static_cast<std::size_t>(walked.segment)] = path.stops;
  return walked.segment;
}

LoopPath renumbered(LoopPath path, const Loop& loop, const std::vector<int>& places) {
  const std::size_t first = loop.states + loop.arrays + (loop.gradient ? path.kept : 0);
  for (Value& value : path.capture.values)
    if (value.kind == Value::Kind::argument && static_cast<std::size_t>(value.number) >= first)
      value.number =
          static_cast<int>(first) + places[static_cast<std::size_t>(value.number) - first];
  return path;
}
}  // namespace reel::tracing
