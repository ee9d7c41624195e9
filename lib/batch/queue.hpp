// SPDX-License-Identifier: BSD-3-Clause
// Calls that wait for others of their kind.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include <reel/batched.hpp>

#include "lib/batch/rules.hpp"
#include "lib/body/access.hpp"
#include "lib/graph/graph.hpp"

namespace reel::batch {
/// What the last batched() of this thread did.
BatchingReport& last_report();

/// The outputs of calls that ran together, a row for each call.
struct Launch {
  SmallVector<Tensor, 2> outputs;
  SmallVector<std::size_t, 2> part;  // of each output: its number where it was last gathered
  std::size_t number = 0;
};

struct Node;
struct Queue;
/// What an input of a call is, unless all calls of its queue share it: the output of another call,
/// or a tensor.
struct Source {
  Node* node = nullptr;
  Launch* launch = nullptr;  // in which the other call has run, and its row
  Tensor known = {};
  Node* reader = nullptr;  // the call that has this input, and waits for `node`
  Source* next = nullptr;  // of the inputs that wait for `node`
  std::uint32_t row = 0, output = 0;
};
/// A call that waits, or has run as a row of a launch.
struct Node {
  Queue* queue = nullptr;
  Source* inputs = nullptr;   // as many as the queue has
  Tensor* outputs = nullptr;  // stand-ins, as many as the queue has
  Source* readers = nullptr;
  Launch* launch = nullptr;
  std::uint32_t row = 0;
  int waiting = 0;  // for so many inputs
  int depth = 0;
  std::uint32_t example = 0;
  Caller caller = {};
  std::exception_ptr error = {};
};
/// What tensors, or numbers, of calls that run together have in common.
struct Kind {
  bool is_number = false;
  DType dtype = DType::float32;
  Device device = {};
  Shape shape = {};
  std::uint64_t number = 0;  // its bits
  Kind* next = nullptr;      // of those whose hashes end with the same bits

  friend bool operator==(const Kind& a, const Kind& b) {
    return a.is_number == b.is_number && a.dtype == b.dtype && a.number == b.number &&
           a.device == b.device && a.shape == b.shape;
  }
};
/// Memory of block_bytes, which the thread may have kept from an earlier batch; and back.
inline constexpr std::size_t block_bytes = 32 << 10;
void* take_block();
void give_block(void* block);

/// Objects that stay at their places.
template <class T>
class Places {
 public:
  Places() = default;
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;
  ~Places() {
    for (Block& each : blocks_) {
      if (!are_empty_) std::destroy_n(each.first, each.used);
      if (each.size == size)
        give_block(each.first);
      else
        ::operator delete(each.first);
    }
  }
  /// So many, side by side.
  T* add(std::size_t count = 1) {
    if (blocks_.empty() || blocks_.back().used + count > blocks_.back().size) {
      blocks_.push_back({});
      Block& made = blocks_.back();
      made.size = std::max(count, size);
      made.first = static_cast<T*>(count > size ? ::operator new(count * sizeof(T)) : take_block());
    }
    Block& last = blocks_.back();
    T* const first = last.first + last.used;
    for (std::size_t i = 0; i < count; ++i) new (first + i) T();
    last.used += count;
    return first;
  }
  /// Of those that were added one by one.
  std::size_t count() const {
    return blocks_.empty() ? 0 : (blocks_.size() - 1) * size + blocks_.back().used;
  }
  T& operator[](std::size_t i) { return blocks_[i / size].first[i % size]; }
  /// No object has anything to destroy. Nothing is added from now on.
  void end() { are_empty_ = true; }

 private:
  static constexpr std::size_t size = block_bytes / sizeof(T);
  struct Block {
    T* first = nullptr;
    std::size_t used = 0, size = 0;
  };
  std::vector<Block> blocks_;
  bool are_empty_ = false;
};
/// Calls of one kind.
struct Queue {
  Op* op = nullptr;
  graph::KeptOptions options = {};
  SmallVector<const void*, 4> keys = {};   // of each input: its Kind, or the Cell of a Variable
  std::vector<Input> shared = {};          // Variables and numbers; empty for other inputs
  SmallVector<Tensor, 2> outputs = {};     // stand-ins, to copy
  SmallVector<const Kind*, 2> kinds = {};  // of the outputs
  BatchedOp* counts = nullptr;
  std::vector<Node*> ready = {};
  std::int64_t left = 0, depths = 0;  // calls that have not run, and the sum of their depths
  Queue* next = nullptr;              // of those whose hashes end with the same bits
  std::uint64_t hash = 0;

  std::span<Tensor> outputs_of(Node& node) const { return {node.outputs, outputs.size()}; }
  /// Whether input i is one Variable or number for all calls.
  bool is_shared(std::size_t i) const { return shared[i].variable || shared[i].scalar; }
};
}  // namespace reel::batch
