// SPDX-License-Identifier: BSD-3-Clause
// The lists of what save() and load() find in their arguments.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include <reel/io/state.hpp>

namespace reel::io::detail {
struct SavedVariable {
  std::string name;
  Variable variable;
  const char* role;  // for reports
};
struct SavedTensor {
  std::string name;
  Tensor* place;
  bool is_const = false;  // a load may not write to it
  bool in_model = false;  // and not an argument of its own
};
struct StateLists {
  std::vector<SavedVariable> variables;  // each once
  std::vector<std::pair<std::string, Generator>> generators;
  std::vector<SavedValue> values;
  std::vector<SavedTensor> tensors;
};
}  // namespace reel::io::detail
