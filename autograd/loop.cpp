// SPDX-License-Identifier: BSD-3-Clause
// Loops as values. Eagerly they are C++ loops. If a trace follows, interceptors see each
// trip; if a tape records, the loop leaves one record, whose gradient is a loop as well.
#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <utility>

#include <reel/loops.hpp>
#include <reel/ops.hpp>
#include <reel/tape.hpp>

#include "autograd/gradient_call.hpp"
#include "autograd/readings.hpp"
#include "autograd/tape_access.hpp"
#include "lib/flow/interceptor.hpp"
#include "lib/gate/marks.hpp"
#include "lib/gate/recording.hpp"
#include "lib/table/entries.hpp"

namespace reel {
namespace {
using Kind = LoopEvent::Kind;
using List = std::vector<Tensor>;

Tensor another_name(const Tensor& x) {
  Tensor made = Access::adopt(allocate_view(Context::here(), Access::body(x)));
  if (!made.defined()) fail_memory({}, "loop");
  return made;
}
Tensor row_of(const Tensor& array, std::int64_t i) {
  Tensor row = another_name(array);
  const Body& whole = *Access::body(array);
  Body& body = *Access::body(row);
  std::int64_t lengths[Shape::max_rank] = {}, elements = 1;
  for (int axis = 1; axis < whole.rank(); ++axis)
    elements *= lengths[axis - 1] = whole.shape.data()[axis];
  body.shape =
      Shape(std::span<const std::int64_t>(lengths, static_cast<std::size_t>(whole.rank() - 1)));
  body.elements = elements;
  set_row_major(body);
  body.data += i * elements * size_of(body.dtype);
  return row;
}
List names_of(const List& list) {
  List names;
  for (const Tensor& x : list) names.push_back(another_name(x));
  return names;
}
List rows_of(const List& arrays, std::int64_t i) {
  List rows;
  for (const Tensor& x : arrays) rows.push_back(row_of(x, i));
  return rows;
}
/// A trace takes values in row-major order.
Tensor in_order(const Tensor& x, Caller caller) {
  const Body& body = *Access::body(x);
  if (body.contiguous) return x;
  return concat(Operands(std::span<const Tensor>(&x, 1), caller));
}
/// The rows that trips have made, joined in the order of the arrays.
Tensor joined(const List& made, bool reverse, Caller caller) {
  List ordered(made);
  if (reverse) std::reverse(ordered.begin(), ordered.end());
  return stack(Operands(ordered, caller));
}

/// What is reported to the interceptor that follows a loop.
struct Reports {
  Interceptor* to = nullptr;
  int number = -1;

  explicit operator bool() const { return number >= 0; }
  void begin(LoopEvent event) {
    to = Context::here().interceptors;
    if (to && !to->next) number = to->loop(event);
  }
  void operator()(LoopEvent event) const {
    event.loop = number;
    if (number >= 0) to->loop(event);
  }
};

/// What the gradient of a loop needs: a tape with all trips, on which the state and the rows of
/// each trip are leaves.
struct LoopRecord {
  const char* name;
  Caller caller;
  int number;  // for the interceptor
  bool reverse, once;
  std::size_t states = 0, arrays = 0;
  struct Trip {
    List state, rows, next, made;
  };
  std::vector<Trip> trips;
  std::vector<Reading> readings;
  std::unique_ptr<GradientTape> tape;
  std::unique_ptr<GradientTape::Pause> pause;  // ends before the tape does

  LoopRecord(const char* n, Caller s, int loop, bool r, bool o)
      : name(n), caller(s), number(loop), reverse(r), once(o) {}
};
struct LoopHeld {
  std::shared_ptr<LoopRecord> record;
  void fields(auto&&) {}
};

class LoopGradient {
 public:
  explicit LoopGradient(GradientCall& call)
      : call_(call), record_(*call.option<LoopHeld>().record), from_(first_readings()) {}

