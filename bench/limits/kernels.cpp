// SPDX-License-Identifier: BSD-3-Clause
// Functions and folds in one pass where that is possible; products by OpenBLAS.
#include <algorithm>
#include <functional>
#include <vector>

#include "../task.hpp"
#include "curves.hpp"
#include "dense.hpp"
#include "memory.hpp"
#include "rows.hpp"

namespace limits {
namespace {

using harness::keep;
using harness::Numbers;

/// f of every element.
template <auto f>
struct Map {
  Buffer x{Numbers(1).vector(std::size_t{1} << 16, 2)}, y{std::size_t{1} << 16};
  void operator()() {
    for (std::size_t i = 0; i < x.size(); i += lanes)
      f(Batch::load_aligned(x + i)).store_aligned(y + i);
    keep(*y.begin());
  }
  double value() { return sum_of_squares(y); }
};
/// All passes in one.
struct Passes {
  static constexpr std::size_t count = std::size_t{1} << 20;
  Buffer x{Numbers(1).vector(count)}, y{count};
  void operator()() {
    for (std::size_t i = 0; i < count; i += lanes) {
      Batch v = Batch::load_aligned(x + i);
      for (int k = 0; k < harness::passes; ++k) v = k % 2 == 0 ? v * 1.01f : v + 0.01f;
      v.store_aligned(y + i);
    }
    keep(*y.begin());
  }
  double value() { return sum_of_squares(y); }
};
constexpr auto exponential = [](Batch x) { return xsimd::exp(x); };
constexpr auto logistic = [](Batch x) { return sigmoid(x); };

/// Rows in whole vectors that stay in registers between the sum and the scale.
struct Softmax {
  static constexpr std::size_t rows = harness::softmax_shape[0], width = harness::softmax_shape[1];
  Buffer x{Numbers(1).vector(rows * width, 2)}, y{rows * width};
  void operator()() {
    for (std::size_t r = 0; r < rows; ++r) {
      const float* from = x + r * width;
      Batch top = Batch::load_aligned(from);
      for (std::size_t i = lanes; i < width; i += lanes)
        top = xsimd::max(top, Batch::load_aligned(from + i));
      alignas(64) float tops[lanes];
      top.store_aligned(tops);
      const Batch most(*std::max_element(tops, tops + lanes));
      Batch e[width / lanes], sum(0.0f);
      for (std::size_t i = 0; i < width / lanes; ++i)
        sum += e[i] = xsimd::exp(Batch::load_aligned(from + i * lanes) - most);
      const Batch scale(1 / total(sum));
      for (std::size_t i = 0; i < width / lanes; ++i)
        (e[i] * scale).store_aligned(y + r * width + i * lanes);
    }
    keep(*y.begin());
  }
  double value() { return sum_of_squares(y); }
};

struct LayerNorm {
  static constexpr std::size_t rows = harness::norm_shape[0], width = harness::norm_shape[1];
  Buffer x{Numbers(1).vector(rows * width)}, scale{Numbers(2).vector(width)},
      shift{Numbers(3).vector(width)}, y{rows * width};
  void operator()() {
    for (std::size_t r = 0; r < rows; ++r) {
      const float* from = x + r * width;
      Batch sum(0.0f), squares(0.0f);
      for (std::size_t i = 0; i < width; i += lanes) sum += Batch::load_aligned(from + i);
      const Batch mean(total(sum) / width);
      for (std::size_t i = 0; i < width; i += lanes) {
        const Batch d = Batch::load_aligned(from + i) - mean;
        squares = xsimd::fma(d, d, squares);
      }
      const Batch inverse(1 / std::sqrt(total(squares) / width + 1e-5f));
      for (std::size_t i = 0; i < width; i += lanes) {
        const Batch normal = (Batch::load_aligned(from + i) - mean) * inverse;
        xsimd::fma(normal, Batch::load_aligned(scale + i), Batch::load_aligned(shift + i))
            .store_aligned(y + r * width + i);
      }
    }
    keep(*y.begin());
  }
  double value() { return sum_of_squares(y); }
};

constexpr std::size_t side = harness::sum_shape[0];
static_assert(harness::sum_shape[1] == side);

struct ColumnSum {
  Buffer x{Numbers(1).vector(side * side)}, y{side};
  void operator()() {
    std::fill(y.begin(), y.end(), 0.0f);
    for (std::size_t r = 0; r < side; r += 4) {
      const float* from = x + r * side;
      float* to = y;
      for (std::size_t i = 0; i < side; ++i)
        to[i] += (from[i] + from[side + i]) + (from[2 * side + i] + from[3 * side + i]);
    }
    keep(*y.begin());
  }
  double value() { return sum_of_squares(y); }
};
struct RowSum {
  Buffer x{Numbers(1).vector(side * side)}, y{side};
  void operator()() {
    for (std::size_t r = 0; r < side; ++r) {
      Batch sums[4] = {Batch(0.0f), Batch(0.0f), Batch(0.0f), Batch(0.0f)};
      for (std::size_t i = 0; i < side; i += 4 * lanes)
        for (std::size_t k = 0; k < 4; ++k)
          sums[k] += Batch::load_aligned(x + r * side + i + k * lanes);
      y[r] = total((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
    keep(*y.begin());
  }
  double value() { return sum_of_squares(y); }
};

constexpr std::size_t million = std::size_t{1} << 20;

struct RunningSum {
  Buffer x{Numbers(1).vector(million, 2)}, y{million};
  void operator()() {
    float sum = 0;
    for (std::size_t i = 0; i < million; ++i) y[i] = sum += x[i];
    keep(*y.begin());
  }
  double value() { return sum_of_squares(y); }
};
struct Sort {
  Buffer x{Numbers(1).vector(million, 2)}, y{million};
  void operator()() {
    std::copy(x.begin(), x.end(), y.begin());
    std::sort(y.begin(), y.end());
    keep(*y.begin());
  }
  double value() { return sum_of_squares(y); }
};
/// Keeps the largest numbers so far in a heap, with their places.
struct TopK {
  struct Number {
    float value;
    std::int64_t place;
    bool operator>(const Number& other) const { return value > other.value; }
  };
  Buffer x{Numbers(1).vector(million, 2)}, values{harness::largest};
  std::vector<Number> heap;
  void operator()() {
    heap.clear();
    const auto at = [&](std::size_t i) { return Number{x[i], static_cast<std::int64_t>(i)}; };
    std::size_t i = 0;
    for (; i < harness::largest; ++i) heap.push_back(at(i));
    std::make_heap(heap.begin(), heap.end(), std::greater());
    for (; i < million; ++i) {
      if (x[i] <= heap[0].value) continue;
      std::pop_heap(heap.begin(), heap.end(), std::greater());
      heap.back() = at(i);
      std::push_heap(heap.begin(), heap.end(), std::greater());
    }
    std::sort_heap(heap.begin(), heap.end(), std::greater());
    for (std::size_t k = 0; k < harness::largest; ++k) values[k] = heap[k].value;
    keep(*values.begin());
  }
  double value() { return sum_of_squares(values); }
};

struct Product {
  explicit Product(harness::ProductSize of)
      : size(of),
        x(Numbers(1).vector(of.m * of.k)),
        y(Numbers(2).vector(of.k * of.n)),
        z(of.m * of.n) {}
  harness::ProductSize size;
  Buffer x, y, z;
  void operator()() {
    dense(size.m, size.n, size.k, x, Turn::no, y, Turn::no, 0, z);
    keep(*z.begin());
  }
  double value() { return sum_of_squares(z); }
};

}  // namespace

void add_kernels(harness::Rows& rows) {
  using harness::row;
  rows.push_back(row<Map<exponential>>("exp 64k", 1));
  rows.push_back(row<Map<logistic>>("sigmoid 64k", 1));
  rows.push_back(row<Passes>("10 ops on 1M floats", 1));
  rows.push_back(row<Softmax>("softmax 2048x96", 1));
  rows.push_back(row<LayerNorm>("layer norm 64x512", 1));
  rows.push_back(row<ColumnSum>("column sum 4096x4096", 1));
  rows.push_back(row<RowSum>("row sum 4096x4096", 1));
  rows.push_back(row<RunningSum>("cumsum 1M", 1));
  rows.push_back(row<Sort>("sort 1M", 1));
  rows.push_back(row<TopK>("topk 100 of 1M", 1));
  for (const auto& [name, size] : harness::products) rows.push_back(row<Product>(name, 1, size));
}

}  // namespace limits
