// SPDX-License-Identifier: BSD-3-Clause
// Data parallel training: each rank computes gradients of its examples, all take one step.
#pragma once  // defined in lib/dist
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/dist/world.hpp>
#include <reel/fields.hpp>
#include <reel/io/ranks.hpp>
#include <reel/nn/model.hpp>
#include <reel/optim/loss_scaler.hpp>
#include <reel/optim/optimizer.hpp>
#include <reel/tape.hpp>

namespace reel::dist {
/// How gradients of ranks are added. All ranks have the same bits in each case.
enum class Sum : std::uint8_t {
  fast,     ///< as the engine does it: the bits depend on the number of ranks and the buckets
  ordered,  ///< in the order of the ranks: the bits do not depend on the buckets
  tree      ///< in a binary tree of micro-batches: the bits do not depend on the number of ranks
};

/// Options of DataParallel. All ranks give the same ones.
struct DataParallelOptions {
  /// Gradients are sent in buckets of so many bytes, or of one gradient if that is larger.
  std::int64_t bucket_bytes = 4 << 20;
  Sum sum = Sum::fast;
  /// For Sum::tree: into how many losses all ranks together divide each step. Rank r takes those
  /// from r * micro_batches / size to (r + 1) * micro_batches / size, in this order: all but the
  /// last by accumulate(), the last by step().
  std::int64_t micro_batches = 0;
  /// bfloat16 halves the bytes that are sent, for Sum::fast; it rounds each gradient, and each sum
  /// of two, to 8 bits. Gradients of float64 are sent as they are.
  DType send_as = DType::float32;
  /// The largest global norm of the mean gradients, along an axis of a Mesh those of all parts of
  /// the model; 0 is no limit.
  double clip_norm = 0;
  /// For float16: multiplies the losses, and leaves a step out on all ranks or on none, along an
  /// axis of a Mesh on all ranks of the Mesh.
  optim::LossScaler* scaler = nullptr;
  /// For Variables that no loss of any rank uses.
  Unconnected unconnected = Unconnected::error;
  /// Divides the optimizer's state between the ranks (ZeRO-1, Rajbhandari et al. 2020): each
  /// Variable is dealt to a rank, which has its state, updates it and sends it to the others. The
  /// steps have the same bits. The optimizer itself then has the Variables of its rank only.
  bool shard_optimizer = false;
};
/// Options of a step of DataParallel.
struct StepOptions {
  /// The weight of the loss in the mean over ranks: of how many examples it is a mean. With 0
  /// neither the loss nor its gradient is read.
  std::int64_t examples = 1;
};

namespace detail {
struct Shares;
/// The part of DataParallel that does not depend on the optimizer's type.
class REEL_API Replicas : public optim::Optimizer, public io::detail::Ranks {
 public:
  ~Replicas() override;
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  /// A step with the mean gradient of the ranks' losses, weighted by their examples. All ranks call
  /// it, or join(). Returns false if the step was left out: by the scaler, or because no rank had
  /// examples. Throws ShapeError unless the loss is one number; TapeError, on all ranks, if a
  /// Variable is used by no loss; DistError (see World).
  bool step(GradientTape& tape, Operand loss, StepOptions options = {});
  /// Adds the gradient of a loss on this rank, and sends nothing. The next step() sends the sum.
  void accumulate(GradientTape& tape, Operand loss, StepOptions options = {});
  /// A step with what accumulate() has added, on a rank that has no more examples than that, or
  /// none at all.
  bool join(Caller caller = Caller::here());
  /// Whether a rank says `more`, one with other parts of the model too: while this is true, ranks
  /// without examples join() the others.
  ///
  ///     for (auto it = mine.begin(); replicas.any(it != mine.end());)
  ///       it != mine.end() ? learn(replicas, *it++) : replicas.join();
  bool any(bool more, Caller caller = Caller::here());
  /// A step with the mean of the ranks' gradients, without weights.
  void step(GradientList gradients, Caller caller = Caller::here()) override;
  /// Adds up numbers of all ranks, in their order.
  void add_up(double* numbers, std::size_t count, Caller caller = Caller::here());
  /// The largest of the numbers of all ranks, those with other parts of the model too.
  void all_reduce_max(std::int64_t* numbers, std::int64_t count, Caller caller = Caller::here());
  // For Checkpoints.
  Place place() const override;
  std::int64_t least_of_parts(std::int64_t number, Caller caller) const override;
  void gather_state(bool everywhere, Caller caller) const override;
  void release_state() const override;
  void check_resumed(std::int64_t step, Caller caller) const override;
  /// The steps that have been taken.
  std::int64_t steps() const;
  const World& world() const;
  /// What gradients are sent in: for each bucket the Variables and the bytes. Empty before the
  /// first step, which fixes them.
  std::string buckets() const;