  void run() {
    choose();
    List state = carried_, made_rows;
    Reports report;
    report.begin({.name = record_.name,
                  .caller = record_.caller,
                  .reverse = !record_.reverse,
                  .once = record_.once,
                  .gradient_of = record_.number,
                  .state = state,
                  .rows = given_rows_,
                  .of = read_});
    std::vector<List> made(wanted_arrays_.size());
    for (std::size_t k = record_.trips.size(); k-- > 0;) trip(k, state, made, report);
    List last = names_of(state), stacked;
    for (std::size_t i = 0; i < made.size(); ++i)
      stacked.push_back(made[i].empty() ? zeros_of_input(wanted_arrays_[i])
                                        : joined(made[i], !record_.reverse, record_.caller));
    report({.kind = Kind::ends, .state = last, .rows = stacked, .of = state});
    give(last, stacked);
  }

 private:
  int first_readings() const { return static_cast<int>(record_.states + record_.arrays); }
  bool wants(int input) const {
    return call_.wants(input) && is_floating(call_.input_dtype(input));
  }
  Tensor zeros_of_input(int input) {
    return zeros(call_.input_shape(input), call_.input_dtype(input));
  }

  /// Finds what the trips carry: the gradients of the state, and sums of the gradients of what they
  /// read.
  void choose() {
    const std::size_t results = record_.once ? 0 : record_.states;
    for (std::size_t i = 0; i < results; ++i)
      if (const int output = static_cast<int>(i); is_floating(call_.input_dtype(output))) {
        states_.push_back(output);
        carried_.push_back(call_.has_dy(output) ? in_order(call_.dy(output), record_.caller)
                                                : zeros_of_input(output));
      }
    for (int i = from_; i < call_.input_count(); ++i)
      if (wants(i)) {
        readings_.push_back(i);
        read_.push_back(record_.readings[static_cast<std::size_t>(i - from_)].value);
        if (!record_.once) carried_.push_back(zeros_of_input(i));
      }
    for (int i = static_cast<int>(record_.states); i < from_; ++i)
      if (wants(i)) wanted_arrays_.push_back(i);
    for (int i = static_cast<int>(results); i < call_.output_count(); ++i)
      if (call_.has_dy(i)) {
        given_.push_back(i - static_cast<int>(results));
        (record_.once ? carried_results_ : given_rows_)
            .push_back(in_order(call_.dy(i), record_.caller));
      }
  }

  void trip(std::size_t k, List& state, std::vector<List>& made, const Reports& report) {
    LoopRecord::Trip& forward = record_.trips[k];
    List names = names_of(state);
    const std::size_t count = record_.trips.size();
    const List rows =
        rows_of(given_rows_, static_cast<std::int64_t>(record_.reverse ? count - 1 - k : k));
    report({.kind = Kind::trip_begins,
            .state = names,
            .rows = rows,
            .of = state,
            .arrays = given_rows_});
    List results, gradients;
    std::vector<GradientSource> sources;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      results.push_back(forward.next[static_cast<std::size_t>(states_[i])]);
      gradients.push_back(names[i]);
      sources.push_back(forward.state[static_cast<std::size_t>(states_[i])]);
    }
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const auto at = static_cast<std::size_t>(given_[i]);
      results.push_back(record_.once ? forward.next[at] : forward.made[at]);
      gradients.push_back(record_.once ? carried_results_[i] : rows[i]);
    }
    for (const int array : wanted_arrays_)
      sources.push_back(forward.rows[static_cast<std::size_t>(array) - record_.states]);
    for (const int reading : readings_) {
      const Reading& each = record_.readings[static_cast<std::size_t>(reading - from_)];
      if (each.is_own)
        sources.push_back(each.variable[0]);
      else
        sources.push_back(each.value);
    }
    List found = gradients_of(*record_.tape, results, gradients, sources, record_.caller);
    for (Tensor& x : found) x = in_order(x, record_.caller);
    List next, row_gradients;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (i >= states_.size() && i < states_.size() + wanted_arrays_.size()) {
        made[i - states_.size()].push_back(found[i]);
        row_gradients.push_back(found[i]);
      } else if (i < states_.size() || record_.once) {
        next.push_back(found[i]);
      } else {
        next.push_back(names[next.size()] + found[i]);
      }
    }
    report({.kind = Kind::trip_ends, .state = next, .rows = row_gradients});
    state = std::move(next);
  }

  void give(const List& last, const List& stacked) {
    std::size_t at = 0;
    for (const int input : states_) {
      if (wants(input)) call_.give(input, last[at]);
      ++at;
    }
    for (const int input : readings_) call_.give(input, last[at++]);
    for (std::size_t i = 0; i < wanted_arrays_.size(); ++i)
      call_.give(wanted_arrays_[i], stacked[i]);
  }

  GradientCall& call_;
  LoopRecord& record_;
  const int from_;  // the first input that the trips read besides state and rows
  List carried_, given_rows_, carried_results_, read_;
  std::vector<int> states_, readings_, wanted_arrays_;  // inputs
  std::vector<int> given_;                              // what trips have made that has a gradient
};
void loop_rule(GradientCall& call) { LoopGradient(call).run(); }
constinit Op loop_op{.name = "loop", .arity = -1, .gradient = {loop_rule}};
}  // namespace

