// SPDX-License-Identifier: BSD-3-Clause
// reel's rows; with the argument "traced" those that can be traced, as traces.
#include <string_view>

#include "rows.hpp"

int main(int count, char** arguments) {
  rows::traced = count > 1 && std::string_view(arguments[1]) == "traced";
  harness::Rows all;
  rows::add_ops(all);
  rows::add_kernels(all);
  rows::add_tape(all);
  rows::add_lstm(all);
  rows::add_char_rnn(all);
  rows::add_tree_lstm(all);
  rows::add_mlp(all);
  rows::add_conv_net(all);
  if (rows::traced) std::erase_if(all, [](const harness::Row& row) { return !row.traced; });
  return harness::serve(all, {{"reel", REEL_VERSION}});
}
