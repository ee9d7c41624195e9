// SPDX-License-Identifier: BSD-3-Clause
// Training or evaluating: what Dropout asks.
#pragma once  // defined in lib/flow
#include <reel/caller.hpp>
#include <reel/export.hpp>

namespace reel {
/// Whether this thread trains (the default, for new threads too).
REEL_API bool training();
/// Sets it while it lives: `TrainScope evaluate(false);`. The innermost that lives counts: scopes
/// may end in any order. One that ends on another thread ends for the thread that made it, which
/// must not use reel at that moment.
class REEL_API TrainScope : detail::OpenScope {
 public:
  explicit TrainScope(bool training);
  ~TrainScope();
  TrainScope(const TrainScope&) = delete;
  TrainScope& operator=(const TrainScope&) = delete;

 private:
  bool training_;
};
}  // namespace reel
