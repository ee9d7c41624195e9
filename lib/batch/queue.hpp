// SPDX-License-Identifier: BSD-3-Clause
// Calls that wait for others of their kind.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
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
  std::int64_t rows = 0;
  std::size_t number = 0;
};

struct Node;
/// What an input of a call is, unless all calls of its queue share it: the output of another call,
/// or a tensor.
struct Source {
  Node* node = nullptr;
  std::uint32_t output = 0;
  Tensor known = {};
};
struct Queue;
/// A call that waits, or has run as a row of a launch.
struct Node {
  Queue* queue = nullptr;
  SmallVector<Source, 4> inputs = {};
  SmallVector<Tensor, 2> outputs = {};  // stand-ins
  SmallVector<Node*, 2> readers = {};
  Launch* launch = nullptr;
  std::int64_t row = 0;
  int waiting = 0;  // for so many inputs
  int depth = 0;
  Caller site = {};
  std::size_t example = 0;
  std::exception_ptr error = {};
};
/// An input as far as it decides which calls run together.
struct Kind {
  const Cell* variable = nullptr;
  bool is_number = false;
  DType dtype = DType::float32;
  Device device = {};
  Shape shape = {};
  Scalar number = 0;
};
/// Calls of one kind.
struct Queue {
  Op* op = nullptr;
  graph::KeptOptions options = {};
  SmallVector<Kind, 4> kinds = {};
  std::vector<Input> shared = {};  // Variables and numbers; empty for other inputs
  SmallVector<Kind, 2> outputs = {};
  BatchedOp* told = nullptr;
  std::vector<Node*> ready = {};
  std::int64_t left = 0, depths = 0;  // calls that have not run, and the sum of their depths
  Queue* next = nullptr;              // of the same hash
};

/// Whether an operand, perhaps the value of a Variable, has this kind.
inline bool fits(const Kind& kind, const Operand& x, const Cell* cell) {
  if (cell) return kind.variable == cell;
  if (x.kind() == Operand::Kind::scalar) {
    const Scalar& number = x.scalar();
    if (!kind.is_number || kind.number.dtype() != number.dtype()) return false;
    return is_floating(number.dtype()) ? std::bit_cast<std::uint64_t>(kind.number.real()) ==
                                             std::bit_cast<std::uint64_t>(number.real())
                                       : kind.number.integer() == number.integer();
  }
  if (kind.variable || kind.is_number) return false;
  const Body& body = *Access::body(x.tensor());
  return body.dtype == kind.dtype && body.shape == kind.shape && body.device() == kind.device;
}
inline void set(Kind& kind, const Body& body) {
  kind.dtype = body.dtype;
  kind.device = body.device();
  kind.shape = body.shape;
}

}  // namespace reel::batch
