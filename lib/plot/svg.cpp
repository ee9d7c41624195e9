// SPDX-License-Identifier: BSD-3-Clause
// Plots as SVG.
#include <fmt/format.h>
#include <reel/error.hpp>
#include <reel/plot.hpp>

#include <algorithm>
#include <cmath>
#include <new>

#include "lib/body/utf8.hpp"
#include "lib/plot/drawing.hpp"

namespace reel::plot {
namespace {
using std::size_t;
constexpr double letter = 7, line_height = 16;  // pixels of a text of 12 pixels
constexpr size_t longest_name = 40, most_cells = 128;
// Okabe and Ito (2008): also people who do not see red and green apart can tell them apart.
constexpr std::string_view colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                       "#e69f00", "#56b4e9", "#000000"};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}
std::string clipped(std::string_view name) {
  const std::string_view part = first_characters(name, longest_name);
  return std::string(part) + (part.size() < name.size() ? "…" : "");
}
double width_of(std::string_view text) {
  return letter * static_cast<double>(character_count(text));
}

/// The colors of viridis (Smith and van der Walt 2015) between five of its points.
std::string color_of(double shade) {
  if (std::isnan(shade)) return "#bbbbbb";
  constexpr double points[5][3] = {
      {68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
  const double place = std::clamp(shade, 0.0, 1.0) * 4;
  const auto i = std::min(static_cast<size_t>(place), size_t{3});
  const auto part = [&](size_t c) {
    return static_cast<int>(
        std::lround(std::lerp(points[i][c], points[i + 1][c], place - static_cast<double>(i))));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", part(0), part(1), part(2));
}

struct Box {
  double left, top, right, bottom;
  double x(double place) const { return left + place * (right - left); }
  double y(double place) const { return bottom - place * (bottom - top); }
};

enum class Anchor { start, middle, end };

class Svg {
 public:
  Svg(const SvgOptions& options, std::string_view title) {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
        "{1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<title>{2}</title>\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
        options.width, options.height, escaped(title));
  }
  std::string finish() && { return std::move(out_ += "</svg>\n"); }

  void text(double x, double y, Anchor anchor, std::string_view text, std::string_view more = "") {
    constexpr std::string_view anchors[] = {"start", "middle", "end"};
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}{}>{}</text>\n", x, y,
                        anchors[static_cast<int>(anchor)], more.empty() ? "" : " ", more,
                        escaped(text));
  }
  void turned(double x, double y, Anchor anchor, std::string_view text, int degrees) {
    this->text(x, y, anchor, text,
               fmt::format("transform=\"rotate({} {:.1f} {:.1f})\"", degrees, x, y));
  }
  void rectangle(double x, double y, double width, double height, std::string_view fill) {
    out_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n", x, y,
        std::max(width, 0.0), std::max(height, 0.0), fill);
  }
  void line(double x0, double y0, double x1, double y1, std::string_view color, int width = 1) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"{}\"/>\n",
        x0, y0, x1, y1, color, width);
  }
  void circle(double x, double y, std::string_view color) {
    out_ +=
        fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"2.5\" fill=\"{}\"/>\n", x, y, color);
  }
  void path(std::string_view points, std::string_view color) {
    out_ +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
                    points, color);
  }

  void draw(const Chart& chart, Box box);
  void draw(const Bars& bars, Box box);
  void draw(const Grid& grid, Box box);

 private:
  /// The frame with ticks, and the box inside it.
  Box axes(Box box, const Range& x_range, const Range& y_range, bool log_y,
           std::string_view x_label, std::string_view y_label);
  void curve(const Chart& chart, const Curve& curve, const Box& box, std::string_view color);
  void names(const std::vector<std::string>& given, size_t count, const Box& box, bool rows);
  std::string out_;
};

Box Svg::axes(Box box, const Range& x_range, const Range& y_range, bool log_y,
              std::string_view x_label, std::string_view y_label) {
  const double label = line_height + 2;
  const auto y_ticks = ticks(y_range, static_cast<int>((box.bottom - box.top) / 50) + 2, log_y);
  double widest = 0;
  for (const Tick& tick : y_ticks) widest = std::max(widest, width_of(tick.text));
  box.left += widest + 10 + (y_label.empty() ? 0 : label);
  box.bottom -= line_height + 6 + (x_label.empty() ? 0 : label);
  box.right = std::max(box.right, box.left + 10);
  box.bottom = std::max(box.bottom, box.top + 10);
  const auto x_ticks = ticks(x_range, static_cast<int>((box.right - box.left) / 80) + 2, false);
  for (const Tick& tick : y_ticks) {
    const double y = box.y(tick.place);
    line(box.left - 4, y, box.right, y, "#dddddd");
    text(box.left - 7, y + 4, Anchor::end, tick.text);
  }
  for (const Tick& tick : x_ticks) {
    const double x = box.x(tick.place);
    line(x, box.top, x, box.bottom + 4, "#dddddd");
    text(x, box.bottom + line_height, Anchor::middle, tick.text);
  }
  line(box.left, box.top, box.left, box.bottom, "#333333");
  line(box.left, box.bottom, box.right, box.bottom, "#333333");
  if (!x_label.empty())
    text(box.x(0.5), box.bottom + line_height + label, Anchor::middle, clipped(x_label));
  if (!y_label.empty())
    turned(box.left - widest - 18, box.y(0.5), Anchor::middle, clipped(y_label), -90);
  return box;
}

