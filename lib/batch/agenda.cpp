// SPDX-License-Identifier: BSD-3-Clause
#include "lib/batch/agenda.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include <reel/ops.hpp>

#include "lib/batch/gather.hpp"
#include "lib/gate/gate.hpp"
#include "lib/pool/process.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/join.hpp"

namespace reel::batch {
namespace {
std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}
/// Whether options are the same, in few instructions where many calls have them.
bool are_equal(const OptionsView& a, const OptionsView& b) {
  if (a.type != b.type) return false;
  if (!a.type) return true;
  if (a.type == &options_type<AxisOptions>)
    return static_cast<const AxisOptions*>(a.data)->axis ==
           static_cast<const AxisOptions*>(b.data)->axis;
  if (a.type != &options_type<SliceOptions>) return equal_options(*a.type, a.data, b.data);
  const auto &x = *static_cast<const SliceOptions*>(a.data),
             &y = *static_cast<const SliceOptions*>(b.data);
  return x.starts == y.starts && x.lengths == y.lengths && x.steps == y.steps &&
         x.dropped == y.dropped && x.added == y.added;
}
Shape with_row(const Shape& shape) {
  SmallVector<std::int64_t, Shape::max_rank> lengths;
  lengths.push_back(1);
  for (const std::int64_t length : shape) lengths.push_back(length);
  return Shape(std::span<const std::int64_t>(lengths.data(), lengths.size()));
}

/// A call that failed has no elements: NaN, or zeros, in case something holds its results.
void clear(Node& node) {
  for (const Tensor& each : node.queue->outputs_of(node))
    if (each.defined()) StandIns::clear(*Access::body(each));
}

/// Blocks of batches that have ended.
struct SpareBlocks {
  std::vector<void*> all;
  ~SpareBlocks() {
    for (void* const each : all) ::operator delete(each);
  }
};
constinit thread_local OfThread<SpareBlocks> spare_blocks;
}  // namespace

void* take_block() {
  std::vector<void*>& spare = spare_blocks.get().all;
  spare.reserve(256);  // give_block() throws nothing
  if (spare.empty()) return ::operator new(block_bytes);
  void* const last = spare.back();
  spare.pop_back();
  return last;
}
void give_block(void* block) {
  std::vector<void*>& spare = spare_blocks.get().all;
  if (spare.size() < 256)
    spare.push_back(block);
  else
    ::operator delete(block);
}

const Kind* Agenda::kind_of(const Kind& like) {
  std::uint64_t hash = mixed(like.number, static_cast<std::uint64_t>(like.dtype) + 256 +
                                              like.shape.rank() * 16 + like.is_number);
  for (const std::int64_t length : like.shape)
    hash = mixed(hash, static_cast<std::uint64_t>(length));
  Kind*& first = kinds_by_hash_[(hash >> 20) % kinds_by_hash_.size()];
  for (Kind* each = first; each; each = each->next)
    if (*each == like) return each;
  Kind& made = kinds_.emplace_back(like);
  made.next = first;
  return first = &made;
}
const Kind* Agenda::kind_of(const Body& body) {
  return kind_of(Kind{.dtype = body.dtype, .device = body.device(), .shape = body.shape});
}
Agenda::Key Agenda::key_of(const Operand& x) {
  if (x.kind() == Operand::Kind::variable) return {&Access::cell(x.variable())};
  if (x.kind() == Operand::Kind::scalar) {
    const Scalar& number = x.scalar();
    const auto bits = is_floating(number.dtype()) ? std::bit_cast<std::uint64_t>(number.real())
                                                  : static_cast<std::uint64_t>(number.integer());
    return {kind_of(Kind{.is_number = true, .dtype = number.dtype(), .number = bits})};
  }
  const Body& body = *Access::body(x.tensor());
  if (!values_.empty())
    if (const auto value = values_.find(&body); value != values_.end())
      return {&Access::cell(value->second->variable)};
  Node* const maker = node_of(body);
  return {maker ? maker->queue->kinds[StandIns::output_of(body)] : kind_of(body), maker};
}

