// SPDX-License-Identifier: BSD-3-Clause
// Functions, eager and traced, and by hand where the work is small enough to write: lower quartiles
// of the time of a call, their ratio, the time of the first traced call in ms, and the number of
// calls after which a trace, with its capture and all its checks, has taken less time than eager
// calls.
//
//     eager_vs_traced [PART OF A NAME]
#include <fmt/format.h>
#include <reel/reel.hpp>

#include <chrono>
#include <cmath>
#include <string_view>
#include <vector>

using namespace reel;

namespace {
std::string_view wanted;
int slower = 0;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Prints a line. `by_hand` is the limit, if it is not empty.
void row(const std::string& name, const detail::Function<void()>& eager,
         const detail::Function<void()>& traced, const detail::Function<void()>& by_hand = {}) {
  std::vector<double> spent{0};  // by the first calls, in seconds: captures and most checks
  for (const double start = seconds(); spent.size() <= 320 && spent.back() < 2;) {
    traced();
    spent.push_back(seconds() - start);
  }
  std::vector<bench::Candidate> sides{{"eager", [&] { eager(); }}, {"traced", [&] { traced(); }}};
  if (by_hand) sides.push_back({"hand", [&] { by_hand(); }});
  const bench::Comparison found =
      bench::compare(sides, {.batches = 31, .batch_seconds = 0.004, .warm_up_seconds = 0.03});
  const double eager_time = found.timings[0].nanoseconds.lower,
               traced_time = found.timings[1].nanoseconds.lower, ratio = traced_time / eager_time;
  double paid = static_cast<double>(spent.size() - 1);
  if (const double ahead = spent.back() * 1e9 - paid * eager_time; ahead > 0)
    paid = ratio < 1 ? paid + ahead / (eager_time - traced_time) : 0;
  else
    while (paid > 1 && spent[static_cast<std::size_t>(paid) - 1] * 1e9 <= (paid - 1) * eager_time)
      --paid;
  const std::string limit =
      by_hand ? fmt::format("{:9.2f} {:6.2f}", found.timings[2].nanoseconds.lower / 1e3,
                            traced_time / found.timings[2].nanoseconds.lower)
              : "";
  slower += ratio > 1.02;
  fmt::print("{:44} {:10.2f} {:10.2f} {:6.2f}{} {:8.2f} {:>8} {}\n", name, eager_time / 1e3,
             traced_time / 1e3, ratio, ratio > 1.02 ? "!" : " ", spent[1] * 1e3,
             paid > 0 ? fmt::format("{:.0f}", paid) : "never", limit);
  std::fflush(stdout);
}

/// A function of tensors.
template <class F, class... In>
void compare(const std::string& name, const F& f, const In&... in) {
  if (name.find(wanted) == std::string::npos) return;
  const auto traced = trace([f](const In&... x) { return f(x...); });
  row(
      name, [&] { bench::keep(f(in...)); }, [&] { bench::keep(traced(in...)); });
}
template <class F, class Hand>
void compare_by_hand(const std::string& name, const F& f, const Hand& by_hand, const Tensor& x) {
  if (name.find(wanted) == std::string::npos) return;
  const auto traced = trace([f](const Tensor& in) { return f(in); });
  const auto from = x.values<float>();
  const std::vector<float> in(from.begin(), from.end());
  std::vector<float> out(in.size());
  row(
      name, [&] { bench::keep(f(x)); }, [&] { bench::keep(traced(x)); },
      [&] {
        by_hand(in.data(), out.data(), in.size());
        bench::keep(out);
      });
}
/// A step of training: it changes Variables.
template <class F>
void compare_steps(const std::string& name, F eager, F other,
                   const detail::Function<void()>& by_hand = {}) {
  if (name.find(wanted) == std::string::npos) return;
  const auto traced = trace([&] { return other(); });
  row(
      name, [&] { bench::keep(eager()); }, [&] { bench::keep(traced()); }, by_hand);
}

Tensor normal(std::initializer_list<std::int64_t> lengths) {
  return random::normal(Shape(std::vector<std::int64_t>(lengths)));
}

template <int ops>
Tensor chain(Tensor x) {
  for (int i = 0; i < ops; ++i) x = i % 2 ? x + 0.01f : x * 1.01f;
  return x;
}
template <int ops>
void chain_by_hand(const float* x, float* y, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    float v = x[i];
#pragma GCC unroll 100
    for (int k = 0; k < ops; ++k) v = k % 2 ? v + 0.01f : v * 1.01f;
    y[i] = v;
  }
}

