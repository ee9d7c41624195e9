// SPDX-License-Identifier: BSD-3-Clause
#include <cblas.h>

#include "rows.hpp"

int main() {
  openblas_set_num_threads(1);
  harness::Rows rows;
  limits::add_ops(rows);
  limits::add_kernels(rows);
  limits::add_tape(rows);
  limits::add_lstm(rows);
  limits::add_char_rnn(rows);
  limits::add_tree_lstm(rows);
  limits::add_mlp(rows);
  return harness::serve(rows, {{"compiler", "g++ " __VERSION__},
                               {"OpenBLAS", openblas_get_config()},
                               {"OpenBLAS core type", openblas_get_corename()}});
}
