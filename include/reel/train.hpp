// SPDX-License-Identifier: BSD-3-Clause
// Training or evaluating: what Dropout asks.
#pragma once
#include <reel/export.hpp>

namespace reel {
/// Whether this thread trains (the default, for new threads too).
REEL_API bool training();
/// Sets it while it lives: `TrainScope evaluate(false);`.
class REEL_API TrainScope {
 public:
  explicit TrainScope(bool training);
  ~TrainScope();
  TrainScope(const TrainScope&) = delete;
  TrainScope& operator=(const TrainScope&) = delete;

 private:
  bool before_;
};
}  // namespace reel
