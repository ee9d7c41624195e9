// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/plot/drawing.hpp"

namespace reel::plot {
Range range_of(const std::vector<double>& numbers) {
  Range range{std::numeric_limits<Wide>::infinity(), -std::numeric_limits<Wide>::infinity()};
  for (const double x : numbers) {
    if (!std::isfinite(x)) continue;
    range.low = std::min<Wide>(range.low, x);
    range.high = std::max<Wide>(range.high, x);
  }
  if (range.low > range.high) return {};
  if (range.low < range.high) return range;
  const Wide margin = range.low == 0 ? 1 : std::fabs(range.low) / 2;
  return {range.low - margin, range.high + margin};
}

std::string number_text(Wide x) { return fmt::format("{:.5g}", x); }

std::vector<Tick> ticks(const Range& range, int most, bool logarithms) {
  const Wide width = range.high - range.low, slack = width * 1e-9L;
  const auto first = [&](Wide step) { return std::ceil((range.low - slack) / step); };
  const auto last = [&](Wide step) { return std::floor((range.high + slack) / step); };
  const Wide power = std::pow(static_cast<Wide>(10), std::floor(std::log10(width / most)));
  Wide step = 0;
  for (const int factor : {1, 2, 5, 10, 20}) {
    step = power * factor;
    if (last(step) - first(step) < most) break;
  }
  if (logarithms && width >= 2) step = std::max<Wide>(1, std::ceil(step));
  const Wide largest = std::max(std::fabs(range.low), std::fabs(range.high));
  const auto text = [&](Wide value) -> std::string {
    if (logarithms) return fmt::format("{:.3g}", std::pow(static_cast<Wide>(10), value));
    const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9L)));
    if (largest < 1e6L && decimals <= 6) return fmt::format("{:.{}f}", value, decimals);
    const auto digits = static_cast<int>(std::ceil(std::log10(largest / step))) + 1;
    return fmt::format("{:.{}g}", value, std::clamp(digits, 1, 18));
  };
  std::vector<Tick> result;
  for (Wide i = first(step); i <= last(step); ++i) {
    const Wide value = i == 0 ? 0 : i * step;
    const Wide place = std::clamp<Wide>((value - range.low) / width, 0, 1);
    result.push_back({static_cast<double>(place), text(value)});
  }
  return result;
}

Grid pooled(const Grid& grid, std::size_t most_rows, std::size_t most_columns) {
  if (grid.rows <= most_rows && grid.columns <= most_columns) return grid;
  Grid small = grid;
  small.rows = std::min(grid.rows, most_rows);
  small.columns = std::min(grid.columns, most_columns);
  small.cells.clear();
  if (small.rows < grid.rows) small.row_names.clear();
  if (small.columns < grid.columns) small.column_names.clear();
  small.shades.clear();
  const auto begin = [](std::size_t i, std::size_t parts, std::size_t of) {
    return i * of / parts;
  };
  for (std::size_t row = 0; row < small.rows; ++row) {
    for (std::size_t column = 0; column < small.columns; ++column) {
      double sum = 0, count = 0;
      for (std::size_t i = begin(row, small.rows, grid.rows);
           i < begin(row + 1, small.rows, grid.rows); ++i)
        for (std::size_t j = begin(column, small.columns, grid.columns);
             j < begin(column + 1, small.columns, grid.columns); ++j)
          if (const double shade = grid.shade(i, j); !std::isnan(shade)) sum += shade, ++count;
      small.shades.push_back(sum / count);
    }
  }
  return small;
}
}  // namespace reel::plot
