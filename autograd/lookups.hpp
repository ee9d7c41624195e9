// SPDX-License-Identifier: BSD-3-Clause
// Gradients of tables that lookup() reads: the gradients of its results are those of the rows.
#pragma once
#include <optional>
#include <vector>

#include "autograd/completion.hpp"
#include "lib/record/record.hpp"

namespace reel::detail {
class Lookups {
 public:
  /// Finds the records of lookup() between the target and the sources, and takes the places of the
  /// sources that they read out of `places`. Throws TapeError if another op reads one of these.
  void find(Reel& reel, std::uint64_t tape, std::uint32_t start, std::uint32_t target,
            const GradientSources& sources, SmallVector<SourceValue, 16>& places, Caller caller);
  /// Before playing, and after it: the gradients of the results.
  void request(Playback& playback) const;
  void take(Playback& playback, Context& context, ResultMarks& marks, Caller caller);
  /// Whether lookup() reads this source.
  bool has(std::size_t source) const;
  /// The gradient of a source: the sum of each row.
  RowGradient gradient(std::size_t source, const Variable& table) const;

  std::optional<BackwardEvents> events;  // of gradients(), which end with the last source

 private:
  struct Lookup {
    std::size_t source;
    std::uint32_t value;  // its result
    Tensor rows, dy;
  };
  std::vector<Lookup> all_;
};
}  // namespace reel::detail
