// SPDX-License-Identifier: BSD-3-Clause
// Softmax, cross entropy and layer norm against float64, values and gradients, for each instruction
// set.
#include <cmath>
#include <limits>
#include <random>

#include "kernels/kernels.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/normalize.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
template <class T>
std::vector<T> numbers(std::int64_t n, unsigned seed, double size = 3) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> values(-size, size);
  std::vector<T> result(static_cast<std::size_t>(n));
  for (T& x : result) x = static_cast<T>(values(random));
  return result;
}
template <class T>
constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());

/// A row of a tensor [outer, n, inner], in float64.
struct Row {
  std::int64_t n, first, step;
  template <class T>
  std::vector<double> of(Array<T>& x) const {
    std::vector<double> row;
    for (std::int64_t i = 0; i < n; ++i) row.push_back(static_cast<double>(x[first + i * step]));
    return row;
  }
};
template <class F>
void for_rows(std::int64_t outer, std::int64_t n, std::int64_t inner, const F& f) {
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) f(Row{n, o * n * inner + i, inner});
}

std::vector<double> softmax_of(const std::vector<double>& x) {
  double largest = x[0], sum = 0;
  for (const double v : x) largest = std::max(largest, v);
  std::vector<double> y;
  for (const double v : x) sum += y.emplace_back(std::exp(v - largest));
  for (double& v : y) v /= sum;
  return y;
}
double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}
void check_near(const std::vector<double>& got, const std::vector<double>& exact, double tolerance,
                double added = 0) {
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - exact[i] - added) <= tolerance * (1 + std::abs(exact[i]))))
      FAIL("element " << i << ": got " << got[i] << ", expected " << exact[i] + added);
}

constexpr std::int64_t lengths[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 96, 131};
// Fewer rows than are folded at once, nearly one block of rows, and one block with some rows left.
constexpr std::int64_t row_counts[] = {5, 13, 21};

template <class T>
void check_softmax(const InstructionSet& set, bool log, std::int64_t outer) {
  const char* const op = log ? "log_softmax" : "softmax";
  const KernelPair kernel = find_kernels(set, op);
  for (const std::int64_t n : lengths)
    for (const std::int64_t inner : {1, 3}) {
      INFO(set.name << ": " << op << " of " << n << ", outer " << outer << ", inner " << inner);
      const Shape shape{outer, n, inner};
      const AxisOptions axis{1};
      Array<T> x(shape, numbers<T>(shape.elements(), 1)), y(shape);
      Array<T> dy(shape, numbers<T>(shape.elements(), 2)), dx(shape, T(2));
      call_kernel(kernel.kernel, {&x.body}, {&y.body}, &axis);
      for (const unsigned add : {0u, 1u}) {
        for (auto& value : dx.elements) value = T(2);
        call_kernel(kernel.gradient, {&dy.body, &x.body, &y.body}, {&dx.body}, &axis, add);
        for_rows(outer, n, inner, [&](const Row& row) {
          const std::vector<double> exact = softmax_of(row.of(x)), up = row.of(dy);
          std::vector<double> values = exact, gradient;
          double total = 0;
          for (const double v : up) total += v;
          for (std::size_t i = 0; i < exact.size(); ++i) {
            if (log) values[i] = std::log(exact[i]);
            gradient.push_back(log ? up[i] - exact[i] * total
                                   : exact[i] * (up[i] - dot(up, exact)));
          }
          check_near(row.of(y), values, 30 * epsilon<T>);
          check_near(row.of(dx), gradient, 300 * epsilon<T>, add ? 2 : 0);
        });
      }
    }
}

template <class T, class Label>
void check_cross_entropy(const InstructionSet& set, std::int64_t rows) {
  const KernelPair kernel = find_kernels(set, "cross_entropy");
  for (const std::int64_t n : lengths) {
    INFO(set.name << ": cross entropy of " << rows << " rows, " << n << " classes");
    Array<T> x({rows, n}, numbers<T>(rows * n, 3)), loss({rows}), dx({rows, n}, T(2));
    Array<T> dy({rows}, numbers<T>(rows, 4));
    Array<Label> labels({rows});
    for (std::int64_t i = 0; i < rows; ++i) labels[i] = static_cast<Label>((7 * i + 3) % n);
    const LabelOptions options{.ignores = true, .ignored = 100};
    for (std::int64_t i = 2; i < rows; i += 3) labels[i] = 100;
    const KernelResult result =
        call_kernel(kernel.kernel, {&x.body, &labels.body}, {&loss.body}, &options);
    CHECK(result.failure == nullptr);
    call_kernel(kernel.gradient, {&dy.body, &x.body, &labels.body, &loss.body}, {&dx.body, nullptr},
                &options, 1);
    std::int64_t i = 0;
    for_rows(rows, n, 1, [&](const Row& row) {
      const auto label = static_cast<std::size_t>(labels[i]);
      std::vector<double> exact = softmax_of(row.of(x));
      if (label == 100) {
        CHECK(loss[i++] == 0);
        return check_near(row.of(dx), std::vector<double>(exact.size()), 0, 2);
      }
      check_near({static_cast<double>(loss[i])}, {-std::log(exact[label])}, 30 * epsilon<T>);
      exact[label] -= 1;
      for (double& v : exact) v *= static_cast<double>(dy[i]);
      check_near(row.of(dx), exact, 100 * epsilon<T>, 2);
      ++i;
    });
  }
}