void Agenda::add(std::uint32_t example, Op& op, std::span<const Operand> operands,
                 OptionsView options, Caller caller, SmallVector<Tensor, 2>& outputs) {
  Keys keys(operands.size());
  std::uint64_t hash = mixed(reinterpret_cast<std::uintptr_t>(&op), 0);
  if (options.type == &options_type<SliceOptions>)
    for (const std::int64_t start : static_cast<const SliceOptions*>(options.data)->starts)
      hash = mixed(hash, static_cast<std::uint64_t>(start));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    keys[i] = key_of(operands[i]);
    hash = mixed(hash, reinterpret_cast<std::uintptr_t>(keys[i].kind));
  }
  const auto is_of = [&](const Queue& queue) {
    if (queue.hash != hash || queue.op != &op || queue.keys.size() != keys.size()) return false;
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (queue.keys[i] != keys[i].kind) return false;
    return are_equal(queue.options.view(), options);
  };
  Queue*& first = by_hash_[(hash >> 20) % by_hash_.size()];
  Queue* queue = first;
  while (queue && !is_of(*queue)) queue = queue->next;
  if (!queue) {
    queue = &new_queue(op, operands, options, caller, keys);
    queue->hash = hash;
    queue->next = std::exchange(first, queue);
  }
  const auto number = static_cast<std::uint32_t>(nodes_.count());
  Node& node = *nodes_.add();
  node.queue = queue;
  node.caller = caller;
  node.example = example;
  node.outputs = outputs_.add(queue->outputs.size());
  for (std::uint32_t i = 0; i < queue->outputs.size(); ++i) {
    node.outputs[i] = stand_ins_.copy(queue->outputs[i], number, i);
    outputs.push_back(node.outputs[i]);
  }
  fill(node, operands, keys);
  ++queue->left;
  queue->depths += node.depth;
  ++queue->counts->calls;
  if (!node.waiting) make_ready(node);
}
/// The inputs of a call.
void Agenda::fill(Node& node, std::span<const Operand> operands, const Keys& keys) {
  node.inputs = sources_.add(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& x = operands[i];
    if (node.queue->is_shared(i)) continue;
    Source& source = node.inputs[i];
    Node* const maker = keys[i].maker;
    if (!maker) {
      source.known = x.tensor();
      continue;
    }
    const Body& body = *Access::body(x.tensor());
    source.node = maker;
    source.output = StandIns::output_of(body);
    node.depth = std::max(node.depth, maker->depth + 1);
    if (maker->error) {
      if (!node.error) node.error = maker->error;
    } else if (maker->launch) {
      source.launch = maker->launch;
      source.row = maker->row;
    } else {
      source.reader = &node;
      source.next = std::exchange(maker->readers, &source);
      ++node.waiting;
    }
    // A temporary that ends with this call. Nothing will ask for its elements.
    if (x.kind() == Operand::Kind::temporary && references(body) == 2)
      maker->outputs[source.output] = Tensor();
  }
}
Queue& Agenda::new_queue(Op& op, std::span<const Operand> operands, OptionsView options,
                         Caller caller, const Keys& keys) {
  SmallVector<Tensor, 2> outputs;
  stand_ins_.infer(op, operands, options, caller, 0, outputs);
  Queue& made = queues_.emplace_back();
  for (const Tensor& each : outputs) {
    made.outputs.push_back(each);
    made.kinds.push_back(kind_of(*Access::body(each)));
  }
  made.op = &op;
  made.options = graph::KeptOptions(options);
  made.counts = &counts_[&op];
  made.shared.resize(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& x = operands[i];
    made.keys.push_back(keys[i].kind);
    Input& shared = made.shared[i];
    if (x.kind() == Operand::Kind::scalar)
      shared.scalar = x.scalar();
    else if (x.kind() == Operand::Kind::variable)
      shared.variable = x.variable();
    else if (const auto value = values_.find(Access::body(x.tensor())); value != values_.end())
      shared.variable = value->second->variable;
  }
  return made;
}

