// SPDX-License-Identifier: BSD-3-Clause
#include "exhaustion/programs.hpp"

#include <pthread.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "lib/body/access.hpp"

namespace reel::tests {
namespace {
double number_at(const Body& x, std::int64_t at) {
  switch (x.dtype) {
    case DType::float32:
      return static_cast<double>(x.as<float>()[at]);
    case DType::float64:
      return x.as<double>()[at];
    case DType::int64:
      return static_cast<double>(x.as<std::int64_t>()[at]);
    case DType::int32:
      return x.as<std::int32_t>()[at];
    default:
      return x.as<std::uint8_t>()[at];
  }
}
double digest(const Body& x, int axis, std::int64_t at, std::int64_t& number) {
  if (axis == x.rank()) return number_at(x, at) * static_cast<double>(number++ % 7 + 1);
  double sum = 0;
  for (std::int64_t i = 0; i < x.shape.data()[axis]; ++i)
    sum += digest(x, axis + 1, at + i * x.strides[axis], number);
  return sum;
}
}  // namespace

void Results::add(const Tensor& x) {
  std::int64_t number = 0;
  add(digest(*Access::body(x), 0, 0, number));
  add(static_cast<double>(x.size()) + static_cast<double>(x.rank()));
}

namespace {
struct Eager : Program {
  std::int64_t n;
  Tensor x, y, row, positions, large;
  explicit Eager(unsigned variant)
      : n(side(variant)),
        x(numbers({n, n}, variant)),
        y(numbers({n, n}, variant + 2)),
        row(numbers({n}, variant)),
        positions(arange(0, n) % 2),
        large(numbers({90 + 60 * static_cast<int>(variant % 3), 100}, variant)) {}
  void run(Results& results) override {
    // This comes first, while there are no cached blocks.
    for (const Tensor& part : split(x, static_cast<int>(n))) results.add(part);
    results.add(exp(x) * 2 + tanh(y) / (abs(row) + 1) - x);
    results.add(where(x > y, x, maximum(y, row)) + x.to(DType::int32));
    results.add(x - row);
    results.add(row - x);
    results.add(x / transpose(y));
    results.add(matmul(x, transpose(y)) + matmul(large, transpose(large))(0, 0));
    results.add(concat({x, y, x}, 0));
    results.add(stack({x, y}, 1)(all, 1, newaxis));
    results.add(take(x, positions) + take_and_scatter());
    results.add(softmax(x) + log_softmax(y, 0) + layer_norm(x, row, row));
    results.add(sum(x, 0) + mean(y, {0, 1}) + max(x, {-1}, keepdims));
    results.add(sum(transpose(large), 1)(range(0, 10)) * 2);
    results.add(one_hot(positions, 3) + argmax(x).to(DType::float32));
    results.add(reshape(transpose(x), {n * n})(range({}, {}, -1)));
    results.add(cross_entropy(x, positions));
    results.add(eye(n) + full({n, n}, 3) + zeros_like(x) + arange(0, n));
    Tensor z = x;
    z += y;
    z *= 2;
    results.add(z(positions) + z[-1] + tensor({{1, 2}, {3, 4}})(0, 1) + tensor({1.0f, 2.0f})(0));
    results.add(allclose(x, y) ? 1 : equal(x, x) && any(x > 0) ? 2 : 3);
    results.add(x(0, 0).to(DType::float64).item<double>());
    results.add(static_cast<double>(row.to(DType::float64).to_vector<double>().size()));
  }
  Tensor take_and_scatter() {
    return scatter_add(x, positions, y) + gather(x, expand_dims(positions, 1), 1);
  }
};

struct Tapes : Program {
  Variable w, b;
  Tensor x, start;
  std::vector<Variable> weights;
  std::vector<Tensor> others;
  explicit Tapes(unsigned variant)
      : w("weight of a long name", numbers({side(variant), 4}, variant)),
        b("b", numbers({4}, variant)),
        x(numbers({3, side(variant)}, variant)),
        weights{w},
        others{w * 2} {}
  Tensor forward() { return tanh(matmul_add(x, w, b)) * relu(w(0)) + w(1, 2) * 2; }
  void run(Results& results) override {
    {
      GradientTape tape;
      Tensor y = forward();
      for (int i = 0; i < 5; ++i) y = y * y * 0.1 + sum(y * b);
      const Tensor base = y * 1;
      const Tensor turn = tanh(base);
      y = y + (base - turn) + (turn / (b * b + 1));
      const auto slopes = tape.gradient(sum(y), w, b);
      results.add(slopes[0]);
      results.add(slopes[1]);
    }
    {
      GradientTape outer({.persistent = true});
      outer.watch(x);
      Tensor slope;
      {
        GradientTape inner;
        const Tensor y = sum(forward() * x(0, 0));
        slope = inner.gradient(y, w);
      }
      results.add(outer.gradient(sum(slope * slope), w));
      results.add(outer.gradient(slope, x, Unconnected::zero));
      const auto pause = outer.pause();
      results.add(w * 2);
      results.add(static_cast<double>(outer.ops().size()));
    }
    results.add(jacobian([this](const Tensor& at) { return matmul(at, w) * 2; }, x));
    const auto twice = custom_gradient([](const Tensor& a) {
      return std::pair(a * 2, [a](const Tensor& upstream) { return Tensors(upstream * 3); });
    });
    GradientTape tape;
    results.add(tape.gradient(sum(twice(w) * 2), w));
    const auto f = [this](const Tensor& at) {
      const GeneratorScope numbers_of_its_own(Generator(3));
      return sum(dropout(tanh(matmul(at, w)), 0.25) * b) + sum(at * at * at);
    };
    const auto lean = checkpoint(f);
    results.add(grad(lean)(x));
    results.add(hvp(lean, x, x));
    results.add(jvp(f, x, x).second);
    results.add(batch_jacobian([this](const Tensor& at) { return matmul(at, w); }, x));
    {
      const WeightScope scope(weights, others);
      results.add(f(x));
    }
    GradientTape asked;
    const Tensor end = lean(x);
    results.add(static_cast<double>(asked.memory().bytes));
    results.add(static_cast<double>(asked.explain(end, w).size()));
    GradientTape wrong;
    try {
      wrong.gradient(sum(w * 2), b);
    } catch (const TapeError&) {
      results.add(1);
    }
  }
};

struct Model {
  nn::Embedding words;
  nn::LSTMCell cell;
  nn::LayerNorm norm;
  nn::Linear out;
  Model(int n, DType dtype)
      : words(5, n, {.dtype = dtype}),
        cell(n, n, {.dtype = dtype}),
        norm(n, {.dtype = dtype}),
        out(n, 3, {.dtype = dtype}) {}
  Tensor operator()(const Tensor& at) const {
    nn::LSTMState state = cell.initial_state(at.shape(0));
    for (int i = 0; i < 3; ++i) state = cell(words(at), state);
    return out(norm(state.h));
  }
  void fields(auto&& field) {
    field("words", words);
    field("cell of the recurrent layer", cell);
    field("norm", norm);
    field("out", out);
  }
};

struct Training : Program {
  int n;
  DType dtype;
  Model model;
  std::vector<Variable> variables;
  std::vector<Tensor> start, rest;
  optim::Adam adam;
  Tensor at = tensor({0, 3, 1}), wanted = tensor({0, 2, 1});
  explicit Training(unsigned variant)
      : n(static_cast<int>(side(variant))),
        dtype(floats[variant % 2]),
        model(n, dtype),
        variables(parameters(model)),
        adam(variables, {.learning_rate = 0.01}) {
    for (const Variable& x : variables) start.push_back(x.value() * 1);
    for (const Variable& x : parameters(adam)) rest.push_back(x.value() * 1);
  }
  void reset() override {
    for (std::size_t i = 0; i < start.size(); ++i) variables[i].assign(start[i]);
    std::vector<Variable> own = parameters(adam);
    for (std::size_t i = 0; i < rest.size(); ++i) own[i].assign(rest[i]);
    seed(3);
  }
  void run(Results& results) override {
    for (int i = 0; i < 2; ++i) {
      GradientTape tape;
      const Tensor loss = cross_entropy(model(at), wanted);
      adam.step(optim::clip_by_global_norm(tape.gradient(loss, variables), 1.0));
      results.add(loss);
    }
    const Model other(n, dtype);
    results.add(model(at) + dropout(other(at), 0.5));
    const Model copy = clone(model);
    results.add(copy(at));
    optim::SGD sgd(parameters(copy), {.momentum = 0.9});
    GradientTape tape;
    sgd.step(tape.gradient(sum(copy(at)), parameters(copy)));
    results.add(copy(at));
    results.add(static_cast<double>(summary(model).size()));
  }
};

struct Sequences : Program {
  nn::LSTM lstm;
  nn::GRU gru;
  Tensor x, lengths = tensor({4, 2});
  explicit Sequences(unsigned variant)
      : lstm(side(variant), 3, {.layers = 2, .bidirectional = true, .dtype = floats[variant % 2]}),
        gru(side(variant), 3, {.layers = 1, .dtype = floats[variant % 2]}),
        x(numbers({4, 2, side(variant)}, variant)) {}
  void run(Results& results) override {
    GradientTape tape;
    const nn::LSTMOutput h = lstm(x, {}, lengths);
    const nn::GRUOutput g = gru(x);
    const Tensor loss = sum(h.outputs) + sum(g.outputs * g.outputs);
    for (const Tensor& slope : tape.gradient(loss, parameters(lstm), Unconnected::zero))
      results.add(slope);
    results.add(g.states[0]);
    results.add(h.states[3].c);
  }
};

struct Pair {
  Tensor sum, product;
  std::int64_t steps = 0;
  void fields(auto&& field) {
    field("the sum of all that was given", sum);
    field("product", product);
    field("steps", steps);
  }
};

struct Traces : Program {
  unsigned variant;
  Variable w, m;
  Tensor start, x;
  explicit Traces(unsigned variant)
      : variant(variant),
        w("w", numbers({side(variant), 3}, variant)),
        m("m", zeros_like(w)),
        start(w.value() * 1),
        x(numbers({2, side(variant)}, variant)) {}
  void reset() override {
    w.assign(start);
    m.assign(0);
    seed(5);
  }
  void run(Results& results) override {
    const auto step = trace([this](const Tensor& at, double rate) {
      GradientTape tape;
      Tensor y = tanh(matmul(at, w));
      if (sum(y) > 0) y = y * 2;
      y = y + random::normal({3}, {.dtype = y.dtype()}) * 0.1;
      const Tensor loss = mean(y * y);
      m.assign(m * 0.9 + tape.gradient(loss, w));
      w.assign_sub(m * rate);
      return loss;
    });
    for (int i = 0; i < 4; ++i) results.add(step(i == 3 ? -x : x, 0.1));
    const auto both = trace([](const Pair& given) {
      return Pair{given.sum + given.product, transpose(given.product) * tensor(2.0f), 3};
    });
    Pair pair{x, x, 0};
    for (int i = 0; i < 3; ++i) {
      const Pair next = both(pair);
      results.add(next.sum);
      results.add(next.product);
      pair.steps = 0;
    }
    results.add(static_cast<double>(step.explain().size() > 10));
    results.add(w.value());
  }
};

/// A trace that is used after a failure. It must not keep anything of the failure.
struct LastingTrace : Program {
  Variable w;
  Tensor start, x;
  Traced<Tensor(Tensor)> f;
  explicit LastingTrace(unsigned variant)
      : w("w", numbers({3, 3}, variant)),
        start(w.value() * 1),
        x(numbers({3, 3}, variant)),
        f(trace<Tensor(Tensor)>([this](const Tensor& at) {
          Tensor y = matmul(at, w);
          for (int i = 0; i < 4; ++i) y = exp(y * 0.1) + at - sum(y, 0);
          w.assign(w * 0.5);
          return any(y > 2) ? y : -y;
        })) {}
  void reset() override { w.assign(start); }
  void run(Results& results) override {
    for (int i = 0; i < 3; ++i) results.add(f(i == 1 ? -x : x));
    results.add(f(x(range(0, 2))));
  }
};

struct Numbers : Program {
  Generator own{9};
  std::int64_t n;
  explicit Numbers(unsigned variant) : n(side(variant)) {}
  void reset() override {
    seed(4);
    own.set_position(0);
  }
  void run(Results& results) override {
    results.add(random::normal({n, 2}));
    results.add(random::permutation(n));
    results.add(dropout(ones({n}), 0.5));
    const GeneratorScope scope(own);
    results.add(random::integers(0, 9, {n}));
    const Generator fresh(8);
    const GeneratorScope inner(fresh);
    results.add(random::bernoulli(0.5, {n}) + random::uniform({n}));
    seed(6);
    results.add(random::uniform({n}, {.dtype = DType::float64}));
  }
};

struct Refusals : Program {
  Tensor x = arange(0.0f, 6.0f).reshape({2, 3});
  Variable w{"w", x};
  explicit Refusals(unsigned) {}
  template <class E, class F>
  void refused(Results& results, F f) {
    try {
      f();
    } catch (const MemoryError&) {
      throw;
    } catch (const E& error) {
      results.add(static_cast<double>(std::strlen(error.what())));
    }
  }
  void run(Results& results) override {
    refused<ShapeError>(results, [&] { matmul(x, x); });
    refused<ShapeError>(results, [&] { x + tensor({1.0f, 2.0f}); });
    refused<IndexError>(results, [&] { x(7, 1); });
    refused<IndexError>(results, [&] { take(x, tensor({5})); });
    refused<DTypeError>(results, [&] { x.item<std::int64_t>(); });
    refused<TapeError>(results, [&] { GradientTape().gradient(x, x); });
    refused<Error>(results, [&] { nn::Linear(3, 2)(x(all, range(0, 2))); });
    refused<Error>(results, [&] { call_op("no such op of this library", {x}); });
    refused<ShapeError>(results, [&] { w.assign(tensor({1.0f, 2.0f})); });
  }
};

struct OwnOps : Program {
  Tensor x;
  explicit OwnOps(unsigned variant) : x(numbers({side(variant)}, variant)) {
    static const bool registered = [] {
      register_op("twice_and_square", [](const OpCall& call) {
        return Tensors{call.input(0) * 2, square(call.input(0))};
      });
      register_op("thrice", [](const OpCall& call) { return Tensors(call.input(0) * 3); });
      register_gradient(
          "thrice", [](const OpCall&, const Tensor& upstream) { return Tensors(upstream * 3); });
      return true;
    }();
    static_cast<void>(registered);
  }
  void run(Results& results) override {
    GradientTape tape;
    tape.watch(x);
    const Tensors both = call_op_all("twice_and_square", {x});
    const Tensor y = call_op("thrice", {both[0] + both[1]});
    results.add(tape.gradient(sum(y), x));
    results.add(y);
  }
};

/// Work with several threads of the pool, and on a thread that has not used the library yet.
struct Threads : Program {
  Tensor x, w;
  bool ended = false;
  Results theirs;
  explicit Threads(unsigned variant)
      : x(numbers({600, 300 + 8 * static_cast<int>(variant % 5)}, variant)),
        w(numbers({x.shape(1), 64}, variant)) {
    set_num_threads(4);
  }
  void work(Results& results) const {
    GradientTape tape;
    tape.watch(w);
    const Tensor y = tanh(matmul(x, w));
    results.add(sum(transpose(x)) + sum(exp(x) * 2));
    results.add(tape.gradient(sum(y), w));
  }
  static void* on_thread(void* memory) {
    auto& self = *static_cast<Threads*>(memory);
    try {
      self.work(self.theirs);
    } catch (const MemoryError&) {
      self.ended = true;
    }
    return nullptr;
  }
  void run(Results& results) override {
    ended = false;
    theirs = {};
    work(results);
    pthread_t thread{};
    if (pthread_create(&thread, nullptr, on_thread, this)) fail_memory({}, "no thread");
    pthread_join(thread, nullptr);
    if (ended) fail_memory({}, "on the other thread");
    results.add(theirs == results ? 1 : 0);
  }
};

struct Trees : Program {
  nn::TreeLSTMCell cell;
  nn::ChildSumTreeLSTMCell sums;
  nn::Sequential head;
  std::vector<nn::LSTMState> children;
  Tensor x;
  explicit Trees(unsigned variant)
      : cell(side(variant), 4, {.dtype = floats[variant % 2]}),
        sums(side(variant), 4, {.dtype = floats[variant % 2]}),
        head(nn::Linear(4, 6, Activation::relu), nn::Dropout(0.2), nn::Linear(6, 2)),
        x(numbers({2, side(variant)}, variant)) {
    for (int i = 0; i < 3; ++i) children.push_back(sums(x * i));
  }
  void reset() override { seed(8); }
  void run(Results& results) override {
    GradientTape tape;
    const nn::LSTMState a = cell.leaf(x), b = cell.leaf(-x);
    const nn::LSTMState top = cell(cell(a, b), a);
    const nn::LSTMState sum_of = sums(x, children);
    const Tensor y = head(top.h + sum_of.c);
    for (const Tensor& slope : tape.gradient(sum(y), parameters(cell))) results.add(slope);
    results.add(y);
    results.add(static_cast<double>(named_parameters(head).size() + summary(head).size()));
    results.add(clone(head)(top.h));
    const nn::GRU gru(3, 4, {.layers = 2, .bidirectional = true, .dropout = 0.1});
    results.add(static_cast<double>(parameters(gru).size()));
    results.add(nn::orthogonal({3, 5}) + nn::he_normal({3, 5}) + nn::glorot_normal({3, 5}));
    results.add(nn::constant({2}, 4.0)(0));
  }
};

struct Slices : Program {
  Variable w;
  Tensor start;
  explicit Slices(unsigned variant)
      : w("w", numbers({4, side(variant)}, variant)), start(w.value() * 1) {}
  void reset() override { w.assign(start); }
  void run(Results& results) override {
    w(1).assign(w(2) * 2);
    w(range(0, 2), newaxis).assign_add(1);
    w(all, 0).assign_sub(w(all, 1));
    results.add(w.value());
    results.add(w[3] + w(ellipsis, -1)(0));
    results.add(tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}) * tensor({{true, false}}));
    results.add(tensor({1.0, 2.0})(tensor({1, 0, 1})));
    double total = 0;
    for (const double x : transpose(w).to(DType::float64).values<double>()) total += x;
    for (const double x : (w * 2).to(DType::float64).to_vector<double>()) total += x;
    results.add(total);
    const Variable copy = w.clone();
    w.assign(0);
    results.add(copy.value());
    results.add(static_cast<double>(to_string(copy).size()));
    const Tensor row = w(0);
    w.assign_add(copy * 2);  // it writes to another buffer, as the row still reads the old one
    results.add(row + w);
  }
};

