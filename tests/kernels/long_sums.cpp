// SPDX-License-Identifier: BSD-3-Clause
// Sums of many terms against exact sums. The unit of the error is half a unit of the last place of
// the sum of absolute values. With 65,536 terms, a single running sum of float32 has an error of
// hundreds of units.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>

#include <reel/reel.hpp>

#include "kernels/kernels.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/normalize.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
const bool in_full = std::getenv("REEL_TEST_LONG") != nullptr;

/// The sum of the terms, and the sum of their absolute values.
struct Exact {
  long double sum = 0, size = 0;
  void add(long double term) {
    sum += term;
    size += std::abs(term);
  }
  template <class T>
  double error(T got) const {
    const long double half = std::numeric_limits<T>::epsilon() / 2;
    return static_cast<double>(std::abs(static_cast<long double>(got) - sum) / (half * size));
  }
};

/// Uniform in (0, 1), or in (-1, 1).
template <class T>
std::vector<T> drawn(std::int64_t n, unsigned seed, bool positive) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<T> values(positive ? T(0) : T(-1), T(1));
  std::vector<T> all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(values(random));
  return all;
}

struct Shapes {
  std::int64_t n, m;
  bool x_transposed, y_transposed;
};
// Every method for products: small and wide tiles, one row, bands of rows, dot products from either
// side, transposes and columns.
const Shapes shapes[] = {{4, 3, false, false},    {3, 40, false, false},  {1, 700, false, false},
                         {1, 387, false, false},  {5, 400, false, false}, {64, 128, false, false},
                         {110, 80, false, false}, {70, 90, true, false},  {1, 30, false, true},
                         {2, 9, false, true},     {40, 3, false, false},  {64, 12, true, false},
                         {50, 1, false, false},   {1, 1, false, false},   {64, 64, false, true},
                         {30, 128, true, true}};

/// The elements of two matrices, for all shapes.
template <class T>
struct Operands {
  Array<T> x, y;
  explicit Operands(bool positive)
      : x({most}, drawn<T>(most, 1, positive)), y({most}, drawn<T>(most, 2, positive)) {}
  static constexpr std::int64_t most = 128 << 16;
};

template <class T>
void check_product(const InstructionSet& set, Operands<T>& all, const Shapes& s, std::int64_t k,
                   double limit, bool accumulate) {
  Array<T> out({s.n, s.m}, T(0.5));
  const Body left = all.x.view({s.n, k}, {s.x_transposed ? 1 : k, s.x_transposed ? s.n : 1});
  const Body right = all.y.view({k, s.m}, {s.y_transposed ? 1 : s.m, s.y_transposed ? k : 1});
  call_kernel(set, "matmul", {&left, &right}, out.body, nullptr, accumulate);
  double worst = 0;
  for (const std::int64_t i : {std::int64_t{0}, s.n - 1})
    for (const std::int64_t j : {std::int64_t{0}, s.m / 3, s.m - 1}) {
      Exact exact;
      if (accumulate) exact.add(0.5L);
      for (std::int64_t l = 0; l < k; ++l)
        exact.add(
            static_cast<long double>(left.as<T>()[i * left.strides[0] + l * left.strides[1]]) *
            right.as<T>()[l * right.strides[0] + j * right.strides[1]]);
      worst = std::max(worst, exact.error(out[i * s.m + j]));
    }
  INFO(set.name << (sizeof(T) == 4 ? ", float32: " : ", float64: ") << s.n << " x " << k << " x "
                << s.m << ", transposed " << s.x_transposed << s.y_transposed << ", accumulate "
                << accumulate);
  CHECK(worst <= limit);
}
template <class T>
void check_products(bool positive) {
  INFO("positive " << positive);
  Operands<T> all(positive);
  const std::int64_t k = sanitized ? 8192 : 65'536;
  for_each_set([&](const InstructionSet& set) {
    for (const Shapes& s : shapes)
      for (const bool accumulate : {false, true})
        check_product(set, all, s, std::min(k, Operands<T>::most / std::max(s.n, s.m)), 16,
                      accumulate);
    check_product(set, all, {256, 256, false, false}, k / 4, 16, false);
    if (!in_full) return;
    for (const Shapes& s : {shapes[0], shapes[4], shapes[8], shapes[9]})
      check_product(set, all, s, Operands<T>::most / std::max(s.n, s.m), 32, false);
  });
}

