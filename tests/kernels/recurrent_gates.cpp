// SPDX-License-Identifier: BSD-3-Clause
// The gates of LSTM and tree LSTM cells against float64, values and gradients, for each instruction
// set.
#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <string_view>

#include "kernels/kernels.hpp"
#include "lib/table/options/sequence.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
template <class T>
void fill(Array<T>& x, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<T> values(T(-3), T(3));
  for (T& value : x.elements) value = values(random);
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// One element of a cell that carries one state (LSTM), two (tree) or none (leaf). `a` holds its
/// gates in the order i, f (one for each state), g, o. `kept` joins the sum of a cell without f.
struct Element {
  double i, g, o, c = 0, h;
  std::vector<double> f;
  Element(const std::vector<double>& a, const std::vector<double>& cells, double kept) {
    const std::size_t n = cells.size();
    i = sigmoid(a[0]);
    g = std::tanh(a[n + 1]);
    o = sigmoid(a[n + 2]);
    c = i * g + kept;
    for (std::size_t j = 0; j < n; ++j) {
      f.push_back(sigmoid(a[j + 1]));
      c += f[j] * cells[j];
    }
    h = o * std::tanh(c);
  }
  /// By the chain rule: dL/dc through h, then through each factor of c.
  std::vector<double> gradient(const std::vector<double>& cells, double dh, double dc_next) const {
    const double t = std::tanh(c), dc = dc_next + dh * o * (1 - t * t);
    std::vector<double> da{dc * g * i * (1 - i)};
    for (std::size_t j = 0; j < cells.size(); ++j) da.push_back(dc * cells[j] * f[j] * (1 - f[j]));
    da.push_back(dc * i * (1 - g * g));
    da.push_back(dh * t * o * (1 - o));
    for (std::size_t j = 0; j < cells.size(); ++j) da.push_back(dc * f[j]);
    if (cells.empty()) da.push_back(dc);  // of `kept`
    return da;
  }
};

/// One call of a kernel with `Cells` states, and of its gradient. Without states, `left` may be
/// what children have kept.
template <int Cells, class T>
struct Trial {
  static constexpr int gate_count = Cells + 3;
  KernelPair kernel;
  std::int64_t rows, n;
  Array<T> gates{{rows, gate_count*n}}, left{{rows, n}}, right{{rows, n}};
  Array<T> h{{rows, n}}, c{{rows, n}}, dh{{rows, n}}, dc{{rows, n}};
  Array<T> dgates{{rows, gate_count*n}}, dleft{{rows, n}}, dright{{rows, n}};
  bool has_dh = true, has_dc = true, has_kept = false;
  unsigned accumulate = 0;
  static constexpr double tolerance = 64 * static_cast<double>(std::numeric_limits<T>::epsilon());

  void run() {
    unsigned seed = 0;
    for (Array<T>* x : {&gates, &left, &right, &dh, &dc}) fill(*x, ++seed);
    for (Array<T>* x : {&dgates, &dleft, &dright})
      for (T& value : x->elements) value = T(2);
    Inputs inputs{&gates.body}, values{has_dh ? &dh.body : nullptr, has_dc ? &dc.body : nullptr};
    Outputs gradients{&dgates.body};
    if (Cells >= 1 || has_kept) {
      inputs.push_back(&left.body);
      gradients.push_back(&dleft.body);
    }
    if (Cells == 2) {
      inputs.push_back(&right.body);
      gradients.push_back(&dright.body);
    }
    call_kernel(kernel.kernel, inputs, {&h.body, &c.body});
    values.insert(values.end(), inputs.begin(), inputs.end());
    values.push_back(&h.body);
    values.push_back(&c.body);
    call_kernel(kernel.gradient, values, gradients, nullptr, accumulate);
  }
  void check_element(std::int64_t row, std::int64_t k) {
    const std::int64_t at = row * n + k, first = row * gate_count * n + k;
    std::vector<double> a, cells;
    if (Cells >= 1) cells.push_back(static_cast<double>(left[at]));
    if (Cells == 2) cells.push_back(static_cast<double>(right[at]));
    for (int j = 0; j < gate_count; ++j) a.push_back(static_cast<double>(gates[first + j * n]));
    const Element exact(a, cells, has_kept ? static_cast<double>(left[at]) : 0);
    near("h", h[at], exact.h);
    near("c", c[at], exact.c);
    const std::vector<double> d = exact.gradient(cells, has_dh ? static_cast<double>(dh[at]) : 0,
                                                 has_dc ? static_cast<double>(dc[at]) : 0);
    for (int j = 0; j < gate_count; ++j)
      near("gate", dgates[first + j * n], added(0) + d[static_cast<std::size_t>(j)]);
    if (Cells >= 1 || has_kept) near("state", dleft[at], added(1) + d[gate_count]);
    if (Cells == 2) near("state", dright[at], added(2) + d[gate_count + 1]);
  }
  double added(int output) const { return accumulate >> output & 1 ? 2 : 0; }
  static void near(const char* what, T got, double exact) {
    if (!(std::abs(static_cast<double>(got) - exact) <= tolerance * (1 + std::abs(exact))))
      FAIL(what << ": got " << got << ", expected " << exact);
  }
};

template <int Cells, class T>
void check_cell(const char* op) {
  for_each_set([&](const InstructionSet& set) {
    for (const std::int64_t n : {1, 3, 4, 8, 10, 15, 16, 17, 33, 150})
      for (unsigned given = 0; given < 4; ++given)
        for (const unsigned accumulate : {0u, 7u, 2u}) {
          INFO(op << " on " << set.name << ", " << n << " wide");
          Trial<Cells, T> trial{find_kernels(set, op), 3, n};
          trial.has_dh = given & 1;
          trial.has_dc = given & 2;
          trial.has_kept = op == std::string_view("child_sum_gates");
          trial.accumulate = accumulate;
          trial.run();
          for (std::int64_t i = 0; i < 3 * n; ++i) trial.check_element(i / n, i % n);
        }
  });
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
}  // namespace

TEST_CASE("LSTM gates agree with float64", "[recurrent]") {
  check_cell<1, float>("lstm_gates");
  check_cell<1, double>("lstm_gates");
}

TEST_CASE("tree LSTM gates agree with float64", "[recurrent]") {
  check_cell<2, float>("tree_lstm_gates");
  check_cell<2, double>("tree_lstm_gates");
  check_cell<0, float>("tree_lstm_leaf_gates");
  check_cell<0, double>("tree_lstm_leaf_gates");
  check_cell<0, float>("child_sum_gates");
  check_cell<0, double>("child_sum_gates");
}

TEST_CASE("gates saturate far from zero", "[recurrent]") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    Array<float> gates({1, 4}, std::vector<float>{200, -200, 200, 200}), c({1, 1}, 5.f);
    Array<float> h({1, 1}), next({1, 1});
    call_kernel(find_kernel(set, "lstm_gates"), {&gates.body, &c.body}, {&h.body, &next.body});
    CHECK(next[0] == 1);
    CHECK(h[0] == Approx(std::tanh(1.0)));
  });
}

TEST_CASE("gates far out are 0 and 1") {
  for_each_set([](const InstructionSet& set) {
    check_far_gates<float>(set);
    check_far_gates<double>(set);
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
}  // namespace reel::tests
