// SPDX-License-Identifier: BSD-3-Clause
// Hand-written code for the work of each row: buffers made before, no dispatch, no checks.
#pragma once
#include "../serve.hpp"

namespace limits {
void add_ops(bench::Rows& rows);
void add_kernels(bench::Rows& rows);
void add_tape(bench::Rows& rows);
void add_lstm(bench::Rows& rows);
void add_char_rnn(bench::Rows& rows);
void add_tree_lstm(bench::Rows& rows);
void add_mlp(bench::Rows& rows);
}  // namespace limits
