// SPDX-License-Identifier: BSD-3-Clause
// lstm and gru by cuDNN, for files with kernels: nvcc does not compile all headers of the library.
#pragma once
#include <compare>
#include <span>

#include "cuda/queue.hpp"
#include "lib/body/small_vector.hpp"

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

/// Whether this output has room for what cuDNN keeps. Then cuDNN computes the call, unless it does
/// not take its lengths.
inline bool has_room_for_cudnn(const Body& kept) { return kept.dtype == DType::int32; }
/// The plan for a network that has room in its output. Throws DeviceError if there is none.
const RnnPlan& plan_of_cudnn(const Queue& queue, const Rnn& rnn);
/// Waits for the work of this thread, and copies lengths to memory of the host. False if cuDNN does
/// not take them.
bool read_lengths(const Queue& queue, const Body& lengths, std::int64_t time,
                  SmallVector<int, 64>& to);
/// Cudnn::forward() and backward() on the device of the queue.
void forward_by_cudnn(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
                      std::span<const int> lengths, const RnnForward& call);
void backward_by_cudnn(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
                       std::span<const int> lengths, const RnnBackward& call);

/// lstm or gru by cuDNN. False if the kernels of sequence.cu have to do it: there is no cuDNN, or
/// a sequence has no steps, or a length is wrong. (sequence_cudnn.cu)
bool run_by_cudnn(const Call& call);
bool run_gradient_by_cudnn(const GradientCall& call);
}  // namespace reel::gpu
