// SPDX-License-Identifier: BSD-3-Clause
// What a DataParallel has inside: the gradients of this rank, and how a step sends them.
#pragma once
#include <reel/dist/data_parallel.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/dist/buckets.hpp"
#include "lib/dist/numbered.hpp"
#include "lib/dist/owners.hpp"
#include "lib/dist/send.hpp"

namespace reel::dist::detail {
/// Gradients that are added up on this rank: of one tree of micro-batches, or of all.
struct Partial {
  Subtree tree;
  std::vector<RowGradient> gradients;  // undefined values: not used
};

/// Gradients of a loss that ops of a trace have put.
struct Puts {
  bool sends;  // at the end of the loss
  std::vector<Tensor> done = {};
};
/// Sums are made in float32 at least.
Tensor wide(const Tensor& x);
Tensor number_on_host(std::int64_t value, Caller caller);

/// What a DataParallel has inside.
struct Shares : Numbered<Shares> {
  Shares(const World& of, optim::Optimizer& own, const DataParallelOptions& given, Caller caller)
      : world(of),
        optimizer(&own),
        options(given),
        device(device_of_all(caller)),
        lane(world.state(), caller, device != cpu()),
        taken("steps", number_on_host(0, caller), caller) {
    for (std::size_t i = 0; i < variables().size(); ++i)
      order.push_back(variables().size() - 1 - i);
  }
  const std::vector<Variable>& variables() const { return optimizer->variables(); }

  /// The GPU of this rank, if the Variables of all ranks are on their GPUs; else the CPU.
  Device device_of_all(Caller caller) const;
  void check_options(Caller caller) const;
  void compare(Caller caller);
  void check_unchanged(Caller caller) const;
  void check_loss(const Operand& loss, StepOptions how) const;
  /// The gradients of a loss, multiplied by its weight. With `sends`, buckets start meanwhile. With
  /// `puts`, steps of a trace keep the gradients.
  std::vector<RowGradient> gradients_of(GradientTape& tape, const Operand& loss, double weight,
                                        bool sends, Puts* puts = nullptr);
  void add(std::vector<RowGradient> gradients, double weight, Caller caller);
  bool send(Caller caller);
  /// Sends what was added. The mean gradients of all ranks; none if no rank had examples.
  std::vector<RowGradient> exchange(Caller caller);
  /// A step of the optimizer with these means. False if there are none, or if it was left out.
  bool take_step(std::vector<RowGradient> means, Caller caller);
  /// Whether this rank has no others, and nothing was accumulated: then it counts a step.
  bool is_alone(Caller caller);

  // In a trace an op puts each gradient into its bucket as soon as it is complete. Another op ends
  // the loss: it waits for the means. What a step finds on this rank is asked of ops too, because a
  // check runs none of them. In steps.cpp.
  void put_in_trace(Puts& puts, std::size_t variable, const RowGradient& x, Caller caller);
  void accumulate_in_trace(const Puts& puts, double weight, Caller caller);
  std::vector<RowGradient> exchange_in_trace(const Puts& puts, double weight, Caller caller);
  // What these ops do.
  void begin_loss(Caller caller);
  bool put_early(std::size_t variable, const RowGradient& x, Caller caller);
  void add_waiting(double weight, Caller caller);
  std::vector<Tensor> finish(Caller caller);

  void fix_order(std::vector<std::size_t> completed);
  void fix_layout(Caller caller);
  void begin(Caller caller);
  void put_all();
  std::vector<RowGradient> means(const StepFields& fields, std::vector<RowGradient> rows,
                                 Caller caller) const;
  std::vector<RowGradient> exchange_rows(double weight, Caller caller) const;
  bool count_step();
  std::int64_t expected() const;
  bool is_sparse(std::size_t variable) const {
    return std::find(sparse.begin(), sparse.end(), variable) != sparse.end();
  }
  bool sends_early() const {
    return buckets && partials.empty() && options.sum == Sum::fast && world.size() > 1;
  }

  World world;
  optim::Optimizer* optimizer;  // `owners`, if there are
  std::unique_ptr<Owners> owners;
  std::vector<std::vector<Variable>*> state = {};  // that the owners divide
  DataParallelOptions options;
  Device device;  // that sends
  Lane lane;
  std::int64_t step = 0, leaves = 0;
  Variable taken;  // steps of the optimizer, int64
  double weight = 0;
  std::vector<Partial> partials;
  std::vector<bool> used;
  std::vector<std::size_t> order;   // in which gradients become complete
  std::vector<std::size_t> sparse;  // Variables whose gradients are sent as rows
  std::unique_ptr<Buckets> buckets;
  std::vector<bool> early;  // what a bucket has already
  // Gradients of a loss that a trace has put and that are in no bucket yet.
  std::vector<std::pair<std::size_t, RowGradient>> waiting;
  std::vector<RowGradient> rows;  // means of sparse Variables that a trace is about to take
  bool sending = false;
};
}  // namespace reel::dist::detail
