// SPDX-License-Identifier: BSD-3-Clause
// Corners of kernels: stores past the caches, passes in place, arguments far out, steps of two
// elements, the ends of tensors, and the memory that a kernel asks for.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include <reel/threads.hpp>

#include "kernels/kernels.hpp"
#include "lib/formulas/philox.hpp"
#include "lib/table/options/normalize.hpp"
#include "lib/table/options/reduce.hpp"
#include "lib/table/options/sequence.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
template <class T>
Tile tile_of(const InstructionSet& set, const char* op) {
  return find_tiles(set, op)->value[static_cast<int>(dtype_of<T>())];
}

/// The sum of two rows, stored past the caches at every offset from a cache line.
template <class T>
void check_streamed(const InstructionSet& set) {
  constexpr std::int64_t space = 16;  // elements before the row
  const Tile add = tile_of<T>(set, "add");
  for (std::int64_t start = space; start < 2 * space; ++start)
    for (const std::int64_t n : {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100}) {
      Array<T> x({n}), y({n}), out({n + 3 * space}, T(-1));
      for (std::int64_t i = 0; i < n; ++i) {
        x[i] = static_cast<T>(i + 1);
        y[i] = static_cast<T>(2 * i);
      }
      const void* inputs[] = {x.body.data, y.body.data};
      add(n, inputs, pass_streams, &out[start]);
      bool right = true;
      for (std::int64_t i = 0; i < n + 3 * space; ++i) {
        const std::int64_t k = i - start;
        right &= out[i] == (k >= 0 && k < n ? static_cast<T>(3 * k + 1) : T(-1));
      }
      INFO(set.name << ": " << n << " elements at " << start);
      CHECK(right);
    }
}

template <class T>
void check_easy_powers(const InstructionSet& set) {
  struct Power {
    double exponent;
    T (*exact)(T);
  };
  const Power powers[] = {{2, [](T x) { return x * x; }},
                          {3, [](T x) { return x * x * x; }},
                          {1, [](T x) { return x; }},
                          {-1, [](T x) { return 1 / x; }},
                          {0.5, [](T x) { return std::sqrt(x); }},
                          {-0.5, [](T x) { return 1 / std::sqrt(x); }}};
  const Tile power = tile_of<T>(set, "power");
  std::mt19937 random(3);
  std::vector<T> x(2003);
  for (T& value : x) value = std::uniform_real_distribution<T>(T(0.1), T(9))(random);
  const auto n = static_cast<std::int64_t>(x.size());
  for (const Power& each : powers) {
    INFO(set.name << ": exponent " << each.exponent);
    std::vector<T> exact, in_place = x, of_row(x.size());
    for (const T value : x) exact.push_back(each.exact(value));
    const std::vector<T> exponents(x.size(), static_cast<T>(each.exponent));
    const void *number[] = {in_place.data(), exponents.data()},
               *row[] = {x.data(), exponents.data()};
    power(n, number, 2, in_place.data());
    power(n, row, 0, of_row.data());
    CHECK(in_place == exact);
    CHECK(of_row == exact);
  }
}

/// The largest and the smallest of numbers that are all equal but for their sign.
template <class T>
void check_zeros(const InstructionSet& set) {
  constexpr std::int64_t columns = 70, n = 2048;
  const ReduceOptions down{.axes = 0}, every;
  for (const char* op : {"max", "min"})
    for (const T first : {T(0), T(-0.0)}) {
      INFO(set.name << ": " << op << " of zeros, the first is " << first);
      Array<T> x({4, columns}, -first), row({n}, -first), out({columns}), one(Shape{});
      for (std::int64_t i = 0; i < columns; ++i) x[i] = first;
      for (std::int64_t i = 0; i < n / 2; ++i) row[i] = first;
      call_kernel(set, op, {&x.body}, out.body, &down);
      call_kernel(set, op, {&row.body}, one.body, &every);
      bool same = true;
      for (std::int64_t i = 0; i < columns; ++i)
        same &= std::signbit(out[i]) == std::signbit(first);
      CHECK(same);
      CHECK(std::signbit(one[0]) == std::signbit(first));
    }
}

