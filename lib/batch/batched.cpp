// SPDX-License-Identifier: BSD-3-Clause
// Runs a function for many examples, and the ops of all of them together.
#include <reel/batched.hpp>
#include <reel/ops.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include <fmt/format.h>

#include "lib/batch/batch.hpp"
#include "lib/batch/fiber.hpp"
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

constinit thread_local OfThread<BatchingReport> last_report;
constinit thread_local bool is_running = false;

/// The outputs of calls that ran together, a row for each call.
struct Launch {
  SmallVector<Tensor, 2> outputs;
  std::int64_t rows = 0;
};

struct Node;
/// An input of a call: the output of another call, or what is known already.
struct Source {
  Node* node = nullptr;
  std::uint32_t output = 0;
  Input known = {};
};
struct Queue;
/// A call that waits, or has run as a row of a launch.
struct Node {
  Op* op;
  graph::KeptOptions options;
  Caller site;
  std::vector<Source> inputs = {};
  std::vector<Tensor> outputs = {};  // stand-ins
  std::vector<Node*> readers = {};
  Queue* queue = nullptr;
  Launch* launch = nullptr;
  std::int64_t row = 0;
  int waiting = 0;  // for so many inputs
  int depth = 0;
  std::exception_ptr error = {};
};
/// Calls of one kind.
struct Queue {
  std::uint64_t hash;
  std::vector<Node*> ready;
  std::int64_t left = 0, depths = 0;  // calls that have not run, and the sum of their depths
  const Node* like;
  BatchedOp* told;
};

