// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/capture.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/body/dtypes.hpp"
#include "lib/body/live.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/effects.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/random.hpp"
#include "lib/trace/check.hpp"
#include "lib/trace/tree.hpp"

namespace reel::tracing {
namespace {
constexpr std::int64_t most_bytes_asked = 64;
}  // namespace

std::string answer_of(const Tensor& x, HostRead read) {
  const Tensor host = on_host(x);
  const Body& body = *Access::body(host);
  if (read == HostRead::truth) return std::string(1, truth_of(body));
  return {reinterpret_cast<const char*>(body.data), static_cast<std::size_t>(body.bytes())};
}

Tensor named_apart(const Tensor& x) {
  Tensor made = Access::adopt(allocate_view(Context::here(), Access::body(x)));
  if (!made.defined())
    fail<MemoryError>({}, "trace", "view", "memory for a header", "none from the system");
  return made;
}

Tracer::Tracer()
    : generator_(&current_generator()), flows_(flows_begun()), tapes_(Context::here().reel->alive) {
  seed_ = seed_of(*generator_);
  position_ = position_of(*generator_);
}

int Tracer::add(Body* body, Value value) {
  value.layout = Layout(*body);
  const int number = static_cast<int>(capture_.values.size());
  held_.push_back(Access::share(body));
  if (!body->owner && (bytes_held_ += body->bytes()) > bytes_to_sweep_) release_unused();
  if (value.kind == Value::Kind::constant) value.constant = held_.back();
  capture_.values.push_back(std::move(value));
  by_body_[body] = number;
  inner_.erase(body);
  return number;
}

/// Nothing can read a computed tensor any more that only this list holds. A view holds the tensor
/// that it shows, so later tensors go first.
void Tracer::release_unused() {
  bytes_held_ = 0;
  for (std::size_t i = held_.size() - 1; i-- > 0;) {
    const Body* body = Access::body(held_[i]);
    if (!body) continue;
    const Value::Kind kind = capture_.values[i].kind;
    const bool is_made = kind == Value::Kind::computed || kind == Value::Kind::view;
    if (is_made && references(*body) == 1) {
      by_body_.erase(body);
      held_[i] = Tensor();
    } else if (!body->owner) {
      bytes_held_ += body->bytes();
    }
  }
  bytes_to_sweep_ = std::max(most_unused_bytes, 2 * bytes_held_);
}

void Tracer::argument(const Tensor& x) {
  add(Access::body(x), {.kind = Value::Kind::argument, .number = arguments_++});
}

/// A body that was not made by a recorded call is a constant.
int Tracer::value_of(const Body* body) {
  if (!body) return -1;
  if (inner_.count(body))
    give_up("it uses a tensor from inside of a user's function that reads on the host");
  const auto found = by_body_.find(body);
  if (found != by_body_.end()) return found->second;
  return add(const_cast<Body*>(body), {.kind = Value::Kind::constant});
}

int Tracer::number_of(const Variable& variable) {
  const auto [found, is_new] =
      numbers_.try_emplace(&Access::cell(variable), static_cast<int>(numbers_.size()));
  if (is_new) {
    capture_.variables.push_back(variable);
    latest_.push_back(-1);
    first_.push_back(-1);
  }
  return found->second;
}

int Tracer::value_of(const Variable& variable, Body* body) {
  const int number = number_of(variable);
  const auto at = static_cast<std::size_t>(number);
  if (latest_[at] < 0)
    first_[at] = latest_[at] = add(body, {.kind = Value::Kind::variable, .number = number});
  return latest_[at];
}

int Tracer::add_view(int base, const Body& of, Body* made) {
  const Value& viewed = capture_.values[static_cast<std::size_t>(base)];
  if (viewed.kind == Value::Kind::constant) return add(made, {.kind = Value::Kind::constant});
  const bool of_view = viewed.kind == Value::Kind::view;
  return add(made, {.kind = Value::Kind::view,
                    .number = of_view ? viewed.number : base,
                    .offset = (of_view ? viewed.offset : 0) + (made->data - of.data)});
}

void Tracer::variable_made(const Variable&) {
  give_up("it makes a Variable; make it outside of the function");
}
const Tensor* Tracer::variable_read(const Variable& variable, const Tensor& value) {
  const std::size_t known = capture_.variables.size();
  const auto number = static_cast<std::size_t>(number_of(variable));
  // A tensor that shares the start value of the Variable remains a constant. Another header takes
  // the place of the Variable's own header.
  if (number == known) {
    starts_.push_back({value, named_apart(value)});
    value_of(variable, Access::body(starts_[number].stand_in));
  }
  const Start& start = starts_[number];
  return Access::body(start.value) == Access::body(value) ? &start.stand_in : nullptr;
}
void Tracer::aliased(const Body& x, Body& made) {
  Step step;
  step.op = &graph::view_op;
  step.inputs = {value_of(&x)};
  step.outputs = {add_view(step.inputs[0], x, &made)};
  if (capture_.values[static_cast<std::size_t>(step.outputs[0])].kind == Value::Kind::view)
    capture_.steps.push_back(std::move(step));
}

void Tracer::host_read(const Tensor& x, HostRead read) {
  const Body* body = Access::body(x);
  const int value = value_of(body);
  if (capture_.values[static_cast<std::size_t>(value)].kind == Value::Kind::constant) return;
  if (!user_code_.empty()) {
    user_code_.back().reads = true;
    return;
  }
  if (body->bytes() > most_bytes_asked || (!body->contiguous && body->elements > 1)) {
    give_up("it reads more than 64 bytes of a tensor on the host; read a comparison or one number");
    return;
  }
  Step step;
  step.read = read;
  step.inputs = {value};
  step.answer = answer_of(x, read);
  for (auto made = capture_.steps.rbegin(); made != capture_.steps.rend(); ++made) {
    if (made->op && std::count(made->outputs.begin(), made->outputs.end(), value)) {
      step.caller = made->caller;
      break;
    }
  }
  capture_.steps.push_back(std::move(step));
}

void Tracer::add_random(Step& step, const GateCall& call) {
  auto& options = *static_cast<RandomOptions*>(step.options.data());
  if (&current_generator() != generator_ || options.seed != seed_ || options.position != position_)
    give_up("it draws random numbers from a generator that it seeds itself; seed it outside");
  position_ += options.blocks(call.outputs[0]->elements);
  options.seed = options.position = 0;
}

void Tracer::after(const GateCall& call) {
  Step step;
  step.op = &call.op;
  step.part = call.part;
  step.caller = call.caller;
  if (!scopes_.empty()) step.scope = scopes_.back();
  const int written = call.updated ? call.output_count : 0;
  const bool user_code = step.user_code = call.part == Part::value && call.op.composite &&
                                          runs_user_code(call.op, device_of(*call.outputs[0]));
  bool constant = !user_code && !written && !call.op.random;
  for (int i = 0; i < call.input_count; ++i) {
    auto* body = const_cast<Body*>(call.inputs[i]);
    const int value = i < written ? value_of(call.updated[i], body) : value_of(body);
    step.inputs.push_back(value);
    constant &=
        value < 0 || capture_.values[static_cast<std::size_t>(value)].kind == Value::Kind::constant;
  }
  if (constant) {  // its result is always the same
    for (int i = 0; i < call.output_count; ++i) value_of(call.outputs[i]);
    return;
  }
  step.options = KeptOptions(call.options);
  if (call.op.random) add_random(step, call);
  for (int i = 0; i < call.output_count; ++i) {
    Body* body = call.outputs[i];
    if (!body) {
      step.outputs.push_back(-1);
    } else if (written) {
      const int number = number_of(call.updated[i]);
      step.updated.push_back(number);
      step.outputs.push_back(add(body, {}));
      latest_[static_cast<std::size_t>(number)] = step.outputs.back();
    } else if (body->owner && !user_code) {
      step.outputs.push_back(add_view(step.inputs[0], *call.inputs[0], body));
    } else {
      if (!body->contiguous) give_up("a user's kernel gives a result that is not row-major");
      step.outputs.push_back(add(body, {}));
    }
  }
  capture_.steps.push_back(std::move(step));
}

void Tracer::named(const Body& x, std::string_view name) {
  const auto known = by_body_.find(&x);
  if (known == by_body_.end()) return;
  capture_.values[static_cast<std::size_t>(known->second)].name = name;
}
void Tracer::scope_changes(std::string_view name) {
  if (name.empty()) {
    if (!scopes_.empty()) scopes_.pop_back();
    return;
  }
  std::string path = scopes_.empty() ? std::string() : *scopes_.back() + "/";
  scopes_.push_back(std::make_shared<const std::string>(path.append(name)));
}

std::vector<int> Tracer::values_of(std::span<const Tensor> list) {
  std::vector<int> values;
  for (const Tensor& x : list) values.push_back(value_of(Access::body(x)));
  return values;
}
/// The names are no constants, even where they stand for a constant: another trip may have another
/// value there.
std::vector<int> Tracer::add_names(std::span<const Tensor> names, std::span<const Tensor> of) {
  std::vector<int> values;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Step step;
    step.op = &graph::view_op;
    step.inputs = {value_of(Access::body(of[i]))};
    const Value& base = capture_.values[static_cast<std::size_t>(step.inputs[0])];
    const bool of_view = base.kind == Value::Kind::view;
    Body* const made = Access::body(names[i]);
    const std::int64_t offset = made->data - Access::body(of[i])->data;
    step.outputs = {add(made, {.kind = Value::Kind::view,
                               .number = of_view ? base.number : step.inputs[0],
                               .offset = (of_view ? base.offset : 0) + offset})};
    values.push_back(step.outputs[0]);
    capture_.steps.push_back(std::move(step));
  }
  return values;
}
void Tracer::gradient_begins(std::span<const Tensor> upstream) {
  if (std::any_of(capture_.values.begin(), capture_.values.end(),
                  [](const Value& value) { return !(value.layout.device == cpu()); }))
    give_up("a tape records its calls, and its tensors are not on the CPU");
  for (const Tensor& x : upstream) argument(x);
  Step step;
  step.op = &graph::gradient_op;
  capture_.steps.push_back(std::move(step));
}
int Tracer::loop(const LoopEvent& event) {
  std::vector<LoopPart>& loops = capture_.loops;
  if (event.kind == LoopEvent::Kind::begins) {
    if (!user_code_.empty()) return -1;
    // An exception that the function caught may have left a loop open.
    loops.push_back({event.name, event.caller, event.reverse, event.once, event.most,
                     event.gradient_of, open_loops_.empty() ? -1 : open_loops_.back(),
                     capture_.steps.size()});
    loops.back().state = values_of(event.state);
    loops.back().arrays = values_of(event.rows);
    loops.back().reads = values_of(event.of);
    open_loops_.push_back(static_cast<int>(loops.size()) - 1);
    return open_loops_.back();
  }
  while (!open_loops_.empty() && open_loops_.back() != event.loop) open_loops_.pop_back();
  if (open_loops_.empty()) {
    give_up("it leaves a loop by an exception and goes on");
    return -1;
  }
  const auto at = static_cast<std::size_t>(event.loop);
  if (event.kind == LoopEvent::Kind::trip_begins) {
    LoopTrip trip;
    trip.state = add_names(event.state, event.of);
    trip.rows = add_names(event.rows, event.arrays);
    trip.first = capture_.steps.size();
    loops[at].trips.push_back(std::move(trip));
  } else if (event.kind == LoopEvent::Kind::trip_ends) {
    LoopTrip& trip = loops[at].trips.back();
    trip.end = capture_.steps.size();
    trip.next = values_of(event.state);
    trip.made = values_of(event.rows);
    trip.stops = event.stops;
  } else {
    loops[at].last = add_names(event.state, event.of);
    loops[at].joined = values_of(event.rows);
    loops[at].end = capture_.steps.size();
    tapes_ |= event.tape;
    open_loops_.pop_back();
  }
  return event.loop;
}

