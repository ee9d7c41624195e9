// SPDX-License-Identifier: BSD-3-Clause
// Which calls wait, and in which order they run together.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "lib/batch/batch.hpp"
#include "lib/batch/queue.hpp"

namespace reel::batch {
/// The calls of a batch.
class Agenda {
 public:
  explicit Agenda(Context& outer) : outer_(outer) {}
  /// Puts a call into its queue.
  void add(std::uint32_t example, Op& op, std::span<const Operand> operands, OptionsView options,
           Caller caller, SmallVector<Tensor, 2>& outputs);
  /// Runs the calls that wait.
  void run();
  /// Whether a call with this tensor waits for others, or for a tape.
  bool concerns(const Body& body) const {
    return stand_ins_.made(body) || body.id.reel || body.leaf != no_record || values_.count(&body);
  }
  /// The call whose result the tensor is, if the tensor has no elements yet; else null.
  Node* node_of(const Body& body) {
    return stand_ins_.made(body) ? &nodes_[StandIns::number_of(body)] : nullptr;
  }
  /// Gives the outputs of a call their elements.
  void show(Node& node);
  /// A fiber waits or has ended: lets go of outputs that only the calls since `first` hold.
  void let_go(std::size_t first);
  std::size_t calls() const { return nodes_.count(); }
  /// The results, and what else something holds.
  void show_kept();
  /// All calls have run, and what something holds is shown.
  void end();
  /// f reads a Variable as a tensor.
  const Tensor& read(const Variable& variable, const Tensor& value) {
    Value*& known = values_[Access::body(value)];
    return (known ? *known : *(known = &read_.emplace_back(variable, value))).held;
  }
  /// `made` is another name for the elements of `x`.
  void alias(const Body& x, Body& made);
  /// The first error of each example's calls, where it has none.
  void find_errors(const std::function<std::exception_ptr&(std::size_t)>& error_of);
  void report(BatchingReport& report);

 private:
  /// The value of a Variable, held so that its address stays its own.
  struct Value {
    Value(const Variable& of, const Tensor& value) : variable(of), held(value) {}
    Variable variable;
    Tensor held;
  };
  /// What an operand is for the choice of a queue.
  struct Key {
    const void* kind = nullptr;  // see Queue::keys
    Node* maker = nullptr;       // the call whose result it is
  };
  using Keys = SmallVector<Key, 4>;
  Key key_of(const Operand& x);
  const Kind* kind_of(const Kind& like);
  const Kind* kind_of(const Body& body);
  Queue& new_queue(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
                   const Keys& keys);
  void fill(Node& node, std::span<const Operand> operands, const Keys& keys);
  void end(Node& node);
  void make_ready(Node& node);
  Queue* next_queue();
  void launch(Queue& queue, std::vector<Node*>& calls);
  void show(Body& header, const Tensor& found);
  void launch_all(Queue& queue, std::vector<Node*>& calls);

  Context& outer_;
  StandIns stand_ins_;
  Places<Node> nodes_;
  Places<Source> sources_;
  Places<Tensor> outputs_;
  std::vector<Node*> kept_;  // calls with outputs that something held when their fiber waited
  bool failed_ = false;      // some call
  std::deque<Queue> queues_;
  std::vector<Queue*> ready_;  // those with ready calls
  std::deque<Launch> launches_;
  std::deque<Kind> kinds_;
  // The first of those whose hashes end with these bits.
  std::array<Queue*, 256> by_hash_ = {};
  std::array<Kind*, 64> kinds_by_hash_ = {};
  std::unordered_map<const Op*, BatchedOp> counts_;
  std::deque<Value> read_;                          // by f, as tensors, in this order
  std::unordered_map<const Body*, Value*> values_;  // by their bodies
};
}  // namespace reel::batch
