// SPDX-License-Identifier: BSD-3-Clause
// Products of many shapes and layouts against sums in float64, for each instruction set.
#include <array>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include <reel/threads.hpp>

#include "kernels/operands.hpp"
#include "lib/table/options/matmul.hpp"
#include "lib/table/options/reduce.hpp"
#include "support/catch.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
template <class T>
struct Trial {
  std::int64_t stack, n, m, k;
  Layout left, right;
  bool accumulate;

  /// The error of the results, in units of the error that k roundings may cause. If there are many
  /// rows, only every seventh is checked; these include all positions in tiles of 6 and 8 rows.
  double error(const InstructionSet& set, unsigned seed) const {
    std::mt19937 random(seed);
    const Operand<T> x(random, stack, n, k, left), y(random, 1, k, m, right);
    const Body matrix = y.matrix();
    Array<T> out({stack, n, m}, T(0.5));
    call_kernel(set, "matmul", {&x.body, &matrix}, out.body, nullptr, accumulate);
    const std::int64_t step = n > 56 && n * m * k > 1 << 21 ? 7 : 1;
    std::vector<double> columns(static_cast<std::size_t>(m * k)), row(static_cast<std::size_t>(k));
    for (std::int64_t j = 0; j < m; ++j)
      for (std::int64_t l = 0; l < k; ++l)
        columns[static_cast<std::size_t>(j * k + l)] = y.at(0, l, j);
    double worst = 0;
    for (std::int64_t s = 0; s < stack; ++s)
      for (std::int64_t i = 0; i < n; i += step) {
        for (std::int64_t l = 0; l < k; ++l) row[static_cast<std::size_t>(l)] = x.at(s, i, l);
        const double* column = columns.data();
        for (std::int64_t j = 0; j < m; ++j, column += k) {
          double sum = accumulate ? 0.5 : 0, size = sum;
          const double* const left = row.data();
          for (std::int64_t l = 0; l < k; ++l) {
            const double product = left[l] * column[l];
            sum += product;
            size += product < 0 ? -product : product;
          }
          const double off = std::abs(static_cast<double>(out[(s * n + i) * m + j]) - sum);
          const double unit = static_cast<double>(std::numeric_limits<T>::epsilon());
          worst = std::max(worst, off / ((static_cast<double>(k) + 2) * unit * size + 1e-300));
        }
      }
    return worst;
  }
};

template <class T>
void check(const InstructionSet& set, const Trial<T>& trial, unsigned seed) {
  INFO(set.name << ": " << trial.stack << " of " << trial.n << " x " << trial.k << " by " << trial.k
                << " x " << trial.m << ", layouts " << static_cast<int>(trial.left) << " and "
                << static_cast<int>(trial.right) << ", accumulate " << trial.accumulate);
  CHECK(trial.error(set, seed) < 1);
}

// Lengths next to the limits of blocks, panels, bands and dot products.
constexpr std::int64_t turning_points[][3] = {
    {1, 750, 300},  {1, 384, 9},     {1, 415, 7},     {2, 300, 150},  {2, 700, 250}, {3, 65, 2600},
    {7, 128, 64},   {8, 129, 63},    {12, 33, 140},   {13, 90, 2000}, {13, 70, 300}, {14, 70, 300},
    {20, 130, 700}, {33, 130, 140},  {64, 512, 40},   {96, 17, 350},  {97, 160, 30}, {101, 48, 350},
    {128, 70, 129}, {129, 96, 80},   {150, 750, 1},   {300, 1, 150},  {40, 3, 700},  {32, 16, 1024},
    {300, 140, 30}, {260, 257, 256}, {24, 4, 52},     {23, 4, 60},    {70, 7, 171},  {70, 8, 170},
    {30, 11, 770},  {30, 12, 760},   {194, 385, 256}, {90, 2, 51},    {90, 3, 50},   {12, 9000, 20},
    {6000, 13, 64}};

template <class T>
void check_random_shapes(const InstructionSet& set, unsigned trials) {
  std::mt19937 random(7);
  const auto length = [&] {
    const std::int64_t most[] = {2, 5, 9, 20, 40, 150};
    return static_cast<std::int64_t>(random()) % (most[random() % 6] + 1);
  };
  const auto depth = [&](unsigned i) {
    return i % 11 ? length() : static_cast<std::int64_t>(random() % 3001);
  };
  const auto layout = [&] { return layouts[random() % std::size(layouts)]; };
  for (unsigned i = 0; i < trials; ++i) {
    const std::int64_t stack = i % 7 == 0 ? length() % 4 : 1;
    const Trial<T> trial{stack, length(), length(), depth(i), layout(), layout(), i % 3 == 0};
    check(set, trial, i);
  }
}
struct WholeProduct {
  std::int64_t n, k, m;
  Array<float> x{{2 * n * k}, 100.0f}, y{{2 * k * m}, 100.0f}, out{{n, m}};

