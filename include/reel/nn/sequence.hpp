// SPDX-License-Identifier: BSD-3-Clause
// Recurrent networks over whole sequences, with one layer or several. x is [time, batch, in], as in
// PyTorch and cuDNN. Each layer has one cell, or two if it is bidirectional. A loop of these cells
// gives the same values.
#pragma once  // defined in lib/nn
#include <reel/nn/recurrent.hpp>

#include <vector>

namespace reel::nn {
/// Options of LSTM.
struct LSTMLayersOptions {
  std::int64_t layers = 1;
  bool bidirectional = false;  // a second cell runs from the last step to the first
  double dropout = 0;          // between layers, of which there must be two; while training()
  double forget_bias = 1;      // first value of the bias of f
  DType dtype = DType::float32;
};
/// What an LSTM returns: outputs [time, batch, hidden] of the last layer ([time, batch, 2 hidden]
/// if bidirectional), and the last state of each cell, to continue from.
struct LSTMOutput {
  Tensor outputs;
  std::vector<LSTMState> states;
  void fields(auto&& field) {
    field("outputs", outputs);
    field("states", states);
  }
};
/// Layers of LSTMs; see lstm() for lengths [batch].
struct REEL_API LSTM {
  std::vector<LSTMCell> cells;  // layer by layer; forward, then backward if bidirectional
  bool bidirectional;
  double dropout;
  LSTM(Extent in, Extent hidden, LSTMLayersOptions options = {}, Caller caller = Caller::here());
  /// A state of zeros for each cell. The dtype is that of the weights.
  std::vector<LSTMState> initial_states(Extent batch, Caller caller = Caller::here()) const;
  /// Starts from `states`, one for each cell, or from zeros if there are none. x is [time, batch,
  /// in], the outputs are [time, batch, hidden] ([time, batch, 2 hidden] if bidirectional). lengths
  /// are [batch], integers; behind the end of a sequence its outputs are 0, and its last state is
  /// the one at its end. Without lengths all steps count.
  LSTMOutput operator()(Operand x, const std::vector<LSTMState>& states = {},
                        const Tensor& lengths = {}) const;
  void fields(auto&& field) { field("cells", cells); }
};

/// Options of GRU.
struct GRULayersOptions {
  std::int64_t layers = 1;
  bool bidirectional = false;
  double dropout = 0;
  DType dtype = DType::float32;
};
/// What a GRU returns: outputs as an LSTM's, and the last state of each cell.
struct GRUOutput {
  Tensor outputs;
  std::vector<Tensor> states;
  void fields(auto&& field) {
    field("outputs", outputs);
    field("states", states);
  }
};
/// Layers of GRUs; otherwise as LSTM.
struct REEL_API GRU {
  std::vector<GRUCell> cells;
  bool bidirectional;
  double dropout;
  GRU(Extent in, Extent hidden, GRULayersOptions options = {}, Caller caller = Caller::here());
  /// Zeros [batch, hidden] for each cell. The dtype is that of the weights.
  std::vector<Tensor> initial_states(Extent batch, Caller caller = Caller::here()) const;
  /// Starts from `states`, one for each cell, or from zeros if there are none. x is [time, batch,
  /// in], the outputs are [time, batch, hidden] ([time, batch, 2 hidden] if bidirectional). lengths
  /// are [batch], integers; behind the end of a sequence its outputs are 0.
  GRUOutput operator()(Operand x, const std::vector<Tensor>& states = {},
                       const Tensor& lengths = {}) const;
  void fields(auto&& field) { field("cells", cells); }
};
}  // namespace reel::nn
