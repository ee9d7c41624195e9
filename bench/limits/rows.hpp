// SPDX-License-Identifier: BSD-3-Clause
// Hand-written code for the work of each row: buffers made before, no dispatch, no checks.
#pragma once
#include "../serve.hpp"

namespace limits {
void add_ops(harness::Rows& rows);
void add_kernels(harness::Rows& rows);
void add_tape(harness::Rows& rows);
void add_lstm(harness::Rows& rows);
void add_char_rnn(harness::Rows& rows);
void add_tree_lstm(harness::Rows& rows);
void add_mlp(harness::Rows& rows);
}  // namespace limits
