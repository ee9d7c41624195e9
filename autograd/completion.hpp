// SPDX-License-Identifier: BSD-3-Clause
// Gradients of sources that are complete before the backward pass ends, for observers.
#pragma once
#include <vector>

#include "autograd/playback.hpp"

namespace reel {
/// A source's place on the reel; a Variable that was assigned between its reads has several.
struct SourceValue {
  std::uint32_t value;
  std::size_t source;
  bool is_played;  // its record is, so its gradient is still needed
};

/// The backward pass for observers: they are told of each source as soon as its gradient is
/// complete.
class Completion {
 public:
  Completion(Context& context, Playback& playback, const GradientSources& sources,
             std::span<const SourceValue> places, Tensor* out);
  /// Plays the records, and takes the gradients of the sources.
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