namespace detail {
struct Loop::State {
  const char* name;
  Kind kind;
  LoopOptions options;
  Caller caller;
  struct Of {
    DType dtype;
    Shape shape;
  };
  std::vector<Of> of = {};                 // of the tensors of the state
  std::vector<List> rows = {}, made = {};  // of each array; of each tensor that a trip makes
  std::int64_t trips = 0;
  // If a trace follows:
  Reports report = {};
  List arrays = {}, before = {};            // and the state before the current trip
  List first = {};                          // the state at the beginning
  std::shared_ptr<LoopRecord> record = {};  // if a tape records
  std::optional<RecordingPause> muted = {};
  std::optional<WatchedReadings> watched = {};

  bool is_once() const { return kind == Kind::once; }
  void follow(const LoopLeaves& state_leaves, const LoopLeaves& array_leaves);
  void leave(List& results);
};
Loop::Loop(const char* name, Kind kind, LoopOptions options, Caller caller) try
    : state_(new State{name, kind, options, Context::here().caller_of(caller)}) {
  if (options.most < 0)
    fail<Error>(caller, name, "options.most", "at least 0", to_text(options.most));
} catch (const std::bad_alloc&) {
  fail_memory(caller, name);
}
Loop::~Loop() { delete state_; }

namespace {
List list_of(const LoopLeaves& leaves) {
  List list;
  for (std::size_t i = 0; i < leaves.size(); ++i) list.push_back(leaves[i]);
  return list;
}
void put_in_order(const LoopLeaves& leaves, Caller caller) {
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i] = in_order(leaves[i], caller);
}
}  // namespace

void Loop::begin(const LoopLeaves& state, const LoopLeaves& arrays) try {
  State& own = *state_;
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (!state[i].defined())
      fail<Error>(own.caller, own.name, "state", "tensors", "an undefined Tensor");
    own.of.push_back({state[i].dtype(), state[i].shape()});
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!arrays[i].defined())
      fail<Error>(own.caller, own.name, "xs", "tensors", "an undefined Tensor");
    const Shape& shape = arrays[i].shape();
    if (!shape.rank() || !shape[0])
      fail<ShapeError>(own.caller, own.name, "xs", "a first axis with at least one row",
                       to_text(shape));
    if (i && shape[0] != length_)
      fail<ShapeError>(own.caller, own.name, "xs", "first axes of length " + to_text(length_),
                       to_text(shape));
    length_ = shape[0];
  }
  if (Context::here().interceptors) own.follow(state, arrays);
  followed_ = static_cast<bool>(own.report);
  if (!followed_)
    for (std::size_t i = 0; i < arrays.size(); ++i)
      own.rows.push_back(unbind(Operand(arrays[i], own.caller)));
} catch (const std::bad_alloc&) {
  fail_memory(state_->caller, state_->name);
}

void Loop::State::follow(const LoopLeaves& state_leaves, const LoopLeaves& array_leaves) {
  Context& context = Context::here();
  const std::uint64_t tapes = context.reel->active;
  if (std::popcount(tapes) > 1) return;
  put_in_order(state_leaves, caller);
  put_in_order(array_leaves, caller);
  first = before = list_of(state_leaves);
  arrays = list_of(array_leaves);
  report.begin({.name = name,
                .caller = caller,
                .reverse = options.reverse,
                .once = is_once(),
                .most = options.most,
                .state = first,
                .rows = arrays});
  if (!report || !tapes) return;
  record = std::make_shared<LoopRecord>(name, caller, report.number, options.reverse, is_once());
  record->states = first.size();
  record->arrays = arrays.size();
  watched.emplace(context, record->readings);
  muted.emplace(context, tapes);
  record->tape = std::make_unique<GradientTape>(TapeOptions{.persistent = true}, caller);
  watched->watch_with(*record->tape, caller);
}

