// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dist/owners.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <reel/ops.hpp>

#include "lib/dist/send.hpp"

namespace reel::dist::detail {
namespace {
/// The larger ones first, each to the rank that has least.
std::vector<std::int64_t> dealt(const std::vector<Variable>& variables, std::int64_t ranks) {
  const auto bytes = [&](std::size_t i) {
    return variables[i].size() * static_cast<std::int64_t>(size_of(variables[i].dtype()));
  };
  std::vector<std::size_t> order(variables.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes(a) > bytes(b); });
  std::vector<std::int64_t> loads(static_cast<std::size_t>(ranks)), owners(variables.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += bytes(i);
    owners[i] = least - loads.begin();
  }
  return owners;
}
}  // namespace

Owners::Owners(World world, optim::Optimizer& optimizer, std::vector<std::vector<Variable>*> state)
    : Optimizer(optimizer),
      world_(std::move(world)),
      optimizer_(optimizer),
      state_(std::move(state)),
      owner_(dealt(optimizer.variables(), world_.size())),
      text_(optimizer.options_text()) {
  std::vector<bool> kept;
  for (const std::int64_t owner : owner_) kept.push_back(owner == world_.rank());
  for (std::vector<Variable>* const list : state_) {
    std::vector<Variable> own;
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i]) own.push_back((*list)[i]);
    *list = std::move(own);
  }
  optimizer.keep(kept);
}

void Owners::step(GradientList gradients, Caller caller) {
  std::vector<RowGradient> own;
  for (std::size_t i = 0; i < owner_.size(); ++i)
    if (owner_[i] == world_.rank())
      own.push_back({gradients.values(i), gradients.rows(i) ? *gradients.rows(i) : Tensor()});
  if (!own.empty()) optimizer_.step(own, caller);
  exchange(optimizer_.variables(), variables(), caller);
}

void Owners::exchange(const std::vector<Variable>& own, const std::vector<Variable>& all,
                      Caller caller) {
  constexpr DType dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};
  for (std::int64_t rank = 0; rank < world_.size(); ++rank)
    for (const DType dtype : dtypes) {
      std::vector<std::size_t> sent;
      std::vector<Tensor> parts;
      std::int64_t count = 0;
      std::size_t before = 0;  // Variables of this rank
      for (std::size_t i = 0; i < owner_.size(); ++i) {
        if (owner_[i] != rank) continue;
        const std::size_t number = before++;
        if (all[i].dtype() != dtype) continue;
        if (rank == world_.rank()) parts.push_back(own[number].value().reshape({-1}));
        count += all[i].size();
        sent.push_back(i);
      }
      if (sent.empty()) continue;
      const DeviceScope there(all[sent[0]].device());
      const Tensor mine = parts.empty() ? zeros({count}, {.dtype = dtype}, caller) : concat(parts);
      const Tensor values = broadcast_raw(mine, world_, rank, caller);
      std::int64_t at = 0;
      for (const std::size_t i : sent) {
        const Tensor part = values(range(at, at + all[i].size()));
        at += all[i].size();
        if (rank != world_.rank() || &own != &optimizer_.variables())
          all[i].assign(part.reshape(all[i].shape()).to(all[i].device()));
      }
    }
}

void Owners::gather(bool everywhere, Caller caller) {
  release();
  for (const std::vector<Variable>* const list : state_) {
    std::vector<Variable> all;
    for (const Variable& x : variables()) all.emplace_back(x.name(), zeros_like({x, caller}));
    exchange(*list, all, caller);
    if (everywhere || world_.rank() == 0) gathered_.push_back(std::move(all));
  }
}
std::vector<Variable>* Owners::gathered(std::size_t list) {
  return list < gathered_.size() ? &gathered_[list] : nullptr;
}
void Owners::take_gathered() {
  for (std::size_t list = 0; list < gathered_.size(); ++list) {
    std::size_t number = 0;
    for (std::size_t i = 0; i < owner_.size(); ++i)
      if (owner_[i] == world_.rank()) (*state_[list])[number++].assign(gathered_[list][i].value());
  }
  release();
}
}  // namespace reel::dist::detail
