// SPDX-License-Identifier: BSD-3-Clause
// Graphs in files: text, hash and values are those of the graph that was saved.
#include <cstring>
#include <functional>
#include <optional>
#include <set>

#include <reel/reel.hpp>

#include "graph/saved.hpp"
#include "lib/table/op.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Loss = std::function<Tensor(const Tensor&)>;
/// A loss and its gradient for x.
Tensor with_gradient(const Tensor& x, const Loss& loss) {
  GradientTape tape;
  const Tensor y = x + 0;
  tape.watch(y);
  return tape.gradient(loss(y), y);
}
struct Net {
  nn::Linear first{4, 6, Activation::tanh}, head{6, 3};
  REEL_FIELDS(first, head)
  Tensor operator()(const Tensor& x) const { return head(first(x)); }
};
struct Pair {
  Tensor a, b;
  REEL_FIELDS(a, b)
};
}  // namespace

TEST_CASE("functions of tensors are saved", "[cpu][graph]") {
  check_saved("a chain", [](Tensor x) { return named(tanh(x * 2), "middle") + 1.5; },
              {ones({2, 3})});
  check_saved("views",
              [](Tensor x) {
                const Tensor y = transpose(x)(range(0, 2)) * 2;
                return sum(reshape(y, {-1}) + broadcast_to(x(0)(range(0, 1)), {4})) +
                       squeeze(expand_dims(x(1, 1), 0), 0);
              },
              {random::normal({2, 3})});
  const Tensor c = random::normal({3, 4});
  const Tensor constants[] = {transpose(c), c(range(0, 3), range(0, 4, 2)), c(range(2, -1, -1)),
                              broadcast_to(c(0), {3, 4}), transpose(c(range(0, 2)))};
  for (const Tensor& constant : constants)
    check_saved("a constant of some layout",
                [constant](Tensor x) {
                  const Shape turned({constant.shape()[1], 2});
                  return matmul(constant, broadcast_to(x, turned)) + sum(constant * x(0));
                },
                {random::normal({2})});
  check_saved("gather, sort and search",
              [](Tensor x, Tensor places) {
                const auto [values, where_found] = topk(x, 2);
                return sum(take(x, places, 1)) + sum(values) + sum(sort(x, 0)) +
                       sum(gather(x, where_found, 1)) + sum(one_hot(places, 5)) +
                       sum(searchsorted(tensor({0.0f, 1.0f}), x)) +
                       sum(scatter_add(x, places, x(range(0, 2))));
              },
              {random::normal({3, 4}), tensor({2, 0})});
  check_saved("einsum",
              [](Tensor x, Tensor y) {
                return einsum("bij,bjk->bik", {x, y});
              },
              {random::normal({2, 3, 4}), random::normal({2, 4, 2})});
  check_saved("dropout and random numbers",
              [](Tensor x) { return dropout(x, 0.4) + random::normal({3}) * random::uniform({3}); },
              {ones({3})});
  check_saved("linear algebra",
              [](Tensor x) {
                const Tensor a = matmul(x, transpose(x)) + eye(3);
                const auto [q, r] = linalg::qr(a);
                return linalg::solve(a, q) + r + linalg::cholesky(a);
              },
              {random::normal({3, 3})});
  check_saved("dtypes",
              [](Tensor x, Tensor i) {
                const Tensor half = (x.to(DType::float16) * 2).to(DType::float64);
                return where(i > 1, half, x) + (i % 2) + (i & 3);
              },
              {random::normal({3}), tensor({1, 2, 3})});
  check_saved("scans and reductions",
              [](Tensor x) {
                return cumsum(x, 1) + mean(x, 0, keepdims) + max(x) + prod(x, {0, 1}) +
                       argmax(x, 1, keepdims) + logcumsumexp(x, 0, {.reverse = true});
              },
              {random::normal({2, 3})});
  check_saved("images",
              [](Tensor x) {
                return sum(mean_pool2d(x, 2, {.padding = 1})) + sum(resize(x, {3, 5})) +
                       max_pool2d(x, 2, {.stride = 1});
              },
              {random::normal({1, 4, 4, 2})});
}

