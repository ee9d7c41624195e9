// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "lib/body/dtypes.hpp"
#include "lib/body/live.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/gate/devices.hpp"
#include "lib/table/backend.hpp"
#include "lib/table/options/random.hpp"

namespace reel::tracing {
Tensor made_for(Context& context, const Layout& layout) {
  Body* body = allocate_on(context, layout.device, layout.dtype, layout.shape, layout.elements);
  if (!body)
    fail<MemoryError>({}, "trace", "value", "memory for shape " + to_text(layout.shape), "none",
                      largest_on(layout.device));
  if (layout.live) body->device_kind |= live_number;
  return Access::adopt(body);
}

Frame::Frame(const Plan& plan)
    : headers(plan.tree.values.size()),
      slots(headers.size()),
      operands(plan.most_operands),
      shadows(plan.tree.variables.size()) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Value& value = plan.tree.values[i];
    value.layout.set(headers[i] = Body());
    headers[i].references = 1;  // a Tensor may share it temporarily
    slots[i] = value.kind == Value::Kind::constant ? Access::body(value.constant) : &headers[i];
  }
}

void Frame::enter(const Plan& plan) {
  if (!scratch.defined()) {
    Layout memory;
    memory.dtype = DType::uint8;
    memory.device = plan.device;
    memory.elements = static_cast<std::int64_t>(plan.scratch_bytes);
    memory.shape = Shape({memory.elements});
    scratch = made_for(Context::here(), memory);
  }
  std::byte* const first = Access::body(scratch)->data;
  if (first == laid_out) return;
  laid_out = first;
  const auto data_of = [&](std::size_t i) {
    const Value& value = plan.tree.values[i];
    if (value.kind == Value::Kind::constant) return Access::body(value.constant)->data;
    return first + plan.places[i].offset;
  };
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Value& value = plan.tree.values[i];
    const bool view = value.kind == Value::Kind::view;
    headers[i].data = data_of(view ? static_cast<std::size_t>(value.number) : i) + value.offset;
  }
}

void Frame::leave() {
  kept.clear();
  stacks.clear();
  for (Tensor& shadow : shadows) shadow = Tensor();
  if (Access::body(scratch)->bytes() > static_cast<std::int64_t>(most_kept_bytes))
    scratch = Tensor();
}

Frame* Plan::take_frame() {
  for (auto& spare : frames_)
    if (spare.load(std::memory_order_relaxed))
      if (Frame* frame = spare.exchange(nullptr, std::memory_order_acquire)) return frame;
  return new Frame(*this);
}
void Plan::give_back(Frame* frame) {
  if (retired_.load(std::memory_order_relaxed)) {
    delete frame;
    return;
  }
  for (auto& spare : frames_)
    if (!spare.load(std::memory_order_relaxed)) {
      frame = spare.exchange(frame, std::memory_order_acq_rel);
      if (!frame) return;
    }
  delete frame;
}
void Plan::retire() {
  retired_.store(true, std::memory_order_relaxed);
  for (auto& spare : frames_) delete spare.exchange(nullptr);
  if (Backend* const backend = backend_of(device.kind)) backend->forget(device.index, number);
}
Plan::~Plan() { retire(); }

void Plan::find_waits() {
  const auto add = [&](int value) {
    const Device from = tree.values[static_cast<std::size_t>(value)].layout.device;
    if (!(from == cpu()) && std::find(waits.begin(), waits.end(), from) == waits.end())
      waits.push_back(from);
  };
  for (const Segment& segment : tree.segments) {
    for (const Step& step : segment.steps)
      if (step.op->changes_device) add(step.inputs[0]);
    if (!segment.branches.empty()) add(segment.question.inputs[0]);
  }
}
void Plan::wait_for_earlier() const {
  for (const Device each : waits) backend_of(each.kind)->wait(each.index);
}