Tensor gelu_of_ops(const Tensor& x) {
  return x * 0.5f * (tanh((x + x * x * x * 0.044715f) * 0.7978845608f) + 1.0f);
}
Tensor layer_norm_of_ops(const Tensor& x, const Tensor& gain, const Tensor& bias) {
  const Tensor centred = x - mean(x, -1, keepdims);
  return centred * rsqrt(mean(square(centred), -1, keepdims) + 1e-5f) * gain + bias;
}
Tensor rms_norm_of_ops(const Tensor& x, const Tensor& gain) {
  return x * rsqrt(mean(square(x), -1, keepdims) + 1e-5f) * gain;
}
Tensor batch_norm_of_ops(const Tensor& x, const Tensor& gain, const Tensor& bias) {
  const Tensor centred = x - mean(x, 0);
  return centred / sqrt(mean(square(centred), 0) + 1e-5f) * gain + bias;
}
Tensor softmax_of_ops(const Tensor& x) {
  const Tensor e = exp(x - max(x, -1, keepdims));
  return e / sum(e, -1, keepdims);
}
/// Of gates [batch, 4 hidden] and a state.
Tensor gates(const Tensor& sums, const Tensor& c) {
  const auto part = split(sums, 4, 1);
  const Tensor next = sigmoid(part[1]) * c + sigmoid(part[0]) * tanh(part[2]);
  return sigmoid(part[3]) * tanh(next);
}
Tensor lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& weight,
                 const Tensor& bias) {
  return gates(matmul_add(concat({x, h}, 1), weight, bias), c);
}
Tensor convolution_by_gather(const Tensor& x, const Tensor& weight) {  // [length, in], [3 in, out]
  const std::int64_t length = x.shape()[0] - 2;
  return matmul(concat({x(range(0, length)), x(range(1, length + 1)), x(range(2, length + 2))}, 1),
                weight);
}
Tensor tree_sum(const Tensor& leaves, const Tensor& weight, std::int64_t first, std::int64_t end) {
  if (end - first == 1) return leaves(range(first, end));
  const std::int64_t middle = (first + end) / 2;
  return tanh(matmul(
      concat({tree_sum(leaves, weight, first, middle), tree_sum(leaves, weight, middle, end)}, 1),
      weight));
}

template <class F>
auto slopes(const F& f) {
  return [f](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(f(x)), x);
  };
}

/// Adam of plain ops: as users write an optimizer of their own.
struct AdamByHand {
  explicit AdamByHand(std::int64_t n)
      : gradient(ones({n}) * 0.5f),
        weight("weight", zeros({n})),
        first("first", zeros({n})),
        second("second", zeros({n})) {}
  Tensor gradient;
  Variable weight, first, second;
  Tensor operator()() {
    first.assign(first * 0.9f + gradient * 0.1f);
    second.assign(second * 0.999f + square(gradient) * 0.001f);
    weight.assign(weight - first * 0.01f / (sqrt(second.value()) + 1e-8f));
    return weight(0);
  }
};

struct AdamInOneLoop {
  explicit AdamInOneLoop(std::size_t n) : gradient(n, 0.5f), weight(n), first(n), second(n) {}
  std::vector<float> gradient, weight, first, second;
  void operator()() {
#pragma GCC ivdep
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      first[i] = first[i] * 0.9f + gradient[i] * 0.1f;
      second[i] = second[i] * 0.999f + gradient[i] * gradient[i] * 0.001f;
      weight[i] -= first[i] * 0.01f / (std::sqrt(second[i]) + 1e-8f);
    }
    bench::keep(weight);
  }
};

