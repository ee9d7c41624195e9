// SPDX-License-Identifier: BSD-3-Clause
// Graphs in which a value is replaced, and to which values are added.
#include <reel/reel.hpp>

#include "lib/graph/graph.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
struct Net {
  nn::Linear first{3, 4, Activation::tanh}, head{4, 2};
  REEL_FIELDS(first, head)
  Tensor operator()(const Tensor& x) const { return head(named(first(x), "hidden")); }
};
Tensor value_of(const Graph& graph, const Tensor& x, const std::string& name) {
  return run(graph, {.feed = {{"argument 0", x}}, .fetch = {name}}).at(name);
}
}  // namespace

TEST_CASE("a value is replaced by a function of itself", "[cpu][graph]") {
  seed(4);
  Net net;
  CHECK(parameters(net).size() == 4);  // names them
  auto f = trace([&](Tensor x) { return named(net(x) * 2, "out"); });
  const Tensor x = random::normal({5, 3});
  f(x);
  const Graph graph = graph_of(f, x);
  const Graph masked = replace(graph, "hidden", [](Tensor h) { return h * (h > 0); });
  masked.verify();
  const Tensor hidden = net.first(x);
  CHECK(allclose(value_of(masked, x, "out"), net.head(hidden * (hidden > 0)) * 2));
  CHECK(allclose(value_of(masked, x, "hidden"), hidden));
  CHECK(allclose(value_of(graph, x, "out"), net(x) * 2));  // unchanged
  // An argument, a Variable, and the last value.
  const Graph half = replace(graph, "argument 0", [](Tensor v) { return v / 2; });
  CHECK(allclose(value_of(half, x, "out"), net(x / 2) * 2));
  const Graph no_bias = replace(graph, "head.bias", [](Tensor v) { return zeros_like(v); });
  CHECK(allclose(value_of(no_bias, x, "out"), matmul(hidden, net.head.weight) * 2));
  const Graph last = replace(graph, "out", [](Tensor v) { return v + 1; });
  CHECK(to_string(last).find("return %") != std::string::npos);
  CHECK(last.hash() != graph.hash());
  // Twice, with a Variable of the graph and one that is new.
  const Variable gain("gain", full({4}, 3.0f));
  const Graph twice = replace(replace(graph, "hidden", [&](Tensor h) { return h * gain; }),
                              "hidden", [&](Tensor h) { return h + net.first.bias; });
  CHECK(allclose(value_of(twice, x, "out"), net.head((hidden + net.first.bias) * gain) * 2));
}

TEST_CASE("views of a replaced value show the new one", "[cpu][graph]") {
  auto f = trace([](Tensor x) {
    const Tensor y = named(x * 2, "y"), t = named(transpose(y), "t"), part = y(0);
    return named(sum(reshape(t, {6}) * 3) + sum(part), "out");
  });
  const Tensor x = arange(0.0f, 6.0f).reshape({2, 3});
  f(x);
  const Graph graph = graph_of(f, x);
  const auto weights = arange(1.0f, 7.0f).reshape({2, 3});
  const auto weigh = [&](Tensor y) { return y * weights; };
  const Tensor y = x * 2 * weights;
  CHECK(allclose(value_of(replace(graph, "y", weigh), x, "out"), sum(y) * 3 + sum(y(0))));
  CHECK(allclose(value_of(replace(graph, "y", weigh), x, "t"), transpose(y)));
  // A view that is replaced, by something in order and by another view.
  CHECK(allclose(value_of(replace(graph, "t", [](Tensor t) { return t + 1; }), x, "out"),
                 sum(x * 2 + 1) * 3 + sum(x(0) * 2)));
  CHECK(allclose(value_of(replace(graph, "t", [](Tensor t) { return flip(t, 0); }), x, "out"),
                 sum(x * 2) * 3 + sum(x(0) * 2)));
  CHECK(allclose(value_of(replace(graph, "y", [](Tensor v) { return v; }), x, "out"),
                 value_of(graph, x, "out")));
  auto square = trace([](Tensor v) {
    const Tensor y = named(v + 0, "y");
    return named(reshape(y, {4}) * arange(0.0f, 4.0f), "out");
  });
  const Tensor m = arange(0.0f, 4.0f).reshape({2, 2});
  square(m);
  const Graph turned = replace(graph_of(square, m), "y", [](Tensor v) { return transpose(v); });
  CHECK(equal(value_of(turned, m, "out"), reshape(transpose(m), {4}) * arange(0.0f, 4.0f)));
}

