// SPDX-License-Identifier: BSD-3-Clause
// lstm and gru by cuDNN. The plugin opens the library at the first call. If it is missing, the
// kernels of sequence.cu compute. These are the ops with Op::kept. Their last input is the lengths.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "cuda/own_memory.hpp"
#include "cuda/queue.hpp"
#include "lib/table/planned_graph.hpp"

struct cudnnContext;
namespace reel::gpu {
/// A network of one layer, and the size of its inputs.
struct Rnn {
  bool lstm;  // or a GRU
  DType dtype;
  std::int64_t time, batch, in, hidden;
  auto operator<=>(const Rnn&) const = default;

  /// Of x [time, batch, in] and a state [batch, hidden].
  Rnn(const Body& x, const Body& h, bool is_lstm)
      : lstm(is_lstm),
        dtype(x.dtype),
        time(x.shape.data()[0]),
        batch(x.shape.data()[1]),
        in(x.shape.data()[2]),
        hidden(h.shape.data()[1]) {}
  int gates() const { return lstm ? 4 : 3; }
};

/// cuDNN has a matrix and a bias for each gate, first those for x, then those for the state. This
/// says where they are in its block of all weights, in bytes. -1: there is none.
struct RnnPlaces {
  std::int64_t matrix[8], bias[8];
};

/// What cuDNN says about a network.
struct RnnPlan {
  struct Descriptors* descriptors;
  RnnPlaces places;
  std::size_t weights, workspace, reserve;  // bytes
};

/// Memory of the device for one call. c, dc and what is not needed are null.
struct RnnForward {
  const void *x, *h, *c, *weights;
  void *outputs, *last_h, *last_c, *reserve;
};
struct RnnBackward {
  const void *x, *h, *c, *weights, *outputs, *dy, *dlast_h, *dlast_c;
  void *dx, *dh, *dc, *dweights, *reserve;
};

/// cuDNN on one device. A call takes the lengths of the sequences, each at least 1, from memory of
/// the host; without lengths, each sequence has all steps.
class Cudnn {
 public:
  /// Reads REEL_CUDNN. False if it is not 0, 1 or lengths.
  static bool read_options();
  /// The plan for a network; null if there is no cuDNN, or if it does not take the network. A plan
  /// that exists stays. The current device is the one of this object.
  const RnnPlan* find(Gpu& gpu, const Rnn& rnn);
  void forward(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
               std::span<const int> lengths, const RnnForward& call);
  void backward(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
                std::span<const int> lengths, const RnnBackward& call);

 private:
  bool open(Gpu& gpu);
  template <class F>
  void run(const Queue& queue, const Rnn& rnn, const RnnPlan& plan, std::span<const int> lengths,
           const F& f);

  std::mutex mutex_;  // a handle is for one thread at a time
  bool tried_ = false;
  // The second one is for captures: a handle has streams of its own, which a capture takes over.
  cudnnContext* handles_[2] = {};
  OwnMap<Rnn, RnnPlan> plans_;  // a plan without descriptors: cuDNN refused the network
};

/// The bytes of Op::kept of lstm or gru, if cuDNN does the work; else 0. cuDNN takes lengths from
/// memory of the host, so a call with lengths has to wait for the device. So cuDNN does such calls
/// only if REEL_CUDNN asks for it.
std::size_t bytes_kept_by_cudnn(Gpu& gpu, const Inference& call);
/// Whether this output has room for what cuDNN keeps. Then cuDNN computes the call, unless it does
/// not take its lengths.
inline bool has_room_for_cudnn(const Body& kept) { return kept.dtype == DType::int32; }
/// Whether a call waits for the device to read lengths, so that it cannot be in a CUDA graph.
bool waits_for_lengths(const PlannedGraph& planned, const Instruction& call);

/// lstm or gru by cuDNN. False if the kernels of sequence.cu have to do it: there is no cuDNN, or
/// a sequence has no steps, or a length is wrong. (sequence_cudnn.cu)
bool run_by_cudnn(const Call& call);
bool run_gradient_by_cudnn(const GradientCall& call);
}  // namespace reel::gpu