struct Perceptron {
  nn::Linear first, second, third;
  Perceptron(int in, int hidden, int out)
      : first(in, hidden), second(hidden, hidden), third(hidden, out) {}
  Tensor operator()(const Tensor& x) const { return third(relu(second(relu(first(x))))); }
  REEL_FIELDS(first, second, third)
};
/// Characters by a loop over an LSTM cell.
struct CharRnn {
  nn::Embedding embed;
  nn::LSTMCell cell;
  nn::Linear head;
  CharRnn(int words, int hidden)
      : embed(words, hidden), cell(hidden, hidden), head(hidden, words) {}
  REEL_FIELDS(embed, cell, head)
};
struct CharRnnStep {
  CharRnn model{64, 128};
  Tensor words = cast(random::uniform({33, 16}, {.low = 0, .high = 64}), DType::int64);
  std::vector<Variable> variables = parameters(model);
  std::vector<Tensor> operator()() const {
    GradientTape tape;
    nn::LSTMState state = model.cell.initial_state(16);
    std::vector<Tensor> outputs;
    for (std::int64_t t = 0; t < 32; ++t) {
      state = model.cell(model.embed(words(t)), state);
      outputs.push_back(state.h);
    }
    const Tensor labels = words(range(1, {})).reshape({32 * 16});
    return tape.gradient(nn::cross_entropy(model.head(concat(outputs)), labels), variables);
  }
};
/// A balanced tree.
struct TreeLstmStep {
  nn::TreeLSTMCell cell{128, 128};
  Tensor words = normal({16, 128});
  std::vector<Variable> variables = parameters(cell);
  nn::LSTMState state(std::int64_t first, std::int64_t end) const {
    if (end - first == 1) return cell.leaf(words(range(first, end)));
    const std::int64_t middle = (first + end) / 2;
    return cell(state(first, middle), state(middle, end));
  }
  std::vector<Tensor> operator()() const {
    GradientTape tape;
    return tape.gradient(sum(state(0, 16).h), variables);
  }
};
template <class Optimizer>
struct PerceptronStep {
  PerceptronStep(int batch, int in, int hidden) : model(in, hidden, 10) {
    seed(4);
    x = normal({batch, in});
    labels = cast(random::uniform({batch}, {.low = 0, .high = 10}), DType::int64);
  }
  Perceptron model;
  Optimizer optimizer{parameters(model)};
  Tensor x, labels;
  Tensor operator()() {
    GradientTape tape;
    const Tensor loss = nn::cross_entropy(model(x), labels);
    optimizer.step(tape, loss);
    return loss;
  }
};

