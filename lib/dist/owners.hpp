// SPDX-License-Identifier: BSD-3-Clause
// An optimizer whose state is divided: each Variable belongs to one rank, which updates it.
#pragma once
#include <cstdint>
#include <vector>

#include <reel/dist/world.hpp>
#include <reel/optim/optimizer.hpp>

namespace reel::dist::detail {
class Owners final : public optim::Optimizer {
 public:
  /// Each list of `state` has a Variable for each of the optimizer's. From now on the optimizer has
  /// the Variables of this rank only, with their state.
  Owners(World world, optim::Optimizer& optimizer, std::vector<std::vector<Variable>*> state);

  /// Updates the Variables of this rank, and gets the others from their ranks.
  void step(GradientList gradients, Caller caller) override;
  std::string options_text() const override { return text_; }

  /// The lists of state of all ranks, here or on rank 0 only. All ranks call it.
  void gather(bool everywhere, Caller caller);
  /// List number `list` that gather() has made; null before it and after release().
  std::vector<Variable>* gathered(std::size_t list);
  /// Takes the state of this rank out of the gathered lists.
  void take_gathered();
  void release() { gathered_.clear(); }

 private:
  /// Gives each of a list of all Variables' values those of the Variable's rank. `own` are those of
  /// this rank, in order.
  void exchange(const std::vector<Variable>& own, const std::vector<Variable>& all, Caller caller);
  World world_;
  optim::Optimizer& optimizer_;
  std::vector<std::vector<Variable>*> state_;  // of this rank
  std::vector<std::vector<Variable>> gathered_;
  std::vector<std::int64_t> owner_;  // of each Variable
  std::string text_;
};
}  // namespace reel::dist::detail