TEST_CASE("functions with gradients are saved", "[cpu][graph]") {
  const Tensor w = random::normal({2, 2, 2, 3}), labels = tensor({1, 0, 2});
  const Tensor scale = ones({4}), seen = tensor({{1, 0, 1}, {1, 1, 0}, {1, 1, 1}}) != 0;
  const std::pair<const char*, Loss> losses[] = {
      {"cross entropy", [&](const Tensor& x) { return mean(cross_entropy(x, labels)); }},
      {"softmax", [&](const Tensor& x) { return sum(softmax(x) * log_softmax(x * 2)); }},
      {"layer_norm", [&](const Tensor& x) { return sum(layer_norm(x, scale, scale * 2) * x); }},
      {"attention",
       [&](const Tensor& x) {
         const Tensor q = reshape(x, {1, 3, 4});
         return sum(attention(q, q, q, {.mask = seen}) * q);
       }},
      {"cells",
       [&](const Tensor& x) {
         const auto [h, cell] = lstm_gates(reshape(x, {3, 4}), x(range(0, 3), range(0, 1)));
         return sum(h * cell);
       }},
      {"gelu", [&](const Tensor& x) { return sum(gelu(x) * sigmoid(x) + relu(x) / (x * x + 1)); }},
      {"places", [&](const Tensor& x) { return sum(take(x, labels, 0) * max(x, 1, keepdims)); }}};
  for (const auto& [name, loss] : losses)
    check_saved(name, [loss = loss](Tensor x) { return with_gradient(x, loss); },
                {random::normal({3, 4})});
  check_saved("a convolution",
              [w](Tensor x) {
                return with_gradient(x, [&](const Tensor& y) {
                  return sum(square(max_pool2d(relu(conv2d(y, w, {.padding = 1})), 2)));
                });
              },
              {random::normal({1, 4, 4, 2})});
  nn::LSTM lstm(3, 2);
  check_saved("a sequence",
              [&](Tensor x) {
                return with_gradient(x,
                                     [&](const Tensor& y) { return sum(square(lstm(y).outputs)); });
              },
              {random::normal({4, 2, 3})});
}

TEST_CASE("steps of training are saved", "[cpu][graph]") {
  Net net;
  optim::Adam adam(parameters(net));
  check_saved("an MLP with Adam",
              [&](Tensor x, Tensor labels) {
                GradientTape tape;
                const Tensor loss = mean(cross_entropy(net(x), labels));
                adam.step(tape, loss);
                return loss;
              },
              {random::normal({5, 4}), tensor({0, 1, 2, 0, 1})});
  Variable table("table", random::normal({5, 3}));
  check_saved("rows of a table",
              [&](Tensor rows) {
                GradientTape tape;
                const Tensor loss = sum(square(lookup(table, rows)));
                const std::vector<Variable> all = {table};
                const auto gradients = tape.row_gradients(loss, all);
                sgd_update(all, gradients, 0.1);
                return loss;
              },
              {tensor({1, 3, 1})});
  nn::BatchNorm norm(3);
  check_saved("BatchNorm", [&](Tensor x) { return norm(x) * 2; }, {random::normal({4, 3})});
  check_saved("assignments",
              [&](Tensor x) {
                table.assign_add(broadcast_to(x, {5, 3}));
                table(1).assign(x * 2);
                return sum(table.value());
              },
              {random::normal({3})});
}