void Loop::begin_trip(const LoopLeaves& state, const LoopLeaves& rows) try {
  State& own = *state_;
  const std::int64_t at = own.options.reverse ? length_ - 1 - own.trips : own.trips;
  if (!followed_) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i] = std::move(own.rows[i][static_cast<std::size_t>(at)]);
    return;
  }
  List names, parts = rows_of(own.arrays, at);
  for (std::size_t i = 0; i < state.size(); ++i) {
    own.before[i] = state[i];
    names.push_back(state[i] = another_name(state[i]));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = parts[i];
  own.report({.kind = LoopEvent::Kind::trip_begins,
              .state = names,
              .rows = parts,
              .of = own.before,
              .arrays = own.arrays});
  if (!own.record) return;
  for (const List& list : {names, parts})
    for (const Tensor& x : list)
      if (is_floating(x.dtype())) own.record->tape->watch(x, own.caller);
  own.record->trips.push_back({std::move(names), std::move(parts), {}, {}});
} catch (const std::bad_alloc&) {
  fail_memory(state_->caller, state_->name);
}

bool Loop::holds(const Tensor& condition, const LoopLeaves& state) {
  State& own = *state_;
  const char* const what = own.is_once() ? "which" : "condition";
  if (!condition.defined())
    fail<Error>(own.caller, own.name, what, "one bool", "an undefined Tensor");
  if (condition.dtype() != DType::boolean || condition.size() != 1)
    fail<Error>(own.caller, own.name, what, "one bool",
                Text(name_of(condition.dtype())) + to_text(condition.shape()));
  return holds(condition.reshape({}, own.caller).item<bool>(own.caller), state);
}
bool Loop::holds(bool condition, const LoopLeaves& state) try {
  State& own = *state_;
  if (own.is_once()) return condition;
  if (condition && own.options.most && own.trips == own.options.most)
    fail<Error>(own.caller, own.name, "condition",
                "false after at most " + to_text(own.options.most) + " trips", "true");
  if (condition || !followed_) return condition;
  const List last = list_of(state);
  own.report({.kind = LoopEvent::Kind::trip_ends, .state = last, .stops = true});
  if (own.record) own.record->trips.pop_back();
  return false;
} catch (const std::bad_alloc&) {
  fail_memory(state_->caller, state_->name);
}

void Loop::end_trip(const LoopNext& next, const LoopLeaves& made) try {
  State& own = *state_;
  const auto name = [&](std::size_t i) {
    const std::string path = next.path(next.value, i);
    return "state" + (path.empty() ? "" : "." + path);
  };
  for (std::size_t i = 0; i < next.leaves.size(); ++i)
    if (!next.leaves[i].defined())
      fail<Error>(own.caller, own.name, name(i), "a tensor", "an undefined Tensor");
  if (!own.is_once()) {
    if (next.leaves.size() != own.of.size())
      fail<ShapeError>(own.caller, own.name, "state",
                       to_text(own.of.size()) + " tensors, as at first",
                       to_text(next.leaves.size()) + " after " + to_text(own.trips + 1) + " trips");
    for (std::size_t i = 0; i < own.of.size(); ++i) {
      const auto& [dtype, shape] = own.of[i];
      const Tensor& x = next.leaves[i];
      if (x.dtype() == dtype && x.shape() == shape) continue;
      const Text expected = Text(name_of(dtype)) + to_text(shape) + ", as at first",
                 got = Text(name_of(x.dtype())) + to_text(x.shape()) + " after " +
                       to_text(own.trips + 1) + (own.trips ? " trips" : " trip");
      if (x.dtype() != dtype) fail<DTypeError>(own.caller, own.name, name(i), expected, got);
      fail<ShapeError>(own.caller, own.name, name(i), expected, got);
    }
  }
  for (std::size_t i = 0; i < made.size(); ++i)
    if (!made[i].defined())
      fail<Error>(own.caller, own.name, "y", "tensors", "an undefined Tensor");
  if (!own.trips) own.made.resize(made.size());
  if (made.size() != own.made.size())
    fail<ShapeError>(own.caller, own.name, "y", to_text(own.made.size()) + " tensors, as at first",
                     to_text(made.size()));
  ++own.trips;
  if (followed_) {
    put_in_order(next.leaves, own.caller);
    put_in_order(made, own.caller);
  }
  for (std::size_t i = 0; i < made.size(); ++i) own.made[i].push_back(made[i]);
  if (!followed_) return;
  List next_state = list_of(next.leaves), rows = list_of(made);
  own.report({.kind = LoopEvent::Kind::trip_ends,
              .state = next_state,
              .rows = rows,
              .stops = own.is_once()});
  if (!own.record) return;
  own.record->trips.back().next = std::move(next_state);
  own.record->trips.back().made = std::move(rows);
} catch (const std::bad_alloc&) {
  fail_memory(state_->caller, state_->name);
}

