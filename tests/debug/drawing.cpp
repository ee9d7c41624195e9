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
}  // namespace reel::tests
