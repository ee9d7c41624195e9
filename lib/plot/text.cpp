// SPDX-License-Identifier: BSD-3-Clause
// Plots as text.
#include <fmt/format.h>
#include <reel/error.hpp>
#include <reel/plot.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>

#include "lib/body/utf8.hpp"
#include "lib/plot/drawing.hpp"

namespace reel::plot {
namespace {
using std::size_t;

std::string repeated(std::string_view text, size_t count) {
  std::string result;
  for (; count > 0; --count) result += text;
  return result;
}
std::string padded_left(std::string_view text, size_t width) {
  const std::string_view part = first_characters(text, width);
  return repeated(" ", width - character_count(part)) + std::string(part);
}
std::string centered(std::string_view text, size_t width) {
  const std::string_view part = first_characters(text, width);
  return repeated(" ", (width - character_count(part)) / 2) + std::string(part);
}

/// Dots, 2 by 4 in a character of braille or one in a letter of ASCII.
class Canvas {
 public:
  Canvas(size_t columns, size_t lines, bool ascii)
      : ascii_(ascii), columns_(columns), lines_(lines), cells_(columns * lines) {}
  /// Dots in x and in y.
  std::int64_t width() const { return static_cast<std::int64_t>(columns_) * (ascii_ ? 1 : 2); }
  std::int64_t height() const { return static_cast<std::int64_t>(lines_) * (ascii_ ? 1 : 4); }
  /// The line of a place in the range, 0 to 1 from below.
  size_t line(double place) const { return static_cast<size_t>(dot_y(place)) / (ascii_ ? 1 : 4); }

  void point(double x, double y, char letter) { set(dot_x(x), dot_y(y), letter); }
  /// A line between two places (Bresenham 1965).
  void line(double x0, double y0, double x1, double y1, char letter) {
    std::int64_t x = dot_x(x0), y = dot_y(y0);
    const std::int64_t end_x = dot_x(x1), end_y = dot_y(y1);
    const std::int64_t dx = std::abs(end_x - x), dy = -std::abs(end_y - y);
    const int step_x = x < end_x ? 1 : -1, step_y = y < end_y ? 1 : -1;
    for (std::int64_t error = dx + dy;;) {
      set(x, y, letter);
      if (x == end_x && y == end_y) return;
      const std::int64_t twice = 2 * error;
      if (twice >= dy) error += dy, x += step_x;
      if (twice <= dx) error += dx, y += step_y;
    }
  }
  std::string text(size_t line) const {
    std::string result;
    for (size_t i = line * columns_; i < (line + 1) * columns_; ++i) {
      const unsigned cell = cells_[i];
      if (ascii_ || cell == 0)
        result += cell ? static_cast<char>(cell) : ' ';
      else  // U+2800 + cell
        result.append(
            {'\xe2', static_cast<char>(0xa0 | cell >> 6), static_cast<char>(0x80 | (cell & 63))});
    }
    return result;
  }

 private:
  std::int64_t dot_x(double place) const {
    return std::llround(place * static_cast<double>(width() - 1));
  }
  std::int64_t dot_y(double place) const {
    return std::llround((1 - place) * static_cast<double>(height() - 1));
  }
  void set(std::int64_t x, std::int64_t y, char letter) {
    const auto i = static_cast<size_t>(x), j = static_cast<size_t>(y);
    if (ascii_) {
      cells_[j * columns_ + i] = static_cast<unsigned char>(letter);
      return;
    }
    constexpr unsigned char bits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    cells_[j / 4 * columns_ + i / 2] |= bits[j % 4][i % 2];
  }
  bool ascii_;
  size_t columns_, lines_;
  std::vector<unsigned char> cells_;
};

class Writer {
 public:
  explicit Writer(const TextOptions& options)
      : width_(static_cast<size_t>(options.width)),
        height_(static_cast<size_t>(options.height)),
        ascii_(options.ascii) {}

  void line(std::string_view text) {
    while (text.ends_with(' ')) text.remove_suffix(1);
    (out_ += text) += '\n';
  }
  void title(const std::string& text) {
    if (!text.empty()) line(centered(text, width_));
  }
  void operator()(const Chart& chart);
  void operator()(const Bars& bars);
  void operator()(const Grid& grid);
  std::string text() && { return std::move(out_); }

 private:
  std::string_view either(std::string_view mark, std::string_view in_ascii) const {
    return ascii_ ? in_ascii : mark;
  }
  void x_axis(const Chart& chart, size_t left, size_t columns);
  void legend(const Chart& chart);
  void table(const Grid& grid, size_t names, size_t cell);
  void shades(const Grid& grid, size_t names);

