// SPDX-License-Identifier: BSD-3-Clause
#include "rows.hpp"

int main() {
  bench::Rows all;
  rows::add_ops(all);
  rows::add_kernels(all);
  rows::add_tape(all);
  rows::add_lstm(all);
  rows::add_char_rnn(all);
  rows::add_tree_lstm(all);
  rows::add_mlp(all);
  return bench::serve(all, {{"reel", REEL_VERSION}});
}
