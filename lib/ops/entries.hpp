// SPDX-License-Identifier: BSD-3-Clause
// The entries that other files of lib/ops, and lib/tensor, name. Other modules name entries by
// core_ops (lib/table/entries.hpp).
#pragma once
#include "lib/table/op.hpp"

namespace reel {
extern Op add_op, argsort_op, assign_add_op, assign_op, assign_slice_op, assign_sub_op,
    attention_dropout_op, attention_op, cast_op, check_range_op, cofactors_op, convolution_data_op,
    convolution_op, convolution_weights_op, fill_op, flat_positions_op, function_curve_op,
    function_slope_op, linear_scan_op, lookup_op, matmul_op, max_pool_places_op, multiply_op,
    order_op, polygamma_op, prod_op, random_op, relu_op, reshape_op, scatter_elements_op,
    scatter_op, sigmoid_op, slice_op, subtract_op, sum_to_op, take_op, tanh_op, to_device_op,
    unslice_op;
}  // namespace reel
