// SPDX-License-Identifier: BSD-3-Clause
// Completes the gradient of each source before the backward pass ends.
#pragma once
#include <utility>
#include <vector>

#include "autograd/late_tapes.hpp"
#include "autograd/playback.hpp"
#include "lib/flow/observer.hpp"

namespace reel {
/// A source's place on the reel; a Variable that was assigned between its reads has several.
struct SourceValue {
  std::uint32_t value;
  std::size_t source;
  bool is_played;  // its record is, so its gradient is still needed
};

/// Tells observers that a backward pass begins, and that it has ended, even by an exception.
class BackwardEvents {
 public:
  BackwardEvents(Context& context, const Body& target)
      : context_(context), observed_(context.mode & observed) {
    if (observed_) tell_backward_begin(context, target);
  }
  ~BackwardEvents() {
    if (observed_) tell_backward_end(context_, false);
  }
  BackwardEvents(const BackwardEvents&) = delete;
  BackwardEvents& operator=(const BackwardEvents&) = delete;
  void end() {
    if (std::exchange(observed_, false)) tell_backward_end(context_, true);
  }

 private:
  Context& context_;
  bool observed_;
};

/// What follows when the gradient of a source is complete, in this order: it is marked, observers
/// are notified, and the user's function may replace it.
class Completed {
 public:
  Completed(Context& context, const GradientSources& sources, const GradientOptions& options,
            Tensor* out, Caller caller)
      : context_(context), sources_(sources), options_(options), out_(out), caller_(caller) {}
  /// Whether somebody must be told before the backward pass ends.
  static bool is_awaited(const Context& context, const GradientOptions& options) {
    return (context.mode & observed && !only_times(context)) || options.on_complete;
  }
  void operator()(std::size_t source, const ResultMarks& marks, const LateTapes* late) const;
  Tensor& operator[](std::size_t source) const { return out_[source]; }

 private:
  Context& context_;
  const GradientSources& sources_;
  const GradientOptions& options_;
  Tensor* out_;
  Caller caller_;
};

/// A backward pass that completes the gradient of each source as soon as possible.
class Completion {
 public:
  Completion(Playback& playback, std::size_t sources, std::span<const SourceValue> places);
  /// Goes through the records, and takes the gradients of the sources.
  void play(const Completed& completed, const ResultMarks& marks, const LateTapes* late);

 private:
  Playback& playback_;
  std::span<const SourceValue> places_;
  struct FirstUse {
    std::uint32_t record;
    std::size_t source;
  };
  std::vector<FirstUse> first_uses_;  // in the order of playing
};
}  // namespace reel