TEST_CASE("branches and loops are saved", "[cpu][graph]") {
  auto f = trace([](Tensor v) {
    if (sum(v) > 3) return named(v * 2, "large");
    return v + v(0).item<float>();
  });
  f(ones({2})), f(ones({2}) * 5), f(zeros({2}));
  check_saved(f.graph(ones({2})), {ones({2}) * 5});
  check_saved("while_loop",
              [](Tensor x) {
                return while_loop([](Tensor s) { return sum(s) < 50; },
                                  [](Tensor s) { return s * 2 + 1; }, x);
              },
              {ones({3})});
  check_saved("scan",
              [](Tensor x) {
                const auto [last, made] = scan(Pair{zeros({2}), ones({2})}, x,
                                               [](Pair s, Tensor row) {
                                                 const Tensor a = s.a + row;
                                                 return std::pair(Pair{a, s.b * a}, tanh(a));
                                               },
                                               {.reverse = true});
                return last.b + sum(made, 0);
              },
              {random::normal({4, 2})});
  check_saved("a row that a branch returns",
              [](Tensor x) {
                const auto [last, made] = scan(zeros({2}), x, [](Tensor s, Tensor row) {
                  const Tensor next = cond(
                      sum(row) > 0, [&] { return row; }, [&] { return s; });
                  return std::pair(next, next + row);
                });
                return last * 2 + sum(made, 0);
              },
              {random::normal({6, 2})});
  check_saved("repeat and cond",
              [](Tensor x) {
                return repeat(4, x, [](Tensor s, Tensor i) {
                  return cond(
                      sum(s) > 3, [&] { return s / 2; }, [&] { return s + i; });
                });
              },
              {ones({2})});
  check_saved("the gradient of a loop",
              [](Tensor x) {
                return with_gradient(x, [](const Tensor& y) {
                  return sum(repeat(3, y, [](Tensor s, Tensor i) { return tanh(s) * (i + 1); }));
                });
              },
              {random::normal({3})});
}

TEST_CASE("every op that has samples is saved", "[cpu][graph][sweep]") {
  const std::set<std::string_view> believing = {"attention", "ctc_loss", "gru", "lstm"};
  for (const Op* op : OpTable::the().ops()) {
    if (!op->samples) continue;
    std::vector<Sample> samples;
    op->samples(samples);
    for (std::size_t i = 0; i < samples.size(); i += 1 + samples.size() / 6) {
      const Sample& sample = samples[i];
      INFO(op->name << " " << i);
      const auto f = trace([&](std::vector<Tensor> in) { return sample.call(in); });
      const auto slope = trace([&](std::vector<Tensor> in) {
        GradientTape tape;
        Tensor first;
        for (Tensor& x : in) {
          if (!is_floating(x.dtype())) continue;
          x = x + 0;
          tape.watch(x);
          if (!first.defined()) first = x;
        }
        const Tensor y = sample.call(in);
        if (!first.defined() || !is_floating(y.dtype())) return y;
        return tape.gradient(sum(y), first, Unconnected::zero);
      });
      for (const auto* each : {&f, &slope}) {
        (*each)(sample.inputs);
        std::optional<Graph> graph;
        try {
          graph = each->graph(sample.inputs);
        } catch (const Error&) {
          continue;  // it runs eagerly
        }
        try {
          check_saved(*graph, sample.inputs);
        } catch (const Error& error) {
          INFO(error.what());
          CHECK(believing.contains(op->name));
        }
      }
    }
  }
}

TEST_CASE("the values of Variables are in the file by name", "[cpu][graph]") {
  const Folder folder;
  const std::string path = folder.file("net.safetensors");
  Net net;
  CHECK(parameters(net).size() == 4);
  auto f = trace([&](Tensor x) { return named(net(x), "score"); });
  const Tensor x = random::normal({2, 4});
  const Tensor score = f(x);
  io::save_graph(path, f.graph(x));
  CHECK(equal(io::load_safetensors(path, {.names = {"first.weight"}})[0].second,
              net.first.weight.value()));
  net.head.bias.assign_add(ones({3}));
  const Graph graph = io::load_graph(path);
  CHECK(equal(run(graph, {.feed = {{"argument 0", x}}, .fetch = {"score"}}).at("score"), score));
}

TEST_CASE("what no file can hold is an error that names the step", "[cpu][graph]") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  register_op("saved_test_read",
              [](const OpCall& call) { return full({2}, call.input(0)(0).item<float>()); });
  auto f = trace([](Tensor x) { return call_op("saved_test_read", {x}) + 1; });
  f(ones({2}));
  check_refused<Error>([&] { io::save_graph(path, f.graph(ones({2}))); }, "saved.cpp");
  CHECK(!std::filesystem::exists(path));
  check_refused<IoError>([&] { io::load_graph(path); }, "load_graph");
  io::save_safetensors(path, {{"x", ones({2})}});
  check_refused<IoError>([&] { io::load_graph(path); }, "a graph, which save_graph() writes");
}
}  // namespace reel::tests
