// SPDX-License-Identifier: BSD-3-Clause
// The broken models of docs/guide/debugging.md: the commands of the guide find each fault. Where a
// fault is depends on a seed.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>
#include <thread>

#include "debug/programs.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
std::string guide_path() {
  std::string path = __FILE__;  // relative to the build
  path.resize(path.rfind("tests/debug/"));
  if (path.empty() || path[0] != '/') path = build_folder() + "/" + path;
  return path + "docs/guide/debugging.md";
}
/// The commands that the guide prints below the heading "### N. ...".
std::string commands_of(int number) {
  std::ifstream guide(guide_path());
  REQUIRE(guide);
  std::string line, commands;
  bool inside = false;
  int count = 0;
  while (std::getline(guide, line)) {
    if (line.starts_with("#")) inside = line.starts_with("### " + std::to_string(number) + ". ");
    if (inside && line.starts_with("(reel) ")) {
      commands += line.substr(7) + "\n";
      ++count;
    }
  }
  REQUIRE(count > 0);
  REQUIRE(count <= 10);
  return commands;
}
/// What the prompt answers while f runs, on a thread of its own, whose debugger is new.
template <class F>
std::string session(int number, const F& f) {
  std::istringstream in(commands_of(number));
  std::ostringstream out;
  std::streambuf *const cin_before = std::cin.rdbuf(in.rdbuf()), *const cout_before =
                                                                     std::cout.rdbuf(out.rdbuf());
  std::cin.clear();
  std::thread([&] {
    debug::cli();
    f();
  }).join();
  std::cin.rdbuf(cin_before);
  std::cin.clear();
  std::cout.rdbuf(cout_before);
  return out.str();
}
/// The cells of the first column of numbers under `column`, in the answer that ends the text.
std::vector<double> column(const std::string& text, const std::string& column) {
  std::vector<double> found;
  std::istringstream lines(text);
  std::string line;
  std::size_t end = std::string::npos;
  while (std::getline(lines, line)) {
    if (line.starts_with("(reel) ")) line.erase(0, 7);
    if (const std::size_t at = line.find(column); at != std::string::npos) {
      end = at + column.size();
      found.clear();
      continue;
    }
    if (end == std::string::npos || line.size() < end) continue;
    const std::size_t begin = line.rfind(' ', end - 1) + 1;
    try {
      found.push_back(std::stod(line.substr(begin, end - begin)));
    } catch (const std::exception&) {
      end = std::string::npos;
    }
  }
  return found;
}
/// A number from `least` to `most` that depends on the seed.
int drawn(int seed, int least, int most) {
  return least + static_cast<int>((static_cast<unsigned>(seed) * 2654435761u >> 8) %
                                  static_cast<unsigned>(most - least + 1));
}
struct Network {
  nn::Linear hidden{4, 8, Activation::relu}, head{8, 3};
  Tensor operator()(const Tensor& x) const { return head(hidden(x)); }
  REEL_FIELDS(hidden, head)
};
const int seeds[] = {1, 2, 3};
}  // namespace

TEST_CASE("guide 1: NaN by log(0)") {
  for (const int s : seeds) {
    const int faulty = drawn(s, 1, 6);
    const std::string text = session(1, [&] {
      seed(static_cast<std::uint64_t>(s));
      Network model;
      optim::SGD sgd(parameters(model), {.learning_rate = 0.1});
      const Tensor x = random::normal({6, 4});
      for (int i = 0; i < 8; ++i) {
        GradientTape tape;
        Tensor p = softmax(model(x));
        if (i == faulty) p = p * tensor({1.0f, 0.0f, 1.0f});
        sgd.step(tape, -mean(log(p)));
      }
    });
    INFO(text);
    CHECK(has(text, "log at models.cpp:" + std::to_string(__LINE__ - 4) +
                        ", call 1 at this line in step " + std::to_string(faulty)));
    CHECK(has(text, "-inf"));
  }
}

TEST_CASE("guide 2: an exploding RNN") {
  for (const int s : seeds) {
    const int steps = drawn(s, 15, 25);
    const std::string text = session(2, [&] {
      seed(static_cast<std::uint64_t>(s));
      const Variable w("w", random::normal({8, 8}) * 1.5), u("u", random::normal({4, 8}) * 0.001);
      const Tensor x = random::normal({steps, 5, 4});
      for (int i = 0; i < 3; ++i) {
        GradientTape tape;
        Tensor h = zeros({5, 8});
        for (int t = 0; t < steps; ++t) h = tanh(matmul(x(t), u) + matmul(h, w) * 0.1) * 10;
        const auto [dw, du] = tape.gradient(sum(square(h)), w, u);
        w.assign_sub(1e-30 * dw);
        u.assign_sub(1e-30 * du);
      }
    });
    INFO(text);
    const std::vector<double> norms = column(text, "norm of gradient");
    REQUIRE(norms.size() == static_cast<std::size_t>(steps));
    CHECK(norms.front() > 100 * norms.back());
  }
}

