// SPDX-License-Identifier: BSD-3-Clause
// Steps of a DataParallel inside of a trace: ops, which a replay runs and a check does not. They do
// what an eager step does, so the messages of ranks with and without a trace are equal.
#include <cstring>
#include <utility>

#include <reel/op.hpp>
#include <reel/ops.hpp>

#include "lib/dist/shares.hpp"
#include "lib/flow/interceptor.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::dist::detail {
namespace {
constexpr const char* const own_name = "DataParallel";

/// Calls such an op. It has one input at least.
Tensors call_step(const char* name, const Shares& shares, std::vector<Tensor> inputs,
                  Attributes attributes, Caller caller) {
  attributes.emplace_back("replicas", shares.number());
  Tensors results;
  run_unrecorded([&] {
    if (inputs.empty()) inputs.push_back(zeros({}, {}, caller));
    results = call_op_all(name, Operands(inputs, caller), std::move(attributes));
  });
  return results;
}
Shares& shares_of(const OpCall& call) {
  tell_interceptors("it calls DataParallel");  // so this op is one step, whatever it reads
  static_cast<void>(call.input_count());
  Shares* const shares = Shares::find(call.integer("replicas"));
  if (!shares)
    fail<Error>(call.caller(), own_name, "replicas", "a DataParallel that lives", "none");
  return *shares;
}
Tensor copy_of(const Tensor& x, Caller caller) {
  if (!x.defined()) return x;
  const void* first = nullptr;
  const Tensor host = reel::detail::contiguous_host(x, x.dtype(), &first, own_name, caller);
  const RawTensor copy = raw_tensor(x.dtype(), x.shape());
  if (!copy.tensor.defined()) fail_memory(caller, own_name);
  if (copy.bytes) std::memcpy(copy.elements, first, copy.bytes);
  return copy.tensor.to(x.device(), caller);
}
}  // namespace

Tensors run_alone(const OpCall& call) {
  Shares& shares = shares_of(call);
  const InterceptorPause inside;
  return tensor(shares.partials.empty() && shares.count_step(), call.caller());
}
bool Shares::is_alone(Caller caller) {
  if (world.size() > 1 || options.sum == Sum::tree) return false;
  if (!is_intercepted()) return partials.empty() && count_step();
  return static_cast<bool>(call_step(alone_name, *this, {}, {}, caller)[0]);
}

Tensors run_put(const OpCall& call) {
  Shares& shares = shares_of(call);
  // A gradient that outlives the call: a capture must not find its own tensors there.
  const bool copies = is_intercepted() && !call.integer("sends");
  const InterceptorPause inside;
  const auto variable = static_cast<std::size_t>(call.integer("variable"));
  RowGradient x{call.input(0), call.input_count() > 1 ? call.input(1) : Tensor()};
  if (call.integer("first")) shares.begin_loss(call.caller());
  if (copies) x = {copy_of(x.values, call.caller()), copy_of(x.rows, call.caller())};
  if (call.integer("sends") && shares.put_early(variable, x, call.caller()))
    return zeros({}, {}, call.caller());
  shares.waiting.emplace_back(variable, std::move(x));
  return zeros({}, {}, call.caller());
}
void Shares::put_in_trace(Puts& puts, std::size_t variable, const RowGradient& x, Caller caller) {
  std::vector<Tensor> inputs{wide(x.values)};
  if (x.rows.defined()) inputs.push_back(x.rows);
  puts.done.push_back(call_step(put_name, *this, std::move(inputs),
                                {{"variable", static_cast<std::int64_t>(variable)},
                                 {"first", puts.done.empty()},
                                 {"sends", puts.sends}},
                                caller)[0]);
}
/// Forgets what a loss has put that an exception has left.
void Shares::begin_loss(Caller caller) {
  if (sending) check_unchanged(caller);  // throws
  waiting.clear();
}
/// Into its bucket, if the bucket may be sent before the loss ends.
bool Shares::put_early(std::size_t variable, const RowGradient& x, Caller caller) {
  if (!sending && !sends_early()) return false;
  if (!sending) begin(caller);
  if (!buckets->has(variable)) return false;
  used.resize(variables().size());
  used[variable] = true;
  buckets->put(variable, dense_of(x, variables()[variable]));
  early[variable] = true;
  buckets->complete(variable);
  return true;
}

Tensors run_end(const OpCall& call) {
  Shares& shares = shares_of(call);
  const InterceptorPause inside;
  if (call.integer("puts") == 0) shares.begin_loss(call.caller());
  shares.add_waiting(call.real("weight"), call.caller());
  if (!call.integer("sends")) return zeros({}, {}, call.caller());
  return shares.finish(call.caller());
}
/// What was put is the gradient of a loss of this weight.
void Shares::add_waiting(double own_weight, Caller caller) {
  if (own_weight == 0) return;
  std::vector<RowGradient> own(variables().size());
  std::vector<std::size_t> completed;
  for (auto& [i, gradient] : std::exchange(waiting, {})) {
    if (!gradient.rows.defined()) completed.push_back(i);
    own[i] = std::move(gradient);
  }
  if (!buckets) fix_order(std::move(completed));
  add(std::move(own), own_weight, caller);
}
/// Whether a rank had examples; for each sparse Variable the number of rows, -1 without rows; the
/// means of the others. Their shapes do not depend on other ranks.
std::vector<Tensor> Shares::finish(Caller caller) {
  std::vector<RowGradient> all = exchange(caller);
  const bool some = !all.empty();
  all.resize(variables().size());
  std::vector<Tensor> results{number_on_host(some, caller)};
  rows.clear();
  for (const std::size_t i : sparse) {
    rows.push_back(std::move(all[i]));
    results.push_back(
        number_on_host(rows.back().rows.defined() ? rows.back().rows.size() : -1, caller));
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!is_sparse(i))
      results.push_back(some ? std::move(all[i].values) : zeros_like({variables()[i], caller}));
  return results;
}
/// A gradient of a sparse Variable, after the trace has asked for the number of its rows.
Tensors run_rows(const OpCall& call) {
  Shares& shares = shares_of(call);
  const RowGradient x =
      std::exchange(shares.rows[static_cast<std::size_t>(call.integer("number"))], {});
  if (x.rows.defined()) return {x.values, x.rows};
  return x.values;
}

void Shares::accumulate_in_trace(const Puts& puts, double own_weight, Caller caller) {
  call_step(end_name, *this, puts.done,
            {{"weight", own_weight}, {"puts", puts.done.size()}, {"sends", false}}, caller);
}
std::vector<RowGradient> Shares::exchange_in_trace(const Puts& puts, double own_weight,
                                                   Caller caller) {
  const Tensors results =
      call_step(end_name, *this, puts.done,
                {{"weight", own_weight}, {"puts", puts.done.size()}, {"sends", true}}, caller);
  if (own_weight == 0 && results[0].item<std::int64_t>(caller) == 0) return {};
  std::vector<RowGradient> all(variables().size());
  std::size_t next = 1 + sparse.size();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!is_sparse(i)) all[i].values = results[next++];
  for (std::size_t k = 0; k < sparse.size(); ++k) {
    const bool has_rows = results[1 + k].item<std::int64_t>(caller) >= 0;
    const Tensors found =
        call_step(rows_name, *this, {}, {{"number", static_cast<std::int64_t>(k)}}, caller);
    all[sparse[k]] = {found[0], has_rows ? found[1] : Tensor()};
  }
  return all;
}
}  // namespace reel::dist::detail