  static float left(std::int64_t i, std::int64_t l) {
    return static_cast<float>((i * 7 + l * 3) % 11 - 5);
  }
  static float right(std::int64_t l, std::int64_t j) {
    return static_cast<float>((l * 5 + j) % 7 - 3);
  }
  Body x_with(std::int64_t row, std::int64_t column) {
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t l = 0; l < k; ++l) x[i * row + l * column] = left(i, l);
    return x.view({n, k}, {row, column});
  }
  Body y_with(std::int64_t row, std::int64_t column) {
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t j = 0; j < m; ++j) y[l * row + j * column] = right(l, j);
    return y.view({k, m}, {row, column});
  }
  bool is_right() {
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < m; ++j) {
        float sum = 0;
        for (std::int64_t l = 0; l < k; ++l) sum += left(i, l) * right(l, j);
        if (out[i * m + j] != sum) return false;
      }
    return true;
  }
};
}  // namespace

TEST_CASE("products agree with float64 at 500 shapes and layouts", "[products]") {
  for_each_set([](const InstructionSet& set) {
    check_random_shapes<float>(set, 500);
    check_random_shapes<double>(set, 250);
  });
}

TEST_CASE("products agree with float64 where they change their method", "[products]") {
  for_each_set([&](const InstructionSet& set) {
    unsigned seed = 0;
    for (const auto& [n, m, k] : turning_points)
      for (const Layout left : {Layout::row_major, Layout::transposed, Layout::every_other})
        for (const Layout right : {Layout::row_major, Layout::transposed, Layout::gaps}) {
          check(set, Trial<float>{1, n, m, k, left, right, seed % 2 == 0}, seed);
          check(set, Trial<double>{1, n, m, k, left, right, seed % 2 == 1}, seed);
          ++seed;
        }
  });
}

TEST_CASE("large products read matrices whose elements have gaps or overlap", "[products]") {
  for_each_set([&](const InstructionSet& set) {
    for (const auto& [left, right] : {std::pair{Layout::transposed_gaps, Layout::row_major},
                                      {Layout::row_major, Layout::transposed_gaps},
                                      {Layout::overlapping, Layout::row_major},
                                      {Layout::row_major, Layout::overlapping}}) {
      check(set, Trial<float>{1, 400, 260, 400, left, right, false}, 1);
      check(set, Trial<double>{1, 360, 400, 256, left, right, true}, 2);
      check(set, Trial<float>{1, 360, 256, 360, left, right, false}, 3);
      check(set, Trial<double>{1, 360, 270, 264, left, right, false}, 4);
    }
  });
}

TEST_CASE("products of more rows and columns than blocks have agree with float64", "[products]") {
  for_each_set([&](const InstructionSet& set) {
    for (const Layout right : {Layout::row_major, Layout::transposed})
      check(set, Trial<float>{1, 200, 2064, 256, Layout::row_major, right, true}, 1);
  });
}

TEST_CASE("products of leading axes broadcast", "[products]") {
  for_each_set([](const InstructionSet& set) {
    std::mt19937 random(3);
    const Operand<float> x(random, 3, 4, 5, Layout::gaps), y(random, 2, 5, 6, Layout::transposed);
    Body many = x.body, few = y.body;
    many.shape = {3, 1, 4, 5};
    for (int axis = 3; axis > 1; --axis) many.strides[axis] = many.strides[axis - 1];
    Array<float> out({3, 2, 4, 6});
    call_kernel(set, "matmul", {&many, &few}, out.body);
    double worst = 0;
    for (std::int64_t at = 0; at < out.body.elements; ++at) {
      const std::int64_t j = at % 6, i = at / 6 % 4, b = at / 24 % 2, a = at / 48;
      double sum = 0;
      for (std::int64_t l = 0; l < 5; ++l) sum += x.at(a, i, l) * y.at(b, l, j);
      worst = std::max(worst, std::abs(sum - static_cast<double>(out[at])));
    }
    INFO(set.name);
    CHECK(worst < 1e-5);
  });
}