Replay::Replay(Context& context, Plan& plan)
    : context_(context),
      plan_(plan),
      frame_(plan.take_frame()),
      generator_(current_generator()),
      position_(position_of(generator_)),
      start_(position_) {
  try {
    frame_->enter(plan);
  } catch (...) {
    delete frame_;
    throw;
  }
  for (std::size_t i = 0; i < plan.variable_values.size(); ++i)
    if (plan.variable_values[i] >= 0)
      slot_of(plan.variable_values[i]) = Access::body(Access::cell(plan.tree.variables[i]).value);
}
Replay::~Replay() {
  if (suspended_) --plan_.suspended;
  frame_->leave();
  plan_.give_back(frame_);
}

void Replay::argument(int i, const Tensor& x) {
  const auto at = static_cast<std::size_t>(i);
  if (at >= plan_.argument_values.size() || plan_.argument_values[at] < 0) return;
  Body* body = Access::body(x);
  if (!body->contiguous) {
    frame_->kept.push_back(contiguous_copy(*body));
    body = Access::body(frame_->kept.back());
  }
  slot_of(plan_.argument_values[at]) = body;
}

namespace {
/// True if the counter is 1. It stays 1, so threads that call before the check is done also check.
bool count_down(std::atomic<std::uint32_t>& left) {
  const std::uint32_t now = left.load(std::memory_order_relaxed);
  if (now > 1) left.store(now - 1, std::memory_order_relaxed);
  return now == 1;
}
}  // namespace

const Ending* Replay::run() try {
  const bool reports = context_.mode & observed;
  if (reports) tell_reads();
  for (int at = 0; at >= 0;) {
    const Plan::PlannedSegment& segment = plan_.segments[static_cast<std::size_t>(at)];
    if (segment.ending && !is_used_) {
      scheduled_ = count_down(segment.ending->until_check);
      const bool changed = segment.ending->captured.changed(context_.thread);
      if (changed) frame_->changes = segment.ending->captured.changes();
      due_ = scheduled_ || changed;
    }
    execute_range(segment.first, segment.gradient, segment.ending && !due_ && !is_used_);
    if (segment.ending) return end_ = segment.ending.get();
    if (reports) tell_question(segment.asked, segment.read);
    at = next(segment);
  }
  return nullptr;
} catch (...) {
  if (!wrote_ && !observer_threw_) return nullptr;
  commit();  // makes the earlier writes visible
  throw;
}

void Replay::execute_range(unsigned first, unsigned end, bool may_write) {
  if (context_.mode & observed) return execute_observed(first, end, may_write);
  const Instruction* const all = plan_.instructions.data();
  for (unsigned i = first; i < end;) {
    const unsigned together = std::max(all[i].planned, 1u);
    execute({all + i, together}, may_write);
    i += together;
  }
}

void Replay::keep_for_gradient(std::size_t arguments) {
  suspended_ = true;
  ++plan_.suspended;
  for (const int value : plan_.variable_values)
    if (value >= 0) frame_->kept.push_back(Access::share(slot(value)));
  for (std::size_t i = 0; i < std::min(arguments, plan_.argument_values.size()); ++i)
    if (const int value = plan_.argument_values[i]; value >= 0)
      frame_->kept.push_back(Access::share(slot(value)));
}

std::vector<Tensor> Replay::run_gradient(std::size_t arguments, std::span<const Tensor> upstream) {
  // The gradient has written over what it read, so the function is replayed for another one.
  if (std::exchange(is_used_, true)) {
    const Ending* const before = end_;
    position_ = start_;
    frame_->stacks.clear();
    if (run() != before) throw Error("a second gradient of a traced function took another path");
  }
  const Plan::PlannedSegment& segment = plan_.segments[end_->segment];
  std::vector<Tensor> given;  // in row-major order, until the end
  for (std::size_t i = 0; i < upstream.size(); ++i) {
    const Body& body = *Access::body(upstream[i]);
    given.push_back(body.contiguous ? upstream[i] : contiguous_copy(body));
    argument(arguments + i, Access::body(given.back()));
  }
  execute_range(segment.gradient, segment.end, false);
  const std::vector<int>& results = plan_.tree.segments[end_->segment].results;
  std::vector<Tensor> gradients;
  for (std::size_t i = results.size() - end_->sources.size(); i < results.size(); ++i)
    gradients.push_back(result(results[i]));
  return gradients;
}