 protected:
  Replicas(const World& world, optim::Optimizer& optimizer, const DataParallelOptions& options,
           Caller caller);
  void broadcast_variables(const std::vector<Variable>& variables, Caller caller) const;
  /// Whether the state is divided.
  bool shards() const;
  /// Divides it: these are lists that have a Variable for each of the optimizer's.
  void shard(std::vector<std::vector<Variable>*> state, Caller caller);
  /// For fields(): a list of all ranks. Throws Error unless it was gathered.
  std::vector<Variable>& whole_state(const std::vector<Variable>* list) const;

 private:
  Shares* shares_;
};
}  // namespace detail

/// Takes the place of an optimizer on several ranks that have the same model and different
/// examples. All ranks get the step that one rank would take with the examples of all of them.
///
///     dist::World world;
///     dist::DataParallel replicas(world, adam);
///     for (auto& [x, y] : train.shard(world.rank(), world.size()).batch(32)) {
///       GradientTape tape;
///       Tensor loss = mean(square(model(x) - y));
///       replicas.step(tape, loss, {.examples = x.shape()[0]});
///     }
///
/// The constructor compares the Variables, their names, shapes and dtypes, the options and the
/// seeds of all ranks, and gives all of them the Variables of rank 0. Throws DistError, on each
/// rank, with the first difference. After it ranks may take seeds of their own, for different
/// dropout. Every step sends all gradients in buckets, in an order that the first step fixes, zeros
/// for what a rank has not used: ranks may run different branches, and read trees of different
/// shapes. A bucket starts when its gradients are complete, while the backward pass goes on.
///
/// Checkpoints have it in the optimizer's place, and the form of one process: rank 0 writes them,
/// and any number of ranks resumes. fit() takes it for its optimizer. The World must have no other
/// user that calls collectives on another thread. Inside of trace() a replay sends what an eager
/// step sends, and a check of it sends nothing.
/// Throws Error for options out of range, and for .clip_norm or .scaler with parts of Variables in
/// a World that no Mesh has made. With .clip_norm, step() throws DistError if a Variable that is no
/// part has different gradients along another axis of the Mesh.
template <class O>
class DataParallel : public detail::Replicas {
 public:
  DataParallel(const World& world, O& optimizer, DataParallelOptions options = {},
               Caller caller = Caller::here())
      : Replicas(world, optimizer, options, caller), optimizer_(optimizer) {
    if (!shards()) return;
    std::vector<std::vector<Variable>*> state;
    optimizer.fields([&](std::string_view, auto& member) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, std::vector<Variable>>)
        if (!member.empty()) state.push_back(&member);
    });
    shard(std::move(state), caller);
  }
  /// Gives all ranks the Variables and Buffers that a model has on rank 0.
  template <class Model>
  void broadcast(const Model& model, Caller caller = Caller::here()) const {
    broadcast_variables(parameters(model), caller);
    broadcast_variables(buffers(model), caller);
  }
  /// The state of the optimizer, for checkpoints.
  void fields(auto&& field) {
    if (!shards()) return optimizer_.fields(field);
    optimizer_.fields([&](std::string_view name, auto& member) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, std::vector<Variable>>)
        field(name, whole_state(&member));
      else
        field(name, member);
    });
  }

 private:
  O& optimizer_;
};
}  // namespace reel::dist
