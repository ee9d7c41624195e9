// SPDX-License-Identifier: BSD-3-Clause
// Notifies observers of calls on fast paths.
#pragma once
#include <type_traits>

#include "lib/flow/observer.hpp"
#include "lib/gate/gate.hpp"
#include "lib/gate/marks.hpp"

namespace reel {
/// A call on a fast path, for observers. Without observers it does nothing.
class ObservedCall {
 public:
  ObservedCall(Context& context, Op& op, const Operand* const* operands, const Body* const* inputs,
               int count, OptionsView options = {})
      : context_(context),
        operands_(operands),
        call_{op,      inputs, count,  options, context.caller_of(operands[0]->caller()),
              nullptr, 0,      nullptr},
        observed_(context.mode & observed) {}
  /// Call it before the kernel, when no other path can be taken any more.
  void begin() const {
    if (observed_) only_times(context_) ? tell_begin(context_, call_) : tell_begin_and_reads();
  }
  void end(Body* const* outputs, int count) {
    if (!observed_) return;
    call_.outputs = outputs;
    call_.output_count = count;
    tell_end(context_, call_);
  }
  void recorded(const Record& record) const {
    if (observed_ && !only_times(context_)) tell_recorded(context_, record);
  }

 private:
  [[gnu::cold, gnu::noinline]] void tell_begin_and_reads() const;
  Context& context_;
  const Operand* const* operands_;
  GateCall call_;
  bool observed_;
};

/// An ObservedCall for callers that never have observers.
struct UnobservedCall {
  template <class... Any>
  explicit UnobservedCall(const Any&...) {}
  void begin() const {}
  void end(Body* const*, int) const {}
  void recorded(const Record&) const {}
};
template <bool may_be_observed>
using CallOf = std::conditional_t<may_be_observed, ObservedCall, UnobservedCall>;

template <class F>
[[gnu::noinline]] Tensor short_cut_with_hooks(Context& context, Op& op, const F& f,
                                              const Operand* const* operands, int count) {
  const Body* inputs[2];
  for (int i = 0; i < count; ++i)
    if (!(inputs[i] = body_of(*operands[i]))) return {};
  if (needs_slow_path(context, inputs, count)) return {};
  ObservedCall call(context, op, operands, inputs, count);
  Tensor made = f([&] { call.begin(); });
  Body* const output = Access::body(made);
  if (output) call.end(&output, 1);
  return made;
}
/// Calls f(begin), which makes the result of an op without options and without a record. The result
/// is undefined if a tape or an interceptor needs the call, or if f cannot handle the inputs.
/// Otherwise f calls begin() before it computes.
template <class F, class... Operands>
[[gnu::always_inline]] inline Tensor short_cut(Context& context, Op& op, const F& f,
                                               const Operands&... tensors) {
  if (!context.dispatch_flags()) [[likely]]
    return f([] {});
  if (context.path_mode()) return {};
  const F copy = f;  // so that f itself needs no memory
  const Operand* const operands[] = {&tensors...};
  return short_cut_with_hooks(context, op, copy, operands, sizeof...(tensors));
}
}  // namespace reel
