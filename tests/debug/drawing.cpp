// SPDX-License-Identifier: BSD-3-Clause
// Pictures of steps and graphs. The layout itself is compiled into this program.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <reel/graph.hpp>

#include "debug/support.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
struct Rectangle {
  double x, y, width, height;
};
std::vector<Rectangle> rectangles(const std::string& svg) {
  std::vector<Rectangle> found;
  const std::regex form(
      "<rect x=\"(-?[\\d.]+)\" y=\"(-?[\\d.]+)\" width=\"([\\d.]+)\" "
      "height=\"([\\d.]+)\"");
  for (std::sregex_iterator at(svg.begin(), svg.end(), form), end; at != end; ++at)
    found.push_back(
        {std::stod((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3]), std::stod((*at)[4])});
  return found;
}
bool any_overlap(std::vector<Rectangle> boxes) {
  std::sort(boxes.begin(), boxes.end(), [](const Rectangle& a, const Rectangle& b) {
    return std::pair(a.y, a.x) < std::pair(b.y, b.x);
  });
  for (std::size_t i = 0; i + 1 < boxes.size(); ++i)
    if (boxes[i].y == boxes[i + 1].y && boxes[i].x + boxes[i].width > boxes[i + 1].x) return true;
  return false;
}
void run_lstm(int steps, const Variable& w) {
  const Tensor x = random::normal({2, 2});
  GradientTape tape;
  Tensor h = zeros({2, 3}), c = zeros({2, 3});
  for (int t = 0; t < steps; ++t) {
    const Tensor z = matmul(concat({x, h}, 1), w);
    const Tensor i = sigmoid(z(all, range(0, 3))), f = sigmoid(z(all, range(3, 6)));
    const Tensor o = sigmoid(z(all, range(6, 9))), g = tanh(z(all, range(9, 12)));
    c = f * c + i * g;
    h = o * tanh(c);
  }
  tape.gradient(sum(h), w);
}
}  // namespace

TEST_CASE("the drawing of a step: no two boxes overlap, names are escaped, steps are folded") {
  const Variable w("<w>", random::normal({5, 12}));
  const debug::Watch watch({.stop = "", .values = true});
  run_lstm(5, w);
  const std::string svg = watch.answer("draw all");
  CHECK(svg.starts_with("<svg "));
  const auto boxes = rectangles(svg);
  CHECK(boxes.size() > 150);
  CHECK(!any_overlap(boxes));
  CHECK(has(svg, "&lt;w&gt;"));
  CHECK(!has(svg, "<w>"));
  CHECK(has(svg, ">#"));
  const std::string folded = watch.answer("draw fold forward");
  CHECK(rectangles(folded).size() < 25);
  CHECK(has(folded, " x 5</text>"));
  CHECK(!any_overlap(rectangles(folded)));
  CHECK(has(watch.answer("draw /nowhere/a.svg"), "expected a file that can be written"));
  const std::string path =
      (std::filesystem::temp_directory_path() / ("reel." + std::to_string(getpid()) + ".svg"))
          .string();
  CHECK(has(watch.answer("draw " + path), "results in"));
  std::filesystem::remove(path);
}

TEST_CASE("an LSTM of thousands of results is drawn") {
  const Variable w("w", random::normal({5, 12}));
  const debug::Watch watch({.stop = "", .statistics = true});
  run_lstm(120, w);
  const std::string svg = watch.answer("draw all");
  const auto boxes = rectangles(svg);
  CHECK(boxes.size() > 4000);
  CHECK(!any_overlap(boxes));
  CHECK(rectangles(watch.answer("draw")).size() < 60);
}

TEST_CASE("a graph of a traced function is drawn") {
  auto f = trace([](Tensor x) { return tanh(x) + 1.0; });
  f(ones({2}));
  const std::string svg = debug::to_svg(graph_of(f, ones({2})));
  CHECK(rectangles(svg).size() == 2);
  CHECK(has(svg, ">tanh</text>"));
  CHECK(rectangles(debug::to_svg(graph_of(f, ones({2})), debug::Fold::steps)).size() == 2);
}

TEST_CASE("the ops that a tape has recorded are drawn: layers and time steps folded, with health") {
  struct Net {
    nn::Linear embed{2, 3};
    nn::RNNCell cell{3, 3};
    REEL_FIELDS(embed, cell)
  } const net;
  const std::vector<Variable> variables = parameters(net);
  const Tensor x = random::normal({4, 2, 2});
  GradientTape tape({.persistent = true});
  Tensor h = zeros({2, 3});
  for (int t = 0; t < 4; ++t) h = net.cell(net.embed(x(t)), h);
  const Tensor dead = relu(h - 10) * 2.0f;
  const Tensor broken = exp(sqrt(dead - 1) * h);
  const Tensor loss = sum(broken);
  const auto count = [](const std::string& svg, const std::string& part) {
    int found = 0;
    for (std::size_t at = 0; (at = svg.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  const std::string every = debug::to_svg(tape, variables);
  CHECK(rectangles(every).size() == tape.ops().size());
  CHECK(!any_overlap(rectangles(every)));
  CHECK(has(every, "embed.weight"));
  CHECK(count(every, "fill=\"#e45756\"") >= 2);  // sqrt and exp make NaN
  CHECK(count(every, "fill=\"#d9d9d9\"") >= 1);  // relu gives 0
  const std::string steps = debug::to_svg(tape, variables, debug::Fold::steps);
  CHECK(rectangles(steps).size() < tape.ops().size());
  CHECK(has(steps, " x 4</text>"));
  const std::string layers = debug::to_svg(tape, variables, debug::Fold::scopes);
  CHECK(rectangles(layers).size() < rectangles(steps).size());
  CHECK(has(layers, ">embed x 4</text>"));
  CHECK(has(layers, ">cell x 4</text>"));
  CHECK(!any_overlap(rectangles(layers)));
  CHECK(rectangles(debug::to_svg(tape)).size() == tape.ops().size());
  CHECK(tape.gradient(loss, net.cell.bias).size() == 3);  // the tape can be used afterwards

  GradientTape spent;
  spent.gradient(sum(net.embed(x(0))), net.embed.weight);
  CHECK_THROWS_AS(debug::to_svg(spent), TapeError);
}

TEST_CASE("a step and a graph with one box for each layer") {
  nn::Linear first(2, 4, Activation::relu), second(4, 1);
  struct Net {
    nn::Linear& first;
    nn::Linear& second;
    REEL_FIELDS(first, second)
  } const net{first, second};
  const auto run = [&](const Tensor& x) { return second(first(x)); };
  parameters(net);
  {
    const debug::Watch watch({.stop = "", .values = true});
    for (int i = 0; i < 3; ++i) {
      GradientTape tape;
      const Tensor loss = sum(run(ones({3, 2})));
      tape.gradient(loss, first.weight);
    }
    const std::string svg = watch.answer("draw scopes");
    CHECK(has(svg, ">first x 3</text>"));
    CHECK(has(svg, ">second x 3</text>"));
  }
  auto f = trace([&](Tensor x) {
    const NameScope encoder("encoder");
    return tanh(x * 2) + sigmoid(x);
  });
  f(ones({2}));
  CHECK(rectangles(debug::to_svg(graph_of(f, ones({2})), debug::Fold::scopes)).size() == 1);
}
}  // namespace reel::tests
