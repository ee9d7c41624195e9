// SPDX-License-Identifier: BSD-3-Clause
#include <reel/reel.hpp>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "plot/xml.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::pair<double, double>> points_of(const Element& polyline) {
  std::vector<std::pair<double, double>> points;
  std::istringstream in(polyline.attributes.at("points"));
  double x = 0, y = 0;
  char comma = 0;
  while (in >> x >> comma >> y) points.emplace_back(x, y);
  return points;
}
bool has_text(const XmlReader& svg, const std::string& text) {
  const auto texts = svg.named("text");
  return std::any_of(texts.begin(), texts.end(),
                     [&](const Element& one) { return one.text == text; });
}
/// Rectangles of one color.
std::vector<Element> filled(const XmlReader& svg, const std::string& color) {
  std::vector<Element> found;
  for (const Element& one : svg.named("rect"))
    if (one.attributes.at("fill") == color) found.push_back(one);
  return found;
}
}  // namespace

TEST_CASE("A curve in SVG has its points at places of its ticks", "[plot]") {
  const XmlReader svg(plot::lines({{"a", tensor({0.0, 10.0, 5.0})}}).to_svg());
  const auto curves = svg.named("polyline");
  REQUIRE(curves.size() == 1);
  const auto points = points_of(curves[0]);
  REQUIRE(points.size() == 3);
  CHECK(points[1].first - points[0].first ==
        Approx(points[2].first - points[1].first).margin(0.02));
  CHECK(points[2].second == Approx((points[0].second + points[1].second) / 2).margin(0.02));
  for (const Element& tick : svg.named("text")) {
    if (tick.text == "10" && tick.attributes.at("text-anchor") == "end")
      CHECK(tick.number("y") - 4 == Approx(points[1].second).margin(0.1));
    if (tick.text == "1.0" && tick.attributes.at("text-anchor") == "middle")
      CHECK(tick.number("x") == Approx(points[1].first).margin(0.1));
  }
  CHECK(has_text(svg, "10"));
  CHECK(has_text(svg, "a"));
}

TEST_CASE("Gaps of a curve separate its lines in SVG", "[plot]") {
  const XmlReader svg(plot::lines(std::vector<double>{1, 2, nan, 3, infinity, 4, 5}).to_svg());
  CHECK(svg.named("polyline").size() == 2);
  CHECK(svg.named("circle").size() == 1);
  CHECK(has_text(svg, "2 values are NaN or infinite"));
}

TEST_CASE("A long curve in SVG keeps its peaks", "[plot]") {
  std::vector<double> y(1'000'000);
  y[543'210] = 1;
  y[777'777] = -1;
  const std::string text = plot::lines(y).to_svg();
  CHECK(text.size() < 100'000);
  const auto points = points_of(XmlReader(text).named("polyline").at(0));
  const auto by_y = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [high, low] = std::minmax_element(points.begin(), points.end(), by_y);
  CHECK(low->second - high->second > 300);
}

TEST_CASE("Names in SVG are escaped, and have no control characters", "[plot]") {
  const std::string name = "<script>alert('&\")\033\x01\n\xff\xef\xbf\xbf</script>";
  const std::string seen = "<script>alert('&\")   \xef\xbf\xbd\xef\xbf\xbd</script>";
  const std::string lines =
      plot::lines({{name, tensor({1, 2})}}, {.title = name, .x_label = name, .y_label = name})
          .to_svg();
  CHECK(lines.find("<script") == std::string::npos);
  const XmlReader svg(lines);
  CHECK(svg.named("script").empty());
  CHECK(svg.named("title").at(0).text == seen);
  CHECK(has_text(svg, seen));
  const XmlReader grid(
      plot::heatmap(zeros({1, 1}), {.title = name, .rows = {name}, .columns = {name}}).to_svg());
  CHECK(has_text(grid, seen));
  XmlReader(plot::histogram(tensor({1}), {.title = name, .label = name}).to_svg());
  XmlReader(plot::confusion(eye(1), {.title = name, .classes = {name}}).to_svg());
}

TEST_CASE("The bars of a histogram in SVG are as high as their counts", "[plot]") {
  const XmlReader svg(plot::histogram(tensor({0, 0, 0, 0, 1, 2, 2}), {.buckets = 3}).to_svg());
  const auto bars = filled(svg, "#0072b2");
  REQUIRE(bars.size() == 3);
  CHECK(bars[0].number("height") == Approx(4 * bars[1].number("height")).margin(0.1));
  CHECK(bars[2].number("height") == Approx(2 * bars[1].number("height")).margin(0.1));
  CHECK(bars[0].number("y") + bars[0].number("height") ==
        Approx(bars[1].number("y") + bars[1].number("height")).margin(0.1));
}

TEST_CASE("A matrix in SVG has a cell for each element", "[plot]") {
  const XmlReader svg(plot::heatmap(tensor({{0.0, 1.0, nan}, {0.0, 1.0, 1.0}})).to_svg());
  const auto low = filled(svg, "#440154"), high = filled(svg, "#fde725"),
             missing = filled(svg, "#bbbbbb");
  CHECK(low.size() == 2);
  CHECK(high.size() == 3);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].number("x") ==
        Approx(high[0].number("x") + high[0].number("width")).margin(0.02));
  CHECK(missing[0].number("y") == Approx(high[0].number("y")));
  const XmlReader counts(
      plot::confusion(tensor({{12, 3}, {0, 7}}), {.classes = {"cat", "dog"}}).to_svg());
  for (const char* const text : {"12", "3", "0", "7", "cat", "dog", "predicted", "true"})
    CHECK(has_text(counts, text));
}

TEST_CASE("The heads of attention in SVG do not overlap", "[plot]") {
  const XmlReader svg(plot::attention(ones({5, 1, 1})).to_svg());
  const auto cells = filled(svg, "#fde725");
  REQUIRE(cells.size() == 5);
  for (const Element& a : cells)
    for (const Element& b : cells)
      if (&a != &b)
        CHECK((a.number("x") + a.number("width") <= b.number("x") ||
               b.number("x") + b.number("width") <= a.number("x") ||
               a.number("y") + a.number("height") <= b.number("y") ||
               b.number("y") + b.number("height") <= a.number("y")));
}

TEST_CASE("SVG of empty, extreme and small plots is well-formed and finite", "[plot]") {
  const double largest = std::numeric_limits<double>::max();
  const std::vector<plot::Plot> plots{plot::lines(std::vector<double>()),
                                      plot::lines(std::vector<double>{1}),
                                      plot::lines(std::vector<double>{-largest, largest}),
                                      plot::lines(std::vector<double>{0, 5e-324}),
                                      plot::histogram(std::vector<double>()),
                                      plot::histogram(std::vector<double>{largest, -largest}),
                                      plot::heatmap(zeros({0, 3})),
                                      plot::heatmap(full({2, 2}, nan)),
                                      plot::heatmap(zeros({500, 300})),
                                      plot::confusion(zeros({0, 0})),
                                      plot::attention(zeros({0, 2, 2})),
                                      plot::attention(zeros({3, 0, 2}))};
  for (const plot::Plot& plot : plots) {
    for (const int size : {100, 640}) {
      const std::string text = plot.to_svg({.width = size, .height = size});
      const XmlReader svg(text);
      for (const Element& one : svg.elements)
        for (const auto& [key, value] : one.attributes)
          CHECK((value.find("nan") == value.npos && value.find("inf") == value.npos));
    }
  }
}
}  // namespace reel::tests