void Tracer::cannot_follow(const char* what) {
  if (user_code_.empty())
    give_up(what);
  else
    user_code_.back().reads = true;
}

namespace {
/// Whether the results of a known call are those of this one. Effects are not repeated, even if the
/// inputs have changed.
bool answers(const UserCall& known, const CallView& call) {
  if (known.op != &call.op || known.inputs.size() != static_cast<std::size_t>(call.input_count))
    return false;
  std::vector<Compared> pairs;
  for (std::size_t i = 0; i < known.inputs.size(); ++i)
    pairs.push_back({"input", known.inputs[i], Access::share(call.inputs[i])});
  if (!has_effects(call.op)) return !compare(pairs);
  return std::all_of(pairs.begin(), pairs.end(), [](const Compared& pair) {
    return pair.replayed.dtype() == pair.run.dtype() && pair.replayed.shape() == pair.run.shape();
  });
}
/// The number of the known call whose results are those of this call; their count if there is none.
/// Known calls before one with effects may be left.
std::size_t find_known(const std::vector<UserCall>& known, std::size_t at, const CallView& call) {
  const bool skips = has_effects(call.op);
  while (at < known.size() && !answers(known[at], call)) at = skips ? at + 1 : known.size();
  return at;
}
}  // namespace

bool Tracer::user_code_begins(const CallView& call, Tensors& results) {
  // A kernel is one step, whatever it reads. A kernel may have replaced a function of register_op.
  UserCode code{call.op.shape != nullptr,
                has_user_kernel(call.op),
                capture_.steps.size(),
                capture_.values.size(),
                {},
                position_of(*generator_)};
  for (const Variable& variable : capture_.variables)
    code.variables.push_back(Access::body(Access::cell(variable).value));
  user_code_.push_back(std::move(code));
  const bool recorded = Context::here().mode & recording && !call.op.gradient.rule;
  if (recorded) return false;
  const std::size_t at = find_known(known_calls_, next_known_call_, call);
  if (at == known_calls_.size()) return false;
  const UserCall& known = known_calls_[at];
  next_known_call_ = at + 1;
  if (known.error) {
    user_code_ends(nullptr);
    std::rethrow_exception(known.error);
  }
  results = Tensors(known.results);
  user_code_.back().reads = true;
  return true;
}

