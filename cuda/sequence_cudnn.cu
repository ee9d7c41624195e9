// SPDX-License-Identifier: BSD-3-Clause
// lstm and gru by cuDNN. It reads the weights from a block of its own, and has no reverse direction
// alone. It may read steps after the end of a sequence, so they are set to 0.
#include "cuda/sequence_cudnn.hpp"

#include "cuda/sequence.hpp"

namespace reel::gpu {
namespace {
constexpr int tile_size = 32, tile_rows = 8;

/// Where cuDNN's block has the elements of the op's weight [in + hidden, gates hidden] and bias.
/// The block has a matrix [hidden, in] and another one [hidden, hidden] for each gate.
template <class T>
struct Weights {
  RnnPlaces places;
  std::int64_t in, hidden, gates;
  std::byte* block;

  __device__ T* of(std::int64_t row, std::int64_t column) const {
    const std::int64_t gate = column / hidden, k = column % hidden;
    const bool of_state = row >= in;
    T* const matrix = reinterpret_cast<T*>(block + places.matrix[of_state ? gates + gate : gate]);
    return matrix + (of_state ? k * hidden + row - in : k * in + row);
  }
  /// The bias of a gate in the op's order: those of x, then that of the state for n of a GRU.
  __device__ T* of_bias(std::int64_t i) const {
    const std::int64_t gate = i / hidden, last = 2 * gates - 1;
    return reinterpret_cast<T*>(block + places.bias[gate < gates ? gate : last]) + i % hidden;
  }
};

/// Copies the op's weight to the block, or, if `back`, the block to the op's gradient. Threads copy
/// tiles, so that they read and write contiguous elements on both sides.
template <class T>
__global__ void copy_weights(Weights<T> w, bool back, T* weight, bool adds) {
  REEL_SHARED(T, tile, tile_size * (tile_size + 1));
  const std::int64_t rows = w.in + w.hidden, columns = w.gates * w.hidden;
  const std::int64_t across = (columns + tile_size - 1) / tile_size;
  const std::int64_t tiles = (rows + tile_size - 1) / tile_size * across;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (std::int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    const std::int64_t row = at / across * tile_size, column = at % across * tile_size;
    for (int phase = 0; phase < 2; ++phase) {
      const bool in_block = (phase == 0) == back;  // where columns are contiguous
      for (int k = y; k < tile_size; k += tile_rows) {
        const int r = in_block ? x : k, c = in_block ? k : x;
        if (row + r >= rows || column + c >= columns) continue;
        T& between = tile[r * (tile_size + 1) + c];
        T* const mine = weight + (row + r) * columns + column + c;
        if (phase == 0)
          between = in_block ? *w.of(row + r, column + c) : *mine;
        else if (in_block)
          *w.of(row + r, column + c) = between;
        else
          give(mine, between, adds);
      }
      __syncthreads();
    }
  }
}

/// Copies the bias. A GRU's gates r and z have a second bias in the block: it is 0.
template <class T>
__global__ void copy_bias(Weights<T> w, bool back, std::int64_t n, T* bias, bool adds) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    if (back) {
      give(bias + i, *w.of_bias(i), adds);
      continue;
    }
    *w.of_bias(i) = bias[i];
    const std::int64_t second = w.gates + i / w.hidden;
    if (w.gates == 3 && second < 5)
      reinterpret_cast<T*>(w.block + w.places.bias[second])[i % w.hidden] = T(0);
  }
}

/// What the value and the gradient of an op share.
template <class T>
struct ByCudnn {
  const Queue& queue;
  const Rnn rnn;
  const RnnPlan& plan;
  const Sequence q;
  std::span<const int> lengths;

  /// Numbers [time, batch, width] as cuDNN takes them, or takes them back.
  T* arranged(const T* from, std::int64_t width) const {
    if (!from || (!q.lengths && !q.reverse)) return const_cast<T*>(from);
    T* const to = queue.scratch_of<T>(q.rows() * width);
    arrange(from, width, to, false);
    return to;
  }
  void arrange(const T* from, std::int64_t width, T* to, bool adds) const {
    queue.launch_for(q.rows() * width, sequences::arrange<T>, q, width, q.reverse, from, to, adds);
  }
  Weights<T> weights(std::byte* block) const {
    return {plan.places, rnn.in, rnn.hidden, rnn.gates(), block};
  }
  void copy(const Weights<T>& w, bool back, T* weight, bool adds) const {
    const std::int64_t tiles = ((rnn.in + rnn.hidden + tile_size - 1) / tile_size) *
                               ((q.columns + tile_size - 1) / tile_size);
    const auto blocks = static_cast<unsigned>(std::min(tiles, queue.most_blocks()));
    queue.launch(copy_weights<T>, dim3(blocks), dim3(tile_size, tile_rows), 0, w, back, weight,
                 adds);
  }
  void copy_of_bias(const Weights<T>& w, bool back, T* bias, bool adds) const {
    const std::int64_t n = 4 * rnn.hidden;
    queue.launch_for(n, copy_bias<T>, w, back, n, bias, adds);
  }
  /// The weights in a block of cuDNN's.
  std::byte* pack(const T* weight, const T* bias) const {
    auto* const block = static_cast<std::byte*>(queue.scratch(plan.weights));
    copy(weights(block), false, const_cast<T*>(weight), false);
    copy_of_bias(weights(block), false, const_cast<T*>(bias), false);
    return block;
  }
};

