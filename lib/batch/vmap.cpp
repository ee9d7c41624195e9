// SPDX-License-Identifier: BSD-3-Clause
// A function over the rows of its arguments, all rows at once.
#include <reel/batched.hpp>
#include <reel/ops.hpp>

#include <deque>
#include <optional>

#include "lib/batch/batch.hpp"
#include "lib/gate/gate.hpp"

namespace reel::detail {
struct MapData : Interceptor {
  bool takes(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
             SmallVector<Tensor, 2>& outputs) override {
    bool any = false;
    batch::Calls calls{op, options, {}, count, caller};
    for (const Operand& x : operands) {
      calls.inputs.push_back(batch::input_of(x));
      batch::Input& input = calls.inputs.back();
      const Body* const body = Access::body(input.tensor);
      if (x.kind() <= Operand::Kind::temporary && !body) return false;  // the gate says so
      if (!body || !stand_ins.made(*body)) continue;
      input = {.tensor = rows[batch::StandIns::number_of(*body)], .batched = true};
      any = true;
    }
    if (!any) return false;
    const auto first = static_cast<std::uint32_t>(rows.size());
    SmallVector<Tensor, 2> found;
    {
      // Interceptors around vmap(), such as a trace, see what runs.
      Context& context = Context::here();
      struct Around {
        Context& context;
        Interceptor* before;
        std::uint8_t mode;
        ~Around() {
          context.interceptors = before;
          context.mode = mode;
        }
      } const around{context, context.interceptors, context.mode};
      context.interceptors = next;
      if (!next) context.mode &= static_cast<std::uint8_t>(~intercepted);
      batch::run_together(calls, found);
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      outputs.push_back(stand_in(found[i], first + static_cast<std::uint32_t>(i)));
      rows.push_back(found[i]);
    }
    return true;
  }
  bool before(const GateCall& call) override {
    for (int i = 0; i < call.input_count; ++i)
      if (call.inputs[i] && stand_ins.made(*call.inputs[i]))
        fail<Error>(call.caller, call.op.name, "x", "no update inside of vmap()", "one");
    return true;
  }
  void host_read(const Tensor& x, HostRead) override {
    if (stand_ins.made(*Access::body(x)))
      fail<Error>(caller, "vmap", "f", "a function that reads no elements", "one that reads them",
                  "batched() runs functions that decide on values.");
  }
  void aliased(const Body& x, Body& made) override {
    if (stand_ins.made(x)) made.id = x.id;
  }
  Tensor stand_in(const Tensor& all, std::uint32_t number) {
    const Shape shape = all.shape();
    headers.push_back(stand_ins.make(
        all.dtype(), all.device(),
        Shape(std::span<const std::int64_t>(shape.data() + 1, shape.rank() - 1)), number, 0));
    return headers.back();
  }

  batch::StandIns stand_ins;
  std::deque<Tensor> rows, headers;
  std::optional<SharingScope> sharing = {};
  std::int64_t count = -1;
  Caller caller;
};

MapScope::MapScope(Caller caller) try : data_(new MapData) {
  data_->caller = caller;
  Context& context = Context::here();
  data_->next = context.interceptors;
  context.interceptors = data_;
  context.mode |= intercepted;
  data_->sharing.emplace(context, true, true);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "vmap");
}
MapScope::~MapScope() {
  Context& context = Context::here();
  for (Interceptor** link = &context.interceptors; *link; link = &(*link)->next)
    if (*link == data_) {
      *link = data_->next;
      break;
    }
  if (!context.interceptors) context.mode &= static_cast<std::uint8_t>(~intercepted);
  data_->sharing.reset();
  for (const Tensor& each : data_->headers) try {
      if (references(*Access::body(each)) > 1) batch::StandIns::clear(*Access::body(each));
    } catch (const Error&) {  // no memory: what f has kept elsewhere has no elements
    }
  delete data_;
}
Tensor MapScope::row(const Tensor& x) try {
  if (!x.defined() || x.rank() < 1)
    fail<ShapeError>(data_->caller, "vmap", "x", "a tensor with at least one axis",
                     x.defined() ? to_text(x.shape()) : Text("an undefined Tensor"));
  const std::int64_t length = x.shape()[0];
  if (data_->count >= 0 && data_->count != length)
    fail<ShapeError>(data_->caller, "vmap", "x",
                     to_text(data_->count) + " rows, like the argument before", to_text(length));
  data_->count = length;
  data_->rows.push_back(x);
  return data_->stand_in(x, static_cast<std::uint32_t>(data_->rows.size() - 1));
} catch (const std::bad_alloc&) {
  fail_memory(data_->caller, "vmap");
}
Tensor MapScope::all(const Tensor& x) try {
  if (!x.defined()) return x;
  const Body& body = *Access::body(x);
  if (data_->stand_ins.made(body)) return data_->rows[batch::StandIns::number_of(body)];
  SmallVector<std::int64_t, Shape::max_rank> lengths;
  lengths.push_back(data_->count);
  for (const std::int64_t length : x.shape()) lengths.push_back(length);
  return broadcast_to(Operand(x, data_->caller),
                      Shape(std::span<const std::int64_t>(lengths.data(), lengths.size())));
} catch (const std::bad_alloc&) {
  fail_memory(data_->caller, "vmap");
}
}  // namespace reel::detail