void Tracer::user_code_ends(const GateCall* call) {
  const UserCode code = std::move(user_code_.back());
  user_code_.pop_back();
  if (!call) return give_up("it catches an error of a user's function or kernel");
  if (code.kernel) {
    for (std::size_t i = 0; i < code.variables.size(); ++i)
      if (code.variables[i] != Access::body(Access::cell(capture_.variables[i]).value))
        give_up("a user's kernel writes a Variable that it uses elsewhere");
    if (code.position != position_of(*generator_)) give_up("a user's kernel draws random numbers");
    return;
  }
  if (!code.reads) return;
  // A tape would go back through the ops inside, but a replay does not have their values.
  const Reel& reel = *Context::here().reel;
  for (int i = 0; i < call->output_count && !call->op.gradient.rule; ++i)
    if (reel.active && reel.find(*call->outputs[i]) != no_record)
      give_up(
          "a tape follows the ops inside of a user's function that reads on the host: register "
          "a gradient for it");
  for (std::size_t i = code.steps; i < capture_.steps.size(); ++i)
    if (!capture_.steps[i].updated.empty() || draws(capture_.steps[i]))
      give_up(
          "a user's function that reads on the host also writes a Variable or draws random "
          "numbers");
  capture_.steps.resize(code.steps);
  for (std::size_t i = code.values; i < capture_.values.size(); ++i) {
    Value& value = capture_.values[i];
    if (value.kind != Value::Kind::computed && value.kind != Value::Kind::view) continue;
    value.kind = Value::Kind::constant;
    if (held_[i].defined()) inner_.insert(Access::body(held_[i]));
  }
  after(*call);
}