TEST_CASE("values are added to a graph", "[cpu][graph]") {
  seed(5);
  Net net;
  auto f = trace([&](Tensor x) {
    const Tensor y = named(net(x), "out");
    if (sum(y) > 1000) return y * named(x(0, 0), "corner");
    return named(y + 1, "more");
  });
  const Tensor x = random::normal({5, 3});
  f(x);
  const Graph graph = graph_of(f, x);
  const Graph sized = append(graph, "size", {"hidden", "out"},
                             [](const std::vector<Tensor>& v) { return norm(v[0]) + sum(v[1]); });
  CHECK(allclose(value_of(sized, x, "size"), norm(net.first(x)) + sum(net(x))));
  const Graph next = append(sized, "double", {"size"}, [](const auto& v) { return v[0] * 2; });
  CHECK(allclose(value_of(next, x, "double"), value_of(sized, x, "size") * 2));
  const Graph same = append(graph, "again", {"more"}, [](const auto& v) { return v[0]; });
  CHECK(allclose(value_of(same, x, "again"), net(x) + 1));
  const Graph loop = append(graph, "looped", {"out"}, [](const std::vector<Tensor>& v) {
    return while_loop([](Tensor y) { return sum(square(y)) < 100; },
                      [](Tensor y) { return y * 2 + 1; }, v[0]);
  });
  Tensor wanted = net(x);
  while (sum(square(wanted)) < 100) wanted = wanted * 2 + 1;
  CHECK(allclose(value_of(loop, x, "looped"), wanted));
}

TEST_CASE("edits of a graph that cannot be made are refused", "[cpu][graph]") {
  Net net;
  Variable count("count", zeros({}));
  auto f = trace([&](Tensor x) { return named(net(x), "out"); });
  const Tensor x = ones({5, 3});
  f(x);
  const Graph graph = graph_of(f, x);
  check_refused<Error>([&] { replace(graph, "hiden", [](Tensor v) { return v; }); },
                       "replace: name: expected the name of a value in the graph, got \"hiden\"");
  check_refused<ShapeError>([&] { replace(graph, "hidden", [](Tensor v) { return sum(v, 0); }); },
                            "replace: result: expected (5, 4), got (4,)");
  check_refused<DTypeError>(
      [&] { replace(graph, "hidden", [](Tensor v) { return cast(v, float64); }); },
      "replace: result: expected float32, got float64");
  check_refused<Error>([&] { replace(graph, "hidden", [](Tensor) { return Tensor(); }); },
                       "replace: result: expected a Tensor, got an empty Tensor");
  check_refused<Error>(
      [&] {
        replace(graph, "out", [&](Tensor v) {
          count.assign_add(1);
          return v;
        });
      },
      "a step that writes a Variable");
  check_refused<Error>(
      [&] { replace(graph, "out", [&](Tensor v) { return sum(v) > 0 ? v : v * 2; }); },
      "a value that it reads on the host");
  check_refused<Error>([&] { append(graph, "out", {"hidden"}, [](auto& v) { return v[0]; }); },
                       "append: name: expected a name that no value of the graph has");
  auto paths = trace([](Tensor v) {
    if (sum(v) > 0) return named(v * 2, "up");
    return named(v * 3, "down");
  });
  for (int i = 0; i < 2; ++i) paths(x), paths(-x);
  check_refused<Error>(
      [&] {
        append(graph_of(paths, x), "both", {"up", "down"}, [](auto& v) { return v[0] + v[1]; });
      },
      "append: names: expected values of one path");
  CHECK_THROWS_AS(replace(graph, "hidden", [](Tensor v) { return matmul(v, v); }), ShapeError);
  CHECK(count.value().item<float>() == 1);  // f ran once
}
}  // namespace reel::tests
