// SPDX-License-Identifier: BSD-3-Clause
// Passes over graphs, and what they make of 20 functions. REEL_WRITE_GRAPHS=1 writes the texts in
// tests/graph/golden anew: read the difference before you keep it.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <reel/reel.hpp>

#include "graph/graph_text.hpp"
#include "lib/graph/graph.hpp"
#include "lib/trace/plan.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// Compares a graph, and what the passes make of it, with the file of this name. The order in which
/// operands are evaluated is that of g++.
void check_golden([[maybe_unused]] const std::string& name, const Graph& graph) {
  const Graph planned = graph.planned();
  planned.verify();
  CHECK(to_string(planned.planned()) == to_string(planned));
  const std::string before = text_of(graph), after = text_of(planned);
  const std::string text = before + (after == before ? "passes: no change\n" : "passes:\n" + after);
#ifndef __clang__
  const char* const folder = std::getenv("REEL_GRAPHS");
  REQUIRE(folder);
  const auto file = std::filesystem::path(folder) / (name + ".txt");
  if (std::getenv("REEL_WRITE_GRAPHS")) std::ofstream(file) << text;
  std::stringstream known;
  known << std::ifstream(file).rdbuf();
  INFO(name);
  CHECK(text == known.str());
#endif
}
/// The graph of f for these arguments.
template <class F, class... Args>
void check_function(const std::string& name, F f, const Args&... args) {
  auto traced = trace(std::move(f));
  traced(args...);
  traced(args...);  // checked
  check_golden(name, graph_of(traced, args...));
}
std::size_t count(const Graph& graph, std::string_view op) {
  std::size_t found = 0;
  for (const GraphNode& node : graph.nodes()) found += node.op == op;
  return found;
}
struct Pair {
  nn::Linear first{3, 4}, second{4, 2};
  REEL_FIELDS(first, second)
  Tensor operator()(const Tensor& x) const { return second(tanh(first(x))); }
};
Tensor sample(const Shape& shape) {
  return arange(-1.0, 1.0, 2.0 / 24).reshape({24})(range(0, shape.elements())).reshape(shape);
}
}  // namespace

TEST_CASE("graphs of functions of ops", "[cpu][graph]") {
  const Tensor x = sample({2, 3});
  check_function(
      "chain",
      [](Tensor v) {
        Tensor y = v * 2;
        y = tanh(y + 1);
        y = y / 3 - 1;
        return sqrt(abs(y));
      },
      x);
  check_function(
      "softmax",
      [](Tensor v) {
        const Tensor e = exp(v - max(v, 1, keepdims));
        return e / sum(e, 1, keepdims);
      },
      x);
  check_function(
      "gelu",
      [](Tensor v) {
        const Tensor inner = tanh(0.7978845608 * (v + 0.044715 * v * v * v));
        return 0.5 * v * (1 + inner);
      },
      x);
  check_function(
      "layer_norm",
      [](Tensor v) {
        const Tensor centered = v - mean(v, 1, keepdims);
        const Tensor variance = mean(square(centered), 1, keepdims);
        return centered * rsqrt(variance + 1e-5);
      },
      x);
  check_function(
      "attention",
      [](Tensor q, Tensor k, Tensor v) {
        const Tensor scores = matmul(q, transpose(k)) / 1.5;
        return matmul(softmax(scores, 1), v);
      },
      x, sample({4, 3}), sample({4, 2}));
  check_function(
      "convolution_by_gather",
      [](Tensor v, Tensor w) {
        const Tensor places = tensor<std::int64_t>({0, 1, 2, 1, 2, 3}).reshape({3, 2});
        const Tensor windows = take(v, places, 0);
        return sum(windows * w, 1);
      },
      sample({4}), sample({2}));
  check_function(
      "einsum",
      [](Tensor a, Tensor b) {
        return einsum("ij,kj->ik", {a, b});
      },
      x, sample({4, 3}));
  check_function(
      "two_paths",
      [](Tensor v) {
        const Tensor y = v * 2;
        if (sum(y) > 0) return y + 1;
        return tanh(y);
      },
      x);
  check_function(
      "while",
      [](Tensor v) {
        return while_loop([](Tensor y) { return sum(y) < 100; }, [](Tensor y) { return y * y + 1; },
                          v);
      },
      x);
}