std::string Tracer::escaped(std::span<const Tensor> results, std::span<const Tensor> replayed,
                            std::span<const Body* const> arguments) const {
  std::unordered_map<const Body*, std::uint32_t> known;  // references that belong to no state
  const auto hold = [&](const Tensor& x) {
    const Body* body = Access::body(x);
    if (!body) return;
    ++known[body];
    if (body->owner) ++known[body->owner];
  };
  std::for_each(held_.begin(), held_.end(), hold);
  std::for_each(replayed.begin(), replayed.end(), hold);
  for (const Value& value : capture_.values)
    if (value.constant.defined()) ++known[Access::body(value.constant)];
  for (const Tensor& x : results)
    if (x.defined()) known[Access::body(x)] += 2;  // one in the result, one in this list
  for (const Variable& variable : capture_.variables)
    ++known[Access::body(Access::cell(variable).value)];
  for (const UserCall& call : known_calls_) {
    std::for_each(call.inputs.begin(), call.inputs.end(), hold);
    std::for_each(call.results.begin(), call.results.end(), hold);
  }
  for (const Start& start : starts_) {
    ++known[Access::body(start.value)];
    ++known[Access::body(start.stand_in)];
  }
  for (const Body* held : arguments) {  // the run may have put another tensor into a slot
    const auto found = by_body_.find(held);
    if (found != by_body_.end() &&
        capture_.values[static_cast<std::size_t>(found->second)].kind == Value::Kind::argument)
      ++known[held];
  }
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const Body* body = Access::body(held_[i]);
    if (!body || capture_.values[i].kind == Value::Kind::constant ||
        references(*body) <= known[body])
      continue;
    for (const Step& step : capture_.steps)
      if (std::count(step.outputs.begin(), step.outputs.end(), static_cast<int>(i)))
        return "a tensor that " + place_of(step) + " made";
    return capture_.values[i].kind == Value::Kind::argument ? "an argument"
                                                            : "the value of a Variable";
  }
  return {};
}

