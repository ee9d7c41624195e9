// SPDX-License-Identifier: BSD-3-Clause
// The rows in LibTorch at its best: InferenceMode where nothing records, its AVX-512 kernels,
// one thread, gradients by autograd::grad without accumulating into leaves.
#include <ATen/Parallel.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <cstdlib>

#include "../serve.hpp"
#include "../task.hpp"

namespace {

using at::Tensor;
using harness::keep;
using harness::Numbers;
using torch::autograd::grad;

std::int64_t extent(std::size_t n) { return static_cast<std::int64_t>(n); }

Tensor made(const std::vector<float>& from, std::initializer_list<std::size_t> shape) {
  std::vector<std::int64_t> sizes;
  for (const std::size_t n : shape) sizes.push_back(extent(n));
  return torch::tensor(from).reshape(sizes).clone();
}
Tensor numbers(std::uint64_t seed, std::initializer_list<std::size_t> shape, float scale = 1) {
  std::size_t count = 1;
  for (const std::size_t n : shape) count *= n;
  return made(Numbers(seed).vector(count, scale), shape);
}
Tensor leaf(Tensor x) { return x.set_requires_grad(true); }

double squares(const Tensor& x) { return x.detach().to(at::kDouble).square().sum().item<double>(); }
double squares(const std::vector<Tensor>& tensors) {
  double sum = 0;
  for (const Tensor& x : tensors) sum += squares(x);
  return sum;
}

/// make() gives a function of tensors; it runs with nothing recorded.
template <class Make>
harness::Row inferred(std::string name, Make make) {
  return {std::move(name), [make] {
            auto f = [make] {
              c10::InferenceMode mode;
              return make();
            }();
            return harness::Work{[f](std::size_t times) {
                                   c10::InferenceMode mode;
                                   for (; times > 0; --times) keep(f());
                                 },
                                 [f] {
                                   c10::InferenceMode mode;
                                   return squares(f());
                                 }};
          }};
}

void add_ops(harness::Rows& rows) {
  for (const auto& [name, count] : {std::pair<const char*, std::size_t>{"add 16", 16},
                                    {"add 1k", 1 << 10},
                                    {"add 64k", 1 << 16},
                                    {"add 16M", 1 << 24}}) {
    rows.push_back(inferred(name, [count = count] {
      return [x = numbers(1, {count}), y = numbers(2, {count})] { return x + y; };
    }));
  }
  for (const auto& [name, count] :
       {std::pair<const char*, std::size_t>{"tanh 16", 16}, {"tanh 64k", 1 << 16}}) {
    rows.push_back(inferred(name, [count = count] {
      return [x = made(Numbers(1).vector(count, 2), {count})] { return x.tanh(); };
    }));
  }
  rows.push_back(
      inferred("scalar operand 16", [] { return [x = numbers(1, {16})] { return x * 1.5f; }; }));
  for (const auto& [name, side] :
       {std::pair<const char*, std::size_t>{"64x64 + transposed 64x64", 64},
        {"256x256 + transposed 256x256", 256}}) {
    rows.push_back(inferred(name, [side = side] {
      return [x = numbers(1, {side, side}), y = numbers(2, {side, side})] { return x + y.t(); };
    }));
  }
  rows.push_back(inferred("transpose view", [] {
    return [x = numbers(1, {4, 4})] { return x.t(); };
  }));
  rows.push_back(inferred("slice view", [] {
    return [x = numbers(1, {4, 4})] { return x.narrow(0, 1, 2); };
  }));
  rows.push_back({"split in 4", [] {
                    const Tensor x = numbers(1, {4, 4});
                    return harness::Work{[x](std::size_t times) {
                                           c10::InferenceMode mode;
                                           for (; times > 0; --times) keep(x.chunk(4));
                                         },
                                         [x] { return squares(x.chunk(4)); }};
                  }});
}

template <class F>
harness::Row of_numbers(const char* name, std::initializer_list<std::size_t> shape, float scale,
                        F f) {
  const std::vector<std::size_t> lengths(shape);
  return inferred(name, [=] {
    std::size_t count = 1;
    std::vector<std::int64_t> sizes;
    for (const std::size_t n : lengths) {
      count *= n;
      sizes.push_back(extent(n));
    }
    return [f, x = torch::tensor(Numbers(1).vector(count, scale)).reshape(sizes).clone()] {
      return f(x);
    };
  });
}

void add_kernels(harness::Rows& rows) {
  const auto [softmax_rows, softmax_width] = harness::softmax_shape;
  const auto [sum_rows, sum_width] = harness::sum_shape;
  rows.push_back(of_numbers("exp 64k", {1 << 16}, 2, [](const Tensor& x) { return x.exp(); }));
  rows.push_back(
      of_numbers("sigmoid 64k", {1 << 16}, 2, [](const Tensor& x) { return x.sigmoid(); }));
  rows.push_back(of_numbers("softmax 2048x96", {softmax_rows, softmax_width}, 2,
                            [](const Tensor& x) { return x.softmax(1); }));
  rows.push_back(inferred("layer norm 64x512", [] {
    const auto [height, width] = harness::norm_shape;
    return
        [x = numbers(1, {height, width}), scale = numbers(2, {width}), shift = numbers(3, {width}),
         width = extent(width)] { return at::layer_norm(x, {width}, scale, shift); };
  }));
  rows.push_back(of_numbers("column sum 4096x4096", {sum_rows, sum_width}, 1,
                            [](const Tensor& x) { return x.sum(0); }));
  rows.push_back(of_numbers("row sum 4096x4096", {sum_rows, sum_width}, 1,
                            [](const Tensor& x) { return x.sum(1); }));
  rows.push_back(
      of_numbers("cumsum 1M", {1 << 20}, 2, [](const Tensor& x) { return x.cumsum(0); }));
  rows.push_back(
      of_numbers("sort 1M", {1 << 20}, 2, [](const Tensor& x) { return std::get<0>(x.sort()); }));
  rows.push_back(of_numbers("topk 100 of 1M", {1 << 20}, 2,
                            [](const Tensor& x) { return std::get<0>(x.topk(harness::largest)); }));
  for (const auto& [name, size] : harness::products) {
    rows.push_back(inferred(name, [size = size] {
      return
          [x = numbers(1, {size.m, size.k}), y = numbers(2, {size.k, size.n})] { return x.mm(y); };
    }));
  }
}

struct AddRecorded {
  Tensor x = leaf(numbers(1, {16}, 0.1f)), y = leaf(numbers(2, {16}, 0.1f));
  void operator()() {
    const Tensor z = x + y;
    keep(z);
  }
  double value() { return squares(x + y); }
};

struct Chain {
  Tensor x = numbers(1, {16}, 0.1f), ones = torch::ones({16});
  Tensor w = leaf(1 + numbers(2, {16}, 0.1f)), b = leaf(numbers(3, {16}, 0.1f));
  std::vector<Tensor> gradients() {
    Tensor y = x;
    for (std::size_t i = 0; i < harness::chain_length; ++i) y = i % 2 == 0 ? y * w : y + b;
    return grad({y}, {w, b}, {ones});
  }
  void operator()() { keep(gradients()); }
  double value() { return squares(gradients()); }
};

struct Square {
  Tensor w = leaf(1 + numbers(1, {16}, 0.1f)), ones = torch::ones({16});
  std::vector<Tensor> gradients() { return grad({w * w}, {w}, {ones}); }
  void operator()() { keep(gradients()); }
  double value() { return squares(gradients()); }
};

struct State {
  Tensor h, c;
};

/// Gates i, f, g, o from their sums.
State gated(const Tensor& sums, const Tensor& c) {
  const auto part = sums.chunk(4, 1);
  const Tensor next = part[1].sigmoid() * c + part[0].sigmoid() * part[2].tanh();
  return {part[3].sigmoid() * next.tanh(), next};
}

struct Cell {
  Cell(harness::CellSize size, bool fused)
      : fused(fused),
        x(numbers(1, {size.batch, size.hidden})),
        h(numbers(2, {size.batch, size.hidden})),
        c(numbers(3, {size.batch, size.hidden})),
        bias(leaf(numbers(5, {4 * size.hidden}, 0.1f))) {
    const Tensor both = numbers(4, {2 * size.hidden, 4 * size.hidden},
                                1 / std::sqrt(static_cast<float>(size.hidden)));
    const auto halves = both.chunk(2);
    upper = leaf(fused ? halves[0].t().contiguous() : halves[0].clone());
    lower = leaf(fused ? halves[1].t().contiguous() : halves[1].clone());
    if (fused) no_bias = torch::zeros({extent(4 * size.hidden)});
  }
  bool fused;
  Tensor x, h, c, upper, lower, bias, no_bias;
  State run() const {
    if (!fused) return gated(at::addmm(at::addmm(bias, x, upper), h, lower), c);
    const auto [h_next, c_next] = at::lstm_cell(x, {h, c}, upper, lower, bias, no_bias);
    return {h_next, c_next};
  }
};
struct CellForward : Cell {
  using Cell::Cell;
  void operator()() {
    c10::InferenceMode mode;
    keep(run());
  }
  double value() { return squares(run().h); }
};
struct CellBackward : Cell {
  using Cell::Cell;
  std::vector<Tensor> gradients() { return grad({run().h.sum()}, {upper, lower, bias}); }
  void operator()() { keep(gradients()); }
  double value() { return squares(gradients()); }
};

void add_lstm(harness::Rows& rows) {
  using harness::row;
  for (const bool fused : {true, false}) {
    const std::string name = std::string("LSTM cell 10x10 ") + (fused ? "fused" : "primitive");
    rows.push_back(row<CellForward>(name + ", forward", 1, harness::small_cell, fused));
    rows.push_back(row<CellBackward>(name + ", with backward", 1, harness::small_cell, fused));
  }
  rows.push_back(row<CellForward>("LSTM cell 32x256, forward", 1, harness::large_cell, false));
  rows.push_back(
      row<CellBackward>("LSTM cell 32x256, with backward", 1, harness::large_cell, false));
}

/// The loss that a fresh model shows in its third step.
template <class Model, class... Arguments>
double third_loss(Arguments... arguments) {
  Model fresh(arguments...);
  for (int i = 0; i < 3; ++i) fresh();
  return fresh.loss.template item<double>();
}

Tensor words_of_text() {
  using Task = harness::CharRnn;
  Numbers letters(7);
  std::vector<std::int64_t> words((Task::steps + 1) * Task::batch);
  for (auto& word : words) word = extent(letters.below(Task::vocabulary));
  return torch::tensor(words).reshape({extent(Task::steps) + 1, extent(Task::batch)});
}

struct CharRnn {
  using Task = harness::CharRnn;
  static constexpr std::size_t hidden = Task::hidden;
  explicit CharRnn(bool fused) : fused(fused) {
    const auto halves = numbers(4, {2 * hidden, 4 * hidden}, 1.0f / 16).chunk(2);
    if (fused) {
      const torch::NoGradGuard guard;
      auto own = lstm->named_parameters();
      own["weight_ih_l0"].copy_(halves[0].t());
      own["weight_hh_l0"].copy_(halves[1].t());
      own["bias_ih_l0"].copy_(numbers(5, {4 * hidden}, 0.1f));
      own["bias_hh_l0"].zero_();
      parameters = lstm->parameters();
    } else {
      upper = leaf(halves[0].clone());
      lower = leaf(halves[1].clone());
      bias = leaf(numbers(5, {4 * hidden}, 0.1f));
      parameters = {upper, lower, bias};
    }
    for (const Tensor& p : {table, head, head_bias}) parameters.push_back(p);
    adam = std::make_unique<torch::optim::Adam>(parameters,
                                                torch::optim::AdamOptions(harness::adam_rate));
  }
  bool fused;
  Tensor table = leaf(numbers(1, {Task::vocabulary, hidden}));
  Tensor head = leaf(numbers(6, {hidden, Task::vocabulary}, 1.0f / 16));
  Tensor head_bias = leaf(torch::zeros({extent(Task::vocabulary)}));
  Tensor upper, lower, bias;
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(extent(hidden), extent(hidden))};
  std::vector<Tensor> parameters;
  std::unique_ptr<torch::optim::Adam> adam;
  Tensor words = words_of_text(), loss;

