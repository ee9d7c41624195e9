// SPDX-License-Identifier: BSD-3-Clause
#include <reel/reel.hpp>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  REQUIRE(lines.back().empty());
  lines.pop_back();
  return lines;
}
/// The code points of UTF-8.
std::u32string code_points(const std::string& text) {
  std::u32string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80)
      result += byte;
    else if (byte >= 0xc0)
      result += byte & (byte >= 0xf0 ? 7 : byte >= 0xe0 ? 15 : 31);
    else
      result.back() = result.back() << 6 | (byte & 63);
  }
  return result;
}

/// The dots of braille behind the axis of each line: (column, row from above).
std::set<std::pair<int, int>> dots(const std::string& text) {
  std::set<std::pair<int, int>> found;
  int line = 0;
  for (const std::string& shown : split(text)) {
    const std::u32string codes = code_points(shown);
    const std::size_t axis = codes.find_first_of(U"│┤");
    if (axis == codes.npos) continue;
    for (std::size_t i = axis + 1; i < codes.size(); ++i) {
      if (codes[i] < 0x2800 || codes[i] > 0x28ff) continue;
      // The dots of a cell in the order of their bits (Unicode, "Braille Patterns").
      constexpr int columns[] = {0, 0, 0, 1, 1, 1, 0, 1}, rows[] = {0, 1, 2, 0, 1, 2, 3, 3};
      for (int bit = 0; bit < 8; ++bit)
        if ((codes[i] - 0x2800) >> bit & 1)
          found.emplace(2 * static_cast<int>(i - axis - 1) + columns[bit], 4 * line + rows[bit]);
    }
    ++line;
  }
  return found;
}
}  // namespace

TEST_CASE("A curve in ASCII has its points, ticks and labels", "[plot]") {
  const auto plot =
      plot::lines(tensor({0, 1, 2, 3}), {.title = "t", .x_label = "step", .y_label = "loss"});
  CHECK(plot.to_text({.width = 40, .height = 4, .ascii = true}) ==
        "                   t\n"
        "loss\n"
        "  |                              *******\n"
        "2 +                  ************\n"
        "  |      ************\n"
        "0 +******\n"
        "  ++-----------+-----------+-----------+\n"
        "   0           1           2           3\n"
        "                   step\n");
}

TEST_CASE("The braille dots of a curve are its points", "[plot]") {
  // A point for each column of dots: 40 characters without the labels and the axis are 72 to 74
  // dots wide.
  std::vector<double> y;
  for (int i = 0; i < 34; ++i) y.push_back(i * i % 16);
  y[0] = 0, y[1] = 15;  // the range
  const std::string text = plot::lines(y).to_text({.width = 40, .height = 4});
  const auto found = dots(text);
  int columns = 0;
  for (const auto& [column, row] : found) columns = std::max(columns, column + 1);
  CHECK(columns >= 70);
  for (int i = 0; i < 34; ++i) {
    const auto column = static_cast<int>(std::lround(i / 33.0 * (columns - 1)));
    INFO("point " << i << " of\n" << text);
    CHECK(found.count({column, 15 - static_cast<int>(y[static_cast<std::size_t>(i)])}));
  }
}

TEST_CASE("NaN and infinities leave gaps in a curve, and a note counts them", "[plot]") {
  const std::string text = plot::lines({{"a", std::vector<double>{1, 1, nan, infinity, 1}}})
                               .to_text({.width = 40, .height = 3});
  CHECK(text.find("2 values of a are NaN or infinite\n") != text.npos);
  const auto found = dots(text);
  int gap = 0, widest = 0, last = -1;
  for (const auto& [column, row] : found) {
    gap = column - last - 1;
    widest = std::max(widest, gap);
    last = column;
  }
  CHECK(widest > 45);  // from 1/4 to the end of 72 or so columns
}

TEST_CASE("A letter at the end of each curve names it", "[plot]") {
  const auto plot = plot::lines({{"up", tensor({0.f, 1.f})}, {"down", tensor({1.f, 0.f})}});
  const auto lines = split(plot.to_text({.width = 40, .height = 5}));
  CHECK(lines[0].back() == 'a');
  CHECK(lines[4].back() == 'b');
  CHECK(lines.back() == "a up   b down");
}

TEST_CASE("Curves take tensors of every dtype, Variables and vectors", "[plot]") {
  const std::string expected = plot::lines(std::vector<int>{0, 1, 1, 0}).to_text();
  for (const DType dtype :
       {boolean, uint8, int8, int16, int32, int64, float32, float64, float16, bfloat16})
    CHECK(plot::lines(cast(tensor({0, 1, 1, 0}), dtype)).to_text() == expected);
  CHECK(plot::lines(Variable("v", tensor({0., 1., 1., 0.}))).to_text() == expected);
  CHECK(plot::lines(std::vector<bool>{false, true, true, false}).to_text() == expected);
  CHECK(plot::lines({{"", tensor({0, 1, 1, 0}), tensor({0, 1, 2, 3})}}).to_text() == expected);
}

