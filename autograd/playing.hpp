// SPDX-License-Identifier: BSD-3-Clause
// Functions that gradient() and explain() of a tape share.
#pragma once
#include <reel/tape.hpp>

#include "autograd/completion.hpp"
#include "autograd/playback.hpp"
#include "lib/flow/redirect.hpp"

namespace reel {
[[noreturn, gnu::cold]] void fail_thread(std::string_view what, Caller caller);
/// Throws TapeError unless the call is made by the thread and flow that made the tape.
inline Context& own_context(void* reel, std::string_view what, Caller caller) {
  Context& context = Context::here();
  if (reel != context.reel) [[unlikely]]
    fail_thread(what, caller);
  return context;
}

/// While it lives, this tape does not record, and errors name the record that is played.
class PlaybackScope {
 public:
  PlaybackScope(Context& context, std::uint64_t tape)
      : context_(context),
        pause_(context, tape),
        caller_(context.outer_caller),
        names_(context.layer_name.empty()) {
    if (names_) context_.layer_name = "gradient";
  }
  ~PlaybackScope() {
    context_.outer_caller = caller_;
    if (names_) context_.layer_name = {};
  }
  PlaybackScope(const PlaybackScope&) = delete;
  PlaybackScope& operator=(const PlaybackScope&) = delete;

 private:
  Context& context_;
  RecordingPause pause_;
  Caller caller_;
  bool names_;
};

/// While it lives, the tape is inside gradient(). If a gradient function destroys the tape, it ends
/// with the tape.
struct Playing {
  FlowReel& reel;
  std::uint64_t tape;
  bool outermost;
  Playing(FlowReel& its_reel, std::uint64_t bit)
      : reel(its_reel), tape(bit), outermost(!(reel.playing & bit)) {
    reel.playing |= bit;
  }
  ~Playing() {
    if (!outermost) return;
    reel.playing &= ~tape;
    if (!(reel.ended & tape)) return;
    reel.ended &= ~tape;
    close_tape(reel, tape);
  }
};

/// The target, or the tensor that a Redirect gives instead.
inline Operand read_target(const Context& context, const Operand& x) {
  return context.mode & redirected ? Redirect::here(context)->read(x) : x;
}
/// The body of a source, or of the tensor that a Redirect gives instead.
inline Body* read_body(const Context& context, const Tensor& x) {
  return Access::body(Redirect::read_tensor(context, x));
}
Tensor ones_alike(Context& context, const Body& like, Caller caller);
/// Throws unless the upstream gradient has the target's shape and device.
void check_upstream(const Body& like, const Tensor& upstream, Caller caller);
/// The values of the sources on the reel.
void find_sources(Reel& reel, const GradientSources& sources, std::uint64_t tape,
                  std::uint32_t start, SmallVector<SourceValue, 16>& places);
}  // namespace reel