/// Inputs: x, h, c (an LSTM), weight, bias, lengths. Outputs: all h, last h, last c, kept.
template <class T>
void forward(const Call& call, const ByCudnn<T>& by) {
  const auto x = [&](int i) { return call.input(i).template as<T>(); };
  const auto y = [&](int i) { return call.output(i).template as<T>(); };
  const bool lstm = by.rnn.lstm;
  const int weight = lstm ? 3 : 2;
  T* const outputs =
      by.q.reverse ? by.queue.template scratch_of<T>(by.q.rows() * by.q.hidden) : y(0);
  forward_by_cudnn(by.queue, by.rnn, by.plan, by.lengths,
                   {.x = by.arranged(x(0), by.q.in),
                    .h = x(1),
                    .c = lstm ? x(2) : nullptr,
                    .weights = by.pack(x(weight), x(weight + 1)),
                    .outputs = outputs,
                    .last_h = y(1),
                    .last_c = lstm ? y(2) : nullptr,
                    .reserve = call.output(call.output_count - 1).data});
  if (by.q.reverse) by.arrange(outputs, by.q.hidden, y(0), false);
}

template <class T>
void backward(const GradientCall& g, const ByCudnn<T>& by) {
  const Queue& queue = by.queue;
  const Sequence& q = by.q;
  const bool lstm = by.rnn.lstm;
  const int weight = lstm ? 3 : 2, bias = weight + 1;
  const auto x = [&](int i) { return elements<T>(g.x(i)); };
  const auto dx = [&](int i) { return elements<T>(g.dx(i)); };
  const auto scratch = [&](std::int64_t n) { return queue.scratch_of<T>(n); };
  const T* dy = elements<T>(g.dy(0));
  if (!dy) {
    T* const none = scratch(q.rows() * q.hidden);
    clear(queue, none, q.rows() * q.hidden);
    dy = none;
  }
  // cuDNN changes what it has kept, and a tape may ask again.
  std::byte* const reserve = static_cast<std::byte*>(queue.scratch(by.plan.reserve));
  copy(queue, reinterpret_cast<const std::byte*>(g.y(g.op_outputs() - 1)->data),
       static_cast<std::int64_t>(by.plan.reserve), reserve);
  const bool direct = dx(0) && !g.adds(0) && !q.reverse && !q.lengths;
  T* const of_x = direct ? dx(0) : scratch(q.rows() * q.in);
  // cuDNN replaces the gradients of states. It adds those of weights.
  const auto of_state = [&](int i) { return g.adds(i) ? scratch(q.state_size()) : dx(i); };
  T *const dh = of_state(1), *const dc = lstm ? of_state(2) : nullptr;
  std::byte* dweights = nullptr;
  if (dx(weight) || dx(bias)) {
    dweights = static_cast<std::byte*>(queue.scratch(by.plan.weights));
    clear(queue, dweights, static_cast<std::int64_t>(by.plan.weights));
  }
  backward_by_cudnn(queue, by.rnn, by.plan, by.lengths,
                    {.x = by.arranged(x(0), q.in),
                     .h = x(1),
                     .c = lstm ? x(2) : nullptr,
                     .weights = by.pack(x(weight), x(bias)),
                     .outputs = by.arranged(elements<T>(g.y(0)), q.hidden),
                     .dy = by.arranged(dy, q.hidden),
                     .dlast_h = elements<T>(g.dy(1)),
                     .dlast_c = lstm ? elements<T>(g.dy(2)) : nullptr,
                     .dx = of_x,
                     .dh = dh,
                     .dc = dc,
                     .dweights = dweights,
                     .reserve = reserve});
  if (dx(0) && !direct) by.arrange(of_x, q.in, dx(0), g.adds(0));
  for (int i = 1; i < weight; ++i)
    if (dx(i) && g.adds(i))
      queue.launch_for(q.state_size(), sequences::give_all<T>, q.state_size(), i == 1 ? dh : dc,
                       dx(i), true);
  if (dx(weight)) by.copy(by.weights(dweights), true, dx(weight), g.adds(weight));
  if (dx(bias)) by.copy_of_bias(by.weights(dweights), true, dx(bias), g.adds(bias));
}

/// Calls run(by) if cuDNN does the work of a call with these inputs.
template <class F>
bool with_cudnn(const Queue& queue, const Body* const* inputs, int input_count, const Body& kept,
                const void* options, const F& run) {
  if (!has_room_for_cudnn(kept)) return false;
  const Body &x = *inputs[0], &lengths = *inputs[input_count - 1];
  SmallVector<int, 64> of_host;
  if (!read_lengths(queue, lengths, x.shape.data()[0], of_host)) return false;
  const Rnn rnn(x, *inputs[1], input_count == 6);
  const RnnPlan& plan = plan_of_cudnn(queue, rnn);
  Sequence q(x, *inputs[input_count - 3], *inputs[1], options);
  q.lengths = lengths_of(queue, q, lengths);
  with_floating(x.dtype, [&]<class T>(Type<T>) {
    const std::span<const int> host_lengths{of_host.size() ? &of_host[0] : nullptr, of_host.size()};
    run(ByCudnn<T>{queue, rnn, plan, q, host_lengths});
  });
  return true;
}
}  // namespace

bool run_by_cudnn(const Call& call) {
  return with_cudnn(call.queue, call.inputs, call.input_count, call.output(call.output_count - 1),
                    call.options, [&](const auto& by) { forward(call, by); });
}
bool run_gradient_by_cudnn(const GradientCall& g) {
  const Body* const* const inputs = g.inputs + g.op_outputs();
  return with_cudnn(g.queue, inputs, g.output_count, *g.y(g.op_outputs() - 1), g.options,
                    [&](const auto& by) { backward(g, by); });
}
}  // namespace reel::gpu