/// The sum of many updates to few places.
template <class T>
void check_scatter(const InstructionSet& set, const char* op, std::int64_t updates,
                   std::int64_t width, bool accumulate) {
  INFO(set.name << ": " << op << " of " << updates << " rows of " << width);
  const bool elements = std::string_view(op) == "scatter_elements";
  Array<T> from({updates, width}, drawn<T>(updates * width, 5, true));
  for (std::int64_t i = 0; i < updates; i += 3) from[i * width] = T(0.1);
  Array<std::int64_t> at(elements ? Shape{updates, width} : Shape{updates});
  const auto place = [&](std::int64_t i) {
    return i % 1000 == 7 ? i / 1000 % 90 : i % 5 == 1 ? 3 : 0;
  };
  for (std::int64_t i = 0; i < updates; ++i)
    if (elements)
      for (std::int64_t j = 0; j < width; ++j) at[i * width + j] = place(i);
    else
      at[i] = place(i);
  Array<T> out({100, width}, T(0.25));
  const UnTakeOptions options{{100, width}, 0};
  call_kernel(set, op, {&from.body, &at.body}, out.body, &options, accumulate);
  for (const std::int64_t j : {std::int64_t{0}, width - 1}) {
    std::vector<Exact> exact(100);
    for (Exact& e : exact) e.add(accumulate ? 0.25L : 0);
    for (std::int64_t i = 0; i < updates; ++i)
      exact[static_cast<std::size_t>(place(i))].add(from[i * width + j]);
    double worst = 0;
    for (std::size_t p = 0; p < 100; ++p)
      if (exact[p].size > 0)
        worst = std::max(worst, exact[p].error(out[static_cast<std::int64_t>(p) * width + j]));
    CHECK(worst <= (updates > 8 ? 2 : 8));
  }
}
}  // namespace

TEST_CASE("products of a long k are as exact as blocks make them", "[products][slow]") {
  for (const bool positive : {true, false}) {
    check_products<float>(positive);
    check_products<double>(positive);
  }
}

