// SPDX-License-Identifier: BSD-3-Clause
// The gate for ops that are functions of other ops, and for kernels of users.
#include <optional>
#include <utility>

#include <reel/op.hpp>

#include "lib/flow/observer.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/gate/captures.hpp"
#include "lib/gate/marks.hpp"
#include "lib/gate/resolved.hpp"
#include "lib/gate/update.hpp"

namespace reel {
namespace {
/// Checks that a kernel of the user returns what the op's shape rule promises.
void check_results(Context& context, const Op& op, Resolved& inputs, OptionsView options,
                   Caller caller, const Tensors& results) {
  SmallVector<Tensor, 2> promised;
  Inference inference{
      context, op,      inputs.bodies.data(), static_cast<int>(inputs.bodies.size()), options,
      caller,  promised};
  op.shape(inference);
  if (results.size() != promised.size())
    fail<Error>(caller, op.name, "results of its kernel", to_text(promised.size()),
                to_text(results.size()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Body &result = *Access::body(results[i]), &expected = *Access::body(promised[i]);
    if (!(result.shape == expected.shape))
      fail<ShapeError>(caller, op.name, "result of its kernel", to_text(expected.shape),
                       to_text(result.shape));
    if (result.dtype != expected.dtype)
      fail<DTypeError>(caller, op.name, "result of its kernel", name_of(expected.dtype),
                       name_of(result.dtype));
  }
}

/// Whether the reel knows one of these tensors. It knows none if user code computed them from
/// numbers that it read.
bool is_recorded(Reel& reel, const SmallVector<Tensor, 2>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (reel.find(*Access::body(outputs[i])) != no_record) return true;
  return false;
}

/// Tells the interceptors that user code begins, and that it has ended, even by an exception.
class UserCodeScope {
 public:
  UserCodeScope(Context& context, const CallView& call, Tensors& results) : context_(context) {
    for (Interceptor* each = context.interceptors; each; each = each->next)
      given_ = each->user_code_begins(call, results) || given_;
  }
  ~UserCodeScope() { end(nullptr); }
  UserCodeScope(const UserCodeScope&) = delete;
  UserCodeScope& operator=(const UserCodeScope&) = delete;
  /// Whether an interceptor has given the results.
  bool given() const { return given_; }
  void end(const GateCall* call) {
    if (std::exchange(ended_, true)) return;
    for (Interceptor* each = context_.interceptors; each; each = each->next)
      each->user_code_ends(call);
  }

 private:
  Context& context_;
  bool given_ = false, ended_ = false;
};
}  // namespace

void run_composite(Context& context, Op& op, Resolved& inputs, OptionsView options, Caller caller,
                   SmallVector<Tensor, 2>& outputs) {
  const bool own_gradient = op.gradient.rule != nullptr;
  if (own_gradient && context.shares_variables && !op.shape &&
      run_outside(context, caller, op.name,
                  [&] { run_composite(context, op, inputs, options, caller, outputs); }))
    return;
  const int input_count = static_cast<int>(inputs.bodies.size());
  const CallView view{op, inputs.bodies.data(), input_count, nullptr, 0, options, caller};
  caller = context.caller_of(caller);
  GateCall event{op, inputs.bodies.data(), input_count, options, caller, nullptr, 0, nullptr};
  if (context.mode & observed) tell_begin(context, event);
  Tensors results;
  UserCodeScope code(context, view, results);
  ResultMarks marks;
  const auto use = [&](Body* const* bodies, int count) {
    if (context.is_watchful() && own_gradient)
      for (int i = 0; i < count; ++i) marks.use(context, op, i, bodies[i], caller);
  };
  use(inputs.bodies.data(), input_count);
  const bool kernel = op.shape != nullptr;  // a user's, for an op of the library
  const auto call = [&] {
    const CallerScope scope(caller, op.name);
    results = op.composite(OpCall(view), op.composite_state);
  };
  std::optional<Captures> captures;
  const auto call_recorded = [&] {
    if (!own_gradient) return call();
    if (!kernel) captures.emplace(context);
    const RecordingPause pause(context);
    call();
    if (captures) captures->stop();
  };
  if (kernel && !code.given()) {
    const InterceptorPause pause;
    call_recorded();
  } else if (!code.given()) {
    call_recorded();
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!results[i].defined())
      fail<Error>(caller, op.name, "result", "a tensor", "an undefined Tensor");
  if (kernel) check_results(context, op, inputs, options, caller, results);
  if (results.size()) use(Access::bodies(&results[0]), static_cast<int>(results.size()));
  outputs.resize(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    // A result that is also an input, or that is held elsewhere, gets a header of its own for its
    // record.
    Body* body = Access::body(results[i]);
    const bool named = own_gradient && references(*body) > 1;
    outputs[i] = !named   ? results[i]
                 : kernel ? Access::adopt(allocate_view(context, body))
                          : make_alias(context, body);
    if (!outputs[i].defined()) fail<MemoryError>(caller, op.name, "result", "memory", "none");
    results[i] = {};
  }
  event.outputs = Access::bodies(outputs.data());
  event.output_count = static_cast<int>(outputs.size());
  code.end(&event);
  for (Interceptor* each = kernel ? context.interceptors : nullptr; each; each = each->next)
    each->after(event);
  if (context.mode & observed) tell_end(context, event);
  if (context.mode & recording && (own_gradient || !is_recorded(*context.reel, outputs))) {
    // Inside the user's function tapes may have ended, so numbers of records may have been freed.
    for (std::size_t i = 0; i < inputs.bodies.size(); ++i) {
      Tensor* const temporary = inputs.origins[i].temporary;
      inputs.origins[i] =
          origin_of(context, Operand(Access::tensor(inputs.bodies[i])), inputs.bodies[i]);
      inputs.origins[i].temporary = temporary;
    }
    const int unlisted = captures ? captures->add_to(Access::bodies(outputs.data()), outputs.size(),
                                                     inputs.bodies, inputs.origins, caller)
                                  : 0;
    const std::uint64_t tapes = tapes_of(inputs);
    if (tapes && own_gradient)
      leave_record(context, op, options, caller, inputs.bodies.data(), inputs.origins.data(),
                   input_count + unlisted, Access::bodies(outputs.data()),
                   static_cast<int>(outputs.size()), tapes, unlisted);
    else if (tapes)
      note_cut(context, op, caller, inputs.origins.data(), input_count);
  }
  for (Tensor& output : outputs) marks.mark(context, output, caller);
}
}  // namespace reel