TEST_CASE("products add a row, a column, a number or a matrix", "[products]") {
  for_each_set([](const InstructionSet& set) {
    std::mt19937 random(5);
    constexpr std::int64_t n = 10, m = 40, k = 11;
    const Operand<float> x(random, 1, n, k, Layout::row_major), y(random, 1, k, m, Layout::gaps);
    const Body left = x.matrix(), right = y.matrix();
    for (const Shape& shape : {Shape{m}, Shape{1, m}, Shape{n, 1}, Shape{}, Shape{n, m}}) {
      Array<float> z(shape), out({n, m});
      for (std::int64_t i = 0; i < z.body.elements; ++i) z[i] = static_cast<float>(i + 1);
      call_kernel(set, "matmul_add", {&left, &right, &z.body}, out.body);
      const int rank = static_cast<int>(shape.rank());
      const bool by_row = rank == 2 && shape[0] != 1, by_column = rank > 0 && shape[rank - 1] != 1;
      double worst = 0;
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < m; ++j) {
          double sum = z[(by_row ? i * (by_column ? m : 1) : 0) + (by_column ? j : 0)];
          for (std::int64_t l = 0; l < k; ++l) sum += x.at(0, i, l) * y.at(0, l, j);
          worst = std::max(worst, std::abs(sum - static_cast<double>(out[i * m + j])));
        }
      INFO(set.name << ", added shape of rank " << rank);
      CHECK(worst < 1e-4);
    }
  });
}

TEST_CASE("an activation is applied once to each element of a product, to the whole sum",
          "[products]") {
  for_each_set([](const InstructionSet& set) {
    const PassFunction tanh = find_passes(set, "tanh")->value[static_cast<int>(DType::float32)];
    const ActivationOptions options{Activation::tanh};
    std::mt19937 random(11);
    for (const auto& [n, m, k] : turning_points)
      for (const Layout left : {Layout::row_major, Layout::transposed})
        for (const Layout right : {Layout::row_major, Layout::transposed}) {
          const Operand<float> x(random, 1, n, k, left), y(random, 1, k, m, right);
          const Body a = x.matrix(), b = y.matrix();
          Array<float> z({m}, -0.25f), sums({n, m}), activated({n, m});
          call_kernel(set, "matmul_add", {&a, &b, &z.body}, sums.body);
          const void* const input = sums.body.data;
          tanh(n * m, &input, 0, sums.body.data);
          call_kernel(set, "dense", {&a, &b, &z.body}, activated.body, &options);
          INFO(set.name << ": " << n << " x " << k << " x " << m << ", layouts "
                        << static_cast<int>(left) << " and " << static_cast<int>(right));
          CHECK(sums.elements == activated.elements);
        }
  });
}

TEST_CASE("a row of a product of few rows has the same bits alone", "[products]") {
  for_each_set([](const InstructionSet& set) {
    std::mt19937 random(9);
    constexpr std::int64_t n = 40, k = 30;
    // with 415 columns, a single row is read by whole cache lines
    for (const std::int64_t m : {50, 415}) {
      const Operand<float> x(random, 1, n, k, Layout::row_major),
          y(random, 1, k, m, Layout::row_major);
      const Body left = x.matrix(), right = y.matrix();
      Array<float> whole({n, m});
      call_kernel(set, "matmul", {&left, &right}, whole.body);
      for (const std::int64_t rows : {n / 2, std::int64_t{1}}) {
        Array<float> part({rows, m});
        Body lower = left;
        lower.shape = {rows, k};
        lower.elements = rows * k;
        lower.data = reinterpret_cast<std::byte*>(left.as<float>() + (n - rows) * k);
        call_kernel(set, "matmul", {&lower, &right}, part.body);
        INFO(set.name << ", " << rows << " rows of " << m);
        CHECK(std::memcmp(part.body.data, &whole[(n - rows) * m],
                          part.elements.size() * sizeof(float)) == 0);
      }
    }
  });
}

// A new thread has no scratch memory of earlier kernels behind which a write would go unseen.
TEST_CASE("a first large product and a first sum of tall columns on a thread are right") {
  const KeepThreads keep;
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    WholeProduct product{3000, 4, 1601};
    const Body x = product.x_with(1, 3000), y = product.y_with(1601, 1);
    set_num_threads(1);
    std::thread([&] { call_kernel(set, "matmul", {&x, &y}, product.out.body); }).join();
    CHECK(product.is_right());

    Array<float> tall({1024, 512}, 0.5f), sums({512});
    const ReduceOptions down{.axes = 0};
    set_num_threads(2);
    std::thread([&] { call_kernel(set, "sum", {&tall.body}, sums.body, &down); }).join();
    CHECK(sums.elements == std::vector<float>(512, 512.0f));
  });
}
}  // namespace reel::tests
