// SPDX-License-Identifier: BSD-3-Clause
// The engine `local`: ranks are threads of one process.
#pragma once
#include <string_view>

#include "lib/dist/engine.hpp"

namespace reel::dist {
/// The ranks of one run_local().
class LocalGroup {
 public:
  explicit LocalGroup(int ranks);
  ~LocalGroup();
  LocalGroup(const LocalGroup&) = delete;
  LocalGroup& operator=(const LocalGroup&) = delete;
  /// The engine of a rank.
  EngineTable engine(int rank);
  /// From now on collectives fail with this text.
  void fail(std::string_view why);

  struct Board;

 private:
  Board* board_;
};
}  // namespace reel::dist
