// SPDX-License-Identifier: BSD-3-Clause
// lstm and gru by cuDNN. The plugin opens the library at the first call. If it is missing, the
// kernels of sequence.cu compute. These are the ops with Op::kept. Their last input is the lengths.
#pragma once
#include <mutex>
#include <string>

#include "cuda/own_memory.hpp"
#include "cuda/sequence_cudnn.hpp"
#include "lib/table/planned_graph.hpp"

struct cudnnContext;
namespace reel::gpu {
/// cuDNN on one device. A call takes the lengths of the sequences, each at least 1, from memory of
/// the host; without lengths, each sequence has all steps.
class Cudnn {
 public:
  /// Reads REEL_CUDNN. False if it is not 0, 1 or lengths.
  static bool read_options();
  /// Whether REEL_CUDNN allows cuDNN.
  static bool is_allowed();
  /// A sentence for each kind of network that cuDNN does not compute, as it has the weights in
  /// another form than this plugin expects.
  static std::string refused();
  /// The plan for a network; null if there is no cuDNN, or if it does not take the network. A plan
  /// that exists stays. The current device is the one of this object.
  const RnnPlan* find(Gpu& gpu, const Rnn& rnn);
  void forward(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
               std::span<const int> lengths, const RnnForward& call);
  void backward(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
                std::span<const int> lengths, const RnnBackward& call);

 private:
  bool open(Gpu& gpu);
  void warm_up(Gpu& gpu, Rnn small);
  template <class F>
  void run(const Queue& queue, const Rnn& rnn, const RnnPlan& plan, std::span<const int> lengths,
           const F& f);

  std::mutex mutex_;  // a handle is for one thread at a time
  bool tried_ = false, is_warm_ = false;
  // The second one is for captures: a handle has streams of its own, which a capture takes over.
  cudnnContext* handles_[2] = {};
  OwnMap<Rnn, RnnPlan> plans_;  // a plan without descriptors: cuDNN refused the network
};

/// The bytes of Op::kept of lstm or gru, if cuDNN does the work; else 0. cuDNN takes lengths from
/// memory of the host, so a call with lengths has to wait for the device. So cuDNN does such calls
/// only if REEL_CUDNN asks for it.
std::size_t bytes_kept_by_cudnn(Gpu& gpu, const Inference& call);
/// Whether a call waits for the device to read lengths, so that it cannot be in a CUDA graph.
bool waits_for_lengths(const PlannedGraph& planned, const Instruction& call);

}  // namespace reel::gpu