struct LayerNorm {
  std::vector<double> xhat, dx;
  /// With g = dy gain: dx = (g - mean g - xhat mean(g xhat)) / sqrt(variance + 1e-3).
  LayerNorm(const std::vector<double>& x, const std::vector<double>& g) {
    const double n = static_cast<double>(x.size());
    double mean = 0, variance = 0, g_mean = 0;
    for (const double v : x) mean += v / n;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
    for (const double v : g) g_mean += v / n;
    const double scale = 1 / std::sqrt(variance + 1e-3);
    for (const double v : x) xhat.push_back((v - mean) * scale);
    const double product = dot(g, xhat) / n;
    for (std::size_t i = 0; i < x.size(); ++i)
      dx.push_back(scale * (g[i] - g_mean - xhat[i] * product));
  }
};

template <class T>
void check_layer_norm(const InstructionSet& set, unsigned add, std::int64_t rows) {
  const KernelPair kernel = find_kernels(set, "layer_norm");
  const double many = rows > 6 ? 10 : 1;  // the number of terms of the sums over rows
  for (const std::int64_t n : lengths) {
    if (rows > 6 && n < 96) continue;  // these form a single block
    INFO(set.name << ": layer norm of " << rows << " rows of " << n);
    const EpsilonOptions options{1e-3};
    Array<T> x({rows, n}, numbers<T>(rows * n, 5)), y({rows, n});
    Array<T> gain({n}, numbers<T>(n, 6)), shift({n}, numbers<T>(n, 7));
    Array<T> dy({rows, n}, numbers<T>(rows * n, 8)), dx({rows, n}, T(2));
    Array<T> dgain({n}, T(2)), dshift({n}, T(2));
    call_kernel(kernel.kernel, {&x.body, &gain.body, &shift.body}, {&y.body}, &options);
    call_kernel(kernel.gradient, {&dy.body, &x.body, &gain.body, &shift.body, &y.body},
                {&dx.body, &dgain.body, &dshift.body}, &options, add);
    const Row one{n, 0, 1};
    const std::vector<double> gains = one.of(gain), shifts = one.of(shift);
    std::vector<double> gain_sum(gains.size()), shift_sum(gains.size());
    for_rows(rows, n, 1, [&](const Row& row) {
      const std::vector<double> up = row.of(dy);
      std::vector<double> g = up;
      for (std::size_t i = 0; i < g.size(); ++i) g[i] *= gains[i];
      const LayerNorm exact(row.of(x), g);
      std::vector<double> values;
      for (std::size_t i = 0; i < g.size(); ++i) {
        values.push_back(exact.xhat[i] * gains[i] + shifts[i]);
        gain_sum[i] += up[i] * exact.xhat[i];
        shift_sum[i] += up[i];
      }
      check_near(row.of(y), values, 300 * epsilon<T>);
      if (n > 2) check_near(row.of(dx), exact.dx, 3000 * epsilon<T>, add & 1 ? 2 : 0);
    });
    check_near(one.of(dgain), gain_sum, many * 300 * epsilon<T>, add & 2 ? 2 : 0);
    check_near(one.of(dshift), shift_sum, many * 100 * epsilon<T>, add & 4 ? 2 : 0);
  }
}
}  // namespace

TEST_CASE("softmax agrees with float64 along every axis", "[softmax]") {
  for_each_set([](const InstructionSet& set) {
    for (const bool log : {false, true})
      for (const std::int64_t rows : row_counts) {
        check_softmax<float>(set, log, rows);
        check_softmax<double>(set, log, rows);
      }
  });
}

