// SPDX-License-Identifier: BSD-3-Clause
#include <reel/dist/collectives.hpp>

#include <reel/op.hpp>
#include <reel/ops.hpp>
#include <reel/tape.hpp>

#include <atomic>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "lib/body/text.hpp"
#include "lib/dist/send.hpp"
#include "lib/flow/interceptor.hpp"
#include "lib/gate/effects.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::dist {
namespace detail {
Wire wire_of(DType dtype) {
  switch (dtype) {
    case DType::int32:
      return Wire::int32;
    case DType::int64:
      return Wire::int64;
    case DType::float32:
      return Wire::float32;
    case DType::float64:
      return Wire::float64;
    case DType::bfloat16:
      return Wire::bfloat16;
    default:
      return Wire::bytes;
  }
}
namespace {
constexpr char step_name[] = "dist_collective";

Tensor send_now(const Tensor& x, const Shape& shape, Message message, WorldState& state,
                const CallName& name, Caller caller) {
  const Device device = x.device();
  const bool there = state.device && device == cuda(state.device_index);
  const RawTensor given = there ? row_major(x, caller) : RawTensor{};
  const void* first = given.elements;
  const Tensor host =
      there ? Tensor() : reel::detail::contiguous_host(x, x.dtype(), &first, name.function, caller);
  const RawTensor result = raw_tensor(x.dtype(), shape, there ? device : cpu());
  if (!result.tensor.defined()) fail_memory(caller, name.function);
  message.in = first;
  message.out = result.elements;
  if (message.kind == Kind::broadcast && !there && result.bytes)
    std::memcpy(result.elements, first, result.bytes);
  (there ? state.device : state.main)->run(message, name, caller);
  return result.tensor.to(device, caller);
}
/// The attributes of a collective that is a step of a trace.
Attributes attributes_of(const Shape& shape, const Message& message, const WorldState& state,
                         const CallName& name) {
  return {{"world", state.number()},
          {"function", name.function},
          {"posted", name.posted},
          {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
          {"message", std::vector<std::int64_t>{static_cast<std::int64_t>(message.kind),
                                                static_cast<std::int64_t>(message.wire),
                                                static_cast<std::int64_t>(message.combine),
                                                message.count, message.root}}};
}
Tensors run_step(const OpCall& call) {
  tell_interceptors("it calls a collective");  // so this op is one step, whatever it reads
  const std::vector<std::int64_t>& m = call.integers("message");
  WorldState* const state = WorldState::find(call.integer("world"));
  if (!state)
    fail<Error>(call.caller(), call.text("function"), "world", "a World that lives", "none");
  return {send_now(call.input(0), Shape(std::span<const std::int64_t>(call.integers("shape"))),
                   {static_cast<Kind>(m[0]), static_cast<Wire>(m[1]), static_cast<Combine>(m[2]),
                    nullptr, nullptr, m[3], static_cast<int>(m[4])},
                   *state, {call.text("function"), call.text("posted")}, call.caller())};
}
}  // namespace

void register_steps() {
  struct Step {
    const char* name;
    Tensors (*run)(const OpCall&);
  };
  static constexpr Step steps[] = {{step_name, run_step},
                                   {alone_name, run_alone},
                                   {put_name, run_put},
                                   {end_name, run_end},
                                   {rows_name, run_rows}};
  static constinit std::atomic<bool> done[std::size(steps)] = {};
  for (std::size_t i = 0; i < std::size(steps); ++i) {
    if (done[i].exchange(true)) continue;
    try {
      register_op(steps[i].name, steps[i].run);
      set_effects(steps[i].name);
    } catch (...) {
      done[i] = false;
      throw;
    }
  }
}
/// In a trace the collective is a step. A replay runs it; a check takes the result that the replay
/// had, and sends nothing.
Tensor send_raw(const Tensor& x, const Shape& shape, Message message, const World& world,
                const CallName& name, Caller caller) {
  WorldState& state = world.state();
  if (!is_intercepted()) return send_now(x, shape, message, state, name, caller);
  Tensor result;
  run_unrecorded([&] {
    result =
        call_op(step_name, {{{x, caller}}, caller}, attributes_of(shape, message, state, name));
  });
  return result;
}
void not_traced() {
  tell_interceptors("it calls a collective of several ranks that a trace cannot replay");
}
}  // namespace detail

namespace {
/// x, without a record: the collective has a gradient of its own.
Tensor plain(const Operand& x) { return stop_gradient(x); }
const Tensor& require_defined(const Tensor& x, const char* op, Caller caller) {
  if (!x.defined()) fail<Error>(caller, op, "x", "a tensor", "an undefined Tensor");
  return x;
}

/// The message without its buffers.
Message reduce_message(Kind kind, Reduce op, DType dtype, std::int64_t count) {
  const Combine how = op == Reduce::max   ? Combine::max
                      : op == Reduce::min ? Combine::min
                                          : Combine::sum;
  return {kind, detail::wire_of(dtype), how, nullptr, nullptr, count};
}
void check_dtype(const char* op, const Tensor& x, Reduce how, Caller caller) {
  const DType dtype = x.dtype();
  if (size_of(dtype) == 1 || !has_arithmetic(dtype))
    fail<DTypeError>(caller, op, "x", "int32, int64 or a floating dtype", name_of(dtype),
                     "cast(x, int32) converts it.");
  if (how == Reduce::mean && !is_floating(dtype))
    fail<DTypeError>(caller, op, "x", "a floating dtype for Reduce::mean", name_of(dtype));
}
/// Combines without a gradient.
Tensor combined(Kind kind, const Tensor& x, const Shape& shape, const World& world, Reduce op,
                const char* function, Caller caller) {
  const bool half = is_floating(x.dtype()) && size_of(x.dtype()) == 2;
  const Tensor wide = half ? cast(x, DType::float32) : x;
  Tensor all =
      detail::send_raw(wide, shape, reduce_message(kind, op, wide.dtype(), shape.elements()), world,
                       {function}, caller);
  if (op == Reduce::mean) all = all / static_cast<double>(world.size());
  return half ? cast(all, x.dtype()) : all;
}
}  // namespace

Tensor all_reduce(Operand x, const World& world, ReduceOptions options) {
  const Caller caller = x.caller();
  const CallerScope here(caller, "all_reduce");
  require_defined(x.value(), "all_reduce", caller);
  check_dtype("all_reduce", x.value(), options.op, caller);
  if (world.size() == 1) return x.value();
  return custom_gradient([world, options, caller](const Tensor& from) {
    const Tensor value = plain(from);
    Tensor all =
        combined(Kind::all_reduce, value, value.shape(), world, options.op, "all_reduce", caller);
    const auto gradient = [world, options, caller, value, all](const Tensor& dy) -> Tensor {
      if (options.op == Reduce::sum || options.op == Reduce::mean)
        return all_reduce({dy, caller}, world, options);
      // Ranks with equal values share the gradient.
      const Tensor mine = cast(value == all, dy.dtype());
      const Tensor count = all_reduce({mine, caller}, world);
      return all_reduce({dy, caller}, world) * mine / count;
    };
    return std::pair{all, gradient};
  })(Operand(x));
}

Tensor all_gather(Operand x, const World& world) {
  const Caller caller = x.caller();
  const CallerScope here(caller, "all_gather");
  const Tensor given = require_defined(x.value(), "all_gather", caller);
  if (given.rank() == 0)
    fail<ShapeError>(caller, "all_gather", "x", "one axis or more", "a single number");
  if (world.size() == 1) return given;
  return custom_gradient([world, caller](const Tensor& from) {
    const Tensor value = plain(from);
    Shape shape = value.shape();
    shape.data()[0] *= world.size();
    const std::int64_t bytes = value.size() * static_cast<std::int64_t>(size_of(value.dtype()));
    Tensor all = detail::send_raw(
        value, shape, {Kind::all_gather, Wire::bytes, Combine::sum, nullptr, nullptr, bytes}, world,
        {"all_gather"}, caller);
    const auto gradient = [world, caller](const Tensor& dy) -> Tensor {
      return reduce_scatter({dy, caller}, world);
    };
    return std::pair{all, gradient};
  })(Operand(x));
}

Tensor reduce_scatter(Operand x, const World& world, ReduceOptions options) {
  const Caller caller = x.caller();
  const CallerScope here(caller, "reduce_scatter");
  const Tensor given = require_defined(x.value(), "reduce_scatter", caller);
  check_dtype("reduce_scatter", given, options.op, caller);
  if (given.rank() == 0 || given.shape()[0] % world.size() != 0)
    fail<ShapeError>(caller, "reduce_scatter", "x",
                     "a first axis of a multiple of " + to_text(world.size()),
                     to_text(given.shape()));
  if (world.size() == 1) return given;
  return custom_gradient([world, options, caller](const Tensor& from) {
    const Tensor value = plain(from);
    Shape shape = value.shape();
    shape.data()[0] /= world.size();
    Tensor part =
        combined(Kind::reduce_scatter, value, shape, world, options.op, "reduce_scatter", caller);
    const auto gradient = [world, options, caller](const Tensor& dy) -> Tensor {
      if (options.op == Reduce::max || options.op == Reduce::min)
        fail<TapeError>(caller, "reduce_scatter", "gradient", "that of a sum or a mean",
                        "that of a max or min");
      const Tensor all = all_gather({dy, caller}, world);
      return options.op == Reduce::mean ? all / static_cast<double>(world.size()) : all;
    };
    return std::pair{part, gradient};
  })(Operand(x));
}

Tensor broadcast(Operand x, const World& world, BroadcastOptions options) {
  const Caller caller = x.caller();
  const CallerScope here(caller, "broadcast");
  require_defined(x.value(), "broadcast", caller);
  if (options.root < 0 || options.root >= world.size())
    fail<Error>(caller, "broadcast", "options.root", one_of("a rank", 0, world.size()),
                to_text(options.root));
  if (world.size() == 1) return x.value();
  const auto sent = [world, options, caller](const Tensor& from) {
    const Tensor value = plain(from);
    Tensor all = detail::broadcast_raw(value, world, options.root, caller);
    const auto gradient = [world, options, caller](const Tensor& dy) -> Tensor {
      const Tensor sum = all_reduce({dy, caller}, world);
      return world.rank() == options.root ? sum : zeros_like(sum);
    };
    return std::pair{all, gradient};
  };
  return is_floating(x.value().dtype()) ? custom_gradient(sent)(Operand(x)) : sent(x.value()).first;
}

namespace detail {
Tensor broadcast_raw(const Tensor& x, const World& world, std::int64_t root, Caller caller) {
  const std::int64_t bytes = x.size() * static_cast<std::int64_t>(size_of(x.dtype()));
  return send_raw(
      x, x.shape(),
      {Kind::broadcast, Wire::bytes, Combine::sum, nullptr, nullptr, bytes, static_cast<int>(root)},
      world, {"broadcast"}, caller);
}
}  // namespace detail
}  // namespace reel::dist