/// Whether two calls can run together.
bool alike(const Node& a, const Node& b) {
  if (a.op != b.op || a.inputs.size() != b.inputs.size() || !(a.options == b.options)) return false;
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    const Source &x = a.inputs[i], &y = b.inputs[i];
    const Input &p = x.known, &q = y.known;
    if (p.variable.has_value() != q.variable.has_value() ||
        p.scalar.has_value() != q.scalar.has_value())
      return false;
    if (p.variable) {
      if (&Access::cell(*p.variable) != &Access::cell(*q.variable)) return false;
    } else if (p.scalar) {
      if (p.scalar->dtype() != q.scalar->dtype() || p.scalar->real() != q.scalar->real() ||
          p.scalar->integer() != q.scalar->integer())
        return false;
    } else {
      const Body& s = *Access::body(x.node ? x.node->outputs[x.output] : p.tensor);
      const Body& t = *Access::body(y.node ? y.node->outputs[y.output] : q.tensor);
      if (s.dtype != t.dtype || !(s.shape == t.shape) || !(s.device() == t.device())) return false;
    }
  }
  return true;
}
std::uint64_t hash_of(const Node& node) {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(node.op);
  for (const Source& each : node.inputs) {
    if (each.known.variable) {
      hash = mixed(hash, reinterpret_cast<std::uintptr_t>(&Access::cell(*each.known.variable)));
    } else if (!each.known.scalar) {
      const Body& body =
          *Access::body(each.node ? each.node->outputs[each.output] : each.known.tensor);
      hash = mixed(hash, static_cast<std::uint64_t>(body.dtype) + 256);
      for (const std::int64_t length : body.shape)
        hash = mixed(hash, static_cast<std::uint64_t>(length));
    }
  }
  return hash;
}

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
        const BatchedOptions& options, Caller caller)
      : f_(f), caller_(caller), outer_(Context::here()) {
    training_ = outer_.training;
    autocast_ = outer_.autocast;
    device_ = outer_.device;
    seed_ = mixed(seed_of(current_generator()), position_of(current_generator()));
    for (std::size_t i = 0; i < examples; ++i) examples_.emplace_back(*this, i, options.stack);
  }

  void run() {
    BatchingReport& report = last_report.get();
    report = {};
    report.examples = static_cast<std::int64_t>(examples_.size());
    for (bool any = true; any;) {
      any = false;
      for (Example& each : examples_) {
        if (each.fiber.ended()) continue;
        each.fiber.resume();
        any = true;
      }
      ++report.rounds;
      run_waiting();
      show_awaited();
    }
    --report.rounds;  // the last one had nothing to do
    if (drew_) {
      Generator outer = thread_generator();
      outer.set_position(outer.position() + 1);
    }
    show_kept();
    finish_report(report);
    for (const Example& each : examples_)
      if (each.error) {
        last_report.get().failed = each.index;
        std::rethrow_exception(each.error);
      }
  }

 private:
  friend struct Example;

  void enter(Context& fiber, std::size_t index) const {
    fiber.training = training_;
    fiber.autocast = autocast_;
    fiber.device = device_;
    if (autocast_ != DType::float32) fiber.mode |= autocasts;
    Generator own = thread_generator();
    own.restore(mixed(seed_, index + 1), 0);
  }

  /// Puts a call into its queue.
  void add(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
           SmallVector<Tensor, 2>& outputs) {
    stand_ins_.infer(op, operands, options, caller, static_cast<std::uint32_t>(nodes_.size()),
                     outputs);
    Node& node = nodes_.emplace_back(
        Node{.op = &op, .options = graph::KeptOptions(options), .site = caller});
    for (const Operand& x : operands) {
      Source source;
      if (Node* const maker = node_of(x)) {
        source = {maker, StandIns::output_of(*Access::body(x.tensor()))};
        node.depth = std::max(node.depth, maker->depth + 1);
        if (!maker->launch && !maker->error) {
          maker->readers.push_back(&node);
          ++node.waiting;
        }
      } else {
        source.known = input_of(x);
        if (const auto value = values_.find(Access::body(source.known.tensor));
            value != values_.end())
          source.known = {.variable = value->second};
      }
      node.inputs.push_back(std::move(source));
    }
    for (const Tensor& output : outputs) node.outputs.push_back(output);
    Queue& queue = queue_of(node);
    node.queue = &queue;
    ++queue.left;
    queue.depths += node.depth;
    ++queue.told->calls;
    if (!node.waiting) queue.ready.push_back(&node);
  }
  Node* node_of(const Operand& x) {
    if (x.kind() > Operand::Kind::temporary) return nullptr;
    const Body* const body = Access::body(x.tensor());
    return body && stand_ins_.made(*body) ? &nodes_[StandIns::number_of(*body)] : nullptr;
  }
  Queue& queue_of(const Node& node) {
    const std::uint64_t hash = hash_of(node);
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto at = first; at != last; ++at)
      if (alike(node, *at->second->like)) return *at->second;
    BatchedOp& told = told_[node.op];
    Queue& made =
        queues_.emplace_back(Queue{.hash = hash, .ready = {}, .like = &node, .told = &told});
    by_hash_.emplace(hash, &made);
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
        each->readers = {};
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
    Node& like = *calls.front();
    // Rows of the launch that made an input, in their order, need no copy.
    for (std::size_t i = 0; i < like.inputs.size(); ++i)
      if (like.inputs[i].node) {
        std::stable_sort(calls.begin(), calls.end(), [&](const Node* a, const Node* b) {
          const Node &x = *a->inputs[i].node, &y = *b->inputs[i].node;
          return x.launch != y.launch ? x.launch < y.launch : x.row < y.row;
        });
        break;
      }
    Launch& made = launches_.emplace_back();
    Calls together{
        *like.op, like.options.view(), {}, static_cast<std::int64_t>(calls.size()), like.site};
    bool any = false;
    for (std::size_t i = 0; i < like.inputs.size(); ++i) {
      together.inputs.push_back(gathered(calls, i));
      any |= together.inputs.back().batched;
    }
    if (!any) {  // one call for all of them
      SmallVector<Operand, 4> operands;
      for (const Input& each : together.inputs) operands.push_back(each.operand(like.site));
      reel::run(*like.op, {operands.data(), operands.size()}, like.options.view(), like.site,
                made.outputs);
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

  /// Input i of the calls.
  Input gathered(const std::vector<Node*>& calls, std::size_t i) {
    const Source& first = calls[0]->inputs[i];
    if (!first.node) {
      if (first.known.variable || first.known.scalar) return first.known;
      const auto same = [&](const Node* each) {
        return !each->inputs[i].node &&
               Access::body(each->inputs[i].known.tensor) == Access::body(first.known.tensor);
      };
      if (std::all_of(calls.begin(), calls.end(), same)) return first.known;
    }
    if (Tensor rows = rows_of_launches(calls, i); rows.defined())
      return {.tensor = std::move(rows), .batched = true};
    std::vector<Tensor> all;
    for (const Node* const each : calls) {
      const Source& source = each->inputs[i];
      all.push_back(source.node ? row_of(*source.node, source.output) : source.known.tensor);
    }
    return {.tensor = stack(Operands(all, calls[0]->site)), .batched = true};
  }
  /// From the outputs of launches, which may be several; undefined if some call has another input.
  Tensor rows_of_launches(const std::vector<Node*>& calls, std::size_t i) {
    struct Part {
      const Launch* launch;
      std::uint32_t output;
      std::vector<std::int64_t> rows;
    };
    std::vector<Part> parts;  // in the order of the calls
    for (const Node* const each : calls) {
      const Source& source = each->inputs[i];
      if (!source.node) return {};
      const Node& maker = *source.node;
      if (parts.empty() || parts.back().launch != maker.launch ||
          parts.back().output != source.output)
        parts.push_back({maker.launch, source.output, {}});
      parts.back().rows.push_back(maker.row);
    }
    if (parts.size() * 2 > calls.size() && parts.size() > 2) {  // mixed: sort, and put into order
      std::vector<std::size_t> order(calls.size());
      for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const Source &x = calls[a]->inputs[i], &y = calls[b]->inputs[i];
        return x.node->launch != y.node->launch ? x.node->launch < y.node->launch
                                                : x.output < y.output;
      });
      std::vector<Node*> sorted;
      for (const std::size_t k : order) sorted.push_back(calls[k]);
      std::vector<std::int64_t> back(order.size());
      for (std::size_t k = 0; k < order.size(); ++k) back[order[k]] = static_cast<std::int64_t>(k);
      std::vector<std::pair<const Launch*, std::uint32_t>> kinds;
      for (const Node* const each : sorted) {
        const std::pair kind(each->inputs[i].node->launch, each->inputs[i].output);
        if (kinds.empty() || kinds.back() != std::pair<const Launch*, std::uint32_t>(kind))
          kinds.push_back(kind);
      }
      if (kinds.size() < parts.size())
        return take(Operand(rows_of_launches(sorted, i), calls[0]->site), tensor(back));
    }
    std::vector<Tensor> found;
    for (const Part& part : parts) {
      const Tensor& all = part.launch->outputs[part.output];
      const std::int64_t first = part.rows.front(),
                         count = static_cast<std::int64_t>(part.rows.size());
      bool adjoins = true;
      for (std::int64_t k = 0; k < count && adjoins; ++k)
        adjoins = part.rows[static_cast<std::size_t>(k)] == first + k;
      if (adjoins && count == part.launch->rows)
        found.push_back(all);
      else if (adjoins)
        found.push_back(all(range(first, first + count)));
      else
        found.push_back(take(Operand(all, calls[0]->site), tensor(part.rows)));
    }
    return found.size() == 1 ? found[0] : concat(Operands(found, calls[0]->site), 0);
  }
  Tensor row_of(const Node& node, std::uint32_t output) const {
    return node.launch->outputs[output](node.row);
  }

  /// The elements that fibers wait for.
  void show_awaited() {
    for (Example& each : examples_)
      if (Node* const node = std::exchange(each.awaited, nullptr)) show(*node);
  }
  void show(Node& node) {
    if (!node.launch) return;
    for (std::uint32_t i = 0; i < node.outputs.size(); ++i) {
      Body& body = *Access::body(node.outputs[i]);
      if (stand_ins_.made(body)) StandIns::show(body, row_of(node, i));
    }
  }
  /// The results, and what else something holds.
  void show_kept() {
    for (Node& node : nodes_)
      for (const Tensor& each : node.outputs)
        if (references(*Access::body(each)) > 1) {
          show(node);
          break;
        }
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
  Caller caller_;
  Context& outer_;
  bool training_;
  DType autocast_;
  Device device_;
  std::uint64_t seed_;
  bool drew_ = false;
  StandIns stand_ins_;
  std::deque<Node> nodes_;
  std::deque<Queue> queues_;
  std::deque<Launch> launches_;
  std::unordered_multimap<std::uint64_t, Queue*> by_hash_;
  std::unordered_map<const Op*, BatchedOp> told_;
  std::unordered_map<const Body*, Variable> values_;  // of Variables, that f has read as tensors
  std::deque<Example> examples_;
};

