// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints of a run: saved again and again, resumed after a stop.
#pragma once  // defined in lib/io
#include <cstdint>
#include <string>
#include <type_traits>

#include <reel/io/save.hpp>

namespace reel::io {
/// A count of steps, and the line that names it.
struct StepAt {
  std::int64_t step;
  Caller caller;
  template <class I>
  requires(std::is_integral_v<I> && !std::is_same_v<I, bool>)
      StepAt(I count, Caller at = Caller::here())
      : step(static_cast<std::int64_t>(count)), caller(at) {}
};
/// A variable for a count of steps.
struct StepInto {
  detail::SavedValue value;
  Caller caller;
  template <class I>
  requires(std::is_integral_v<I> && !std::is_same_v<I, bool> && !std::is_const_v<I>)
      StepInto(I& step, Caller at = Caller::here())
      : value(detail::saved_value("checkpoint.step", step)), caller(at) {}
};

/// Options of Checkpoints.
struct CheckpointOptions {
  std::int64_t keep = 3;   // the latest; older ones are removed
  std::int64_t every = 1;  // steps between two
};
/// Checkpoints in a folder, "step-000000001000.safetensors". Each is one file, which is there as a
/// whole or not at all: a process that is killed at any moment leaves the checkpoints before.
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
  /// Makes the folder where it is not there. Throws Error unless keep and every are 1 or more.
  explicit Checkpoints(const Path& folder, CheckpointOptions options = {},
                       Caller caller = Caller::here());
  /// Saves the parts, as io::save() does, if `every` divides the step. Returns whether it did.
  /// Throws Error if the folder has a later step: that is another run, or one to resume.
  template <class... Parts>
  bool save(StepAt step, const Parts&... parts) const try {
    if (step.step % options_.every != 0) return false;
    save_state(step, detail::state_of(step.caller, parts...));
    return true;
  } catch (const std::bad_alloc&) {
    fail_memory(step.caller, "Checkpoints");
  }
  /// Loads the latest checkpoint, as io::load() does, and its step. Returns false, and changes
  /// nothing, where there is none.
  template <class... Parts>
  bool resume(StepInto step, Parts&&... parts) const try {
    return load_state(step, detail::state_of(step.caller, parts...));
  } catch (const std::bad_alloc&) {
    fail_memory(step.caller, "Checkpoints");
  }
  /// The path of the latest checkpoint; empty where there is none.
  Path latest(Caller caller = Caller::here()) const;

 private:
  void save_state(StepAt step, detail::State state) const;
  bool load_state(const StepInto& step, detail::State state) const;
  Path folder_;  // with a slash at its end
  CheckpointOptions options_;
};
}  // namespace reel::io