  Tensor hidden_states(const Tensor& x) {
    if (fused) return std::get<0>(lstm(x)).flatten(0, 1);
    State state{torch::zeros({extent(Task::batch), extent(hidden)}),
                torch::zeros({extent(Task::batch), extent(hidden)})};
    std::vector<Tensor> states;
    for (const Tensor& now : x.unbind()) {
      state = gated(at::addmm(at::addmm(bias, now, upper), state.h, lower), state.c);
      states.push_back(state.h);
    }
    return at::cat(states);
  }
  void operator()() {
    adam->zero_grad();
    const auto steps = extent(Task::steps);
    const Tensor states = hidden_states(at::embedding(table, words.narrow(0, 0, steps)));
    const Tensor scores = at::addmm(head_bias, states, head);
    loss = at::cross_entropy_loss(scores, words.narrow(0, 1, steps).flatten());
    loss.backward();
    adam->step();
  }
  double value() { return third_loss<CharRnn>(fused); }
};

struct TreeLstm {
  using Task = harness::TreeTask;
  static constexpr std::size_t width = Task::hidden;
  float scale = 1 / std::sqrt(static_cast<float>(width));
  Tensor table = leaf(numbers(1, {Task::vocabulary, width}));
  Tensor leaf_weight = leaf(numbers(4, {width, 3 * width}, scale));
  Tensor leaf_bias = leaf(numbers(5, {3 * width}, 0.1f));
  Tensor weight = leaf(numbers(6, {2 * width, 5 * width}, scale));
  Tensor bias = leaf(numbers(8, {5 * width}, 0.1f));
  std::vector<std::unique_ptr<harness::Node>> trees = harness::random_trees();