  size_t width_, height_;
  bool ascii_;
  std::string out_;
};

char letter_of(size_t curve) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return letters[curve % letters.size()];
}

void Writer::operator()(const Chart& chart) {
  const std::vector<Tick> y_ticks =
      ticks(chart.y_range, static_cast<int>(height_ / 3 + 2), chart.log_y);
  size_t left = 0;
  for (const Tick& tick : y_ticks) left = std::max(left, tick.text.size());
  const auto place = [&](const Curve& curve, size_t i) {
    return std::pair(chart.x_range.place(curve.x[i]), chart.y_range.place(curve.y[i]));
  };
  const auto drawn = [](const Curve& curve, size_t i) {
    return i < curve.y.size() && std::isfinite(curve.x[i]) && std::isfinite(curve.y[i]);
  };
  // The letters of the curves that end in each line.
  const bool named = chart.curves.size() > 1 || !chart.curves[0].name.empty();
  const Canvas lines(1, height_, ascii_);
  std::vector<std::string> ends(height_);
  size_t right = 0;
  for (size_t c = 0; named && c < chart.curves.size(); ++c) {
    const Curve& curve = chart.curves[c];
    for (size_t i = curve.y.size(); i-- > 0;) {
      if (!drawn(curve, i)) continue;
      std::string& end = ends[lines.line(place(curve, i).second)];
      end += letter_of(c);
      right = std::max(right, end.size());
      break;
    }
  }
  right = std::min(right, size_t{8}) + (right > 0);
  left = std::min(left, width_ / 2);
  const size_t columns = std::max<size_t>(width_ - std::min(width_, left + 2 + right), 2);
  Canvas canvas(columns, height_, ascii_);
  for (size_t c = 0; c < chart.curves.size(); ++c) {
    const Curve& curve = chart.curves[c];
    const char letter = named ? letter_of(c) : '*';
    for (size_t i = 0; i < curve.y.size(); ++i) {
      if (!drawn(curve, i)) continue;
      const auto [x, y] = place(curve, i);
      canvas.point(x, y, letter);
      if (!drawn(curve, i + 1)) continue;
      const auto [next_x, next_y] = place(curve, i + 1);
      canvas.line(x, y, next_x, next_y, letter);
    }
  }
  std::vector<std::string> labels(height_);
  for (const Tick& tick : y_ticks) labels[canvas.line(tick.place)] = tick.text;
  if (!chart.y_label.empty()) line(first_characters(chart.y_label, width_));
  for (size_t i = 0; i < height_; ++i) {
    const std::string_view axis = labels[i].empty() ? either("│", "|") : either("┤", "+");
    line(fmt::format("{} {}{} {}", padded_left(labels[i], left), axis, canvas.text(i),
                     first_characters(ends[i], 8)));
  }
  x_axis(chart, left, columns);
  if (named) legend(chart);
}

void Writer::x_axis(const Chart& chart, size_t left, size_t columns) {
  std::vector<std::string_view> marks(columns, either("─", "-"));
  std::string labels(left + 2 + columns, ' ');
  size_t free = 0;
  for (const Tick& tick : ticks(chart.x_range, static_cast<int>(columns / 12 + 2), false)) {
    const auto column =
        static_cast<size_t>(std::lround(tick.place * static_cast<double>(columns - 1)));
    marks[column] = either("┬", "+");
    const size_t middle = left + 2 + column, size = tick.text.size();
    if (size > labels.size()) continue;
    const size_t begin = std::min(middle - std::min(middle, size / 2), labels.size() - size);
    if (begin < free) continue;
    labels.replace(begin, size, tick.text);
    free = begin + size + 1;
  }
  std::string axis = repeated(" ", left + 1) + std::string(either("└", "+"));
  for (const std::string_view mark : marks) axis += mark;
  line(axis);
  line(labels);
  if (!chart.x_label.empty()) line(repeated(" ", left + 2) + centered(chart.x_label, columns));
}

void Writer::legend(const Chart& chart) {
  std::string text;
  for (size_t c = 0; c < chart.curves.size(); ++c) {
    const std::string entry =
        fmt::format("{} {}", letter_of(c), first_characters(chart.curves[c].name, width_ - 2));
    if (!text.empty() && character_count(text) + 3 + character_count(entry) > width_) {
      line(text);
      text.clear();
    }
    text += (text.empty() ? "" : "   ") + entry;
  }
  line(text);
}

void Writer::operator()(const Bars& bars) {
  if (!bars.label.empty()) line(first_characters(bars.label, width_));
  const std::int64_t most = *std::max_element(bars.counts.begin(), bars.counts.end());
  std::vector<std::string> lows, highs;
  size_t left = 0, right = 0;
  for (size_t i = 0; i < bars.counts.size(); ++i) {
    lows.push_back(number_text(bars.edge(i)));
    highs.push_back(number_text(bars.edge(i + 1)));
    left = std::max(left, lows[i].size());
    right = std::max(right, highs[i].size());
  }
  const size_t used = left + right + 8 + fmt::format("{}", most).size();
  const double room = static_cast<double>(width_ > used + 4 ? width_ - used : 4);
  for (size_t i = 0; i < bars.counts.size(); ++i) {
    const double share = most ? static_cast<double>(bars.counts[i]) / static_cast<double>(most) : 0;
    std::string bar;
    if (ascii_) {
      bar = repeated("#", static_cast<size_t>(std::ceil(share * room)));
    } else {
      constexpr std::string_view parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
      const auto eighths = static_cast<size_t>(std::ceil(share * room * 8));
      bar = repeated("█", eighths / 8) + std::string(parts[eighths % 8]);
    }
    line(fmt::format("{:>{}} to {:>{}} {}{} {}", lows[i], left, highs[i], right, either("│", "|"),
                     bar, bars.counts[i]));
  }
}

void Writer::operator()(const Grid& grid) {
  if (!grid.title.empty()) line(first_characters(grid.title, width_));
  if (!grid.y_label.empty() || !grid.x_label.empty()) {
    const auto name = [](const std::string& text) { return text.empty() ? "-" : text; };
    line(first_characters(
        fmt::format("rows: {}, columns: {}", name(grid.y_label), name(grid.x_label)), width_));
  }
  if (grid.rows == 0 || grid.columns == 0) return line("no values");
  size_t names = 0, cell = 0;
  for (const std::string& name : grid.row_names) names = std::max(names, character_count(name));
  names = std::min(names, width_ / 3);
  for (const std::string& text : grid.cells) cell = std::max(cell, text.size());
  for (const std::string& name : grid.column_names)
    cell = std::max(cell, std::min(character_count(name), size_t{10}));
  if (!grid.cells.empty() && names + 1 + grid.columns * (cell + 1) <= width_ && grid.rows <= 100)
    return table(grid, names, cell + 1);
  shades(pooled(grid, 100, width_ - names - 3), names);
}

void Writer::table(const Grid& grid, size_t names, size_t cell) {
  std::string head = repeated(" ", names);
  for (const std::string& name : grid.column_names)
    head += " " + padded_left(first_characters(name, 10), cell - 1);
  line(head);
  for (size_t row = 0; row < grid.rows; ++row) {
    std::string text = padded_left(grid.row_names[row], names);
    for (size_t column = 0; column < grid.columns; ++column)
      text += padded_left(grid.cells[row * grid.columns + column], cell);
    line(text);
  }
}

void Writer::shades(const Grid& grid, size_t names) {
  constexpr std::string_view blocks[] = {" ", "░", "▒", "▓", "█"};
  constexpr std::string_view letters = " .:-=+*#%@";
  const size_t levels = ascii_ ? letters.size() : std::size(blocks);
  const auto shade = [&](size_t i) { return ascii_ ? letters.substr(i, 1) : blocks[i]; };
  const size_t cell = names + 3 + 2 * grid.columns <= width_ ? 2 : 1;
  // The names of the columns, from top to bottom.
  size_t tallest = 0;
  for (const std::string& name : grid.column_names)
    tallest = std::max(tallest, character_count(name));
  tallest = std::min(tallest, size_t{12});
  for (size_t i = 0; i < tallest; ++i) {
    std::string text = repeated(" ", names + 2);
    for (const std::string& name : grid.column_names) {
      const size_t above = tallest - std::min(tallest, character_count(name));
      std::string_view letter = " ";
      if (i >= above) {
        letter = std::string_view(name).substr(first_characters(name, i - above).size());
        letter = first_characters(letter, 1);
      }
      text += std::string(letter) + repeated(" ", cell - 1);
    }
    line(text);
  }
  for (size_t row = 0; row < grid.rows; ++row) {
    std::string text = padded_left(grid.row_names.empty() ? "" : grid.row_names[row], names);
    (text += " ") += either("│", "|");
    for (size_t column = 0; column < grid.columns; ++column) {
      const double x = grid.shade(row, column);
      const auto level =
          std::min(static_cast<size_t>(std::max(x, 0.0) * static_cast<double>(levels)), levels - 1);
      text += repeated(std::isnan(x) ? "?" : shade(level), cell);
    }
    line(text += either("│", "|"));
  }
  line(fmt::format("'{}' {} to '{}' {}", shade(0), number_text(grid.range.low), shade(levels - 1),
                   number_text(grid.range.high)));
}
}  // namespace

std::string Plot::to_text(const TextOptions& options, Caller caller) const try {
  check_between("to_text", "width", options.width, 40, 1000, caller);
  check_between("to_text", "height", options.height, 2, 500, caller);
  Writer writer(options);
  writer.title(drawing_->title);
  for (const auto& panel : drawing_->panels) std::visit(writer, panel);
  for (const std::string& note : drawing_->notes)
    writer.line(first_characters(note, static_cast<size_t>(options.width)));
  return std::move(writer).text();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to_text");
}
}  // namespace reel::plot