int Replay::next(const Plan::PlannedSegment& segment) const {
  const Body* const own = slot(segment.asked);  // a header of the frame, not of a Tensor
  const Tensor host = on_cpu(*own) ? Tensor() : copy_to(*own, cpu(), {});
  const Body& asked = host.defined() ? *Access::body(host) : *own;
  const char truth = segment.read == HostRead::truth && truth_of(asked);
  const std::string_view answer = segment.read == HostRead::truth
                                      ? std::string_view(&truth, 1)
                                      : std::string_view(reinterpret_cast<const char*>(asked.data),
                                                         static_cast<std::size_t>(asked.bytes()));
  for (const Branch& branch : segment.branches)
    if (branch.answer == answer) return branch.segment;
  return -1;
}

namespace {
/// Whether a number is a valid rate or count of steps for an optimizer.
bool may_be_step(const Body& x) {
  return with_element(x.dtype, [&]<class T>(Type<T>) {
    if constexpr (std::is_same_v<T, bool>)
      return truth_of(x);
    else if constexpr (std::is_integral_v<T>)
      return *x.as<T>() >= 1;
    else
      return std::isfinite(static_cast<float>(*x.as<T>()));
  });
}
}  // namespace

void Replay::execute(std::span<const Instruction> together, bool may_write) {
  const Instruction& instruction = together.front();
  if (instruction.planned) return execute_planned(together, may_write);
  const int* const values = plan_.operands.data() + instruction.first;
  const unsigned inputs = instruction.input_count, outputs = instruction.output_count;
  switch (instruction.kind) {
    case Instruction::Kind::allocate: {
      const int made = values[inputs];
      if (inputs && may_write && instruction.rest_cannot_fail && unshared(*slot(values[0])) &&
          !(context_.mode & observed)) {  // an observer of the update reads the old value
        frame_->kept.push_back(Access::share(slot(values[0])));  // a later update gets new memory
        slot_of(made) = slot(values[0]);
        wrote_ = true;
        return;
      }
      const Value& value = plan_.tree.values[static_cast<std::size_t>(made)];
      frame_->kept.push_back(made_for(context_, value.layout));
      slot_of(made) = Access::body(frame_->kept.back());
      return;
    }
    case Instruction::Kind::view: {
      const Value& value = plan_.tree.values[static_cast<std::size_t>(values[0])];
      slot_of(values[0])->data = slot(value.number)->data + value.offset;
      return;
    }
    case Instruction::Kind::numbers:
      for (unsigned i = 0; i < inputs; ++i)
        if (on_cpu(*slot(values[i])) && !may_be_step(*slot(values[i])))
          throw Error("an update of the function may fail");
      return;
    case Instruction::Kind::update:
      return update(instruction, may_write);
    case Instruction::Kind::user:
      return user(instruction);
    case Instruction::Kind::loop:
      return loop(instruction);
    default:
      break;
  }
  const Body** const operands = frame_->operands.data();
  for (unsigned i = 0; i < inputs + outputs; ++i) operands[i] = slot(values[i]);
  auto** const made = const_cast<Body**>(operands + inputs);
  RandomOptions options;
  OptionsView view = instruction.options;
  if (instruction.kind == Instruction::Kind::random) {
    options = *static_cast<const RandomOptions*>(instruction.options.data);
    options.seed = seed_of(generator_);
    options.position = position_;
    position_ += options.blocks(made[0]->elements);
    view = options;
  }
  run_kernel({*instruction.op, operands, static_cast<int>(inputs), view, instruction.caller, made,
              static_cast<int>(outputs), nullptr, instruction.part});
}