  State encode(const harness::Node& node) const {
    if (!node.left) {
      const Tensor x = at::embedding(table, torch::tensor({extent(node.word)}));
      const auto part = at::addmm(leaf_bias, x, leaf_weight).chunk(3, 1);  // i, g, o
      const Tensor c = part[0].sigmoid() * part[1].tanh();
      return {part[2].sigmoid() * c.tanh(), c};
    }
    const State left = encode(*node.left), right = encode(*node.right);
    const Tensor sums = at::addmm(bias, at::cat({left.h, right.h}, 1), weight);
    const auto part = sums.chunk(5, 1);  // i, f left, f right, g, o
    const Tensor c = part[0].sigmoid() * part[3].tanh() + part[1].sigmoid() * left.c +
                     part[2].sigmoid() * right.c;
    return {part[4].sigmoid() * c.tanh(), c};
  }
  std::vector<Tensor> gradients(const harness::Node& tree) const {
    return grad({encode(tree).h.sum()}, {table, leaf_weight, leaf_bias, weight, bias});
  }
  void operator()() {
    for (const auto& tree : trees) keep(gradients(*tree));
  }
  double value() { return squares(gradients(*trees.back())); }
};

Tensor digits(std::size_t count, std::size_t classes) {
  Numbers numbers(21);
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(extent(numbers.below(classes)));
  return torch::tensor(all);
}