void Example::run() try {
  Context& context = Context::here();
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
  if (op.updates)
    fail<Error>(caller, op.name, "Variable", "no update inside of batched()", "one",
                "Examples share their Variables. BatchNorm updates while it trains: use GroupNorm, "
                "or evaluate.");
  bool waits = false;
  for (const Operand& x : operands) {
    if (x.kind() == Operand::Kind::variable) waits = true;
    if (x.kind() > Operand::Kind::temporary) continue;
    const Body* const body = Access::body(x.tensor());
    if (body)
      waits |= batch.stand_ins_.made(*body) || body->id.reel || body->leaf != no_record ||
               batch.values_.count(body);
  }
  if (!waits) return false;  // it needs nothing that others make
  batch.add(op, operands, options, caller, outputs);
  return true;
}
bool Example::before(const GateCall& call) {
  if (call.op.updates)
    fail<Error>(call.site, call.op.name, "Variable", "no update inside of batched()", "one",
                "Examples share their Variables. BatchNorm updates while it trains: use GroupNorm, "
                "or evaluate.");
  for (int i = 0; i < call.input_count; ++i)
    if (call.inputs[i]) await(*const_cast<Body*>(call.inputs[i]));
  return true;
}
/// An op that takes the tensor takes the Variable, so that a tape around batched() sees it.
const Tensor* Example::variable_read(const Variable& variable, const Tensor& value) {
  batch.values_.emplace(Access::body(value), variable);
  return nullptr;
}
void Example::aliased(const Body& x, Body& made) {
  if (const auto known = batch.values_.find(&x); known != batch.values_.end())
    batch.values_.emplace(&made, known->second);
  if (!batch.stand_ins_.made(x)) return;
  await(const_cast<Body&>(x));
  StandIns::show(made, Access::share(const_cast<Body*>(&x)));
}
void Example::await(Body& body) {
  if (!batch.stand_ins_.made(body)) return;
  awaited = &batch.nodes_[StandIns::number_of(body)];
  Node& node = *awaited;
  fiber.wait();
  if (node.error) std::rethrow_exception(node.error);
}
}  // namespace
}  // namespace batch

void detail::run_batched(std::size_t examples, const Function<void(std::size_t)>& f,
                         BatchedOptions options, Caller caller) try {
  if (batch::is_running)
    fail<Error>(caller, "batched", "f", "no batched() inside of another", "one");
  if (options.stack < 4 * batch::least_stack)
    fail<Error>(caller, "batched", "options.stack", "at least 65536 bytes", to_text(options.stack));
  struct Running {
    Running() { batch::is_running = true; }
    ~Running() { batch::is_running = false; }
  } const running;
  batch::Batch(examples, f, options, caller).run();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "batched");
}

BatchingReport batching_report() { return batch::last_report.get(); }
std::string to_string(const BatchingReport& report) {
  std::string text = fmt::format("{} examples, {} rounds, {} calls, {} launches\n", report.examples,
                                 report.rounds, report.calls, report.launches);
  for (const BatchedOp& each : report.ops) {
    text += fmt::format("{:>24} {:>8} calls {:>6} launches", each.name, each.calls, each.launches);
    if (each.alone) text += fmt::format(" {:>6} one by one", each.alone);
    text += '\n';
  }
  return text;
}
}  // namespace reel
