// SPDX-License-Identifier: BSD-3-Clause
// Several ranks that save one run.
#pragma once  // defined in lib/io
#include <cstdint>
#include <vector>

#include <reel/error.hpp>

namespace reel::io::detail {
/// What Checkpoints ask of an argument that several ranks hold: a dist::DataParallel.
class REEL_API Ranks {
 public:
  /// Ranks that hold one part of a model; other ranks hold the other parts.
  struct Place {
    std::int64_t rank = 0, ranks = 1, part = 0, parts = 1;
    bool operator==(const Place&) const = default;
  };
  virtual Place place() const = 0;
  /// The least number of all parts. A rank of each part calls it.
  virtual std::int64_t least_of_parts(std::int64_t number, Caller caller) const = 0;
  /// The state of all ranks of this part, here, or on rank 0 only. All ranks call it.
  virtual void gather_state(bool everywhere, Caller caller) const = 0;
  virtual void release_state() const = 0;
  /// Throws DistError, on all ranks of this part, unless all have resumed from this step. -1: from
  /// none.
  virtual void check_resumed(std::int64_t step, Caller caller) const = 0;

 protected:
  ~Ranks() = default;
};
/// The Ranks among the arguments of a call; null for other arguments. Their state is gathered until
/// this object ends.
class REEL_API RankGroup {
 public:
  /// Throws Error if they differ in their places.
  RankGroup(std::initializer_list<const Ranks*> arguments, bool everywhere, Caller caller);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  const Ranks::Place& place() const { return place_; }
  std::int64_t least_of_parts(std::int64_t number) const;
  void check_resumed(std::int64_t step) const;

 private:
  std::vector<const Ranks*> ranks_;
  Ranks::Place place_;
  Caller caller_;
};
}  // namespace reel::io::detail