void Agenda::make_ready(Node& node) {
  if (node.queue->ready.empty()) ready_.push_back(node.queue);
  node.queue->ready.push_back(&node);
}
/// The queue of which the largest part of the calls that have not run are ready; of several, that
/// whose calls have the smallest mean depth.
Queue* Agenda::next_queue() {
  const auto number = [](auto count) { return static_cast<double>(count); };
  const auto comes_before = [&](const Queue& a, const Queue& b) {
    const double x = number(a.ready.size()) * number(b.left),
                 y = number(b.ready.size()) * number(a.left);
    return x != y ? x > y : number(a.depths) * number(b.left) < number(b.depths) * number(a.left);
  };
  Queue* best = nullptr;
  for (Queue* const each : ready_)
    if (!best || comes_before(*each, *best)) best = each;
  return best;
}
void Agenda::run() {
  while (Queue* const queue = next_queue()) {
    std::erase(ready_, queue);
    std::vector<Node*> calls = std::exchange(queue->ready, {});
    launch(*queue, calls);
    // Calls lie far apart in memory.
    const std::size_t count = calls.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (i + 4 < count) __builtin_prefetch(calls[i + 4]->readers, 1);
      if (const Source* const read = i + 2 < count ? calls[i + 2]->readers : nullptr)
        __builtin_prefetch(read->reader, 1);
      end(*calls[i]);
    }
  }
}
/// The call has run, or failed.
void Agenda::end(Node& node) {
  Queue& queue = *node.queue;
  --queue.left;
  queue.depths -= node.depth;
  failed_ |= node.error != nullptr;
  for (Source* read = std::exchange(node.readers, nullptr); read; read = read->next) {
    Node& reader = *read->reader;
    read->launch = node.launch;
    read->row = node.row;
    if (node.error && !reader.error) reader.error = node.error;
    if (!--reader.waiting) make_ready(reader);
  }
  for (std::size_t i = 0; i < queue.keys.size(); ++i) node.inputs[i].known = Tensor();
  for (Tensor& output : queue.outputs_of(node))  // nothing else can ask for it
    if (output.defined() && references(*Access::body(output)) == 1) output = Tensor();
}

