// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints: save the state of a run regularly, and resume the run after a stop.
#pragma once  // defined in lib/io
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <reel/io/ranks.hpp>
#include <reel/io/save.hpp>

namespace reel::io {
/// A number of steps, and the line of the call.
struct StepAt {
  std::int64_t step;
  Caller caller;
  template <class N>
  requires(std::is_integral_v<N> && !std::is_same_v<N, bool>)
      StepAt(N count, Caller at = Caller::here())
      : step(static_cast<std::int64_t>(count)), caller(at) {}
};
/// A variable for a number of steps.
struct StepInto {
  detail::SavedValue value;
  Caller caller;
  template <class N>
  requires(std::is_integral_v<N> && !std::is_same_v<N, bool> && !std::is_const_v<N>)
      StepInto(N& step, Caller at = Caller::here())
      : value(detail::saved_value("checkpoint.step", step)), caller(at) {}
};

/// Options of Checkpoints.
struct CheckpointOptions {
  std::int64_t keep = 3;   // how many of the latest files are kept; older ones are removed
  std::int64_t every = 1;  // steps between two checkpoints
};
namespace detail {
template <class Part>
const Ranks* ranks_of(const Part& part) {
  if constexpr (std::is_base_of_v<Ranks, Part>)
    return &part;
  else
    return nullptr;
}
}  // namespace detail

/// Checkpoints in a folder. Each one is a file such as "step-000000001000.safetensors". If a
/// process is killed while it saves, the earlier checkpoints are intact, and no incomplete one
/// exists.
///
///     io::Checkpoints checkpoints("run", {.keep = 3, .every = 1000});
///     std::int64_t step = 0;
///     checkpoints.resume(step, model, adam, generator);
///     while (step < 100'000) {
///       train(model, adam, generator);
///       checkpoints.save(++step, model, adam, generator);
///     }
class REEL_API Checkpoints {
 public:
  /// Creates the folder if it does not exist. Throws Error unless `keep` and `every` are at
  /// least 1.
  explicit Checkpoints(const Path& folder, CheckpointOptions options = {},
                       Caller caller = Caller::here());
  /// If `every` divides the step, saves the parts, as io::save() does, and returns true. Throws
  /// Error if the folder has a later step: call resume() first, or use another folder. If an
  /// argument is a dist::DataParallel, rank 0 writes, and other ranks write nothing; all ranks call
  /// it. With .shard_optimizer, rank 0 has the state of all ranks until it is written. Along an
  /// axis of a dist::Mesh, rank 0 of each part of the model writes a file, such as
  /// "step-000000001000.part-1-of-2.safetensors". Parts of Variables without a DataParallel are an
  /// Error.
  template <class... Parts>
  bool save(StepAt step, const Parts&... parts) const try {
    if (step.step % options_.every != 0) return false;
    const detail::RankGroup ranks({detail::ranks_of(parts)...}, false, step.caller);
    if (ranks.place().rank == 0) save_state(step, detail::state_of(step.caller, parts...), ranks);
    return true;
  } catch (const std::bad_alloc&) {
    fail_memory(step.caller, "Checkpoints");
  }
  /// Loads the latest checkpoint, as io::load() does, and its step. If there is none, it changes
  /// nothing and returns false. Throws IoError if the file has an optimizer, a generator or a
  /// number that the call does not have, because the run would continue without it. With
  /// `{.strict = false}` it loads what fits. If an argument is a dist::DataParallel, all ranks read
  /// the file, and DistError is thrown on all of them if their steps differ. Along an axis of a
  /// dist::Mesh, each rank reads the file of its part, of the latest step that all parts have;
  /// files of another number of parts are an Error.
  template <class... Parts>
  bool resume(StepInto step, const LoadOptions& options, Parts&&... parts) const try {
    const detail::RankGroup ranks({detail::ranks_of(parts)...}, true, step.caller);
    return load_state(step, options, detail::state_of(step.caller, parts...), ranks);
  } catch (const std::bad_alloc&) {
    fail_memory(step.caller, "Checkpoints");
  }
  template <class... Parts>
  requires(!std::is_same_v<std::remove_cvref_t<Parts>, LoadOptions> &&
           ...) bool resume(StepInto step, Parts&&... parts) const {
    return resume(std::move(step), LoadOptions(), parts...);
  }
  /// The path of the latest checkpoint, with parts of models that of the first part; empty if there
  /// is none.
  Path latest(Caller caller = Caller::here()) const;

 private:
  void save_state(StepAt step, detail::State state, const detail::RankGroup& ranks) const;
  bool load_state(const StepInto& step, const LoadOptions& options, detail::State state,
                  const detail::RankGroup& ranks) const;
  Path folder_;  // with a slash at its end
  CheckpointOptions options_;
};
}  // namespace reel::io
