// SPDX-License-Identifier: BSD-3-Clause
// The engine `local`: ranks are threads of one process.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "lib/dist/board.hpp"
#include "lib/table/engine.hpp"

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
  /// The ranks of one color of split() number `number`: each of them gets the same group.
  LocalGroup& part(std::int64_t number, std::int64_t color, int ranks);
  /// Where the ranks post their collectives.
  const std::shared_ptr<Board>& posts() const { return posts_; }
  /// From now on collectives fail with this text.
  void fail(std::string_view why);

  struct Table;

 private:
  Table* board_;
  std::shared_ptr<Board> posts_;
};
}  // namespace reel::dist
