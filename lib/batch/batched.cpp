// SPDX-License-Identifier: BSD-3-Clause
// Runs a function for many examples, and the ops of all of them together.
#include <reel/batched.hpp>
#include <reel/ops.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "lib/batch/batch.hpp"
#include "lib/batch/fiber.hpp"
#include "lib/batch/gather.hpp"
#include "lib/batch/queue.hpp"
#include "lib/body/hash.hpp"
#include "lib/gate/gate.hpp"
#include "lib/graph/graph.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace batch {
namespace {
constexpr std::ptrdiff_t least_stack = 16 << 10;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

constinit thread_local bool is_running = false;

std::uint64_t seed_of_batch(std::uint64_t seed, std::uint64_t position) {
  return mix_bits(mix_bits(seed) + position);
}
std::uint64_t seed_of_example(std::uint64_t seed, std::size_t index) {
  return mix_bits(seed + index + 1);
}

/// The value of a Variable, held so that its address stays its own.
struct Value {
  Variable variable;
  Tensor held;
};

class Batch;
/// One example: its fiber, and what its ops do.
struct Example : Interceptor {
  Example(Batch& b, std::size_t i, std::size_t stack)
      : batch(b), index(i), fiber(stack, run, this) {}
  static void run(void* self) { static_cast<Example*>(self)->run(); }
  void run();
  bool takes(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
             SmallVector<Tensor, 2>& outputs) override;
  bool before(const GateCall& call) override;
  const Tensor* variable_read(const Variable& variable, const Tensor& value) override;
  void aliased(const Body& x, Body& made) override;
  void host_read(const Tensor& x, HostRead) override { await(*Access::body(x)); }
  /// Waits until the elements are there.
  void await(Body& body);
  void require_stack(Caller caller, std::string_view op) const;

  Batch& batch;
  std::size_t index;
  Fiber fiber;
  Node* awaited = nullptr;
  std::exception_ptr error = {};
};

class Batch {
 public:
  Batch(std::size_t examples, const detail::Function<void(std::size_t)>& f,
        const BatchedOptions& options)
      : f_(f), outer_(Context::here()) {
    training_ = outer_.training;
    autocast_ = outer_.autocast;
    device_ = outer_.device;
    outer_observers_ = outer_.observers;
    seed_ = seed_of_batch(seed_of(current_generator()), position_of(current_generator()));
    for (std::size_t i = 0; i < examples; ++i) examples_.emplace_back(*this, i, options.stack);
  }

  void run() {
    BatchingReport& report = last_report();
    report = {};
    report.examples = static_cast<std::int64_t>(examples_.size());
    try {
      while (resume_all()) {
        ++report.rounds;
        run_waiting();
        show_awaited();
      }
    } catch (...) {
      stop_all(std::current_exception());
      throw;
    }
    if (drew_) {
      Generator outer = thread_generator();
      outer.set_position(outer.position() + 1);
    }
    show_kept();
    for (const Node& node : nodes_)
      if (std::exception_ptr& error = examples_[node.example].error; node.error && !error)
        error = node.error;
    finish_report(report);
    for (const Example& each : examples_)
      if (each.error) {
        last_report().failed = static_cast<std::int64_t>(each.index);
        std::rethrow_exception(each.error);
      }
  }

 private:
  friend struct Example;

  /// Returns false if all had ended before.
  bool resume_all() {
    bool any = false;
    for (Example& each : examples_) {
      if (each.fiber.ended()) continue;
      each.fiber.resume();
      any = true;
    }
    return any;
  }
  /// A fiber that waits is never destroyed: its function ends by this exception.
  void stop_all(std::exception_ptr why) {
    stopped_ = std::move(why);
    for (Example& each : examples_)
      while (each.fiber.started() && !each.fiber.ended()) each.fiber.resume();
  }

