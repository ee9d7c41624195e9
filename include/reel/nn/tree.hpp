// SPDX-License-Identifier: BSD-3-Clause
// Tree LSTMs (Tai, Socher and Manning 2015). A cell computes one node; your function recurses, or
// holds a stack of states.
#pragma once  // defined in lib/nn
#include <vector>

#include <reel/nn/recurrent.hpp>

namespace reel::nn {
/// A Tree-LSTM for trees whose inner nodes have two children and whose leaves have words. The gates
/// of an inner node are i, f of the left child, f of the right child, g, o; see tree_lstm_gates().
/// Leaves have weights of their own, for i, g, o.
struct REEL_API TreeLSTMCell {
  Variable weight, bias;            // [2 hidden, 5 hidden], [5 hidden]
  Variable leaf_weight, leaf_bias;  // [in, 3 hidden], [3 hidden]
  TreeLSTMCell(Extent in, Extent hidden, LSTMOptions options = {}, Caller caller = Caller::here());
  /// A leaf, or a batch of them: x is [batch, in]. x and the weights come to one floating dtype,
  /// which the state has.
  LSTMState leaf(Operand x) const;
  /// An inner node. States and result have h and c [batch, hidden]. States and weights come to one
  /// floating dtype, which the result has.
  LSTMState operator()(const LSTMState& left, const LSTMState& right,
                       Caller caller = Caller::here()) const;
  void fields(auto&& field) {
    field("weight", weight);
    field("bias", bias);
    field("leaf_weight", leaf_weight);
    field("leaf_bias", leaf_bias);
  }
};

/// A Tree-LSTM for trees where every node has a word and any number of children, whose order does
/// not matter. The gates i, g, o depend on the sum of the children's h; each child k has its own f
/// = x wf + h_k uf + bf.
struct REEL_API ChildSumTreeLSTMCell {
  Variable weight, bias;  // [in, 4 hidden], [4 hidden]: of i, g, o, f
  Variable children;      // [hidden, 3 hidden]: of i, g, o, for the sum
  Variable forget;        // [hidden, hidden]: of f, for each child
  ChildSumTreeLSTMCell(Extent in, Extent hidden, LSTMOptions options = {},
                       Caller caller = Caller::here());
  /// A node with the word x [batch, in] and the states of its children; a leaf has none. The result
  /// has h and c [batch, hidden]. x, states and weights come to one floating dtype, which the
  /// result has.
  LSTMState operator()(Operand x, const std::vector<LSTMState>& states = {}) const;
  void fields(auto&& field) {
    field("weight", weight);
    field("bias", bias);
    field("children", children);
    field("forget", forget);
  }
};

/// The reduce step of SPINN (Bowman et al. 2016), a shift-reduce network. It joins the two states
/// on top of the stack as a TreeLSTMCell does, but its gates also depend on the output of the
/// tracking LSTM: they are [h of left, h of right, tracking] weight + bias, for tree_lstm_gates().
struct REEL_API SPINNCell {
  Variable weight, bias;  // [2 hidden + tracking, 5 hidden], [5 hidden]
  SPINNCell(Extent hidden, Extent tracking, LSTMOptions options = {},
            Caller caller = Caller::here());
  /// tracking is [batch, tracking]. The states and the result have h and c [batch, hidden]. States
  /// and weights come to one floating dtype, which the result has.
  LSTMState operator()(const LSTMState& left, const LSTMState& right, Operand tracking) const;
  void fields(auto&& field) {
    field("weight", weight);
    field("bias", bias);
  }
};
}  // namespace reel::nn
