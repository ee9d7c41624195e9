// SPDX-License-Identifier: BSD-3-Clause
// Graphs of traced functions: their text, their faults, and parts of them that run.
#include <reel/reel.hpp>

#include "graph/graph_text.hpp"
#include "lib/graph/graph.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
std::string error_of(const auto& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
bool has(const std::string& text, std::string_view part) {
  INFO(text);
  CHECK(text.find(part) != text.npos);
  return text.find(part) != text.npos;
}
struct Net {
  nn::Linear first{2, 3, Activation::relu}, head{3, 1};
  REEL_FIELDS(first, head)
  Tensor operator()(const Tensor& x) const {
    const NameScope net("net");
    Tensor h;
    {
      const NameScope inner("first");
      h = first(x);
    }
    return named(head(h), "score");
  }
};
}  // namespace

TEST_CASE("a graph has names, shapes and steps", "[cpu][graph]") {
  auto f =
      trace([](Tensor x, Tensor y) { return named(tanh(named(x * y, "product")) + 1.5, "out"); });
  const Tensor x = ones({2}), y = ones({2});
  f(x, y);
  CHECK(text_of(graph_of(f, x, y)) == R"(  %0 "argument 0" = argument : float32(2,)
  %1 "argument 1" = argument : float32(2,)
  %4 = constant 1.5 : float32()
  %2 "product" = multiply %0 %1 : float32(2,)
  %3 = tanh %2 : float32(2,)
  %5 "out" = add %3 %4 : float32(2,)
  return %5
)");
  const auto nodes = graph_of(f, x, y).nodes();
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[0].op == "multiply");
  CHECK(nodes[0].inputs == std::vector<std::string>{"argument 0", "argument 1"});
  CHECK(nodes[0].outputs == std::vector<std::string>{"product"});
  CHECK(nodes[0].shapes.at(0) == Shape{2});
  has(nodes[0].caller, "graph.cpp:");
}

TEST_CASE("a graph has Variables, scopes, gradients and updates", "[cpu][graph]") {
  Net net;
  optim::SGD sgd(parameters(net), {.learning_rate = 0.1});
  auto step = trace([&](Tensor x) {
    GradientTape tape;
    const Tensor loss = sum(square(net(x)));
    sgd.step(tape, loss);
    return loss;
  });
  const Tensor x = ones({4, 2});
  step(x);
  const std::string text = to_string(step.graph(x));
  for (const char* part :
       {"\"first.weight\" = variable : float32(2, 3)",
        "  # net/first, graph.cpp:", "\"score\" = matmul_add", "relu.d0", "sgd_update",
        "writes \"first.weight\"", "assign \"head.bias\"", "view of", "return"})
    has(text, part);
  step.graph(x).verify();
}

TEST_CASE("a graph has blocks where a function branches", "[cpu][graph]") {
  auto f = trace([](Tensor v) {
    if (sum(v) > 3) return v * 2;
    return v + 1;
  });
  const Tensor small = ones({2}), large = ones({2}) * 5;
  f(small), f(large);
  CHECK(text_of(graph_of(f, small)) == R"(  %0 "argument 0" = argument : float32(2,)
  %2 = constant 3 : float32()
  %4 = constant 1 : float32()
  %6 = constant 2 : float32()
block 0:
  %1 = sum %0 {axes=every, keepdims=0} : float32()
  %3 = greater %1 %2 : bool()
  ask truth %3: false -> block 1; true -> block 2
block 1:
  %5 = add %0 %4 : float32(2,)
  return %5
block 2:
  %7 = multiply %0 %6 : float32(2,)
  return %7
)");
  has(graph_of(f, small).dot(), "digraph {");
  auto number = trace(
      [](Tensor v) { return v * static_cast<double>(v.shape()[0] + (v(0).item<float>() > 0)); });
  number(small);
  has(to_string(graph_of(number, small)), "ask elements");
}