/// Gates of an LSTM cell far out, where one exponential overflows.
template <class T>
void check_far_gates(const InstructionSet& set) {
  const double far[] = {-1000, -301, -100, -90, -87, -40, 0, 40, 87, 90, 100, 301, 1000};
  constexpr std::int64_t n = std::size(far);
  Array<T> gates({1, 4 * n}, T(0.5)), cell({1, n}, T(0.75)), h({1, n}), c({1, n});
  for (std::int64_t k = 0; k < n; ++k)
    for (const std::int64_t gate : {0, 1, 3}) gates[gate * n + k] = static_cast<T>(far[k]);
  call_kernel(find_kernel(set, "lstm_gates"), {&gates.body, &cell.body}, {&h.body, &c.body});
  for (std::int64_t k = 0; k < n; ++k) {
    INFO(set.name << ": gates of " << far[k]);
    const double share = 1 / (1 + std::exp(-far[k])), next = share * (std::tanh(0.5) + 0.75);
    constexpr double most = 64 * static_cast<double>(std::numeric_limits<T>::epsilon());
    CHECK(std::abs(static_cast<double>(c[k]) - next) <= most);
    CHECK(std::abs(static_cast<double>(h[k]) - share * std::tanh(next)) <= most);
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

/// A gradient of the bias of an LSTM whose gates are all open by half. `up` is the gradient of each
/// output.
struct LstmBias {
  std::int64_t time, batch;
  static constexpr std::int64_t hidden = 8, columns = 4 * hidden;
  Array<float> x{{time, batch, 1}}, state{{batch, hidden}}, weight{{1 + hidden, columns}};
  Array<float> bias{{columns}}, up{{time, batch, hidden}, 1.0f}, zero{{time, batch, hidden}};
  Array<float> kept{{time * batch * (columns + hidden)}};  // gates, then cells
  Array<std::int64_t> lengths{{0}};

  void run(const InstructionSet& set) {
    for (std::int64_t i = 0; i < time * batch * columns; ++i)
      kept[i] = i % columns / hidden == 2 ? 0.0f : 0.5f;
    const DirectionOptions options;
    call_kernel(find_kernel(set, "lstm.d"),
                {&up.body, nullptr, nullptr, nullptr, &x.body, &state.body, &state.body,
                 &weight.body, &bias.body, &lengths.body, &zero.body, nullptr, nullptr, &kept.body},
                {nullptr, nullptr, nullptr, nullptr, &bias.body, nullptr}, &options);
  }
};

constexpr std::int64_t mebibyte = 1 << 20;
/// How much memory the system gives to this process during f().
template <class F>
std::int64_t mapped_by(const F& f) {
  const std::int64_t before = mapped_bytes();
  f();
  return mapped_bytes() - before;
}
}  // namespace

TEST_CASE("stores past the caches write each element of a row, and nothing beside it") {
  for_each_set([](const InstructionSet& set) {
    check_streamed<float>(set);
    check_streamed<double>(set);
  });
}

TEST_CASE("powers of some exponents are products, quotients and roots, in place too") {
  for_each_set([](const InstructionSet& set) {
    check_easy_powers<float>(set);
    check_easy_powers<double>(set);
  });
}

TEST_CASE("log2 of subnormal numbers of float64") {
  std::vector<double> x;
  for (int exponent = -1074; exponent < -1018; ++exponent)
    for (const double part : {1.0, 1.25, 1.75}) x.push_back(std::ldexp(part, exponent));
  for_each_set([&](const InstructionSet& set) {
    std::vector<double> y(x.size());
    const void* inputs[] = {x.data()};
    tile_of<double>(set, "log2")(static_cast<std::int64_t>(x.size()), inputs, 0, y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      INFO(set.name << ": " << x[i]);
      CHECK(std::abs(y[i] - std::log2(x[i])) <= 1e-11);
    }
  });
}

TEST_CASE("sine, cosine and tangent next to their roots, and where the C library takes over") {
  std::vector<double> x;
  for (int k = 1; k < 500'000; k += 997)
    for (const double quarters : {2.0 * k, 2.0 * k + 1})
      x.push_back(quarters * std::acos(-1.0) / 2);
  for (const double limit : {1.6e6, -1.6e6})
    x.insert(x.end(), {std::nextafter(limit, 0), limit, std::nextafter(limit, 2 * limit)});
  struct Function {
    const char* op;
    double (*exact)(double);
  };
  const Function functions[] = {{"sin", [](double v) { return std::sin(v); }},
                                {"cos", [](double v) { return std::cos(v); }},
                                {"tan", [](double v) { return std::tan(v); }}};
  // float32 is computed in float32 up to 30,000, then in float64.
  std::vector<float> narrow;
  for (int k = 1; k < 22'000; ++k) {
    const auto near = static_cast<float>(k * std::acos(-1.0) / 2);
    narrow.insert(narrow.end(), {std::nextafter(near, 0.f), near, std::nextafter(near, 1e9f)});
  }
  for (const float limit : {30'000.f, -30'000.f, 1.6e6f, -1.6e6f})
    narrow.insert(narrow.end(),
                  {std::nextafter(limit, 0.f), limit, std::nextafter(limit, 2 * limit)});
  for_each_set([&](const InstructionSet& set) {
    for (const Function& function : functions) {
      std::vector<double> y(x.size());
      const void* inputs[] = {x.data()};
      tile_of<double>(set, function.op)(static_cast<std::int64_t>(x.size()), inputs, 0, y.data());
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = function.exact(x[i]);
        worst = std::max(worst, std::abs(y[i] - exact) / std::abs(exact));
      }
      INFO(set.name << ": " << function.op);
      CHECK(worst <= 4 * std::numeric_limits<double>::epsilon());
      std::vector<float> y_narrow(narrow.size());
      const void* narrow_inputs[] = {narrow.data()};
      tile_of<float>(set, function.op)(static_cast<std::int64_t>(narrow.size()), narrow_inputs, 0,
                                       y_narrow.data());
      double worst_narrow = 0;
      for (std::size_t i = 0; i < narrow.size(); ++i) {
        const double exact = function.exact(static_cast<double>(narrow[i]));
        worst_narrow = std::max(
            worst_narrow, std::abs(static_cast<double>(y_narrow[i]) - exact) / std::abs(exact));
      }
      CHECK(worst_narrow <= 4 * static_cast<double>(std::numeric_limits<float>::epsilon()));
      // A large neighbour changes no bit, not even the sign of NaN.
      for (const float value : {-NAN, NAN, -0.f, 2.f, 40'000.f}) {
        std::uint32_t bits[3];
        for (int i = 0; i < 3; ++i) {
          const float pair[] = {value, i == 0 ? 1.f : i == 1 ? 50'000.f : 1e30f};
          const void* both[] = {pair};
          float out[2];
          tile_of<float>(set, function.op)(2, both, 0, out);
          std::memcpy(&bits[i], out, 4);
        }
        CHECK(bits[0] == bits[1]);
        CHECK(bits[0] == bits[2]);
      }
    }
  });
}

TEST_CASE("a value with an axis of one element is assigned to every position along it") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    Array<float> before({2, 3}, {10, 20, 30, 40, 50, 60}), out({2, 3});
    Array<float> memory({6}, {1, 2, 3, 100, 100, 100});
    const Body row = memory.view({1, 3}, {3, 1}), column = memory.view({2, 1}, {1, 1});
    call_kernel(set, "assign", {&before.body, &row}, out.body);
    CHECK(out.elements == std::vector<float>{1, 2, 3, 1, 2, 3});
    call_kernel(set, "assign_add", {&before.body, &row}, out.body);
    CHECK(out.elements == std::vector<float>{11, 22, 33, 41, 52, 63});
    call_kernel(set, "assign_sub", {&before.body, &column}, out.body);
    CHECK(out.elements == std::vector<float>{9, 19, 29, 38, 48, 58});
  });
}