void Tracer::exclude_from(StateWatch& state) const {
  for (const Tensor& x : held_)
    if (x.defined()) state.exclude(*Access::body(x));
  for (const Start& start : starts_) state.exclude(*Access::body(start.value));
  for (const Variable& variable : capture_.variables) {
    state.exclude(variable);
    state.exclude(*Access::body(Access::cell(variable).value));
  }
}

Capture Tracer::finish(std::span<const Tensor> results, std::vector<Caller> apart) {
  for (const Tensor& result : results) capture_.results.push_back(value_of(Access::body(result)));
  for (std::size_t i = 0; i < latest_.size(); ++i)
    if (latest_[i] != first_[i]) capture_.assigned.emplace_back(static_cast<int>(i), latest_[i]);
  by_chance_ = trouble_.empty() && flows_begun() != flows_;
  if (by_chance_) give_up("another thread began to use tensors while it ran");
  if (Context::here().reel->alive & ~tapes_) give_up("a tape that it makes outlives the call");
  if (seed_of(*generator_) != seed_ || position_of(*generator_) != position_)
    give_up("it moves the generator of random numbers itself");
  for (const LoopPart& part : capture_.loops)
    if (part.gradient_of >= 0 && part.end && part.trips.empty())
      give_up("a loop under a tape made no trip, so what its gradient reads is unknown");
  roll_loops(capture_, std::move(apart));
  return std::move(capture_);
}
}  // namespace reel::tracing