struct Batch {
  std::array<Tensor, 2> given;
  std::int64_t times = 2;
  std::string_view name = "the name of a batch, which is part of what a trace is kept for";
  void fields(auto&& field) {
    field("given", given);
    field("times", times);
    field("name", name);
  }
};

/// Traces with user ops, sequences, second gradients, Variables as arguments, and functions that
/// throw.
struct MoreTraces : Program {
  Variable w;
  Tensor start;
  nn::GRU gru;
  Batch batch;
  Tensor bad = tensor({0, 9});
  explicit MoreTraces(unsigned variant)
      : w("w", numbers({3, 3}, variant)),
        start(w.value() * 1),
        gru(3, 3, {.dtype = floats[variant % 2]}),
        batch{{numbers({2, 2, 3}, variant), numbers({2, 3}, variant)}} {}
  void reset() override { w.assign(start); }
  void run(Results& results) override {
    const auto all_of_it = trace([this](const Batch& from, const Variable& weight) {
      GradientTape outer;
      outer.watch(from.given[1]);
      Tensor y = gru(from.given[0]).outputs(-1) + matmul(from.given[1], weight);
      for (std::int64_t i = 0; i < from.times; ++i) y = softmax(y) + layer_norm(y, w(0), w(1));
      const std::vector<Tensor> parts = split(y, 3, 1);
      y = concat({parts[2], parts[0] * 2}, 1);
      const Tensor slope = outer.gradient(sum(y * y), from.given[1]);
      w(0).assign(w(1) * 0.5);
      if (max(slope).to(DType::float64).item<double>() > 1e9) return slope;
      return where(slope > 0, slope, take(slope, tensor({1, 0})));
    });
    for (int i = 0; i < 3; ++i) results.add(all_of_it(batch, w));
    const auto refuses = trace([this](const Tensor& at) { return take(at * 2, bad); });
    for (int i = 0; i < 2; ++i) try {
        refuses(start);
      } catch (const IndexError&) {
        results.add(1);
      }
    GradientTape tape;
    results.add(tape.gradient(sum(all_of_it(batch, w)), w, Unconnected::zero));
  }
};

