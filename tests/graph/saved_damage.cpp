// SPDX-License-Identifier: BSD-3-Clause
// Damaged and hostile files of graphs: an Error, or a graph that verifies and runs.
#include <algorithm>
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

/// A graph with a constant of one number in memory and 2^54 elements.
Graph file_of_repeated(const std::string& path) {
  File file = file_of(
      "repeated", [c = broadcast_to(ones({1}), {7})](Tensor v) { return v + c; }, ones({7}));
  for (std::size_t at = 0; (at = file.json.find("[7]", at)) != file.json.npos;)
    file.json.replace(at, 3, "[18014398509481984]");
  io::save_safetensors(path, file.tensors, {.metadata = {{std::string(key), file.json}}});
  return io::load_graph(path);
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
  const int count = std::getenv("REEL_TEST_LONG") ? 3'000 : 300;
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

TEST_CASE("windows of images stay inside with any geometry that loads", "[cpu][graph]") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  const Tensor image = random::normal({2, 5, 6, 4}), weight = random::normal({2, 3, 4, 8});
  const Tensor apart = random::normal({3, 2, 1, 4}), line = random::normal({3, 4, 2});
  const auto losses = [=](const Tensor& y) {
    return sum(square(conv2d(y, weight, {.stride = 2, .padding = 1}))) +
           sum(square(conv2d(y, apart, {.padding = 1, .groups = 4}))) +
           sum(square(conv_transpose2d(y, random::normal({2, 2, 3, 4}), {.stride = 2}))) +
           sum(max_pool2d(y, 3, {.padding = 1})) + sum(square(mean_pool2d(y, 2))) +
           sum(square(conv1d(reshape(y, {2, 30, 4}), line, {.padding = 2})));
  };
  const File file = file_of(
      "images", [=](Tensor v) { return slope(v, losses); }, image);
  Random random(9);
  int refused = 0, ran = 0;
  const int count = std::getenv("REEL_TEST_LONG") ? 3'000 : 500;
  for (int i = 0; i < count; ++i) {
    std::string json = file.json;
    for (const std::string_view name : {"\"stride\":[", "\"dilation\":[", "\"before\":["})
      for (std::size_t at = 0; (at = json.find(name, at)) != json.npos;) {
        at += name.size();
        if (random() % 8) continue;
        const std::size_t end = json.find(']', at);
        const auto numbers = std::count(json.begin() + static_cast<std::ptrdiff_t>(at),
                                        json.begin() + static_cast<std::ptrdiff_t>(end), ',');
        std::string changed;
        for (std::ptrdiff_t k = 0; k <= numbers; ++k) {
          const std::size_t most = random() % 16 ? 6 : 3000;
          changed += (k ? "," : "") + std::to_string(below(random, most));
        }
        json.replace(at, end - at, changed);
      }
    INFO(json);
    io::save_safetensors(path, file.tensors, {.metadata = {{std::string(key), json}}});
    use(path, file.arguments, refused, ran);
  }
  CHECK(refused > count / 10);
  CHECK(ran > count / 10);
}