void chains() {
  for (const std::int64_t n : {16, 100, 1'000, 65'536, 1'048'576}) {
    const Tensor x = normal({n});
    compare_by_hand(fmt::format("10 ops, {}", n), chain<10>, chain_by_hand<10>, x);
    compare_by_hand(fmt::format("100 ops, {}", n), chain<100>, chain_by_hand<100>, x);
  }
}
void single_ops() {
  for (const std::int64_t n : {16, 1'000, 65'536, 1'048'576}) {
    const Tensor x = normal({n}), y = normal({n});
    compare(
        fmt::format("x + y, {}", n), [](const Tensor& a, const Tensor& b) { return a + b; }, x, y);
    compare(
        fmt::format("tanh, {}", n), [](const Tensor& a) { return tanh(a); }, x);
    compare(
        fmt::format("sum, {}", n), [](const Tensor& a) { return sum(a); }, x);
  }
}
void broadcasts() {
  for (const std::int64_t n : {8, 64, 1'024}) {
    const Tensor x = normal({n, n}), row = normal({n}), column = normal({n, 1});
    compare(
        fmt::format("x + row, {0}x{0}", n), [](const Tensor& a, const Tensor& b) { return a + b; },
        x, row);
    compare(
        fmt::format("relu(x * 2 + row), {0}x{0}", n),
        [](const Tensor& a, const Tensor& b) { return relu(a * 2.0f + b); }, x, row);
    compare(
        fmt::format("(x - column) * row, {0}x{0}", n),
        [](const Tensor& a, const Tensor& b, const Tensor& c) { return (a - b) * c; }, x, column,
        row);
    compare(
        fmt::format("column + row, {0}x{0}", n),
        [](const Tensor& a, const Tensor& b) { return a + b; }, column, row);
  }
}
void norms() {
  for (const auto& [rows, columns] : {std::pair{8, 64}, {64, 512}, {1'024, 1'024}}) {
    const Tensor x = normal({rows, columns}), gain = normal({columns}), bias = normal({columns});
    const std::string size = fmt::format("{}x{}", rows, columns);
    compare("layer norm by hand, " + size, layer_norm_of_ops, x, gain, bias);
    compare("RMS norm by hand, " + size, rms_norm_of_ops, x, gain);
    compare("batch norm by hand, " + size, batch_norm_of_ops, x, gain, bias);
    compare("softmax by hand, " + size, softmax_of_ops, x);
    compare("GELU by hand, " + size, gelu_of_ops, x);
    compare("GELU by hand with gradient, " + size, slopes(gelu_of_ops), x);
  }
}
void cells() {
  for (const auto& [batch, hidden] : {std::pair{10, 10}, {32, 128}, {32, 512}}) {
    const Tensor x = normal({batch, hidden}), h = normal({batch, hidden}),
                 c = normal({batch, hidden}), weight = normal({2 * hidden, 4 * hidden}) * 0.1f,
                 bias = normal({4 * hidden}), sums = normal({batch, 4 * hidden});
    const std::string size = fmt::format("{}x{}", batch, hidden);
    compare("LSTM gates, " + size, gates, sums, c);
    compare("LSTM cell of ops, " + size, lstm_cell, x, h, c, weight, bias);
    compare(
        "LSTM cell of ops with gradient, " + size,
        [](const Tensor& in, const Tensor& before, const Tensor& state, const Tensor& w,
           const Tensor& b) {
          GradientTape tape;
          tape.watch(w);
          return tape.gradient(sum(lstm_cell(in, before, state, w, b)), w);
        },
        x, h, c, weight, bias);
    const nn::LSTMCell cell(hidden, hidden);
    compare(
        "nn::LSTMCell, " + size,
        [cell](const Tensor& in, const Tensor& before, const Tensor& state) {
          return cell(in, {before, state}).h;
        },
        x, h, c);
  }
}
void models() {
  const Tensor x = normal({16, 64});
  const Perceptron model(64, 64, 10);
  compare(
      "a model as an argument", [](const Perceptron& f, const Tensor& in) { return f(in); }, model,
      x);
  const std::vector<Tensor> many = [] {
    std::vector<Tensor> made;
    for (int i = 0; i < 100; ++i) made.push_back(normal({16}));
    return made;
  }();
  compare(
      "100 tensors in one argument",
      [](const std::vector<Tensor>& in) {
        Tensor total = in[0];
        for (std::size_t i = 1; i < in.size(); ++i) total = total + in[i];
        return total;
      },
      many);
  compare("convolution by gather, 64x16", convolution_by_gather, normal({66, 16}),
          normal({48, 32}));
  compare(
      "tree of 16 leaves, 32",
      [](const Tensor& leaves, const Tensor& w) { return tree_sum(leaves, w, 0, 16); },
      normal({16, 32}), normal({64, 32}) * 0.2f);
  compare(
      "tree of 16 leaves, 32, with gradient",
      [](const Tensor& leaves, const Tensor& w) {
        GradientTape tape;
        tape.watch(w);
        return tape.gradient(sum(tree_sum(leaves, w, 0, 16)), w);
      },
      normal({16, 32}), normal({64, 32}) * 0.2f);
  compare_steps("nn::TreeLSTMCell, 16 leaves, 128, gradients", TreeLstmStep(), TreeLstmStep());
  compare_steps("char-RNN, 32 steps of 16x128, gradients", CharRnnStep(), CharRnnStep());
  const nn::TransformerEncoderLayer layer(64, 4);
  compare(
      "Transformer layer, 2x16x64", [layer](const Tensor& in) { return layer(in); },
      normal({2, 16, 64}));
  for (const std::int64_t n : {100, 10'000, 1'000'000})
    compare_steps(fmt::format("Adam by hand, {}", n), AdamByHand(n), AdamByHand(n),
                  AdamInOneLoop(static_cast<std::size_t>(n)));
  using Adam = PerceptronStep<optim::Adam>;
  using Sgd = PerceptronStep<optim::SGD>;
  compare_steps("MLP 32-32-10, Adam step", Adam(8, 32, 32), Adam(8, 32, 32));
  compare_steps("MLP 784-512-512-10, SGD step", Sgd(64, 784, 512), Sgd(64, 784, 512));
  compare_steps("MLP 784-512-512-10, Adam step", Adam(64, 784, 512), Adam(64, 784, 512));
}
}  // namespace

int main(int count, char** arguments) {
  if (count > 1) wanted = arguments[1];
  set_num_threads(1);
  seed(1);
  fmt::print("{:44} {:>10} {:>10} {:>7} {:>8} {:>8} {:>9} {:>6}\n", "us a call", "eager", "traced",
             "ratio", "first ms", "paid", "by hand", "ratio");
  chains();
  single_ops();
  broadcasts();
  norms();
  cells();
  models();
  fmt::print("{} slower than 1.02 of eager\n", slower);
}