void Loop::stack(const LoopLeaves& first) {
  State& own = *state_;
  for (std::size_t i = 0; i < first.size(); ++i)
    first[i] = joined(std::exchange(own.made[i], {}), own.options.reverse, own.caller);
}

void Loop::end(const LoopLeaves& state, const LoopLeaves& stacked) try {
  State& own = *state_;
  if (!followed_) return;
  const List last = list_of(state), rows = list_of(stacked);
  List names = names_of(last);
  own.report({.kind = LoopEvent::Kind::ends,
              .state = names,
              .rows = rows,
              .of = last,
              .tape = own.record ? TapeAccess::bit(*own.record->tape) : 0});
  names.insert(names.end(), rows.begin(), rows.end());
  if (own.record) own.leave(names);
  for (std::size_t i = 0; i < state.size(); ++i) state[i] = names[i];
  for (std::size_t i = 0; i < stacked.size(); ++i) stacked[i] = names[state.size() + i];
} catch (const std::bad_alloc&) {
  fail_memory(state_->caller, state_->name);
}

/// The record of the whole loop.
void Loop::State::leave(List& results) {
  Context& context = Context::here();
  record->pause.reset(new GradientTape::Pause(record->tape->pause(caller)));
  watched.reset();
  muted.reset();
  SmallVector<Body*, 4> bodies, outputs;
  SmallVector<Origin, 4> origins;
  std::uint64_t tapes = 0;
  ResultMarks marks;
  const auto add = [&](const Tensor& x, const Operand& operand) {
    bodies.push_back(Access::body(x));
    if (context.is_watchful())
      marks.use(context, loop_op, static_cast<int>(bodies.size()) - 1, Access::body(x), caller);
    origins.push_back(origin_of(context, operand, bodies[bodies.size() - 1]));
    tapes |= origins[origins.size() - 1].tapes;
  };
  for (const List& list : {first, arrays})
    for (const Tensor& x : list) add(x, Operand(x, caller));
  for (const Reading& each : record->readings)
    add(each.value, each.is_own ? Operand(each.variable[0], caller) : Operand(each.value, caller));
  for (const Tensor& x : results) outputs.push_back(Access::body(x));
  if (tapes && outputs.size())
    leave_record(context, loop_op, LoopHeld{record}, caller, bodies.data(), origins.data(),
                 static_cast<int>(bodies.size()), outputs.data(), static_cast<int>(outputs.size()),
                 tapes);
  for (Tensor& x : results) marks.mark(context, x, caller);
}

Tensor loop_start() { return full({}, 0, TensorOptions{.dtype = DType::int64}); }
Tensor loop_count(const Operand& count, Caller caller) {
  Tensor value = count.value();
  if (!value.defined() || is_floating(value.dtype()) || value.dtype() == DType::boolean ||
      value.size() != 1)
    fail<Error>(caller, "repeat", "count", "one integer",
                value.defined() ? Text(name_of(value.dtype())) + to_text(value.shape())
                                : Text("an undefined Tensor"));
  return value.reshape({}, caller).to(DType::int64, caller);
}
}  // namespace detail
}  // namespace reel
