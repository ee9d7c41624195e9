// SPDX-License-Identifier: BSD-3-Clause
// The families of the table.
#pragma once
#include "lib/table/entries.hpp"

namespace reel {
/// A view by start, length and step along each axis.
Tensor slice(const Operand& x, const struct SliceOptions& options);

/// The entries of each family, ended by null.
using Entry = Op*;
extern const Entry arithmetic_ops[], math_ops[], activation_ops[], compare_ops[], reduce_ops[],
    matmul_ops[], softmax_ops[], normalize_ops[], recurrent_ops[], sequence_ops[], reshape_ops[],
    join_ops[], gather_ops[], create_ops[], device_ops[], random_ops[], update_ops[];
}  // namespace reel