TEST_CASE("of equal elements max and min give the first, down columns and of the halves of a row") {
  for_each_set([](const InstructionSet& set) {
    check_zeros<float>(set);
    check_zeros<double>(set);
  });
}

TEST_CASE("argmax of a large transposed matrix reads a whole copy of it") {
  constexpr std::int64_t rows = 2000, columns = 33;
  const ReduceOptions down{.axes = 0};
  for_each_set([&](const InstructionSet& set) {
    for (std::int64_t shift = 0; shift < 100; shift += 7) {
      const auto place = [&](std::int64_t column) { return rows - 1 - (column + shift) % 100; };
      Array<float> x({columns * rows});
      for (std::int64_t c = 0; c < columns; ++c) {
        for (std::int64_t r = 0; r < rows; ++r) x[c * rows + r] = static_cast<float>(r % 50);
        x[c * rows + place(c)] = 1000;
      }
      const Body view = x.view({rows, columns}, {1, rows});
      Array<std::int64_t> out({columns}, -1);
      call_kernel(set, "argmax", {&view}, out.body, &down);
      bool right = true;
      for (std::int64_t c = 0; c < columns; ++c) right &= out[c] == place(c);
      INFO(set.name << ", shift " << shift);
      CHECK(right);
    }
  });
}

TEST_CASE("gates far out are 0 and 1") {
  for_each_set([](const InstructionSet& set) {
    check_far_gates<float>(set);
    check_far_gates<double>(set);
  });
}