struct Mlp {
  using Task = harness::Mlp;
  explicit Mlp(bool use_adam) : use_adam(use_adam) {
    using torch::optim::AdamOptions, torch::optim::SGDOptions;
    std::size_t in = Task::in;
    std::uint64_t seed = 10;
    for (const std::size_t out : {Task::hidden, Task::hidden, Task::out}) {
      parameters.push_back(leaf(numbers(seed++, {in, out}, 1 / std::sqrt(static_cast<float>(in)))));
      parameters.push_back(leaf(torch::zeros({extent(out)})));
      in = out;
    }
    if (use_adam) {
      optimizer = std::make_unique<torch::optim::Adam>(parameters, AdamOptions(harness::adam_rate));
    } else {
      optimizer = std::make_unique<torch::optim::SGD>(parameters, SGDOptions(harness::sgd_rate));
    }
    labels = digits(Task::batch, Task::out);
  }
  bool use_adam;
  std::vector<Tensor> parameters;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  Tensor x = numbers(20, {Task::batch, Task::in}), labels, loss;

  void operator()() {
    optimizer->zero_grad();
    const auto& p = parameters;
    Tensor y = at::addmm(p[1], x, p[0]).relu_();
    y = at::addmm(p[3], y, p[2]).relu_();
    loss = at::cross_entropy_loss(at::addmm(p[5], y, p[4]), labels);
    loss.backward();
    optimizer->step();
  }
  double value() { return third_loss<Mlp>(use_adam); }
};