TEST_CASE("a part of a graph runs", "[cpu][graph]") {
  seed(3);
  Net net;
  CHECK(parameters(net).size() == 4);  // names them
  auto f = trace([&](Tensor x) {
    const Tensor middle = named(transpose(x) * 2, "middle");
    return named(net(transpose(middle)) + 0, "out");
  });
  const Tensor x = random::normal({4, 2});
  f(x);
  const Graph graph = graph_of(f, x);
  const auto fetched =
      run(graph, {.feed = {{"argument 0", x}}, .fetch = {"middle", "score", "out"}});
  CHECK(allclose(fetched.at("out"), net(x * 2)));
  CHECK(allclose(fetched.at("middle"), transpose(x) * 2));
  CHECK(allclose(run(graph, {.feed = {{"middle", ones({2, 4})}}, .fetch = {"out"}}).at("out"),
                 net(ones({4, 2}))));
  // Variables have their current values, unless they are fed.
  const Tensor before = net(x * 2), bias = net.head.bias;
  net.head.bias.assign_add(ones({1}));
  CHECK(
      allclose(run(graph, {.feed = {{"argument 0", x}}, .fetch = {"out"}}).at("out"), net(x * 2)));
  CHECK(allclose(
      run(graph, {.feed = {{"argument 0", x}, {"head.bias", bias}}, .fetch = {"out"}}).at("out"),
      before));
  has(error_of([&] { run(graph, {.fetch = {"out"}}); }), "options.feed: expected \"argument 0\"");
  has(error_of([&] { run(graph, {.fetch = {"nothing"}}); }),
      "the name of a value in the graph, got \"nothing\"");
  CHECK_THROWS_AS(run(graph, {.feed = {{"argument 0", ones({3})}}, .fetch = {"out"}}), ShapeError);
  CHECK_THROWS_AS(run(graph, {.feed = {{"argument 0", ones({4, 2}, float64)}}, .fetch = {"out"}}),
                  DTypeError);
  CHECK_THROWS_AS(fetched.at("score 2"), IndexError);
}

TEST_CASE("gradient steps of a graph run", "[cpu][graph]") {
  Net net;
  auto f = trace([&](Tensor x) {
    GradientTape tape;
    const Tensor loss = sum(square(net(x)));
    return named(tape.gradient(loss, net.first.weight), "slope");
  });
  const Tensor x = ones({4, 2}) * 0.3;
  const Tensor expected = f(x);
  CHECK(allclose(run(graph_of(f, x), {.feed = {{"argument 0", x}}, .fetch = {"slope"}}).at("slope"),
                 expected));
}

TEST_CASE("random steps, views and other outputs run as in the graph", "[cpu][graph]") {
  auto draws = trace([](Tensor x) {
    const Tensor a = random::normal({2}), b = named(random::normal({2}), "b");
    return named(a + b * 10 + x, "c");
  });
  const Tensor zero = zeros({2});
  draws(zero);
  seed(0);
  const Tensor expected = draws(zero);
  const Graph random_graph = draws.graph(zero);
  const auto fetched = run(random_graph, {.feed = {{"argument 0", zero}}, .fetch = {"c", "b"}});
  CHECK(equal(fetched.at("c"), expected));
  CHECK(equal(run(random_graph, {.fetch = {"b"}}).at("b"), fetched.at("b")));

  auto views =
      trace([](Tensor x) { return named(transpose(named(transpose(x), "t")) + 1, "out"); });
  const Tensor x = ones({2, 2});
  views(x);
  const Tensor hundred = full({2, 2}, 100.0);
  CHECK(equal(run(views.graph(x), {.feed = {{"t", hundred}}, .fetch = {"out"}}).at("out"),
              hundred + 1));

  auto pair = trace([](Tensor v) {
    const auto [q, r] = linalg::qr(v);
    return named(named(q, "q") + 0, "s") + named(r, "r");
  });
  const Tensor square = full({2, 2}, 2.0) + eye(2);
  pair(square);
  const auto both =
      run(pair.graph(square), {.feed = {{"argument 0", square}, {"q", x}}, .fetch = {"r", "q"}});
  CHECK(equal(both.at("q"), x));
}

TEST_CASE("equal names get a number", "[cpu][graph]") {
  auto f = trace([](Tensor x) { return named(named(x + 1, "y") * 2, "y"); });
  const Tensor x = ones({2});
  f(x);
  const auto nodes = graph_of(f, x).nodes();
  CHECK(nodes.at(0).outputs.at(0) == "y");
  CHECK(nodes.at(1).outputs.at(0) == "y_1");
}

TEST_CASE("the hash of a graph is that of what it computes", "[cpu][graph]") {
  const auto graph = [](double factor, std::int64_t n, const char* name) {
    auto f = trace([=](Tensor x) { return named(sum(x * factor), name); });
    f(ones({n}));
    return graph_of(f, ones({n}));
  };
  CHECK(graph(2, 3, "a").hash() == graph(2, 3, "b").hash());
  CHECK(graph(2, 3, "a").hash() != graph(3, 3, "a").hash());
  CHECK(graph(2, 3, "a").hash() != graph(2, 4, "a").hash());
  const auto constant = [](const Tensor& c) {
    auto f = trace([=](Tensor x) { return x + transpose(c); });
    f(ones({2, 2}));
    return f.graph(ones({2, 2})).hash();
  };
  CHECK(constant(ones({2, 2})) != constant(ones({2, 2}) * 2));
}

