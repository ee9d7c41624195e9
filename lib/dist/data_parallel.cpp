// SPDX-License-Identifier: BSD-3-Clause
#include <reel/dist/data_parallel.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include <reel/ops.hpp>

#include "lib/body/text.hpp"
#include "lib/dist/shares.hpp"
#include "lib/flow/interceptor.hpp"

namespace reel::dist::detail {
namespace {
constexpr const char* const own_name = "DataParallel";
}  // namespace

Replicas::Replicas(const World& world, optim::Optimizer& optimizer,
                   const DataParallelOptions& options, Caller caller) try
    : Optimizer(optimizer), shares_(nullptr) {
  const CallerScope here(caller, own_name);
  shares_ = new Shares(world, optimizer, options, caller);
  try {
    shares_->check_options(caller);
    shares_->compare(caller);
    broadcast_variables(variables(), caller);
  } catch (...) {
    delete shares_;
    throw;
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, own_name);
}
Replicas::~Replicas() { delete shares_; }

void Replicas::broadcast_variables(const std::vector<Variable>& variables, Caller caller) const {
  if (shares_->world.size() == 1) return;
  const CallerScope here(caller, own_name);
  for (const Variable& x : variables) x.assign(broadcast_raw(x, shares_->world, 0, caller));
}

bool Replicas::step(GradientTape& tape, Operand loss, StepOptions options) try {
  Shares& shares = *shares_;
  const Caller caller = loss.caller();
  const CallerScope here(caller, own_name);
  shares.check_unchanged(caller);
  shares.check_loss(loss, options);
  if (options.examples == 0) return join(caller);
  if (shares.is_alone(caller)) {
    GradientOptions how{.unconnected = shares.options.unconnected};
    if (const Tensor x = loss.value(); shares.options.scaler && x.defined())
      how.upstream = broadcast_to(cast(shares.options.scaler->factor, x.dtype()), x.shape());
    return shares.take_step(tape.row_gradients(loss, variables(), how), caller);
  }
  const auto weight = static_cast<double>(options.examples);
  if (is_intercepted()) {
    Puts puts{.sends = true};
    shares.gradients_of(tape, loss, weight, false, &puts);
    return shares.take_step(shares.exchange_in_trace(puts, weight, caller), caller);
  }
  shares.add(shares.gradients_of(tape, loss, weight, shares.sends_early()), weight, caller);
  return shares.send(caller);
} catch (const std::bad_alloc&) {
  fail_memory(loss.caller(), own_name);
}
void Replicas::accumulate(GradientTape& tape, Operand loss, StepOptions options) try {
  Shares& shares = *shares_;
  const Caller caller = loss.caller();
  const CallerScope here(caller, own_name);
  shares.check_unchanged(caller);
  shares.check_loss(loss, options);
  if (options.examples == 0) return;
  const auto weight = static_cast<double>(options.examples);
  if (is_intercepted()) {
    Puts puts{.sends = false};
    shares.gradients_of(tape, loss, weight, false, &puts);
    return shares.accumulate_in_trace(puts, weight, caller);
  }
  shares.add(shares.gradients_of(tape, loss, weight, false), weight, caller);
} catch (const std::bad_alloc&) {
  fail_memory(loss.caller(), own_name);
}
bool Replicas::join(Caller caller) try {
  const CallerScope here(caller, own_name);
  shares_->check_unchanged(caller);
  if (!is_intercepted()) return shares_->send(caller);
  return shares_->take_step(shares_->exchange_in_trace({.sends = true}, 0, caller), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, own_name);
}
bool Replicas::any(bool more, Caller caller) {
  std::int64_t found = more;
  all_reduce_max(&found, 1, caller);
  return found != 0;
}
void Replicas::step(GradientList gradients, Caller caller) try {
  Shares& shares = *shares_;
  const CallerScope here(caller, own_name);
  shares.check_unchanged(caller);
  std::vector<RowGradient> own;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    own.push_back({gradients.values(i), gradients.rows(i) ? *gradients.rows(i) : Tensor()});
  if (shares.is_alone(caller)) {
    shares.take_step(std::move(own), caller);
    return;
  }
  if (own.size() != variables().size())
    fail<Error>(caller, own_name, "gradients", to_text(variables().size()), to_text(own.size()));
  if (is_intercepted()) {
    Puts puts{.sends = true};
    for (std::size_t i = 0; i < own.size(); ++i)
      if (own[i].values.defined()) shares.put_in_trace(puts, i, own[i], caller);
    shares.take_step(shares.exchange_in_trace(puts, 1, caller), caller);
    return;
  }
  shares.add(std::move(own), 1, caller);
  shares.send(caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, own_name);
}
void Replicas::add_up(double* numbers, std::size_t count, Caller caller) {
  const CallerScope here(caller, own_name);
  if (shares_->world.size() == 1) return;
  not_traced();
  std::vector<double> all(count * static_cast<std::size_t>(shares_->world.size()));
  shares_->world.state().main->run({Kind::all_gather, Wire::float64, Combine::sum, numbers,
                                    all.data(), static_cast<std::int64_t>(count)},
                                   {own_name, "add_up"}, caller);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = all[i];
    for (std::size_t k = i + count; k < all.size(); k += count) numbers[i] += all[k];
  }
}
void Replicas::all_reduce_max(std::int64_t* numbers, std::int64_t count, Caller caller) {
  const CallerScope here(caller, own_name);
  const auto among = [&](const World& ranks) {
    if (ranks.size() == 1) return;
    not_traced();
    ranks.state().main->run({Kind::all_reduce, Wire::int64, Combine::max, numbers, numbers, count},
                            {own_name, "any"}, caller);
  };
  among(shares_->world);
  if (const World* const parts = shares_->world.state().parts.get()) among(*parts);
}
Replicas::Place Replicas::place() const {
  const World& world = shares_->world;
  const World* const parts = world.state().parts.get();
  return {world.rank(), world.size(), parts ? parts->rank() : 0, parts ? parts->size() : 1};
}
std::int64_t Replicas::least_of_parts(std::int64_t number, Caller caller) const {
  shares_->world.state().parts->state().main->run(
      {Kind::all_reduce, Wire::int64, Combine::min, &number, &number, 1}, {"Checkpoints", "parts"},
      caller);
  return number;
}
void Replicas::check_resumed(std::int64_t step, Caller caller) const {
  if (shares_->owners) {
    if (step >= 0) shares_->owners->take_gathered();
    shares_->owners->release();
  }
  if (shares_->world.size() == 1) return;
  std::vector<std::int64_t> all(static_cast<std::size_t>(shares_->world.size()));
  shares_->world.state().main->run(
      {Kind::all_gather, Wire::int64, Combine::sum, &step, all.data(), 1}, {"resume"}, caller);
  const auto text = [](std::int64_t found) {
    return found < 0 ? Text("no checkpoint") : "step " + to_text(found);
  };
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail<DistError>(caller, "Checkpoints", "rank " + to_text(static_cast<std::int64_t>(rank)),
                      text(all[0]) + ", as on rank 0", text(all[rank]),
                      "Checkpoints need a folder that all ranks see.");
}
bool Replicas::shards() const {
  return shares_->options.shard_optimizer && shares_->world.size() > 1;
}
void Replicas::shard(std::vector<std::vector<Variable>*> state, Caller caller) try {
  const CallerScope here(caller, own_name);
  shares_->state = state;
  shares_->owners = std::make_unique<Owners>(shares_->world, *shares_->optimizer, std::move(state));
  shares_->optimizer = shares_->owners.get();
} catch (const std::bad_alloc&) {
  fail_memory(caller, own_name);
}
std::vector<Variable>& Replicas::whole_state(const std::vector<Variable>* list) const {
  const auto found = std::find(shares_->state.begin(), shares_->state.end(), list);
  if (found == shares_->state.end()) return const_cast<std::vector<Variable>&>(*list);
  std::vector<Variable>* const whole =
      shares_->owners->gathered(static_cast<std::size_t>(found - shares_->state.begin()));
  if (!whole)
    fail<Error>({}, own_name, "state", "the state of the optimizer on all ranks",
                "a part of it, by .shard_optimizer",
                "io::Checkpoints saves and resumes it, as all ranks call it.");
  return *whole;
}
void Replicas::gather_state(bool everywhere, Caller caller) const {
  const CallerScope here(caller, "Checkpoints");
  if (shares_->owners) shares_->owners->gather(everywhere, caller);
}
void Replicas::release_state() const {
  if (shares_->owners) shares_->owners->release();
}
std::int64_t Replicas::steps() const { return shares_->taken.value().item<std::int64_t>(); }
const World& Replicas::world() const { return shares_->world; }
std::string Replicas::buckets() const { return shares_->buckets ? shares_->buckets->text() : ""; }
}  // namespace reel::dist::detail
