// SPDX-License-Identifier: BSD-3-Clause
// Gradients of gradients where the outer tape was made after the inner tape has recorded.
#pragma once
#include <vector>

#include "lib/flow/context.hpp"

namespace reel {
/// The part of a second derivative that is lost: the outer tape has no record of the ops that the
/// inner tape plays backward, and these ops depend on a value that the outer tape watches.
class LateTapes {
 public:
  /// Looks for such values before the records from `start` to `target` are played. Only tapes made
  /// after `start` can lose a part.
  [[gnu::cold]] void find(Context& context, std::uint64_t inner, std::uint32_t start,
                          std::uint32_t target);
  /// Puts a record on each gradient, which refuses the gradients of the outer tape that lose a
  /// part.
  void mark(Context& context, Tensor* gradients, std::size_t count, Caller caller) const;

 private:
  struct Lost {
    Tensor value;
    const Cell* cell;  // null for a tensor; it may be gone
    std::uint32_t cell_id;
    std::uint64_t tape;
  };
  std::vector<Lost> lost_;
};
}  // namespace reel