TEST_CASE("Curves without points, with one point and of equal points are drawn", "[plot]") {
  for (const bool ascii : {false, true}) {
    const plot::TextOptions options{.width = 40, .height = 4, .ascii = ascii};
    CHECK(dots(plot::lines(std::vector<double>()).to_text(options)).empty());
    CHECK(dots(plot::lines(std::vector<double>{nan}).to_text(options)).empty());
    const std::string one = plot::lines(std::vector<double>{7}).to_text(options);
    CHECK((ascii ? one.find('*') != one.npos : dots(one).size() == 1));
    const std::string constant = plot::lines(std::vector<double>{-2, -2, -2}).to_text(options);
    CHECK((ascii ? constant.find("****") != constant.npos : dots(constant).size() > 40));
  }
}

TEST_CASE("Curves of extreme numbers are drawn with different ticks", "[plot]") {
  const double largest = std::numeric_limits<double>::max(), least = 5e-324;
  for (const auto& y : std::vector<std::vector<double>>{{-largest, 0, largest},
                                                        {largest, largest},
                                                        {0, least},
                                                        {1, std::nextafter(1, 2)},
                                                        {1e300, 1e-300},
                                                        {-1e-12, 1e-12}}) {
    const std::string text = plot::lines(y).to_text({.width = 60});
    INFO(text);
    CHECK(dots(text).size() > 1);
    std::set<std::string> labels;
    std::size_t count = 0;
    for (const std::string& line : split(text)) {
      const std::size_t tick = line.find("┤");
      if (tick != line.npos) labels.insert(line.substr(0, tick)), ++count;
      CHECK(line.find("nan") == line.npos);
      CHECK(line.find("inf") == line.npos);
    }
    CHECK(count >= 2);
    CHECK(labels.size() == count);
  }
}

TEST_CASE("A logarithmic axis has powers of ten and leaves out numbers up to 0", "[plot]") {
  const std::string text =
      plot::lines({{"a", std::vector<double>{1000, 100, 0, 10, -1, 1}}}, {.log_y = true})
          .to_text({.width = 40, .height = 13});
  INFO(text);
  const auto lines = split(text);
  CHECK(lines[0].find("1e+03 ┤") == 0);
  CHECK(lines[4].find("  100 ┤") == 0);
  CHECK(lines[12].find("    1 ┤") == 0);
  CHECK(text.find("2 values of a are not above 0\n") != text.npos);
}

TEST_CASE("Lines of a text are no wider than asked, and have no control characters", "[plot]") {
  const std::string name = "\033[31m" + std::string(200, 'n') + "\xff\n\xc3\xa9";
  const auto x = tensor({{1.0, 2.0}, {3.0, nan}});
  const std::vector<plot::Plot> plots{
      plot::lines({{name, tensor({1e-7, 2e17})}, {name, tensor({-1, 3})}},
                  {.title = name, .x_label = name, .y_label = name}),
      plot::histogram(random::normal({1000}), {.title = name, .label = name}),
      plot::heatmap(x, {.title = name,
                        .x_label = name,
                        .y_label = name,
                        .rows = {name, name},
                        .columns = {name, name}}),
      plot::heatmap(zeros({3, 500})),
      plot::heatmap(zeros({0, 5})),
      plot::confusion(eye(3), {.title = name, .classes = {name, name, name}}),
      plot::attention(random::uniform({2, 3, 4}), {.title = name})};
  for (const plot::Plot& plot : plots) {
    for (const int width : {40, 41, 100}) {
      for (const bool ascii : {false, true}) {
        const std::string text = plot.to_text({.width = width, .ascii = ascii});
        INFO(text);
        for (const std::string& line : split(text)) {
          CHECK(code_points(line).size() <= static_cast<std::size_t>(width));
          for (const char32_t c : code_points(line)) {
            CHECK((c >= 0x20 && c != 0x7f));
            if (ascii) CHECK((c < 0x80 || c == 0xe9 || c == 0xfffd));  // of the name
          }
        }
      }
    }
  }
}

TEST_CASE("A histogram counts the numbers in each bucket", "[plot]") {
  const auto plot = plot::histogram(tensor({0.0, 0.5, 1.0, 1.5, 2.0, 3.9, 4.0, infinity, nan}),
                                    {.label = "x", .buckets = 4});
  CHECK(plot.to_text({.width = 40, .ascii = true}) ==
        "x\n"
        "0 to 1 |############################# 2\n"
        "1 to 2 |############################# 2\n"
        "2 to 3 |############### 1\n"
        "3 to 4 |############################# 2\n"
        "2 values are NaN or infinite\n");
  CHECK(plot.to_text({.width = 40}).find("2 to 3 │██████████████▌ 1\n") != std::string::npos);
}

