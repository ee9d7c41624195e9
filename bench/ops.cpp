// SPDX-License-Identifier: BSD-3-Clause
#include "rows.hpp"

namespace rows {
namespace {

struct Add {
  explicit Add(std::size_t count) : x(numbers(1, {count})), y(numbers(2, {count})) {}
  Tensor x, y;
  void operator()() { keep(x + y); }
  double value() { return squares(x + y); }
};

struct Tanh {
  explicit Tanh(std::size_t count) : x(numbers(1, {count}, 2)) {}
  Tensor x;
  void operator()() { keep(tanh(x)); }
  double value() { return squares(tanh(x)); }
};

struct ScalarOperand {
  Tensor x = numbers(1, {16});
  void operator()() { keep(x * 1.5f); }
  double value() { return squares(x * 1.5f); }
};

template <std::size_t side>
struct AddTransposed {
  Tensor x = numbers(1, {side, side}), y = numbers(2, {side, side});
  void operator()() { keep(x + transpose(y)); }
  double value() { return squares(x + transpose(y)); }
};

struct Transpose {
  Tensor x = numbers(1, {4, 4});
  void operator()() { keep(transpose(x)); }
  double value() { return squares(transpose(x)); }
};

struct Slice {
  Tensor x = numbers(1, {4, 4});
  void operator()() { keep(x(range(1, 3))); }
  double value() { return squares(x(range(1, 3))); }
};

struct Split {
  Tensor x = numbers(1, {4, 4});
  void operator()() { keep(split(x, 4)); }
  double value() { return squares_of(split(x, 4)); }
};

}  // namespace

void add_ops(harness::Rows& rows) {
  using harness::row;
  rows.push_back(row<Add>("add 16", 1, std::size_t{16}));
  rows.push_back(row<Add>("add 1k", 1, std::size_t{1} << 10));
  rows.push_back(row<Add>("add 64k", 1, std::size_t{1} << 16));
  rows.push_back(row<Add>("add 16M", 1, std::size_t{1} << 24));
  rows.push_back(row<Tanh>("tanh 16", 1, std::size_t{16}));
  rows.push_back(row<Tanh>("tanh 64k", 1, std::size_t{1} << 16));
  rows.push_back(row<ScalarOperand>("scalar operand 16", 1));
  rows.push_back(row<AddTransposed<64>>("64x64 + transposed 64x64", 1));
  rows.push_back(row<AddTransposed<256>>("256x256 + transposed 256x256", 1));
  rows.push_back(row<Transpose>("transpose view", 1));
  rows.push_back(row<Slice>("slice view", 1));
  rows.push_back(row<Split>("split in 4", 1));
}

}  // namespace rows
