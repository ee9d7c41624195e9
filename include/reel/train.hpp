// SPDX-License-Identifier: BSD-3-Clause
// Training or evaluating: the flag that Dropout reads.
#pragma once  // defined in lib/flow
#include <reel/caller.hpp>
#include <reel/export.hpp>

namespace reel {
/// Whether this thread trains. It is true at first, also in a new thread.
REEL_API bool training();
/// Sets training() for this thread while it lives: `TrainScope evaluating(false);`. Scopes may end
/// in any order; the innermost one alive counts. A scope may end on another thread, while the
/// thread that made it does not use reel; it then ends for the thread that made it.
class REEL_API TrainScope : detail::OpenScope {
 public:
  [[nodiscard]] explicit TrainScope(bool training);
  ~TrainScope();
  TrainScope(const TrainScope&) = delete;
  TrainScope& operator=(const TrainScope&) = delete;

 private:
  bool training_;
};
}  // namespace reel