TEST_CASE("graphs of layers", "[cpu][graph]") {
  seed(1);
  const Tensor x = sample({2, 3});
  nn::LSTMCell cell(3, 2);
  check_function(
      "lstm_cell",
      [&](Tensor v, Tensor h, Tensor c) {
        const nn::LSTMState next = cell(v, {h, c});
        return next.h;
      },
      x, sample({2, 2}), sample({2, 2}));
  nn::Embedding embedding(5, 3);
  nn::Linear head(2, 5);
  check_function(
      "char_lstm",
      [&](Tensor words) {
        nn::LSTMState state = cell.initial_state(2);
        for (int t = 0; t < 2; ++t) state = cell(embedding(words(t)), state);
        return head(state.h);
      },
      tensor<std::int64_t>({{1, 2}, {3, 4}}));
  nn::TreeLSTMCell tree(3, 2);
  check_function(
      "tree_lstm",
      [&](Tensor words) {
        const nn::LSTMState left = tree.leaf(words(range(0, 1)));
        const nn::LSTMState right = tree.leaf(words(range(1, 2)));
        return tree(left, right).h;
      },
      x);
  nn::TransformerEncoderLayer layer(4, 2, {.feed_forward = 8});
  check_function(
      "transformer", [&](Tensor v) { return layer(v); }, sample({1, 3, 4}));
  nn::BatchNorm norm(3);
  check_function(
      "batch_norm", [&](Tensor v) { return norm(v); }, x);
  check_function(
      "dropout",
      [](Tensor v) {
        const Tensor kept = dropout(v, 0.5);
        return kept * 2;
      },
      x);
}

TEST_CASE("graphs of training steps", "[cpu][graph]") {
  seed(2);
  const Tensor x = sample({2, 3});
  {
    Pair net;
    optim::Adam adam(parameters(net));
    check_function(
        "mlp_adam",
        [&](Tensor v) {
          GradientTape tape;
          const Tensor loss = mean(square(net(v)));
          adam.step(tape, loss);
          return loss;
        },
        x);
  }
  {
    Variable w("w", sample({3})), m("m", zeros({3})), v("v", zeros({3}));
    check_function(
        "adam_by_hand",
        [&](Tensor g) {
          m.assign(0.9 * m + 0.1 * g);
          v.assign(0.999 * v + 0.001 * square(g));
          w.assign_sub(0.01 * m / (sqrt(v) + 1e-8));
          return sum(w);
        },
        sample({3}));
  }
  {
    Variable table("table", sample({4, 2}));
    optim::SGD sgd({table}, {.learning_rate = 0.1});
    check_function(
        "sparse_rows",
        [&](Tensor words) {
          GradientTape tape;
          const Tensor loss = sum(square(take(table, words, 0)));
          sgd.step(tape, loss);
          return loss;
        },
        tensor<std::int64_t>({1, 3, 1}));
  }
  {
    Variable w("w", sample({3, 2}));
    optim::SGD sgd({w}, {.learning_rate = 0.1});
    check_function(
        "clipping",
        [&](Tensor v) {
          GradientTape tape;
          const Tensor loss = sum(square(matmul(v, w)));
          sgd.step(optim::clip_by_global_norm(tape.gradient(loss, std::vector<Variable>{w}), 1.0));
          return loss;
        },
        x);
  }
  check_function(
      "two_gradients",
      [](Tensor v) {
        GradientTape outer;
        outer.watch(v);
        GradientTape inner;
        inner.watch(v);
        const Tensor y = sum(v * v * v);
        return outer.gradient(sum(inner.gradient(y, v)), v);
      },
      x);
}