TEST_CASE("guide 3: dead relus") {
  for (const int s : seeds) {
    const std::string text = session(3, [&] {
      seed(static_cast<std::uint64_t>(s));
      Network model;
      model.hidden.bias.assign(-100 - s);
      optim::SGD sgd(parameters(model), {.learning_rate = 0.1});
      const Tensor x = random::normal({6, 4}), labels = random::integers(0, 3, {6});
      for (int i = 0; i < 3; ++i) {
        GradientTape tape;
        sgd.step(tape, nn::cross_entropy(model(x), labels));
      }
    });
    INFO(text);
    CHECK(std::regex_search(text, std::regex("#\\d+ +dense +models.cpp:\\d+ .* 1\n")));
    CHECK(has(text, "is zero everywhere: it becomes so at"));
  }
}

TEST_CASE("guide 4: swapped labels") {
  for (const int s : seeds) {
    const int shift = drawn(s, 1, 5);
    std::vector<std::int64_t> right, given;
    const std::string text = session(4, [&] {
      seed(static_cast<std::uint64_t>(s));
      Network model;
      optim::SGD sgd(parameters(model), {.learning_rate = 0.1});
      const Tensor x = random::normal({6, 4});  // the label is the place of the largest of three
      const Tensor labels = argmax(x(all, range(0, 3)), 1);
      right = labels.to_vector<std::int64_t>();
      for (std::size_t i = 0; i < right.size(); ++i)
        given.push_back(right[(i + static_cast<std::size_t>(shift)) % right.size()]);
      const Tensor swapped = tensor(given);
      for (int i = 0; i < 3; ++i) {
        GradientTape tape;
        sgd.step(tape, nn::cross_entropy(model(x), swapped));
      }
    });
    INFO(text);
    CHECK(has(text, "int64 (6,)"));
    std::string printed = "[";
    for (const std::int64_t label : given)
      printed += (printed.size() > 1 ? ", " : "") + std::to_string(label);
    CHECK(has(text, printed + "]"));
    CHECK(has(text, "float32 (6, 4)\n[["));
  }
}

TEST_CASE("guide 5: a forgotten field") {
  struct Forgetful {
    nn::Linear hidden{4, 8, Activation::relu}, head{8, 3};
    Tensor operator()(const Tensor& x) const { return head(hidden(x)); }
    REEL_FIELDS(head)
  };
  const std::string text = session(5, [&] {
    Forgetful model;
    optim::SGD sgd(parameters(model), {.learning_rate = 0.1});
    const Tensor x = random::normal({6, 4}), labels = random::integers(0, 3, {6});
    for (int i = 0; i < 3; ++i) {
      GradientTape tape;
      sgd.step(tape, nn::cross_entropy(model(x), labels));
    }
  });
  INFO(text);
  CHECK(std::regex_search(text, std::regex("\"weight\" +float32 \\(4, 8\\) +\\d+ +0 +trained")));
  CHECK(
      std::regex_search(text, std::regex("\"head.weight\" +float32 \\(8, 3\\) +\\d+ +2 +trained")));
}

TEST_CASE("guide 6: the wrong axis") {
  for (const int s : seeds) {
    const int axis = drawn(s, 0, 1);
    const std::string text = session(6, [&] {
      seed(static_cast<std::uint64_t>(s));
      Network model;
      optim::SGD sgd(parameters(model), {.learning_rate = 0.1});
      const Tensor x = random::normal({6, 4}), y = one_hot(random::integers(0, 3, {6}), 3);
      for (int i = 0; i < 3; ++i) {
        GradientTape tape;
        sgd.step(tape, -mean(sum(y * log_softmax(model(x), axis), 1)));
      }
    });
    INFO(text);
    CHECK(has(text, "options: axis=" + std::to_string(axis)));
    CHECK(has(text, "float32 (6, 3)"));
  }
}

TEST_CASE("guide 7: a frozen learning rate") {
  for (const int s : seeds) {
    const int last = drawn(s, 1, 4);
    const std::string text = session(7, [&] {
      seed(static_cast<std::uint64_t>(s));
      Network model;
      optim::SGD sgd(parameters(model), {.learning_rate = 0.1});
      const Tensor x = random::normal({6, 4}), labels = random::integers(0, 3, {6});
      for (int i = 0; i < 8; ++i) {
        if (i == last) sgd.learning_rate().assign(0);
        GradientTape tape;
        sgd.step(tape, nn::cross_entropy(model(x), labels));
      }
    });
    INFO(text);
    const std::vector<double> moved = column(text, "norm of update");
    REQUIRE(moved.size() == 6);
    for (int i = 0; i < 6; ++i) CHECK((moved[static_cast<std::size_t>(i)] == 0) == (i >= last));
  }
}

