// SPDX-License-Identifier: BSD-3-Clause
// What a DataParallel has inside: the gradients of this rank, and how a step sends them.
#pragma once
#include <reel/dist/data_parallel.hpp>

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

/// What a DataParallel has inside.
struct Shares : Numbered<Shares> {
  Shares(const World& of, optim::Optimizer& own, const DataParallelOptions& given, Caller caller)
      : world(of),
        optimizer(&own),
        options(given),
        device(device_of_all(caller)),
        lane(world.state(), caller, device != cpu()) {
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
  /// `puts`, steps of a trace put the gradients into the buckets.
  std::vector<RowGradient> gradients_of(GradientTape& tape, const Operand& loss, double weight,
                                        bool sends, std::vector<Tensor>* puts = nullptr);
  void add(std::vector<RowGradient> gradients, double weight, Caller caller);
  bool send(Caller caller);
  /// Sends what was added. The mean gradients of all ranks; none if no rank had examples.
  std::vector<RowGradient> exchange(Caller caller);
  /// In a trace an op puts each gradient into its bucket as soon as it is complete, and another op
  /// waits for the means. The messages are those of an eager step. Options that allow it:
  bool is_traceable() const;
  /// An op that puts a gradient, for finish_in_trace().
  Tensor put_in_trace(std::size_t variable, const Tensor& gradient, Caller caller);
  void finish_in_trace(const std::vector<Tensor>& puts, double weight, Caller caller);
  /// What these ops do.
  void put_early(std::size_t variable, const Tensor& gradient, Caller caller);
  std::vector<RowGradient> finish(double weight, Caller caller);
  void fix_order(std::vector<std::size_t> completed);
  void fix_layout(Caller caller);
  void begin(Caller caller);
  void put_all();
  std::vector<RowGradient> means(const StepFields& fields, std::vector<RowGradient> rows,
                                 Caller caller) const;
  std::vector<RowGradient> exchange_rows(double weight, Caller caller) const;
  bool apply(std::vector<RowGradient> gradients, Caller caller);
  std::int64_t expected() const;
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
  std::int64_t step = 0, taken = 0, leaves = 0;
  double weight = 0;
  std::vector<Partial> partials;
  std::vector<bool> used;
  std::vector<std::size_t> order;   // in which gradients become complete
  std::vector<std::size_t> sparse;  // Variables whose gradients are sent as rows
  std::unique_ptr<Buckets> buckets;
  std::vector<bool> early;  // what a bucket has already
  // Gradients that a trace has put before the layout was fixed, or that are not sent early.
  std::vector<std::pair<std::size_t, Tensor>> waiting;
  bool sending = false;
};
}  // namespace reel::dist::detail