/// A program that also runs as the first use of the library in a process.
struct FromNothing : Program {
  explicit FromNothing(unsigned) {}
  void run(Results& results) override {
    results.add(static_cast<double>(random::uniform({2}).size()));
    seed(3);
    const nn::Linear layer(3, 2);
    const Tensor x = random::normal({4, 3});
    GradientTape tape;
    const Tensor loss = sum(tanh(layer(x)));
    results.add(tape.gradient(loss, layer.weight));
    results.add(static_cast<double>(to_string(loss).size() > 2));
    const auto twice = trace([](const Tensor& at) { return at * 2; });
    results.add(twice(x) + twice(x));
  }
};

constexpr ProgramKind kinds[] = {
    {"from nothing", make<FromNothing>},
    {"eager", make<Eager>},
    {"tapes", make<Tapes>},
    {"training", make<Training>},
    {"sequences", make<Sequences>},
    {"traces", make<Traces>},
    {"a lasting trace", make<LastingTrace>},
    {"files", files_program},
    {"checkpoints", checkpoints_program},
    {"files of data", data_files_program},
    {"arrays of others", exchange_program},
    {"selection", selection_program},
    {"layout", layout_program},
    {"scatter", scatter_program},
    {"distributions", distributions_program},
    {"losses", losses_program},
    {"plots", plots_program},
    {"optimizers", optimizers_program},
    {"layers", layers_program},
    {"transformers", transformers_program},
    {"transforms", transforms_program},
    {"random", make<Numbers>},
    {"refusals", make<Refusals>},
    {"own ops", make<OwnOps>},
    {"trees", make<Trees>},
    {"slices", make<Slices>},
    {"more traces", make<MoreTraces>},
    {"threads", make<Threads>},
};
}  // namespace

std::span<const ProgramKind> program_kinds() { return kinds; }
}  // namespace reel::tests