  void enter(Context& fiber, std::size_t index) const {
    fiber.mode = 0;
    fiber.training = training_;
    fiber.shares_variables = true;
    fiber.autocast = autocast_;
    fiber.device = device_;
    if (autocast_ != DType::float32) fiber.mode |= autocasts;
    fiber.observers = outer_observers_;
    if (outer_observers_) fiber.mode |= observed;
    Generator own = thread_generator();
    own.restore(seed_of_example(seed_, index), 0);
  }

  /// Puts a call into its queue.
  void add(std::size_t example, Op& op, std::span<const Operand> operands, OptionsView options,
           Caller caller, SmallVector<Tensor, 2>& outputs) {
    const auto number = static_cast<std::uint32_t>(nodes_.size());
    Node& node = nodes_.emplace_back();
    node.site = caller;
    node.example = example;
    SmallVector<const Cell*, 4> cells(operands.size());
    std::uint64_t hash = reinterpret_cast<std::uintptr_t>(&op);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Operand& x = operands[i];
      node.inputs.emplace_back();
      Source& source = node.inputs[i];
      if (x.kind() == Operand::Kind::scalar) continue;
      cells[i] = cell_of(x);
      if (cells[i]) {
        hash = mixed(hash, reinterpret_cast<std::uintptr_t>(cells[i]));
        continue;
      }
      if (Node* const maker = node_of(x)) {
        source.node = maker;
        source.output = StandIns::output_of(*Access::body(x.tensor()));
        node.depth = std::max(node.depth, maker->depth + 1);
        if (!maker->launch && !maker->error) {
          maker->readers.push_back(&node);
          ++node.waiting;
        } else if (maker->error && !node.error) {
          node.error = maker->error;
        }
      } else {
        source.known = x.tensor();
      }
      const Body& body = *Access::body(x.tensor());
      hash = mixed(hash, static_cast<std::uint64_t>(body.dtype) + 256 + body.shape.rank() * 16);
      for (const std::int64_t length : body.shape)
        hash = mixed(hash, static_cast<std::uint64_t>(length));
    }
    Queue*& first = by_hash_[hash];
    Queue* queue = first;
    while (queue && !is_of(*queue, op, operands, options, cells)) queue = queue->next;
    if (queue) {
      for (const Kind& made : queue->outputs)
        outputs.push_back(stand_ins_.make(made.dtype, made.device, made.shape, number,
                                          static_cast<std::uint32_t>(outputs.size())));
    } else {
      stand_ins_.infer(op, operands, options, caller, number, outputs);
      queue = &new_queue(op, operands, options, cells);
      for (const Tensor& output : outputs) {
        queue->outputs.emplace_back();
        set(queue->outputs[queue->outputs.size() - 1], *Access::body(output));
      }
      queue->next = std::exchange(first, queue);
    }
    for (const Tensor& output : outputs) node.outputs.push_back(output);
    node.queue = queue;
    ++queue->left;
    queue->depths += node.depth;
    ++queue->told->calls;
    if (!node.waiting) queue->ready.push_back(&node);
  }
  const Cell* cell_of(const Operand& x) const {
    if (x.kind() == Operand::Kind::variable) return &Access::cell(x.variable());
    if (values_.empty()) return nullptr;
    const auto value = values_.find(Access::body(x.tensor()));
    return value == values_.end() ? nullptr : &Access::cell(value->second.variable);
  }
  Node* node_of(const Operand& x) {
    const Body* const body = Access::body(x.tensor());
    return body && stand_ins_.made(*body) ? &nodes_[StandIns::number_of(*body)] : nullptr;
  }
  static bool is_of(const Queue& queue, const Op& op, std::span<const Operand> operands,
                    OptionsView options, const SmallVector<const Cell*, 4>& cells) {
    if (queue.op != &op || queue.kinds.size() != operands.size()) return false;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (!fits(queue.kinds[i], operands[i], cells[i])) return false;
    const OptionsView known = queue.options.view();
    return known.type == options.type &&
           (!known.type || known.type->equal(known.data, options.data));
  }
  Queue& new_queue(Op& op, std::span<const Operand> operands, OptionsView options,
                   const SmallVector<const Cell*, 4>& cells) {
    Queue& made = queues_.emplace_back();
    made.op = &op;
    made.options = graph::KeptOptions(options);
    made.told = &told_[&op];
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Operand& x = operands[i];
      made.kinds.emplace_back();
      made.shared.emplace_back();
      Kind& kind = made.kinds[i];
      if (x.kind() == Operand::Kind::scalar) {
        kind.is_number = true;
        kind.number = x.scalar();
        made.shared[i].scalar = x.scalar();
      } else if ((kind.variable = cells[i])) {
        made.shared[i].variable = x.kind() == Operand::Kind::variable
                                      ? x.variable()
                                      : values_.find(Access::body(x.tensor()))->second.variable;
      } else {
        set(kind, *Access::body(x.tensor()));
      }
    }
    return made;
  }

  /// The ready queue whose calls, ready or not, have the smallest mean depth; of several, the one
  /// with the most ready calls.
  Queue* next_queue() {
    Queue* best = nullptr;
    for (Queue& each : queues_) {
      if (each.ready.empty()) continue;
      if (!best) {
        best = &each;
        continue;
      }
      const double a = static_cast<double>(each.depths) * static_cast<double>(best->left),
                   b = static_cast<double>(best->depths) * static_cast<double>(each.left);
      if (a < b || (a == b && each.ready.size() > best->ready.size())) best = &each;
    }
    return best;
  }
  void run_waiting() {
    while (Queue* const queue = next_queue()) {
      std::vector<Node*> calls = std::exchange(queue->ready, {});
      launch(*queue, calls);
      for (Node* const each : calls) {
        --queue->left;
        queue->depths -= each->depth;
        for (Node* const reader : each->readers) {
          if (each->error && !reader->error) reader->error = each->error;
          if (!--reader->waiting) reader->queue->ready.push_back(reader);
        }
        each->readers.clear();
        each->inputs.clear();
        for (Tensor& output : each->outputs)  // nothing else can ask for it
          if (references(*Access::body(output)) == 1) output = Tensor();
      }
    }
  }

  void launch(Queue& queue, std::vector<Node*>& calls) {
    std::vector<Node*> failed;
    const auto first_failed = std::stable_partition(calls.begin(), calls.end(),
                                                    [](const Node* each) { return !each->error; });
    const std::vector<Node*> good(calls.begin(), first_failed);
    if (good.empty()) return;
    try {
      launch_all(queue, good);
    } catch (...) {
      if (good.size() == 1) {
        good[0]->error = std::current_exception();
        return;
      }
      for (Node* const each : good) {  // the error belongs to one of them
        try {
          launch_all(queue, {each});
        } catch (...) {
          each->error = std::current_exception();
        }
      }
    }
  }
  void launch_all(Queue& queue, std::vector<Node*> calls) {
    const Node& like = *calls.front();
    const OptionsView options = queue.options.view();
    // Rows of the launch that made an input, in their order, need no copy.
    for (std::size_t i = 0; i < like.inputs.size(); ++i)
      if (like.inputs[i].node) {
        const auto place = [&](const Node* each) {
          const Node* const maker = each->inputs[i].node;
          return maker ? std::pair(maker->launch->number, maker->row)
                       : std::pair<std::size_t, std::int64_t>();
        };
        const auto in_order = [&](const Node* a, const Node* b) { return place(a) < place(b); };
        if (!std::is_sorted(calls.begin(), calls.end(), in_order))
          std::stable_sort(calls.begin(), calls.end(), in_order);
        break;
      }
    Launch& made = launches_.emplace_back();
    made.number = launches_.size();
    Calls together{*queue.op, options, {}, static_cast<std::int64_t>(calls.size()), like.site};
    bool any = false;
    for (std::size_t i = 0; i < like.inputs.size(); ++i) {
      together.inputs.push_back(gathered(queue, calls, i));
      any |= together.inputs.back().batched;
    }
    if (!any) {  // one call for all of them
      SmallVector<Operand, 4> operands;
      for (const Input& each : together.inputs) operands.push_back(each.operand(like.site));
      reel::run(*queue.op, {operands.data(), operands.size()}, options, like.site, made.outputs);
      for (Tensor& each : made.outputs) each = each.reshape(with_row(each.shape()));
      made.rows = 1;
    } else {
      made.rows = together.count;
      if (!run_together(together, made.outputs)) {
        queue.told->alone += together.count;
        --queue.told->launches;
      }
    }
    ++queue.told->launches;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      calls[i]->launch = &made;
      calls[i]->row = any ? static_cast<std::int64_t>(i) : 0;
    }
  }
  static Shape with_row(const Shape& shape) {
    SmallVector<std::int64_t, Shape::max_rank> lengths;
    lengths.push_back(1);
    for (const std::int64_t length : shape) lengths.push_back(length);
    return Shape(std::span<const std::int64_t>(lengths.data(), lengths.size()));
  }

  /// The elements that fibers wait for.
  void show_awaited() {
    for (Example& each : examples_)
      if (Node* const node = std::exchange(each.awaited, nullptr)) show(*node);
  }
  void show(Node& node) {
    if (!node.launch) return clear(node);
    for (std::uint32_t i = 0; i < node.outputs.size(); ++i) {
      Body* const body = Access::body(node.outputs[i]);
      if (body && stand_ins_.made(*body)) StandIns::show(*body, row_of(node, i));
    }
  }
  /// A call that failed has no elements: NaN, or zeros, in case something holds its results.
  static void clear(Node& node) {
    for (const Tensor& each : node.outputs)
      if (each.defined()) StandIns::clear(*Access::body(each));
  }
  /// The results, and what else something holds.
  void show_kept() {
    for (Node& node : nodes_)
      for (const Tensor& each : node.outputs)
        if (each.defined() && references(*Access::body(each)) > 1) {
          show(node);
          break;
        }
    // What f returns of a Variable is read on this flow, where tapes see it.
    for (auto& [body, value] : values_)
      if (outer_.mode & recording && references(*body) > 1 &&
          body != Access::body(Access::cell(value.variable).value))
        StandIns::show(*Access::body(value.held), value.variable.value());
  }
  void finish_report(BatchingReport& report) {
    for (auto& [op, told] : told_) {
      told.name = std::string(op->name);
      report.calls += told.calls;
      report.launches += told.launches;
      report.ops.push_back(told);
    }
    std::sort(report.ops.begin(), report.ops.end(), [](const BatchedOp& a, const BatchedOp& b) {
      return a.calls != b.calls ? a.calls > b.calls : a.name < b.name;
    });
  }

  const detail::Function<void(std::size_t)>& f_;
  Context& outer_;
  bool training_;
  DType autocast_;
  Device device_;
  Observer* outer_observers_;
  std::uint64_t seed_;
  bool drew_ = false;
  std::exception_ptr stopped_ = {};
  StandIns stand_ins_;
  std::deque<Node> nodes_;
  std::deque<Queue> queues_;
  std::deque<Launch> launches_;
  std::unordered_map<std::uint64_t, Queue*> by_hash_;  // the first of each hash
  std::unordered_map<const Op*, BatchedOp> told_;
  std::unordered_map<const Body*, Value> values_;  // that f has read as tensors
  std::deque<Example> examples_;
};