TEST_CASE("Histograms of no, equal and extreme numbers count all of them", "[plot]") {
  const double largest = std::numeric_limits<double>::max();
  for (const auto& x : std::vector<std::vector<double>>{
           {}, {3}, {3, 3, 3}, {-largest, largest}, {0, 5e-324}, {largest}}) {
    const std::string text = plot::histogram(x, {.buckets = 3}).to_text();
    std::size_t sum = 0;
    for (const std::string& line : split(text)) sum += std::stoul(line.substr(line.rfind(' ')));
    CHECK(sum == x.size());
  }
}

TEST_CASE("A heatmap has a shade for each element", "[plot]") {
  const auto plot =
      plot::heatmap(tensor({{0.0, 1.0, 2.0}, {3.0, 4.0, nan}}),
                    {.title = "w", .rows = {"up", "down"}, .columns = {"a", "bc", "d"}});
  CHECK(plot.to_text({.width = 40}) ==
        "                   w\n"
        "        b\n"
        "      a c d\n"
        "  up │  ░░▒▒│\n"
        "down │▓▓██??│\n"
        "' ' 0 to '█' 4\n"
        "1 value is NaN or infinite\n");
  CHECK(plot.to_text({.width = 40, .ascii = true}).find("down |##@@??|\n' ' 0 to '@' 4\n") !=
        std::string::npos);
}

TEST_CASE("A heatmap that is too wide is drawn as means", "[plot]") {
  const Tensor x = reshape(arange(0, 74), {1, 74});
  const std::string text = plot::heatmap(x).to_text({.width = 40});
  const std::string first = split(text)[0];
  CHECK(code_points(first) == U" │        ░░░░░░░▒▒▒▒▒▒▒▓▓▓▓▓▓▓████████│");
}

TEST_CASE("A confusion matrix has its counts", "[plot]") {
  const auto plot = plot::confusion(tensor({{12, 3}, {0, 7}}), {.classes = {"cat", "dog"}});
  CHECK(plot.to_text() ==
        "rows: true, columns: predicted\n"
        "    cat dog\n"
        "cat  12   3\n"
        "dog   0   7\n");
  // The shade is the share of a row, where there is no room for counts.
  const std::string wide = plot::confusion(eye(30)).to_text({.width = 40, .ascii = true});
  CHECK(wide.find(" 0 |@ ") != std::string::npos);
}

TEST_CASE("Attention has a heatmap for each head", "[plot]") {
  const Tensor weights = tensor({{{1.0, 0.0}, {0.5, 0.5}}, {{0.0, 1.0}, {0.0, 1.0}}});
  const std::string text =
      plot::attention(weights, {.queries = {"the", "cat"}, .keys = {"le", "x"}}).to_text();
  CHECK(text ==
        "head 0\n"
        "rows: query, columns: key\n"
        "     l\n"
        "     e x\n"
        "the │██  │\n"
        "cat │▒▒▒▒│\n"
        "' ' 0 to '█' 1\n"
        "head 1\n"
        "rows: query, columns: key\n"
        "     l\n"
        "     e x\n"
        "the │  ██│\n"
        "cat │  ██│\n"
        "' ' 0 to '█' 1\n");
  CHECK(plot::attention(weights[0]).to_text().find("head") == std::string::npos);
}

TEST_CASE("Plots refuse what they cannot draw", "[plot]") {
  CHECK_THROWS_AS(plot::lines(std::vector<plot::Series>()), Error);
  CHECK_THROWS_AS(plot::lines({{"a", tensor({1, 2}), tensor({1})}}), ShapeError);
  CHECK_THROWS_AS(plot::lines(Tensor()), Error);
  CHECK_THROWS_AS(plot::histogram(tensor({1}), {.buckets = 0}), Error);
  CHECK_THROWS_AS(plot::heatmap(tensor({1, 2})), ShapeError);
  CHECK_THROWS_AS(plot::heatmap(1), ShapeError);
  CHECK_THROWS_AS(plot::heatmap(zeros({2, 2}), {.rows = {"a"}}), Error);
  CHECK_THROWS_AS(plot::confusion(zeros({2, 3})), ShapeError);
  CHECK_THROWS_AS(plot::confusion(tensor({{-1}})), Error);
  CHECK_THROWS_AS(plot::attention(zeros({2})), ShapeError);
  CHECK_THROWS_AS(plot::lines(tensor({1})).to_text({.width = 39}), Error);
  CHECK_THROWS_AS(plot::lines(tensor({1})).to_text({.height = 501}), Error);
  CHECK_THROWS_AS(plot::lines(tensor({1})).to_svg({.width = 99}), Error);
  CHECK_THROWS_AS(plot::show(zeros({2, 2, 2})), ShapeError);
  CHECK_THROWS_AS(plot::show(cast(zeros({2, 2}), int64)), DTypeError);
  CHECK_THROWS_AS(plot::show(zeros({2, 2}), {.descriptor = -1}), IoError);
}
}  // namespace reel::tests