/// In channels last, which is the faster layout here.
Tensor image_of(const Tensor& x) { return x.permute({0, 3, 1, 2}); }

struct ConvNet {
  using Task = harness::ConvNet;
  static Tensor filters(std::uint64_t seed, std::size_t in, std::size_t out) {
    const float scale = 1 / std::sqrt(static_cast<float>(9 * in));
    return leaf(numbers(seed, {3, 3, in, out}, scale)
                    .permute({3, 2, 0, 1})
                    .contiguous(at::MemoryFormat::ChannelsLast));
  }
  Tensor first = filters(10, 1, Task::first), first_bias = leaf(torch::zeros({Task::first}));
  Tensor second = filters(11, Task::first, Task::second),
         second_bias = leaf(torch::zeros({Task::second}));
  Tensor dense = leaf(numbers(12, {Task::features, Task::out},
                              1 / std::sqrt(static_cast<float>(Task::features)))),
         dense_bias = leaf(torch::zeros({Task::out}));
  Tensor x = image_of(numbers(20, {Task::batch, Task::side, Task::side, 1}));

  static Tensor block(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return at::max_pool2d(at::conv2d(x, weight, bias, 1, 1).relu_(), 2);
  }
  Tensor run() const {
    const Tensor maps = block(block(x, first, first_bias), second, second_bias);
    return at::addmm(dense_bias, maps.permute({0, 2, 3, 1}).flatten(1), dense);
  }
};
struct ConvNetForward : ConvNet {
  void operator()() {
    c10::InferenceMode mode;
    keep(run());
  }
  double value() { return squares(run()); }
};
struct ConvNetStep : ConvNet {
  torch::optim::SGD optimizer{{first, first_bias, second, second_bias, dense, dense_bias},
                              torch::optim::SGDOptions(harness::sgd_rate)};
  Tensor labels = digits(Task::batch, Task::out), loss;
  void operator()() {
    optimizer.zero_grad();
    loss = at::cross_entropy_loss(run(), labels);
    loss.backward();
    optimizer.step();
  }
  double value() { return third_loss<ConvNetStep>(); }
};

/// What follows `key` in LibTorch's description of itself.
std::string configured(const std::string& key) {
  const std::string all = at::show_config();
  const auto at = all.find(key);
  if (at == std::string::npos) return "unknown";
  const auto first = at + key.size();
  return all.substr(first, all.find_first_of(",\n", first) - first);
}

}  // namespace

int main() {
  setenv("ATEN_CPU_CAPABILITY", "avx512", 0);
  at::set_num_threads(1);
  harness::Rows rows;
  add_ops(rows);
  add_kernels(rows);
  using harness::row;
  rows.push_back(row<AddRecorded>("add 16 recorded", 1));
  rows.push_back(row<Chain>("chain of 100, per op", harness::chain_length));
  rows.push_back(row<Square>("y = w*w and gradient", 1));
  add_lstm(rows);
  rows.push_back(row<CharRnn>("char-RNN step", 1, false));
  rows.push_back(row<CharRnn>("char-RNN step, nn::LSTM", 1, true));
  rows.push_back(row<TreeLstm>("Tree-LSTM, one tree", harness::TreeTask::trees));
  rows.push_back(row<Mlp>("MLP SGD step", 1, false));
  rows.push_back(row<Mlp>("MLP Adam step", 1, true));
  rows.push_back(inferred("max pool 64x28x28x32", [] {
    using Task = harness::ConvNet;
    const Tensor x = image_of(numbers(1, {Task::batch, Task::side, Task::side, Task::first}));
    return [x] { return at::max_pool2d(x, 2); };
  }));
  rows.push_back(row<ConvNetForward>("conv net, forward", 1));
  rows.push_back(row<ConvNetStep>("conv net, SGD step", 1));
  return harness::serve(rows, {{"LibTorch", TORCH_VERSION},
                               {"LibTorch threads", std::to_string(at::get_num_threads())},
                               {"LibTorch kernels", configured("CPU capability usage: ")},
                               {"LibTorch BLAS", configured("BLAS_INFO=")}});
}