void Example::run() try {
  Context& context = Context::here();
  struct Entered {  // the flow of the fiber is used again
    Context& context;
    ~Entered() {
      context.observers = nullptr;
      context.mode = 0;
    }
  } const entered{context};
  batch.enter(context, index);
  const InterceptorScope scope(*this);
  batch.f_(index);
  if (position_of(current_generator())) batch.drew_ = true;
} catch (...) {
  error = std::current_exception();
}

void Example::require_stack(Caller caller, std::string_view op) const {
  if (fiber.room() < least_stack) [[unlikely]]
    fail<Error>(caller, op, "stack of an example",
                "at least " + to_text(static_cast<std::int64_t>(least_stack)) + " bytes",
                to_text(static_cast<std::int64_t>(fiber.room())) + " in example " + to_text(index),
                "f recurses deeply: batched(examples, f, {.stack = bytes}) gives it more.");
}

bool Example::takes(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
                    SmallVector<Tensor, 2>& outputs) {
  require_stack(caller, op.name);
  bool waits = false;
  for (const Operand& x : operands) {
    if (x.kind() == Operand::Kind::variable) waits = true;
    if (x.kind() > Operand::Kind::temporary) continue;
    const Body* const body = Access::body(x.tensor());
    if (!body) return false;  // the gate says so
    if (!waits)
      waits |= batch.stand_ins_.made(*body) || body->id.reel || body->leaf != no_record ||
               batch.values_.count(body);
  }
  if (!waits) return false;  // it needs nothing that others make
  batch.add(index, op, operands, options, caller, outputs);
  return true;
}
bool Example::before(const GateCall& call) {
  for (int i = 0; i < call.input_count; ++i)
    if (call.inputs[i]) await(*const_cast<Body*>(call.inputs[i]));
  return true;
}
/// An op that takes the tensor takes the Variable, so that a tape around batched() sees it.
const Tensor* Example::variable_read(const Variable& variable, const Tensor& value) {
  batch.values_.try_emplace(Access::body(value), Value{variable, value});
  return nullptr;
}
void Example::aliased(const Body& x, Body& made) {
  if (const auto known = batch.values_.find(&x); known != batch.values_.end())
    batch.values_.try_emplace(&made, Value{known->second.variable, Access::share(&made)});
  if (!batch.stand_ins_.made(x)) return;
  await(const_cast<Body&>(x));
  StandIns::show(made, Access::share(const_cast<Body*>(&x)));
}
void Example::await(Body& body) {
  if (!batch.stand_ins_.made(body)) return;
  Node& node = batch.nodes_[StandIns::number_of(body)];
  if (!batch.stopped_) {
    awaited = &node;
    fiber.wait();
  }
  if (batch.stopped_) std::rethrow_exception(batch.stopped_);
  if (node.error) std::rethrow_exception(node.error);
}
/// One example is a plain call, with the generator that it would have among others.
void run_alone(const detail::Function<void(std::size_t)>& f) {
  Context& context = Context::here();
  Generator outer = thread_generator(), own(0);
  own.restore(seed_of_example(seed_of_batch(seed_of(outer), position_of(outer)), 0), 0);
  BatchingReport& report = last_report();
  report = {};
  report.examples = 1;
  struct Shares {
    Context& context;
    ~Shares() { context.shares_variables = false; }
  } const shares{context};
  context.shares_variables = true;
  try {
    const GeneratorScope scope(own);
    f(0);
  } catch (...) {
    report.failed = 0;
    throw;
  }
  if (own.position()) outer.set_position(outer.position() + 1);
}
}  // namespace
}  // namespace batch

void detail::run_batched(std::size_t examples, const Function<void(std::size_t)>& f,
                         BatchedOptions options, Caller caller) try {
  if (batch::is_running)
    fail<Error>(caller, "batched", "f", "no batched() inside of another", "one");
  if (options.stack < 4 * batch::least_stack)
    fail<Error>(caller, "batched", "options.stack", "at least 65536 bytes", to_text(options.stack));
  tell_interceptors("it calls batched()");
  struct Running {
    Running() { batch::is_running = true; }
    ~Running() { batch::is_running = false; }
  } const running;
  if (examples == 1)
    batch::run_alone(f);
  else
    batch::Batch(examples, f, options).run();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "batched");
}

}  // namespace reel