TEST_CASE("products read matrices whose neighbours are two elements apart", "[products]") {
  for_each_set([](const InstructionSet& set) {
    for (const auto& [n, k, m] :
         {std::array<std::int64_t, 3>{128, 70, 129}, {130, 33, 260}, {7, 20, 90}}) {
      INFO(set.name << ": " << n << " x " << k << " x " << m);
      WholeProduct product{n, k, m};
      const Body x_down = product.x_with(2, 2 * n), y = product.y_with(m, 1);
      call_kernel(set, "matmul", {&x_down, &y}, product.out.body);
      CHECK(product.is_right());
      const Body y_down = product.y_with(2, 2 * k);
      call_kernel(set, "matmul", {&x_down, &y_down}, product.out.body);
      CHECK(product.is_right());
      const Body x = product.x_with(k, 1);
      call_kernel(set, "matmul", {&x, &y_down}, product.out.body);
      CHECK(product.is_right());
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

TEST_CASE("the gradient of an LSTM with a very large batch goes through all steps") {
  constexpr std::int64_t batch = 70'000;
  LstmBias lstm{2, batch};
  for_each_set([&](const InstructionSet& set) {
    INFO(set.name);
    lstm.run(set);
    // The cell of the last step gets o = 1/2 from its output. That of the step before gets the
    // same, and f = 1/2 of the last one's. i = 1/2 of each goes to g.
    for (std::int64_t k = 0; k < LstmBias::columns; ++k)
      CHECK(lstm.bias[k] == (k / LstmBias::hidden == 2 ? (0.5f + 0.75f) / 2 * batch : 0.0f));
  });
}

TEST_CASE("kernels ask for little memory beside their results") {
  if (sanitized) SKIP("a sanitizer maps memory for itself");
  const KeepThreads keep;
  set_num_threads(1);
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    {
      // Rows of x are 2 KB apart, so they are copied first.
      Array<float> x({200, 512}), y({512, 600}), out({200, 600});
      CHECK(mapped_by([&] {
              call_kernel(set, "matmul", {&x.body, &y.body}, out.body);
            }) < 16 * mebibyte);
    }
    {
      constexpr std::int64_t rows = 400'000, n = 8;
      const EpsilonOptions options{1e-3};
      Array<float> x({rows, n}, 1.0f), gain({n}, 1.0f), dgain({n}), dshift({n});
      const Kernel gradient = find_kernel(set, "layer_norm.d");
      CHECK(mapped_by([&] {
              call_kernel(gradient, {&x.body, &x.body, &gain.body, &gain.body, &x.body},
                          {nullptr, &dgain.body, &dshift.body}, &options);
            }) < 16 * mebibyte);
      CHECK(dshift.elements == std::vector<float>(n, float(rows)));
    }
    {
      LstmBias lstm{8, 32'768};
      CHECK(mapped_by([&] { lstm.run(set); }) < 32 * mebibyte);
    }
  });
}
}  // namespace reel::tests
