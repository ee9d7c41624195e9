// SPDX-License-Identifier: BSD-3-Clause
// Completes the gradient of each source before the backward pass ends, for observers.
#pragma once
#include <utility>
#include <vector>

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

/// The backward pass for observers, which are notified of each source as soon as its gradient is
/// complete.
class Completion {
 public:
  Completion(Context& context, Playback& playback, const GradientSources& sources,
             std::span<const SourceValue> places, Tensor* out);
  /// Goes through the records, and takes the gradients of the sources.
  void play();

 private:
  void complete(std::size_t source);
  Context& context_;
  Playback& playback_;
  const GradientSources& sources_;
  std::span<const SourceValue> places_;
  Tensor* out_;
  struct FirstUse {
    std::uint32_t record;
    std::size_t source;
  };
  std::vector<FirstUse> first_uses_;  // in the order of playing
};
}  // namespace reel