/// Updates that write in place are executed among the other calls. An update that needs a new
/// buffer divides the calls.
void Replay::execute_planned(std::span<const Instruction> calls, bool may_write) {
  while (!calls.empty()) {
    std::size_t count = plan_.plans_updates ? 0 : calls.size();
    while (count < calls.size() && (calls[count].kind != Instruction::Kind::update ||
                                    writes_in_place(calls[count], may_write)))
      ++count;
    if (count) {
      PlannedGraph graph{calls.first(count),
                         plan_.operands.data(),
                         frame_->slots.data(),
                         plan_.places.data(),
                         frame_->operands.data(),
                         plan_.device,
                         plan_.programs.data(),
                         plan_.spreads.data(),
                         static_cast<int>(plan_.tree.values.size()),
                         plan_.number};
      if (plan_.plans_draws) {
        graph.seed = seed_of(generator_);
        graph.position = position_;
        position_ += blocks_of(graph.calls);
      }
      backend_of(plan_.device.kind)->execute(graph);
    } else {
      update(calls[count++], may_write);
    }
    calls = calls.subspan(count);
  }
}

/// Whether an update may write in place. Then the new values get the memory of the old ones, and an
/// error of the calls around the update counts as one after a write.
bool Replay::writes_in_place(const Instruction& update, bool may_write) {
  const int* const values = plan_.operands.data() + update.first;
  const int* const made = values + update.input_count;
  const int* const variables = made + update.output_count;
  const auto has_shadow = [&](unsigned i) {
    return frame_->shadows[static_cast<std::size_t>(variables[i])].defined();
  };
  for (unsigned i = 0; i < update.output_count; ++i)
    if (!(has_shadow(i) || (may_write && update.rest_cannot_fail)) || !unshared(*slot(values[i])))
      return false;
  for (unsigned i = 0; i < update.output_count; ++i) {
    slot_of(made[i]) = slot(values[i]);
    wrote_ |= !has_shadow(i);
  }
  return true;
}

void Replay::update(const Instruction& instruction, bool may_write) {
  const int* const values = plan_.operands.data() + instruction.first;
  const unsigned inputs = instruction.input_count, outputs = instruction.output_count;
  if (instruction.shares) {
    slot_of(values[2]) = slot(values[1]);
    if (slot(values[1]) == slot(values[0])) return;  // written over the old value
    Tensor assigned = Access::share(slot(values[1]));
    const int variable = values[3] < 0 ? ~values[3] : values[3];
    std::swap(frame_->shadows[static_cast<std::size_t>(variable)], assigned);
    if (assigned.defined()) frame_->kept.push_back(std::move(assigned));
    return;
  }
  const Body** const operands = frame_->operands.data();
  for (unsigned i = 0; i < inputs; ++i) operands[i] = slot(values[i]);
  auto** const places = const_cast<Body**>(operands + inputs);
  const auto shadow_of = [&](int variable) -> Tensor& {
    return frame_->shadows[static_cast<std::size_t>(variable < 0 ? ~variable : variable)];
  };
  SmallVector<Tensor, 4> made(outputs);
  bool writes = false;
  for (unsigned i = 0; i < outputs; ++i) {
    const int variable = values[inputs + outputs + i];
    places[i] = slot(values[i]);
    const bool own = shadow_of(variable).defined(),
               late = may_write && instruction.rest_cannot_fail;
    if (variable >= 0 && (own || late) && unshared(*places[i])) {
      writes |= !own;
      continue;
    }
    const Value& value = plan_.tree.values[static_cast<std::size_t>(values[inputs + i])];
    made[i] = made_for(context_, value.layout);
    places[i] = Access::body(made[i]);
  }
  run_kernel({*instruction.op, operands, static_cast<int>(inputs), instruction.options,
              instruction.caller, places, static_cast<int>(outputs), nullptr});
  wrote_ |= writes;  // an update that fails has written nothing
  for (unsigned i = 0; i < outputs; ++i) {
    slot_of(values[inputs + i]) = places[i];
    if (!made[i].defined()) continue;
    std::swap(shadow_of(values[inputs + outputs + i]), made[i]);
    if (made[i].defined()) frame_->kept.push_back(std::move(made[i]));
  }
}