TEST_CASE("many updates of one place are rounded once", "[slow]") {
  for_each_set([](const InstructionSet& set) {
    for (const char* op : {"scatter", "scatter_elements"})
      for (const std::int64_t width : {1, 5, 67})
        for (const bool accumulate : {false, true}) {
          check_scatter<float>(set, op, 100'000, width, accumulate);
          check_scatter<double>(set, op, 20'000, width, accumulate);
          for (const std::int64_t few : {60, 20, 8, 3})
            check_scatter<float>(set, op, few, width, accumulate);
        }
  });
  const std::int64_t n = in_full ? 10'000'000 : 1'000'000;
  const Tensor sum = scatter_add(zeros({2}), zeros({n}, {.dtype = DType::int64}), full({n}, 0.1f));
  CHECK(sum[0].item<float>() == static_cast<float>(n / 10));
}

TEST_CASE("tens of updates of a place are rounded once, among few places and among many") {
  for (const DType dtype : {DType::float32, DType::float64})
    for (const std::int64_t places : {3, 40, 1'000, 100'000})
      for (const std::int64_t each : {9, 20, 64, 65, 300}) {
        INFO(name_of(dtype) << ", " << places << " places, " << each << " updates");
        const float most = dtype == DType::float32 ? 16'777'216.0f : 9'007'199'254'740'992.0f;
        std::vector<std::int64_t> at;
        for (std::int64_t i = 0; i < 3 * each; ++i) at.push_back(i % 3 * (places - 1) / 2);
        Tensor updates = ones({3 * each, 2}, {.dtype = dtype});
        Tensor none = zeros({3 * each - 3, 2}, {.dtype = dtype});
        updates = updates + concat({full({3, 2}, most - 1).to(dtype), none}, 0);
        const double sum = static_cast<double>(most) + 2 * (static_cast<double>(each - 1) / 2);
        const auto check = [&](const Tensor& got) {
          for (std::int64_t k = 0; k < 3; ++k) {
            const double value = got(k * (places - 1) / 2, 1).to(DType::float64).item<double>();
            CHECK(std::abs(value - sum) <= 1);
          }
        };
        check(scatter_add(zeros({places, 2}, {.dtype = dtype}), tensor(at), updates));
        GradientTape tape;
        const Tensor table = zeros({places, 2}, {.dtype = dtype});
        tape.watch(table);
        check(tape.gradient(reel::sum(take(table, tensor(at)) * updates), table));
      }
}

TEST_CASE("gradients that sum over many rows are as exact", "[slow]") {
  const std::int64_t rows = 65'536, n = 24;
  const std::vector<float> values = drawn<float>(rows * n, 3, true);
  const Tensor x = from_span(values, {rows, n});
  std::vector<Exact> exact(n);
  for (std::int64_t i = 0; i < rows * n; ++i)
    exact[static_cast<std::size_t>(i % n)].add(values[static_cast<std::size_t>(i)]);
  const auto check = [&](const Tensor& sums, double limit = 16) {
    const std::vector<float> got = sums.to_vector<float>();
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, exact[i % n].error(got[i]));
    CHECK(worst <= limit);
  };
  const Tensor shift = zeros({n}), weight = zeros({n, 1}), table = zeros({2, n});
  {
    INFO("the shift of layer norm, whose gradient is the sum of dy");
    GradientTape tape;
    tape.watch(shift);
    check(tape.gradient(layer_norm(x, ones({n}), shift), shift, {.upstream = x}));
  }
  {
    INFO("a bias");
    GradientTape tape;
    tape.watch(shift);
    check(tape.gradient(x + shift, shift, {.upstream = x}));
  }
  {
    INFO("a row of a table that many positions name");
    GradientTape tape;
    tape.watch(table);
    const Tensor y = take(table, zeros({rows}, {.dtype = DType::int64}));
    check(tape.gradient(y, table, {.upstream = x})[0]);
  }
  {
    INFO("a weight that one product uses");
    GradientTape tape;
    tape.watch(weight);
    check(tape.gradient(sum(matmul(x, weight)), weight));
  }
  for (const std::int64_t batch : {1, 32}) {
    INFO("a weight and a bias that many products use, " << batch << " rows each");
    const std::int64_t steps = batch == 1 ? 4096 : rows / batch;
    const Tensor bias = zeros({1});
    GradientTape tape;
    tape.watch(weight);
    tape.watch(bias);
    Tensor loss = zeros({});
    for (std::int64_t t = 0; t < steps; ++t)
      loss = loss + sum(matmul_add(x[range(t * batch, (t + 1) * batch)], weight, bias));
    const std::vector<Tensor> gradients = tape.gradient(loss, {weight, bias});
    if (batch > 1) check(gradients[0], 40);  // one addition for each 128 rows
    CHECK(gradients[1][0].item<float>() == static_cast<float>(steps * batch));
  }
}

TEST_CASE("biases of recurrent ops have gradients of many rows as exact as float64", "[slow]") {
  const std::int64_t rows = 65'536, in = 2, hidden = 3;
  const Tensor x = from_span(drawn<float>(rows * in, 6, true), {1, rows, in});
  const auto of_bias = [&](DType dtype, bool gru_cell) {
    const std::int64_t gates = gru_cell ? 3 : 4;
    const Tensor h = zeros({rows, hidden}, {.dtype = dtype});
    const Tensor weight = from_span(drawn<float>((in + hidden) * gates * hidden, 7, true),
                                    {in + hidden, gates * hidden})
                              .to(dtype);
    const Tensor bias = zeros({4 * hidden}, {.dtype = dtype});
    GradientTape tape;
    tape.watch(bias);
    const Tensor y = gru_cell ? gru(x.to(dtype), h, weight, bias).outputs
                              : lstm(x.to(dtype), h, h, weight, bias).outputs;
    return tape.gradient(sum(y), bias).to(DType::float64).to_vector<double>();
  };
  for (const bool gru_cell : {false, true}) {
    const std::vector<double> got = of_bias(DType::float32, gru_cell),
                              exact = of_bias(DType::float64, gru_cell);
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(std::abs(got[i] - exact[i]) <= 2e-6 * std::abs(exact[i]));
  }
}

TEST_CASE("the norm of one element more than 64 whole blocks has them all") {
  constexpr std::int64_t n = (std::int64_t{64} << 15) + 1;
  Array<float> x({n}), y({n});
  x[0] = 3;
  x[n - 1] = 4;
  const LimitNormOptions options{2.5};
  for_each_set([&](const InstructionSet& set) {
    INFO(set.name);
    call_kernel(set, "limit_norm", {&x.body}, y.body, &options);
    CHECK(y[0] == 1.5f);
    CHECK(y[n - 1] == 2);
    CHECK(y[1] == 0);
  });
}
}  // namespace reel::tests