TEST_CASE("guide 8: a value that was read before the tape") {
  const std::string text = session(8, [&] {
    const Variable w("w", random::normal({4, 3}));
    const Tensor x = random::normal({6, 4}), labels = random::integers(0, 3, {6});
    const Tensor early = w;
    for (int i = 0; i < 3; ++i) {
      GradientTape tape;
      const Tensor loss = nn::cross_entropy(matmul(x, early), labels);
      const std::vector<Tensor> found = tape.gradient(loss, {w}, Unconnected::zero);
      w.assign_sub(0.1 * found[0]);
    }
  });
  INFO(text);
  CHECK(std::regex_search(
      text, std::regex("matmul at models.cpp:\\d+ (is on no tape|reads a tensor of its type)")));
}

TEST_CASE("guide 9: a shape that broadcasts by accident") {
  const std::string text = session(9, [&] {
    const nn::Linear layer(4, 1);
    optim::SGD sgd({layer.weight, layer.bias}, {.learning_rate = 0.1});
    const Tensor x = random::normal({6, 4}), y = random::normal({6});
    for (int i = 0; i < 3; ++i) {
      GradientTape tape;
      sgd.step(tape, mean(square(layer(x) - y)));
    }
  });
  INFO(text);
  CHECK(has(text, "float32 (6, 1)"));
  CHECK(has(text, "float32 (6,)"));
  CHECK(std::regex_search(text, std::regex("output 0 +float32 \\(6, 6\\)")));
}

TEST_CASE("guide 10: gradients that are never reset") {
  const std::string text = session(10, [&] {
    const Variable w("w", random::normal({4, 3})), sum_of_gradients("sum", zeros({4, 3}));
    const Tensor x = random::normal({6, 4}), labels = random::integers(0, 3, {6});
    for (int i = 0; i < 8; ++i) {
      GradientTape tape;
      const Tensor loss = nn::cross_entropy(matmul(x, w), labels);
      sum_of_gradients.assign_add(tape.gradient(loss, w));
      w.assign_sub(1e-3 * sum_of_gradients);
    }
  });
  INFO(text);
  const std::vector<double> moved = column(text, "norm of update");
  REQUIRE(moved.size() == 6);
  CHECK(moved[4] > 3 * moved[0]);
}

TEST_CASE("guide 11: the train flag in an evaluation") {
  const std::string a = log_file("a"), b = log_file("b");
  seed(1);
  const Network model;
  const Tensor x = random::normal({6, 4});
  const auto evaluate = [&](const std::string& path) {
    const debug::Log log(path);
    const Tensor y = model.head(dropout(model.hidden(x), 0.5));  // no TrainScope evaluate(false)
  };
  evaluate(a);
  evaluate(b);
  const std::string text = diff("'" + a + "' '" + b + "'");
  INFO(text);
  CHECK(std::regex_search(text, std::regex("first differs: step 0, #\\d+ (random|dropout)")));
  std::filesystem::remove(a);
  std::filesystem::remove(b);
}

TEST_CASE("guide 12: test data in the training set") {
  for (const int s : seeds) {
    const int leak = drawn(s, 1, 3);
    const std::string text = session(12, [&] {
      seed(static_cast<std::uint64_t>(s));
      Network model;
      optim::SGD sgd(parameters(model), {.learning_rate = 0.1});
      const Tensor labels = random::integers(0, 3, {6});
      std::vector<Tensor> batches;
      for (int i = 0; i < 6; ++i) batches.push_back(random::normal({6, 4}));
      batches[static_cast<std::size_t>(leak)] = batches[4] + 0;  // batch 4 is the test
      for (int i = 0; i < 6; ++i) {
        GradientTape tape;
        sgd.step(tape, nn::cross_entropy(model(batches[static_cast<std::size_t>(i)]), labels));
      }
    });
    INFO(text);
    std::map<std::string, int> hashes;
    const std::regex row("float32 \\(6, 4\\).* ([0-9a-f]{16}) +#1 dense");
    for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at)
      ++hashes[(*at)[1]];
    int twice = 0;
    for (const auto& [hash, count] : hashes) twice += count == 2;
    CHECK(hashes.size() == 3);
    CHECK(twice == 1);
  }
}
}  // namespace reel::tests
