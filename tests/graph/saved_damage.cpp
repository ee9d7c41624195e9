// SPDX-License-Identifier: BSD-3-Clause
// Damaged and hostile files of graphs: an Error, or a graph that verifies and runs.
#include <cctype>
#include <cstdlib>
#include <functional>

#include <reel/reel.hpp>

#include "graph/saved.hpp"
#include "io/damage.hpp"
#include "support/peak.hpp"

namespace reel::tests {
namespace {
constexpr std::string_view key = "reel.graph";
struct File {
  const char* name;
  io::NamedTensors tensors;
  std::string json;
  std::vector<Tensor> arguments;
};
File saved(const char* name, const Graph& graph, std::vector<Tensor> arguments) {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  io::save_graph(path, graph);
  File file{name, io::load_safetensors(path), {}, std::move(arguments)};
  for (const auto& [title, text] : io::load_safetensors_metadata(path))
    if (title == key) file.json = text;
  return file;
}
template <class F>
File file_of(const char* name, F f, const Tensor& x) {
  auto traced = trace(std::move(f));
  traced(x);
  return saved(name, traced.graph(x), {x});
}
Tensor slope(const Tensor& x, const std::function<Tensor(const Tensor&)>& loss) {
  GradientTape tape;
  const Tensor y = x + 0;
  tape.watch(y);
  return tape.gradient(loss(y), y);
}

std::vector<File> files() {
  std::vector<File> all;
  const Tensor x = random::normal({3, 4}), image = random::normal({1, 4, 4, 2});
  const Tensor labels = tensor({1, 0, 2}), weight = random::normal({2, 2, 2, 2});
  all.push_back(file_of(
      "views",
      [](Tensor v) {
        const Tensor part = transpose(v)(range(1, 4, 2), range(2, -1, -1)) * 2;
        return sum(reshape(part, {-1})) + sum(squeeze(expand_dims(v, 1), 1), 0) +
               broadcast_to(v(0), {2, 4});
      },
      x));
  all.push_back(file_of(
      "places",
      [labels](Tensor v) {
        return sum(sort(take(v, labels, 1), 0)) +
               sum(scatter_add(v, labels(range(0, 2)), v(range(0, 2)))) + sum(one_hot(labels, 4)) +
               sum(gather(v, argsort(v, 1), 1)) + sum(concat({v, v}, 1)) +
               sum(histogram(v, 5, -1.0, 1.0)) + sum(cumsum(v, 0));
      },
      x));
  all.push_back(file_of(
      "images",
      [weight](Tensor v) {
        return slope(v, [&](const Tensor& y) {
          return sum(max_pool2d(conv2d(y, weight, {.stride = 1, .padding = 1}), 2)) +
                 sum(mean_pool2d(y, 3, {.padding = 1})) +
                 sum(conv_transpose2d(y, weight, {.stride = 2}));
        });
      },
      image));
  all.push_back(file_of(
      "losses",
      [labels](Tensor v) {
        return slope(v, [&](const Tensor& y) {
          return mean(cross_entropy(y, labels)) + sum(softmax(y) * tanh(y)) +
                 sum(layer_norm(y, ones({4}), ones({4})) * y);
        });
      },
      x));
  all.push_back(file_of(
      "attention",
      [](Tensor v) {
        return slope(v, [&](const Tensor& y) {
          const Tensor q = reshape(y, {2, 3, 2});
          return sum(attention(q, q, q, {.causal = true}));
        });
      },
      x));
  nn::LSTM lstm(2, 2);
  all.push_back(file_of(
      "sequence",
      [&](Tensor v) {
        return slope(v, [&](const Tensor& y) { return sum(lstm(reshape(y, {3, 2, 2})).outputs); });
      },
      x));
  nn::Linear linear(4, 2);
  optim::Adam adam(parameters(linear));
  Variable table("table", random::normal({5, 4}));
  all.push_back(file_of(
      "training",
      [&](Tensor v) {
        GradientTape tape;
        const Tensor loss = sum(square(linear(v))) + sum(square(lookup(table, tensor({1, 2}))));
        table(1).assign(v(0));
        adam.step(tape, loss);
        return loss;
      },
      x));
  all.push_back(file_of(
      "random numbers",
      [](Tensor v) {
        return sum(dropout(v, 0.5)) + sum(random::permutation(4)) +
               sum(random::integers(0, 5, {3})) + sum(random::gamma(2.0, {2})) +
               sum(random::truncated_normal({2})) + sum(arange(0, 5)) + sum(eye(3));
      },
      x));
  all.push_back(file_of(
      "loops",
      [](Tensor v) {
        const auto [last, made] = scan(zeros({4}), v, [](Tensor s, Tensor row) {
          const Tensor next = cond(
              sum(row) > 0, [&] { return s + row; }, [&] { return s - row; });
          return std::pair(next, next * 2);
        });
        return last + sum(made, 0);
      },
      x));
  auto branches = trace([](Tensor v) {
    if (sum(v) > 3) return v * 2;
    return v + v(0, 0).item<float>();
  });
  branches(x * 0 + 1), branches(x * 0);
  all.push_back(saved("branches", branches.graph(x), {x}));
  all.push_back(file_of(
      "algebra",
      [](Tensor v) {
        const Tensor a = matmul(v, transpose(v)) + eye(3) * 9;
        return linalg::solve(a, linalg::cholesky(a)) + linalg::qr(a).q +
               einsum("ij,kj->ik", {v, v});
      },
      x));
  return all;
}

/// Whether a graph is small, and its loops end by themselves.
bool may_run(const graph::Graph& graph) {
  for (const graph::Value& value : graph.values)
    if (value.layout.elements > 1 << 20) return false;
  for (const graph::Segment& segment : graph.segments)
    for (const graph::Step& step : segment.steps)
      if (step.loop) {
        if (!step.loop->arrays && !step.loop->once) return false;
        for (const graph::Graph* body : step.loop->bodies())
          if (!may_run(*body)) return false;
      }
  return true;
}

struct Token {
  std::size_t at, size;
};
/// Numbers, texts and words of JSON.
std::vector<Token> tokens_of(const std::string& json) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < json.size();) {
    std::size_t end = i + 1;
    if (json[i] == '"') {
      while (json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      ++end;
    } else if (json[i] == '-' || std::isalnum(static_cast<unsigned char>(json[i]))) {
      while (std::isalnum(static_cast<unsigned char>(json[end]))) ++end;
    } else {
      ++i;
      continue;
    }
    tokens.push_back({i, end - i});
    i = end;
  }
  return tokens;
}
std::string damaged(const std::string& json, Random& random) {
  static const std::vector<std::string> numbers = {"-1",
                                                   "0",
                                                   "1",
                                                   "2",
                                                   "3",
                                                   "5",
                                                   "8",
                                                   "255",
                                                   "1000",
                                                   "65536",
                                                   "2147483647",
                                                   "2147483648",
                                                   "18014398509481984",
                                                   "288230376151711744",
                                                   "9223372036854775807",
                                                   "-9223372036854775808",
                                                   "18446744073709551615",
                                                   "1e9",
                                                   "1.5"};
  const std::vector<Token> tokens = tokens_of(json);
  const Token token = tokens[below(random, tokens.size())],
              other = tokens[below(random, tokens.size())];
  const std::string own = json.substr(token.at, token.size),
                    its = json.substr(other.at, other.size);
  const bool number = own[0] == '-' || std::isdigit(static_cast<unsigned char>(own[0]));
  std::string changed = json;
  if (own == "true" || own == "false")
    return changed.replace(token.at, token.size, own == "true" ? "false" : "true");
  if (number) {
    const long near = std::atol(own.c_str()) + static_cast<long>(below(random, 5)) - 2;
    return changed.replace(
        token.at, token.size,
        random() % 2 ? numbers[below(random, numbers.size())] : std::to_string(near));
  }
  if (random() % 8 == 0)  // a real number, in quotes
    return changed.replace(
        token.at, token.size,
        "\"" + std::vector<std::string>{"nan", "inf", "-1", "0", "1e308"}[below(random, 5)] + "\"");
  if (its[0] == '"') changed.replace(token.at, token.size, its);
  return changed;
}
/// Loads, verifies and runs what may be run.
void use(const std::string& path, const std::vector<Tensor>& arguments, int& refused, int& ran) {
  try {
    const Graph graph = io::load_graph(path);
    graph.verify();
    REQUIRE(!graph.text().empty());
    REQUIRE(!graph.dot().empty());
    graph.hash();
    if (!may_run(graph.data())) return;
    all_values(graph, arguments);
    ++ran;
  } catch (const Error&) {
    ++refused;
  }
}
}  // namespace

