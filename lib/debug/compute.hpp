// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <map>
#include <set>
#include <utility>

#include "lib/debug/recorder.hpp"

namespace reel::debugger {
/// Computes values of a step again, beside the program.
class Again {
 public:
  explicit Again(const Step& step) : step_(step) {}
  /// Throws Mistake.
  Ref of(int node, int output);
  Ref of(const Input& input);
  /// Computes an output from the inputs of its op, although the output is kept.
  Ref anew(int node, int output);
  /// Computes what follows with another value. Returns the number of ops.
  int change(int node, int output, Ref value);
  const std::set<int>& changed() const { return changed_; }

 private:
  Ref operand(const Input& input);
  Ref known(int node, int output) const;
  void compute(int node);
  const Step& step_;
  std::map<std::pair<int, int>, Ref> values_;
  std::set<int> changed_;
};
}  // namespace reel::debugger