void Agenda::launch(Queue& queue, std::vector<Node*>& calls) {
  std::vector<Node*> some;  // if others cannot run, as their inputs have failed
  if (failed_)
    std::copy_if(calls.begin(), calls.end(), std::back_inserter(some),
                 [](const Node* each) { return !each->error; });
  std::vector<Node*>& good = failed_ ? some : calls;
  if (good.empty()) return;
  const auto launch_one = [&](Node* node) {  // an error names its example
    std::int64_t& example = Context::here().example;
    const std::int64_t before = std::exchange(example, static_cast<std::int64_t>(node->example));
    try {
      std::vector<Node*> one{node};
      launch_all(queue, one);
    } catch (...) {
      node->error = std::current_exception();
    }
    example = before;
  };
  if (good.size() == 1) return launch_one(good[0]);
  try {
    launch_all(queue, good);
  } catch (...) {
    for (Node* const each : good) launch_one(each);  // the error belongs to one of them
  }
}
void Agenda::launch_all(Queue& queue, std::vector<Node*>& calls) {
  const Node& like = *calls.front();
  const std::size_t count = queue.keys.size();
  const OptionsView options = queue.options.view();
  // Rows of the launch that made an input, in their order, need no copy.
  for (std::size_t i = 0; i < count; ++i)
    if (like.inputs[i].node) {
      const auto place = [&](const Node* each) {
        const Source& source = each->inputs[i];
        return source.node ? std::pair(source.launch->number, source.row)
                           : std::pair<std::size_t, std::uint32_t>();
      };
      const auto in_order = [&](const Node* a, const Node* b) { return place(a) < place(b); };
      if (!std::is_sorted(calls.begin(), calls.end(), in_order))
        std::stable_sort(calls.begin(), calls.end(), in_order);
      break;
    }
  Launch& made = launches_.emplace_back();
  made.number = launches_.size();
  Calls together{*queue.op, options, {}, static_cast<std::int64_t>(calls.size()), like.caller};
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    together.inputs.push_back(gathered(queue, calls, i, !outer_.interceptors));
    any |= together.inputs.back().batched;
  }
  if (!any) {  // one call for all of them
    SmallVector<Operand, 4> operands;
    for (const Input& each : together.inputs) operands.push_back(each.operand(like.caller));
    reel::run(*queue.op, {operands.data(), operands.size()}, options, like.caller, made.outputs);
    for (Tensor& each : made.outputs) each = each.reshape(with_row(each.shape()));
  } else {
    if (!run_together(together, made.outputs)) {
      queue.counts->alone += together.count;
      --queue.counts->launches;
    }
  }
  ++queue.counts->launches;
  made.part.resize(made.outputs.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i]->launch = &made;
    calls[i]->row = any ? static_cast<std::uint32_t>(i) : 0;
  }
}
void Agenda::let_go(std::size_t first) {
  for (std::size_t i = first; i < nodes_.count(); ++i) {
    Node& node = nodes_[i];
    bool any = false;
    for (Tensor& each : node.queue->outputs_of(node)) {
      if (each.defined() && references(*Access::body(each)) == 1) each = Tensor();
      any |= each.defined();
    }
    if (any) kept_.push_back(&node);
  }
}
void Agenda::show(Node& node) {
  if (!node.launch) return clear(node);
  for (std::uint32_t i = 0; i < node.queue->outputs.size(); ++i) {
    Body* const body = Access::body(node.outputs[i]);
    if (body && stand_ins_.made(*body)) show(*body, row_of(node, i));
  }
}
/// Shows `found` in a header. A trace around batched() learns that the two are one value.
void Agenda::show(Body& header, const Tensor& found) {
  StandIns::show(header, found);
  for (Interceptor* each = outer_.interceptors; each; each = each->next)
    each->aliased(*Access::body(found), header);
}
/// The results, and what else something holds.
void Agenda::show_kept() {
  for (Node* const node : kept_)
    for (const Tensor& each : node->queue->outputs_of(*node))
      if (each.defined() && references(*Access::body(each)) > 1) {
        show(*node);
        break;
      }
  // What f returns of a Variable is read on this flow, where tapes see it.
  for (const Value& value : read_)
    if (Body* const body = Access::body(value.held);
        outer_.mode & recording && references(*body) > 1 &&
        body != Access::body(Access::cell(value.variable).value))
      show(*body, value.variable.value());
}
void Agenda::end() {
  if (failed_) return;
  for (Node* const node : kept_)
    for (Tensor& each : node->queue->outputs_of(*node)) each = Tensor();
  nodes_.end();
  sources_.end();
  outputs_.end();
}
void Agenda::find_errors(const std::function<std::exception_ptr&(std::size_t)>& error_of) {
  for (std::size_t i = 0; failed_ && i < nodes_.count(); ++i) {
    const Node& node = nodes_[i];
    if (!node.error) continue;
    if (std::exception_ptr& error = error_of(node.example); !error) error = node.error;
  }
}
void Agenda::report(BatchingReport& report) {
  for (auto& [op, counts] : counts_) {
    counts.name = std::string(op->name);
    report.calls += counts.calls;
    report.launches += counts.launches;
    report.ops.push_back(counts);
  }
  std::sort(report.ops.begin(), report.ops.end(), [](const BatchedOp& a, const BatchedOp& b) {
    return a.calls != b.calls ? a.calls > b.calls : a.name < b.name;
  });
}

void Agenda::alias(const Body& x, Body& made) {
  if (const auto known = values_.find(&x); known != values_.end())
    read(known->second->variable, Access::share(&made));
}
}  // namespace reel::batch
