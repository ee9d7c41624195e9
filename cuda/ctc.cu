// SPDX-License-Identifier: BSD-3-Clause
// The CTC loss and its gradient. A block has one sequence after the other, and a thread some of its
// states.
#include "cuda/numbers.hpp"
#include "cuda/queue.hpp"
#include "lib/formulas/ctc.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/ctc.hpp"

namespace reel::gpu {
namespace {
namespace ctc = formulas::ctc;
using ctc::Number;

/// The sequences, and the scratch memory of each block of threads.
template <class T>
struct Blocks : ctc::Sequences {
  const T* log_probs;
  std::int64_t rows = 0;     // of states, for each block
  Number* memory = nullptr;  // that has these rows

  Blocks(const Body& x, const Body& its_labels, const Body& its_steps, const Body& its_counts,
         std::int64_t its_blank)
      : Sequences(ctc::sequences_of(x, its_labels, its_steps, its_counts, its_blank)),
        log_probs(x.as<T>()) {}

  __device__ Number probability(const ctc::States& states, std::int64_t t, std::int64_t b,
                                std::int64_t s) const {
    return ctc::exponential(static_cast<double>(log_probs[at(t, b) + states.class_of(s)]));
  }
  __device__ Number* row(std::int64_t r) const {
    return memory + (blockIdx.x * rows + r) * most_states();
  }
  /// The probabilities of the paths to each state, before the first step and after each.
  /// Probabilities after step t are in row (t + 1) % kept.
  __device__ Number forward(const ctc::States& states, std::int64_t b, std::int64_t kept) const {
    for (std::int64_t s = threadIdx.x; s < states.count; s += blockDim.x)
      row(0)[s] = s == 0 ? Number{1, 0} : Number{};
    __syncthreads();
    for (std::int64_t t = 0; t < steps_of(b); ++t) {
      const Number* const before = row(t % kept);
      Number* const after = row((t + 1) % kept);
      for (std::int64_t s = threadIdx.x; s < states.count; s += blockDim.x)
        after[s] = states.forward_step(before, s) * probability(states, t, b, s);
      __syncthreads();
    }
    return states.total(row(steps_of(b) % kept));
  }

  void launch(const Queue& queue, std::int64_t its_rows, auto kernel, auto... arguments) {
    if (batch == 0) return;
    const std::int64_t blocks = std::min(batch, queue.most_blocks());
    const std::int64_t threads = std::min<std::int64_t>(256, (most_states() + 31) / 32 * 32);
    rows = its_rows;
    memory = queue.scratch_of<Number>(blocks * rows * most_states());
    queue.launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
                 0, *this, arguments...);
  }
};

template <class T>
__global__ void losses(Blocks<T> q, T* to) {
  for (std::int64_t b = blockIdx.x; b < q.batch; b += gridDim.x) {
    const Number total = q.forward(q.states_of(b), b, 2);
    if (threadIdx.x == 0) to[b] = static_cast<T>(0 - ctc::logarithm(total));
    __syncthreads();
  }
}
KernelResult ctc_loss(const Call& call) {
  return with_floating(call.input(0).dtype, [&]<class T>(Type<T>) {
    Blocks<T>(call.input(0), call.input(1), call.input(2), call.input(3),
              call.option<BlankOptions>().blank)
        .launch(call.queue, 2, losses<T>, call.output().as<T>());
  });
}

/// The gradient: for each state, the share of the paths that are in it. The shares of a step
/// replace the probabilities of the paths after it. Then the shares of the states of one class are
/// added, in the order of the states.
template <class T>
__global__ void gradients(Blocks<T> q, const T* dy, T* dx, bool adds) {
  for (std::int64_t b = blockIdx.x; b < q.batch; b += gridDim.x) {
    const ctc::States states = q.states_of(b);
    const std::int64_t steps = q.steps_of(b), n = states.count;
    if (!adds)
      for (std::int64_t i = threadIdx.x; i < q.time * q.classes; i += blockDim.x)
        dx[q.at(i / q.classes, b) + i % q.classes] = T(0);
    const Number total = q.forward(states, b, q.time + 1);
    const auto upstream = static_cast<double>(dy[b]);
    // The ways to go on from each state, and the same times the probability of its class.
    Number *const rest = q.row(q.time + 1), *const weighted = q.row(q.time + 2);
    for (std::int64_t s = threadIdx.x; s < n; s += blockDim.x)
      rest[s] = states.ends(s) ? Number{1, 0} : Number{};
    __syncthreads();
    for (std::int64_t t = steps - 1; t >= 0 && total.fraction != 0; --t) {
      Number* const paths = q.row(t + 1);
      for (std::int64_t s = threadIdx.x; s < n; s += blockDim.x) {
        paths[s].fraction = upstream * ctc::ratio(paths[s], rest[s], total);
        weighted[s] = rest[s] * q.probability(states, t, b, s);
      }
      __syncthreads();
      for (std::int64_t s = threadIdx.x; s < n; s += blockDim.x)
        rest[s] = states.backward_step(weighted, s);
      __syncthreads();
    }
    // The first states of classes, and the next state of the same class, are equal for all steps.
    // Finding them takes time, so they are kept, in the memory of `rest`, which is free now.
    for (std::int64_t s = threadIdx.x; s < n; s += blockDim.x)
      rest[s] = {states.is_first(s) ? 1.0 : 0.0, static_cast<double>(states.same_after(s))};
    __syncthreads();
    const auto is_first = [=](std::int64_t s) { return rest[s].fraction != 0; };
    const auto same_after = [=](std::int64_t s) {
      return static_cast<std::int64_t>(rest[s].exponent);
    };
    for (std::int64_t i = threadIdx.x; i < steps * n && total.fraction != 0; i += blockDim.x) {
      const std::int64_t t = i / n, s = i % n;
      if (!is_first(s)) continue;
      double sum = 0;
      for (std::int64_t same = s; same < n; same = same_after(same))
        sum += q.row(t + 1)[same].fraction;
      dx[q.at(t, b) + states.class_of(s)] -= static_cast<T>(sum);
    }
    __syncthreads();
  }
}
KernelResult ctc_gradient(const Call& given) {
  const GradientCall call(given);
  return with_floating(call.x(0)->dtype, [&]<class T>(Type<T>) {
    Blocks<T> all(*call.x(0), *call.x(1), *call.x(2), *call.x(3),
                  call.option<BlankOptions>().blank);
    all.launch(call.queue, all.time + 3, gradients<T>, static_cast<const T*>(call.dy()->as<T>()),
               call.dx()->as<T>(), call.adds());
  });
}
}  // namespace

extern const NamedKernel ctc_kernels[] = {
    {"ctc_loss", ctc_loss}, {"ctc_loss.d", ctc_gradient}, {nullptr, nullptr}};
}  // namespace reel::gpu