TEST_CASE("a repeated step is made once, on each path", "[cpu][graph]") {
  auto f = trace([](Tensor x) {
    const Tensor a = tanh(x * 2), b = tanh(x * 2);
    if (sum(x) > 0) return a * b + tanh(x * 2);
    return a - tanh(x * 3);
  });
  const Tensor up = sample({2, 3}) + 2, down = -up;
  for (int i = 0; i < 3; ++i) {
    CHECK(allclose(f(up), tanh(up * 2) * tanh(up * 2) + tanh(up * 2)));
    CHECK(allclose(f(down), tanh(down * 2) - tanh(down * 3)));
  }
  const Graph graph = graph_of(f, up), planned = graph.planned();
  CHECK(count(graph, "tanh") == 4);
  CHECK(count(planned, "tanh") == 2);
  CHECK(count(planned, "multiply") == 3);  // x * 2, x * 3, and the product
}

TEST_CASE("what a call gives away, writes or draws is not joined", "[cpu][graph]") {
  auto results = trace([](Tensor x) { return std::pair(tanh(x), tanh(x)); });
  Variable a("a", zeros({3})), b("b", zeros({3}));
  auto assigned = trace([&](Tensor x) {
    a.assign(tanh(x));
    b.assign(tanh(x));
    a.assign_add(x);
    return b + a;
  });
  auto drawn = trace([] { return random::normal({3}) - random::normal({3}); });
  auto options = trace([](Tensor x) { return softmax(x, 0) + softmax(x, 1); });
  const Tensor x = sample({3}), y = sample({2, 3});
  for (int i = 0; i < 3; ++i) {
    const auto [first, second] = results(x);
    CHECK(allclose(first, tanh(x)));
    CHECK(allclose(second, tanh(x)));
    CHECK(allclose(assigned(x), tanh(x) * 2 + x));
    CHECK(allclose(b, tanh(x)));
    CHECK_FALSE(allclose(drawn(), zeros({3})));
    CHECK(allclose(options(y), softmax(y, 0) + softmax(y, 1)));
  }
  CHECK(count(graph_of(results, x).planned(), "tanh") == 2);
  CHECK(count(graph_of(assigned, x).planned(), "tanh") == 2);
  CHECK(count(graph_of(drawn).planned(), "random") == 2);
  CHECK(count(graph_of(options, y).planned(), "softmax") == 2);
}

TEST_CASE("steps that nothing reads are dropped unless they may throw", "[cpu][graph]") {
  Variable steps("steps", zeros({}));
  auto f = trace([&](Tensor x, Tensor row) {
    const Tensor unread = matmul(transpose(x), tanh(x) * 3);
    const Tensor looked_up = take(x, row, 0);
    steps.assign_add(1);
    return sum(x);
  });
  const Tensor x = sample({2, 3}), row = tensor<std::int64_t>({1});
  for (int i = 0; i < 3; ++i) CHECK(allclose(f(x, row), sum(x)));
  const Graph planned = graph_of(f, x, row).planned();
  CHECK(count(planned, "matmul") + count(planned, "tanh") + count(planned, "multiply") == 0);
  CHECK(count(planned, "take") == 1);
  CHECK(steps.value().item<float>() == 3);
  CHECK_THROWS_AS(f(x, tensor<std::int64_t>({2})), IndexError);
}

TEST_CASE("verify names the pass that breaks a graph", "[cpu][graph]") {
  auto f = trace([](Tensor x) { return tanh(x * 2); });
  const Tensor x = sample({2});
  f(x);
  const auto run_with = [&](const graph::GraphPass& broken) {
    detail::GraphData data = graph_of(f, x).data();
    const graph::GraphPass passes[] = {{"put_updates_last", graph::put_updates_last}, broken};
    try {
      tracing::run_passes(data, 0, passes, true);
    } catch (const TraceError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string backward =
      run_with({"turns_steps_around", [](graph::Graph& graph) {
                  std::swap(graph.segments[0].steps[0], graph.segments[0].steps[1]);
                }});
  CHECK(backward.find("after the pass turns_steps_around") != std::string::npos);
  CHECK(backward.find("is read before it is made") != std::string::npos);
  const std::string wider = run_with(
      {"widens", [](graph::Graph& graph) { graph.values.back().layout.dtype = DType::float64; }});
  CHECK(wider.find("after the pass widens") != std::string::npos);
  CHECK(run_with({"nothing", [](graph::Graph&) {}}) == "no error");
}
}  // namespace reel::tests