namespace {
/// While this object exists, Variables hold the values that the replay has assigned so far. User
/// code may read them.
class Shown {
 public:
  Shown(Frame& frame, const Plan& plan) : frame_(frame), plan_(plan) { swap(); }
  ~Shown() { swap(); }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;

 private:
  void swap() {
    for (std::size_t i = 0; i < frame_.shadows.size(); ++i)
      if (frame_.shadows[i].defined())
        std::swap(Access::cell(plan_.tree.variables[i]).value, frame_.shadows[i]);
  }
  Frame& frame_;
  const Plan& plan_;
};
}  // namespace

void Replay::user(const Instruction& instruction) {
  const int* const values = plan_.operands.data() + instruction.first;
  const unsigned inputs = instruction.input_count, outputs = instruction.output_count;
  SmallVector<Body*, 8> given(inputs);
  for (unsigned i = 0; i < inputs; ++i) {
    given[i] = slot(values[i]);
    if (given[i] != &frame_->headers[static_cast<std::size_t>(values[i])]) continue;
    Body* const own = given[i];
    frame_->kept.push_back(contiguous_copy(*own));  // a copy that user code may keep
    given[i] = Access::body(frame_->kept.back());
    given[i]->device_kind = own->device_kind;  // it may be a live number
  }
  const CallView view{*instruction.op,     given.data(),      static_cast<int>(inputs), nullptr, 0,
                      instruction.options, instruction.caller};
  UserCall& call = user_calls_.emplace_back(UserCall{instruction.op, {}, {}});
  for (Body* body : given) call.inputs.push_back(Access::share(body));
  Tensors results;
  try {
    const Shown shown(*frame_, plan_);
    results = instruction.op->composite(OpCall(view), instruction.op->composite_state);
  } catch (...) {
    call.error = std::current_exception();
    throw;
  }
  call.results.assign(results.begin(), results.end());
  for (unsigned i = 0; i < outputs; ++i) {
    const Value& value = plan_.tree.values[static_cast<std::size_t>(values[inputs + i])];
    if (i >= results.size() || !results[i].defined() ||
        !(Layout(*Access::body(results[i])) == value.layout))
      fail<Error>(instruction.caller, instruction.op->name, "result of its kernel",
                  "the captured shape and dtype", "another shape or dtype");
    slot_of(values[inputs + i]) = Access::body(results[i]);
    frame_->kept.push_back(std::move(results[i]));
  }
}

void Replay::commit() {
  for (std::size_t i = 0; i < frame_->shadows.size(); ++i)
    if (frame_->shadows[i].defined())
      // The frame releases the old value later, because a result may share it.
      std::swap(Access::cell(plan_.tree.variables[i]).value, frame_->shadows[i]);
  if (position_ != position_of(generator_)) generator_.set_position(position_);
  if (context_.mode & observed) tell_commit();
}

Tensor Replay::result(int number) const {
  if (number < 0) return Tensor();
  const Value& value = plan_.tree.values[static_cast<std::size_t>(number)];
  if (value.kind != Value::Kind::view) return Access::share(slot(number));
  Tensor view = Access::adopt(allocate_view(context_, slot(value.number)));
  if (!view.defined())
    fail<MemoryError>({}, "trace", "result", "memory for a header", "none from the system");
  Body& body = *Access::body(view);
  value.layout.set(body);
  body.data = slot(value.number)->data + value.offset;
  return view;
}

Tensor Replay::assigned(int variable) const {
  return frame_->shadows[static_cast<std::size_t>(variable)];
}
}  // namespace reel::tracing