TEST_CASE("a damaged graph is an error, or verifies and runs", "[cpu][graph]") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  Random random(5);
  const int count = std::getenv("REEL_TEST_LONG") ? 20'000 : 300;
  for (const File& file : files()) {
    INFO(file.name);
    int refused = 0, ran = 0;
    for (int i = 0; i < count; ++i) {
      std::string json = file.json;
      for (std::size_t n = 1 + below(random, 3); n > 0; --n) json = damaged(json, random);
      INFO(json);
      io::save_safetensors(path, file.tensors, {.metadata = {{std::string(key), json}}});
      use(path, file.arguments, refused, ran);
    }
    CHECK(refused > count / 4);
    CHECK(ran > count / 100);
  }
}

TEST_CASE("every cut of a graph's file is an error", "[cpu][graph]") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  Variable w("w", ones({2}));
  auto f = trace([&](Tensor x) { return tanh(x * w) + 1; });
  f(ones({2}));
  io::save_graph(path, f.graph(ones({2})));
  const std::string whole = contents(path);
  int refused = 0, ran = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(path, whole.substr(0, size));
    use(path, {ones({2})}, refused, ran);
  }
  CHECK(refused == static_cast<int>(whole.size()));
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const char byte :
         {'\0', '9', static_cast<char>(whole[i] ^ 1), static_cast<char>(whole[i] ^ 128)}) {
      std::string other = whole;
      other[i] = byte;
      write_file(path, other);
      use(path, {ones({2})}, refused, ran);
    }
}

TEST_CASE("a small file takes little memory, whatever it claims", "[cpu][graph]") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  auto g = trace([](Tensor x) { return named(random::normal({4096}) + x, "out"); });
  g(ones({4096}));
  const File file = saved("large", g.graph(ones({4096})), {});
  std::string json = file.json;
  for (std::size_t at = 0; (at = json.find("4096", at)) != json.npos;)
    json.replace(at, 4, "18014398509481984");
  io::save_safetensors(path, file.tensors, {.metadata = {{std::string(key), json}}});
  trim_memory();
  const auto load = [&] {
    const Graph graph = io::load_graph(path);
    try {
      run(graph, {.fetch = {graph.nodes()[0].outputs[0]}});
    } catch (const MemoryError&) {
      return;
    }
    throw Error("there is no such memory");
  };
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  const std::int64_t peak = peak_of(load);
  CHECK(peak >= 0);  // it has thrown MemoryError
  CHECK(peak < 8 * mebibyte);
}
}  // namespace reel::tests