TEST_CASE("what does not fit in a graph's file is an error that says what", "[cpu][graph]") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  const auto error = [&](const File& file, std::string_view from, std::string_view to) {
    std::string json = file.json;
    const std::size_t at = json.find(from);
    INFO(json);
    REQUIRE(at != json.npos);
    json.replace(at, from.size(), to);
    io::save_safetensors(path, file.tensors, {.metadata = {{std::string(key), json}}});
    try {
      io::load_graph(path);
    } catch (const Error& refused) {
      return std::string(refused.what());
    }
    return std::string("no error");
  };
  struct Case {
    std::string_view from, to, part;
  };
  const auto check = [&](const File& file, std::initializer_list<Case> cases) {
    for (const Case& each : cases) {
      const std::string text = error(file, each.from, each.to);
      INFO(each.from << " -> " << each.to << ": " << text);
      CHECK(text.find(each.part) != text.npos);
      CHECK(text.find("saved_damage.cpp:") != text.npos);
    }
  };
  const Tensor x = random::normal({3, 4}), places = tensor({0, 2}), c = random::normal({4, 3});
  const File chain = file_of(
      "chain", [=](Tensor v) { return tanh(v) + transpose(c); }, x);
  check(chain, {{"\"tanh\"", "\"no_such_op\"", "an op that this program has, got \"no_such_op\""},
                {"\"version\":1", "\"version\":2", "a graph of version 1"},
                {"\"version\":1,", "", "\"version\" in an object of the graph"},
                {"\"tanh\"", "\"tanh.d0\"", "four inputs"},
                {"\"tanh\"", "\"add\"", "it has 1 inputs"},
                {"\"tanh\"", "\"sum\"", "options"},
                {"\"tanh\"", "\"loop\"", "a loop"},
                {"\"in\":[0]", "\"in\":[1]", "read before it is made"},
                {"\"in\":[0]", "\"in\":[-1]", "missing"},
                {"\"in\":[0]", "\"in\":[2147483648]", "a number of 32 bits"},
                {"\"in\":[0]", "\"into\":[0]", "\"into\""},
                {"\"shape\":[3,4]", "\"shape\":[4,4]", "by the rule of its op"},
                {"\"shape\":[3,4]", "\"shape\":[3,-4]", "a shape"},
                {"\"shape\":[3,4]", "\"shape\":[1,1,1,1,1,1,1,3,4]", "at most 8"},
                {"\"dtype\":\"float32\"", "\"dtype\":\"float31\"", "a dtype"},
                {"\"dtype\":\"float32\"", "\"dtype\":\"float64\"", "float64"},
                {"\"strides\":[1,3]", "\"strides\":[1,4]", "the elements of its value"},
                {"\"strides\":[1,3]", "\"strides\":[-1,9223372036854775807]", "the elements of"},
                {"\"tensor\":\"constant 0\"", "\"tensor\":\"other\"", "no \"other\""},
                {"\"kind\":\"computed\"", "\"kind\":\"view\"", "view"},
                {"\"results\"", "\"writes\"", "members of a graph"}});
  check(file_of(
            "taken", [=](Tensor v) { return take(v, places, 1); }, x),
        {{"\"axis\":1", "\"axis\":2", "an axis of its input"},
         {"\"axis\":1", "\"axis\":-1", "an axis of its input"},
         {"\"axis\":1", "\"axis\":\"1\"", "a number of 64 bits"},
         {"\"axis\":1", "\"axes\":1", "\"axes\""},
         {"{\"axis\":1}", "{}", "all options"}});
  check(file_of(
            "part", [](Tensor v) { return v(range(0, 3), range(1, 3)) + 0; }, x),
        {{"\"starts\":[0,1]", "\"starts\":[0,3]", "a part of its input"},
         {"\"starts\":[0,1]", "\"starts\":[0,-1]", "a part of its input"},
         {"\"starts\":[0,1]", "\"starts\":[1]", "a part of its input"},
         {"\"steps\":[1,1]", "\"steps\":[1,9223372036854775807]", "a part of its input"},
         {"\"offset\":4", "\"offset\":8", "the view that its op makes"},
         {"\"strides\":[4,1]", "\"strides\":[5,1]", "the view that its op makes"}});
  check(file_of(
            "turned",
            [](Tensor v) {
              return transpose(v, {1, 0}) + 0;
            },
            x),
        {{"\"axes\":[1,0]", "\"axes\":[1,1]", "the axes of its input"},
         {"\"axes\":[1,0]", "\"axes\":[1,7]", "the axes of its input"}});
  check(file_of(
            "sums",
            [](Tensor v) {
              return sum(v, {0, 1}) + mean(v, 1, keepdims);
            },
            x),
        {{"\"axes\":[0,1]", "\"axes\":[1,0]", "sorted axes"},
         {"\"axes\":[0,1]", "\"axes\":[0,9]", "sorted axes"},
         {"\"keepdims\":true", "\"keepdims\":1", "true or false"}});
  check(file_of(
            "image",
            [](Tensor v) {
              return max_pool2d(reshape(v, {1, 3, 4, 1}), 2);
            },
            x),
        {{"\"window\":[2,2]", "\"window\":[2]", "a geometry"},
         {"\"window\":[2,2]", "\"window\":[0,2]", "a geometry"},
         {"\"before\":[0,0]", "\"before\":[9,0]", "an element of the image"},
         {"\"stride\":[2,2]", "\"stride\":[2,9]", "an element of the image"},
         {"\"shape\":[1,3,4,1]", "\"shape\":[1,3,4,2]", "a"}});
  check(file_of(
            "draw", [](Tensor v) { return v + random::gamma(2.0, {4}) + dropout(v, 0.5); }, x),
        {{"\"kind\":8", "\"kind\":77", "a distribution"},
         {"\"a\":\"2\"", "\"a\":\"-2\"", "a distribution"},
         {"\"a\":\"2\"", "\"a\":\"nan\"", "a distribution"},
         {"\"a\":\"0.5\"", "\"a\":\"1.5\"", "a probability"}});
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

TEST_CASE("a small file takes little memory, whatever it claims", "[cpu][graph][fork]") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  auto g = trace([](Tensor x) { return named(random::normal({4096}) + x, "out"); });
  g(ones({4096}));
  const File file = saved("large", g.graph(ones({4096})), {});
  std::string json = file.json;
  for (std::size_t at = 0; (at = json.find("4096", at)) != json.npos;)
    json.replace(at, 4, "18014398509481984");
  trim_memory();
  const Graph repeated = file_of_repeated(path);
  CHECK(repeated.hash() == repeated.hash());
  io::save_safetensors(path, file.tensors, {.metadata = {{std::string(key), json}}});
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

TEST_CASE("a hostile graph takes at most 48 times the memory of its file, and 8 MiB",
          "[cpu][fork]") {
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  constexpr std::int64_t bytes = 3 << 20;
  const std::string start = R"({"version":1,"arguments":[],"variables":[],"graph":{)";
  struct Repeated {
    std::string before, once, after;
  };
  for (const auto& [before, once, after] :
       {Repeated{R"("blocks":[],"values":[)", R"({"kind":"view","dtype":"bool","shape":[]})",
                 "]}}"},
        Repeated{R"("values":[],"blocks":[)", R"({"steps":[],"results":[]})", "]}}"},
        Repeated{R"("values":[],"blocks":[{"results":[],"steps":[)",
                 R"({"op":"exp","in":[],"out":[]})", "]}]}}"},
        Repeated{R"("values":[],"blocks":[{"steps":[],"results":[)", "0", "]}]}}"},
        Repeated{
            R"("values":[],"blocks":[{"steps":[],"ask":{"in":[0],"read":"truth"},"branches":[)",
            R"({"answer":"","block":0})", "]}]}}"}}) {
    std::string json = start + before + once;
    while (static_cast<std::int64_t>(json.size()) < bytes) json += "," + once;
    io::save_safetensors(path, {}, {.metadata = {{std::string(key), json + after}}});
    trim_memory();
    const std::int64_t peak = peak_of([&] {
      try {
        io::load_graph(path);
      } catch (const Error&) {
        return;
      }
      throw Error("it was loaded");
    });
    INFO(once << ": " << peak / mebibyte << " MiB");
    CHECK(peak >= 0);
    CHECK(peak <= 48 * bytes + 8 * mebibyte);
  }
}
}  // namespace reel::tests
