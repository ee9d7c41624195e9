// SPDX-License-Identifier: BSD-3-Clause
// Where models spend their time: functions, folds and products.
#include "rows.hpp"

namespace rows {
namespace {

/// f of one tensor.
template <auto f>
struct Of {
  explicit Of(std::size_t count) : x(numbers(1, {count}, 2)) {}
  Of(const std::array<std::size_t, 2>& shape, float scale)
      : x(numbers(1, {shape[0], shape[1]}, scale)) {}
  Tensor x;
  void operator()() { keep(f(x)); }
  double value() { return squares(f(x)); }
};

constexpr auto sum_of_columns = [](const Tensor& x) { return sum(x, 0); };
constexpr auto sum_of_rows = [](const Tensor& x) { return sum(x, 1); };
constexpr auto exponential = [](const Tensor& x) { return exp(x); };
constexpr auto logistic = [](const Tensor& x) { return sigmoid(x); };
constexpr auto running_sum = [](const Tensor& x) { return cumsum(x); };
constexpr auto sorted = [](const Tensor& x) { return sort(x); };
constexpr auto softmax_of_rows = [](const Tensor& x) { return softmax(x); };

struct TopK {
  Tensor x = numbers(1, {std::size_t{1} << 20}, 2);
  void operator()() { keep(topk(x, harness::largest)); }
  double value() { return squares(topk(x, harness::largest).values); }
};

/// Passes that nothing but the next one reads.
struct Passes {
  Tensor x = numbers(1, {std::size_t{1} << 20});
  static Tensor all_of(Tensor y) {
    for (int i = 0; i < harness::passes; ++i) y = i % 2 == 0 ? y * 1.01f : y + 0.01f;
    return y;
  }
  Traced<Tensor(Tensor)> trace_of_all = trace(all_of);
  Tensor y() { return traced ? trace_of_all(x) : all_of(x); }
  void operator()() { keep(y()); }
  double value() { return squares(y()); }
};

struct LayerNorm {
  Tensor x = numbers(1, {harness::norm_shape[0], harness::norm_shape[1]}),
         scale = numbers(2, {harness::norm_shape[1]}), shift = numbers(3, {harness::norm_shape[1]});
  void operator()() { keep(layer_norm(x, scale, shift)); }
  double value() { return squares(layer_norm(x, scale, shift)); }
};

struct Product {
  explicit Product(harness::ProductSize size)
      : x(numbers(1, {size.m, size.k})), y(numbers(2, {size.k, size.n})) {}
  Tensor x, y;
  void operator()() { keep(matmul(x, y)); }
  double value() { return squares(matmul(x, y)); }
};

}  // namespace

void add_kernels(harness::Rows& rows) {
  using harness::row;
  rows.push_back(row<Of<exponential>>("exp 64k", 1, std::size_t{1} << 16));
  rows.push_back(row<Of<logistic>>("sigmoid 64k", 1, std::size_t{1} << 16));
  rows.push_back(harness::traced_row<Passes>("10 ops on 1M floats", 1));
  rows.push_back(row<Of<softmax_of_rows>>("softmax 2048x96", 1, harness::softmax_shape, 2.0f));
  rows.push_back(row<LayerNorm>("layer norm 64x512", 1));
  rows.push_back(row<Of<sum_of_columns>>("column sum 4096x4096", 1, harness::sum_shape, 1.0f));
  rows.push_back(row<Of<sum_of_rows>>("row sum 4096x4096", 1, harness::sum_shape, 1.0f));
  rows.push_back(row<Of<running_sum>>("cumsum 1M", 1, std::size_t{1} << 20));
  rows.push_back(row<Of<sorted>>("sort 1M", 1, std::size_t{1} << 20));
  rows.push_back(row<TopK>("topk 100 of 1M", 1));
  for (const auto& [name, size] : harness::products) rows.push_back(row<Product>(name, 1, size));
}

}  // namespace rows