TEST_CASE("softmax keeps to its range where exponentials would leave theirs", "[softmax]") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    const float infinity = std::numeric_limits<float>::infinity();
    Array<float> x({3}, std::vector<float>{1000, -1000, 999}), y({3});
    const AxisOptions axis{0};
    call_kernel(set, "softmax", {&x.body}, y.body, &axis);
    CHECK(y[0] == Approx(0.7310586));
    CHECK(y[1] == 0);
    call_kernel(set, "log_softmax", {&x.body}, y.body, &axis);
    CHECK(y[1] == Approx(-2000.3133));
    x[1] = -infinity;
    call_kernel(set, "log_softmax", {&x.body}, y.body, &axis);
    CHECK(y[1] == -infinity);
    CHECK(y[0] == Approx(-0.3132617));
    x[1] = std::numeric_limits<float>::quiet_NaN();
    call_kernel(set, "softmax", {&x.body}, y.body, &axis);
    for (const float value : y.elements) CHECK(std::isnan(value));
  });
}

TEST_CASE("cross entropy agrees with float64", "[softmax]") {
  for_each_set([](const InstructionSet& set) {
    for (const std::int64_t rows : row_counts) {
      check_cross_entropy<float, std::int64_t>(set, rows);
      check_cross_entropy<double, std::int32_t>(set, rows);
    }
  });
}

TEST_CASE("cross entropy names a label that is out of range", "[softmax]") {
  const LabelOptions options;
  for_each_set([&](const InstructionSet& set) {
    for (const std::int64_t label : {-1, 4}) {
      Array<float> x({2, 4}), loss({2});
      Array<std::int64_t> labels({2}, std::vector<std::int64_t>{3, label});
      const KernelResult result =
          call_kernel(set, "cross_entropy", {&x.body, &labels.body}, loss.body, &options);
      REQUIRE(result.failure);
      CHECK(std::string_view(result.failure) == "label out of range");
      CHECK(result.input == 1);
      CHECK(result.got == label);
      CHECK(result.limit == 4);
    }
  });
}

template <class T>
void check_equal_rows(const InstructionSet& set, std::int64_t n, T constant,
                      double epsilon_option) {
  INFO(set.name << ": rows of " << n << " times " << constant << ", epsilon " << epsilon_option);
  const EpsilonOptions options{epsilon_option};
  const KernelPair kernel = find_kernels(set, "layer_norm");
  Array<T> x({3, n}, constant), y({3, n}, T(7)), gain({n}, numbers<T>(n, 6)), shift({n});
  Array<T> dy({3, n}, numbers<T>(3 * n, 8)), dx({3, n}), dgain({n}, T(7)), dshift({n});
  call_kernel(kernel.kernel, {&x.body, &gain.body, &shift.body}, {&y.body}, &options);
  call_kernel(kernel.gradient, {&dy.body, &x.body, &gain.body, &shift.body, &y.body},
              {&dx.body, &dgain.body, &dshift.body}, &options);
  bool zero = true, near = true;
  for (const T value : y.elements) zero &= value == 0;
  for (const T value : dgain.elements) zero &= value == 0;
  CHECK(zero);
  // dx = (g - mean g) / sqrt epsilon
  for (std::int64_t row = 0; row < 3; ++row) {
    long double mean = 0;
    for (std::int64_t i = 0; i < n; ++i)
      mean += static_cast<long double>(dy[row * n + i]) * gain[i] / static_cast<long double>(n);
    const long double scale = 1 / std::sqrt(static_cast<long double>(T(epsilon_option)));
    for (std::int64_t i = 0; i < n; ++i) {
      const long double exact =
          scale * (static_cast<long double>(dy[row * n + i]) * gain[i] - mean);
      near &= std::abs(dx[row * n + i] - exact) <= 20 * scale * epsilon<T>;
    }
  }
  CHECK(near);
}
template <class T>
void check_equal_rows(const InstructionSet& set) {
  for (const double constant : {0.1, 1.0, -3.7, 1e-30, 12345.678, -1e5 / 3, 1e9 / 7, 3e37})
    for (const double epsilon_option : {1e-5, 1e-12}) {
      for (std::int64_t n = 1; n <= 67; ++n)
        check_equal_rows<T>(set, n, static_cast<T>(constant), epsilon_option);
      for (const std::int64_t n : {96, 768, 1000, 4099, 100'003})
        check_equal_rows<T>(set, n, static_cast<T>(constant), epsilon_option);
    }
}

TEST_CASE("layer norm of equal numbers is exactly 0", "[softmax]") {
  for_each_set([](const InstructionSet& set) {
    check_equal_rows<float>(set);
    check_equal_rows<double>(set);
  });
}

TEST_CASE("layer norm agrees with float64", "[softmax]") {
  for_each_set([](const InstructionSet& set) {
    for (const unsigned add : {0u, 7u})
      for (const std::int64_t rows : {6, 600}) {  // 600 rows of 96 or 131 are split into blocks
        check_layer_norm<float>(set, add, rows);
        check_layer_norm<double>(set, add, rows);
      }
  });
}
}  // namespace reel::tests
