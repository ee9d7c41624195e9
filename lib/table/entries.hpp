// SPDX-License-Identifier: BSD-3-Clause
// The entries that are named outside of the file that defines them. Modules below lib/ops and
// beside it name them here; see DEFINED_ABOVE in tests/layout/dependencies.py.
#pragma once  // defined in lib/ops
#include <reel/activation.hpp>

#include "lib/table/op.hpp"

namespace reel {
extern Op add_op, subtract_op, relu_op, sigmoid_op, tanh_op, order_op, cast_op, to_device_op,
    fill_op;
extern Op sum_to_op, prod_op, argsort_op, matmul_op, slice_op, unslice_op, scatter_op, take_op,
    lookup_op, scatter_elements_op, flat_positions_op, check_range_op, linear_scan_op, polygamma_op,
    random_op;
extern Op assign_op, assign_add_op, assign_sub_op, assign_slice_op;

/// The op of an activation; null for none.
Op* activation_op(Activation activation);
}  // namespace reel
