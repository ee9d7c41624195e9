// SPDX-License-Identifier: BSD-3-Clause
// The entries that gradient rules and other families name, and the families of the table.
#pragma once
#include <reel/activation.hpp>

#include "lib/dispatch/op.hpp"

namespace reel {
extern Op add_op, subtract_op, multiply_op, divide_op, remainder_op, negative_op, maximum_op,
    minimum_op, power_op;
extern Op abs_op, exp_op, log_op, square_op, sqrt_op;
extern Op relu_op, sigmoid_op, tanh_op, stop_gradient_op;
extern Op equal_op, not_equal_op, less_op, less_equal_op, greater_op, greater_equal_op,
    logical_and_op, logical_or_op, logical_xor_op, logical_not_op, bitwise_and_op, bitwise_or_op,
    bitwise_xor_op, bitwise_not_op, order_op, where_op;
extern Op sum_op, sum_to_op, mean_op, max_op, min_op, argmax_op, any_op, all_op;
extern Op matmul_op, matmul_add_op, dense_op;
extern Op softmax_op, log_softmax_op, cross_entropy_op;
extern Op layer_norm_op;
extern Op lstm_gates_op, tree_lstm_gates_op, tree_lstm_leaf_gates_op;
extern Op gru_op, lstm_op;
extern Op reshape_op, transpose_op, expand_dims_op, squeeze_op, broadcast_to_op, concat_op,
    slice_op, unslice_op, cast_op;
extern Op take_op, gather_op, scatter_op, scatter_elements_op, one_hot_op;
extern Op fill_op, random_op;
extern Op assign_op, assign_add_op, assign_sub_op, assign_slice_op, sgd_update_op,
    momentum_update_op, adam_update_op;

/// A view by start, length and step along each axis.
Tensor slice(const Operand& x, const struct SliceOptions& options);

void add_arithmetic(OpTable& ops);
void add_math(OpTable& ops);
void add_activation(OpTable& ops);
void add_compare(OpTable& ops);
void add_reduce(OpTable& ops);
void add_matmul(OpTable& ops);
void add_softmax(OpTable& ops);
void add_normalize(OpTable& ops);
void add_recurrent(OpTable& ops);
void add_sequence(OpTable& ops);
void add_reshape(OpTable& ops);
void add_join(OpTable& ops);
void add_gather(OpTable& ops);
void add_create(OpTable& ops);
void add_random(OpTable& ops);
void add_update(OpTable& ops);
/// The op of an activation; null for none.
Op* activation_op(Activation activation);
}  // namespace reel