void Svg::curve(const Chart& chart, const Curve& curve, const Box& box, std::string_view color) {
  const size_t count = curve.y.size();
  const auto drawn = [&](size_t i) {
    return std::isfinite(curve.x[i]) && std::isfinite(curve.y[i]);
  };
  for (size_t begin = 0; begin < count; ++begin) {
    if (!drawn(begin)) continue;
    size_t end = begin;
    while (end < count && drawn(end)) ++end;
    std::string points;
    const auto add = [&](size_t i) {
      points += fmt::format("{}{:.2f},{:.2f}", points.empty() ? "" : " ",
                            box.x(chart.x_range.place(curve.x[i])),
                            box.y(chart.y_range.place(curve.y[i])));
    };
    // Of a long curve, the first, smallest, largest and last point of each part.
    const size_t part = std::max<size_t>((end - begin) / 1000, 1);
    for (size_t i = begin; i < end; i += part) {
      const auto first = curve.y.begin() + static_cast<std::ptrdiff_t>(i);
      const auto last = curve.y.begin() + static_cast<std::ptrdiff_t>(std::min(i + part, end));
      const auto [low, high] = std::minmax_element(first, last);
      size_t chosen[] = {i, static_cast<size_t>(low - curve.y.begin()),
                         static_cast<size_t>(high - curve.y.begin()), std::min(i + part, end) - 1};
      std::sort(std::begin(chosen), std::end(chosen));
      for (size_t k = 0; k < std::size(chosen); ++k)
        if (k == 0 || chosen[k] != chosen[k - 1]) add(chosen[k]);
    }
    if (end - begin == 1)
      circle(box.x(chart.x_range.place(curve.x[begin])), box.y(chart.y_range.place(curve.y[begin])),
             color);
    else
      path(points, color);
    begin = end;
  }
}

void Svg::draw(const Chart& chart, Box box) {
  const bool named = chart.curves.size() > 1 || !chart.curves[0].name.empty();
  double legend = 0;
  if (named)
    for (const Curve& curve : chart.curves)
      legend = std::max(legend, width_of(clipped(curve.name)) + 34);
  legend = std::min(legend, (box.right - box.left) / 2);
  box.right -= legend;
  box = axes(box, chart.x_range, chart.y_range, chart.log_y, chart.x_label, chart.y_label);
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const std::string_view color = colors[i % std::size(colors)];
    curve(chart, chart.curves[i], box, color);
    if (!named) continue;
    const double y = box.top + 10 + line_height * static_cast<double>(i);
    line(box.right + 8, y - 4, box.right + 24, y - 4, color, 3);
    text(box.right + 28, y, Anchor::start, clipped(chart.curves[i].name));
  }
}

void Svg::draw(const Bars& bars, Box box) {
  const std::int64_t most = *std::max_element(bars.counts.begin(), bars.counts.end());
  const Range counts{0, static_cast<Wide>(std::max<std::int64_t>(most, 1))};
  box = axes(box, bars.range, counts, false, bars.label, "");
  const auto buckets = static_cast<double>(bars.counts.size());
  for (size_t i = 0; i < bars.counts.size(); ++i) {
    const double left = box.x(static_cast<double>(i) / buckets),
                 right = box.x(static_cast<double>(i + 1) / buckets);
    const double top = box.y(counts.place(static_cast<double>(bars.counts[i])));
    if (bars.counts[i])
      rectangle(left, top, std::max(right - left - 1, 0.5), box.bottom - top, colors[0]);
  }
}

/// Names beside the rows or below the columns: as many as there is room for, else some numbers.
void Svg::names(const std::vector<std::string>& given, size_t count, const Box& box, bool rows) {
  const double length = rows ? box.bottom - box.top : box.right - box.left;
  const double cell = length / static_cast<double>(count);
  const auto step = static_cast<size_t>(std::ceil((given.empty() ? 40 : 13) / cell));
  for (size_t i = 0; i < count; i += std::max<size_t>(step, 1)) {
    const double place = (static_cast<double>(i) + 0.5) * cell;
    const std::string name = given.empty() ? fmt::format("{}", i) : clipped(given[i]);
    if (rows)
      text(box.left - 5, box.top + place + 4, Anchor::end, name);
    else if (given.empty() || width_of(name) < cell)
      text(box.left + place, box.bottom + line_height, Anchor::middle, name);
    else
      turned(box.left + place + 4, box.bottom + 8, Anchor::end, name, -60);
  }
}