TEST_CASE("a graph that was not captured is an error with the reason", "[cpu][graph]") {
  auto f = trace([](Tensor x) { return x + 1; });
  has(error_of([&] { f.graph(ones({2})); }), "graph.cpp:");
  has(error_of([&] { f.graph(ones({2})); }), "never called with training() true");
  int calls = 0;
  auto keeps = trace([&calls](Tensor x) { return x * static_cast<double>(++calls); });
  for (int i = 0; i < 6; ++i) keeps(ones({2}));
  has(error_of([&] { keeps.graph(ones({2})); }), "run eagerly");
}

TEST_CASE("a fault that is put into a graph is found", "[cpu][graph]") {
  Net net;
  auto f = trace([&](Tensor x) {
    net.head.bias.assign_add(ones({1}));
    const Tensor y = transpose(net(x));
    return sum(y) > 0 ? y * 2 : y;
  });
  const Tensor x = ones({4, 2});
  f(x);
  const detail::GraphData whole = f.graph(x).data();
  const auto fault = [&](const auto& break_it) {
    auto data = make_shared_of<detail::GraphData>(whole);
    break_it(*data);
    return error_of([&] { Graph(data).verify(); });
  };
  CHECK(fault([](auto&) {}) == "no error");
  auto& steps = whole.segments[0].steps;
  const std::size_t last = steps.size() - 1;
  has(fault([&](auto& d) { std::swap(d.segments[0].steps[0], d.segments[0].steps[last]); }),
      "is read before it is made");
  has(fault([&](auto& d) { d.segments[0].steps.push_back(d.segments[0].steps[last]); }),
      "is made again");
  has(fault([&](auto& d) { d.segments[0].steps[last].inputs[0] = 1000; }),
      "is read before it is made");
  has(fault([&](auto& d) { d.segments[0].steps[last].outputs[0] = 1000; }),
      "makes a value that does not exist");
  has(fault([&](auto& d) { d.segments[0].branches[0].segment = 0; }),
      "which is not one of its own behind it");
  has(fault([&](auto& d) { d.segments[0].branches.clear(); }), "neither ends nor branches");
  has(fault([&](auto& d) { d.segments[0].question.inputs[0] = -1; }),
      "asks for a value that is not made");
  has(fault([&](auto& d) { d.segments[1].results[0] = 1000; }), "is not made");
  has(fault([&](auto& d) { d.segments.emplace_back(); }), "nothing branches to it");
  has(fault([&](auto& d) { d.segments.clear(); }), "it has no steps");
  has(fault([&](auto& d) {
        for (auto& value : d.values)
          if (value.kind == graph::Value::Kind::view) value.number = -7;
      }),
      "is a view of a value that does not exist");
  has(fault([&](auto& d) {
        for (std::size_t i = 0; i < d.values.size(); ++i)
          if (d.values[i].kind == graph::Value::Kind::view)
            d.values[i].number = static_cast<int>(i);
      }),
      "is a view of a view");
  has(fault([&](auto& d) {
        for (auto& value : d.values)
          if (value.kind == graph::Value::Kind::variable) value.number = 99;
      }),
      "is a Variable that does not exist");
  has(fault([&](auto& d) {
        for (auto& step : d.segments[0].steps)
          if (!step.updated.empty()) step.updated[0] = 99;
      }),
      "writes a Variable that does not exist");
  has(fault([&](auto& d) {
        for (auto& step : d.segments[0].steps)
          if (!step.updated.empty()) step.updated.push_back(0);
      }),
      "Variables and makes");
  has(fault([&](auto& d) { d.segments[1].assigned.emplace_back(99, 0); }),
      "it assigns what is not made");
  const auto of_product = [&](graph::Graph& d) -> graph::Layout& {
    for (const graph::Step& step : d.segments[0].steps)
      if (step.op->name == "matmul_add")
        return d.values[static_cast<std::size_t>(step.outputs[0])].layout;
    return d.values[0].layout;
  };
  has(fault([&](auto& d) { of_product(d).dtype = DType::float64; }),
      "is float64(4, 1), and by the rule of its op float32(4, 1)");
  has(fault([&](auto& d) { of_product(d).shape = {4, 9}; }), "and by the rule of its op");
  has(fault([&](auto& d) {
        for (auto& value : d.values)
          if (value.kind == graph::Value::Kind::argument) value.layout.shape = {4, 7};
      }),
      "expected");
}
}  // namespace reel::tests
