// SPDX-License-Identifier: BSD-3-Clause
// What the shape rule of a step gives for the layouts of its inputs. Nothing is computed.
#pragma once
#include <string>
#include <vector>

#include "lib/body/access.hpp"
#include "lib/graph/graph.hpp"
#include "lib/memory/blocks.hpp"

namespace reel::graph {
class Inferred {
 public:
  /// Runs the rule of the step's op, which must have one, over these values. Throws the Error of
  /// the rule. Where options must be `checked` and do not fit, wanted() says so, and no rule runs.
  Inferred(const Step& step, const std::vector<Value>& values, ThreadMemory& memory,
           bool checked = false);
  /// What was expected of the options, where they do not fit; null if they do.
  const char* wanted() const { return wanted_; }
  /// What differs from the values of the step's outputs in dtype or shape; empty if nothing does:
  /// "%3 is float32(2,), and by the rule of its op float64(2,)".
  std::string difference(const std::vector<Value>& values) const;
  /// Whether some output has memory of its own.
  bool computes() const { return computes_; }
  std::size_t output_count() const { return outputs_.size(); }
  const Body& output(std::size_t i) const { return *Access::body(outputs_[i]); }
  /// Whether output i is a view of input 0.
  bool is_view(std::size_t i) const { return output(i).owner != &headers_.back(); }
  /// Where a view begins in its input, in bytes.
  std::int64_t offset(std::size_t i) const { return output(i).data - inputs_[0]->data; }

 private:
  const Step& step_;
  std::vector<Body> headers_;
  std::vector<Body*> inputs_;
  SmallVector<Tensor, 2> outputs_;  // over the headers
  bool computes_ = false;
  const char* wanted_ = nullptr;
};
/// Whether the shape rule of the step's op says what its outputs are.
inline bool has_rule(const Step& step) {
  return step.op && step.op->shape && step.part == Part::value && !step.loop && !step.user_code &&
         step.updated.empty() && step.op != &gradient_op;
}
}  // namespace reel::graph