void Svg::draw(const Grid& whole, Box box) {
  const Grid grid = pooled(whole, most_cells, most_cells);
  if (!grid.title.empty()) {
    text((box.left + box.right) / 2, box.top + 12, Anchor::middle, clipped(grid.title));
    box.top += line_height;
  }
  if (grid.rows == 0 || grid.columns == 0)
    return text((box.left + box.right) / 2, (box.top + box.bottom) / 2, Anchor::middle,
                "no values");
  const auto longest = [](const std::vector<std::string>& names) {
    double width = 4 * letter;
    for (const std::string& name : names) width = std::max(width, width_of(clipped(name)));
    return width;
  };
  const Box outer = box;
  const double label = line_height + 2;
  box.left += std::min(longest(grid.row_names) + 8, (box.right - box.left) / 3) +
              (grid.y_label.empty() ? 0 : label);
  box.bottom -= std::min(longest(grid.column_names), (box.bottom - box.top) / 3) + 4 +
                (grid.x_label.empty() ? 0 : label);
  const std::string low = number_text(grid.range.low), high = number_text(grid.range.high);
  box.right -= 24 + std::max(width_of(low), width_of(high));
  box.right = std::max(box.right, box.left + 10);
  box.bottom = std::max(box.bottom, box.top + 10);
  const double width = (box.right - box.left) / static_cast<double>(grid.columns);
  const double height = (box.bottom - box.top) / static_cast<double>(grid.rows);
  for (size_t row = 0; row < grid.rows; ++row) {
    for (size_t column = 0; column < grid.columns; ++column) {
      const double x = box.left + width * static_cast<double>(column),
                   y = box.top + height * static_cast<double>(row);
      const double shade = grid.shade(row, column);
      rectangle(x, y, width, height, color_of(shade));
      if (grid.cells.empty()) continue;
      const std::string& number = grid.cells[row * grid.columns + column];
      if (width_of(number) <= width && height >= 12)
        text(x + width / 2, y + height / 2 + 4, Anchor::middle, number,
             shade < 0.6 ? "fill=\"#ffffff\"" : "fill=\"#000000\"");
    }
  }
  names(grid.row_names, grid.rows, box, true);
  names(grid.column_names, grid.columns, box, false);
  if (!grid.y_label.empty()) turned(outer.left + 12, box.y(0.5), Anchor::middle, grid.y_label, -90);
  if (!grid.x_label.empty()) text(box.x(0.5), outer.bottom - 2, Anchor::middle, grid.x_label);
  constexpr int steps = 32;
  for (int i = 0; i < steps; ++i)
    rectangle(box.right + 8, box.y((i + 1.0) / steps), 10, (box.bottom - box.top) / steps + 0.5,
              color_of((i + 0.5) / steps));
  text(box.right + 21, box.top + 10, Anchor::start, high);
  text(box.right + 21, box.bottom, Anchor::start, low);
}
}  // namespace

std::string Plot::to_svg(const SvgOptions& options, Caller caller) const try {
  check_between("to_svg", "width", options.width, 100, 10000, caller);
  check_between("to_svg", "height", options.height, 100, 10000, caller);
  Svg svg(options, drawing_->title);
  Box all{8, 8, options.width - 12.0, options.height - 6.0};
  if (!drawing_->title.empty()) {
    svg.text(options.width / 2.0, 20, Anchor::middle, drawing_->title, "font-size=\"15\"");
    all.top += 22;
  }
  for (const std::string& note : drawing_->notes) {
    svg.text(8, all.bottom, Anchor::start, note, "fill=\"#666666\"");
    all.bottom -= line_height;
  }
  const size_t count = drawing_->panels.size();
  const auto columns = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const size_t rows = count ? (count + columns - 1) / columns : 0;
  for (size_t i = 0; i < count; ++i) {
    const double width = (all.right - all.left) / static_cast<double>(columns);
    const double height = (all.bottom - all.top) / static_cast<double>(rows);
    const double left = all.left + width * static_cast<double>(i % columns);
    const double top = all.top + height * static_cast<double>(i / columns);
    std::visit(
        [&](const auto& panel) {
          svg.draw(panel, {left, top, left + width - 4, top + height - 4});
        },
        drawing_->panels[i]);
  }
  return std::move(svg).finish();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to_svg");
}
}  // namespace reel::plot
