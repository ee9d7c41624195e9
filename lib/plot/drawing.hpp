// SPDX-License-Identifier: BSD-3-Clause
// What a Plot holds: panels with their numbers, before they have a size.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <reel/plot.hpp>

namespace reel::plot {
// The largest double minus the smallest one is no double. Places are therefore computed in this
// type. It has a larger exponent on the processors that the library supports.
using Wide = long double;

/// From the smallest to the largest number that is drawn; low < high.
struct Range {
  Wide low = 0, high = 1;
  /// 0 at low, 1 at high.
  double place(double x) const { return static_cast<double>((x - low) / (high - low)); }
};
/// The range of the finite numbers. It is wider than they are where they are all equal.
Range range_of(const std::vector<double>& numbers);

struct Tick {
  double place;  // in the range, 0 to 1
  std::string text;
};
/// At most so many ticks, at 1, 2 or 5 times a power of ten. If the range is one of logarithms,
/// the texts are powers of ten.
std::vector<Tick> ticks(const Range& range, int most, bool logarithms);
/// A few digits of a number.
std::string number_text(Wide x);

struct Curve {
  std::string name;
  std::vector<double> x, y;  // a gap where one is not finite
};
struct Chart {
  std::string x_label, y_label;
  std::vector<Curve> curves;
  Range x_range, y_range;
  bool log_y = false;
};
struct Bars {
  std::string label;
  std::vector<std::int64_t> counts;
  Range range;
  Wide edge(std::size_t i) const {
    return range.low +
           (range.high - range.low) * static_cast<Wide>(i) / static_cast<Wide>(counts.size());
  }
};
/// A matrix of shades.
struct Grid {
  std::string title, x_label, y_label;
  std::size_t rows = 0, columns = 0;
  std::vector<double> shades;                               // 0 to 1, or NaN
  std::vector<std::string> row_names, column_names, cells;  // cells: texts in the cells
  Range range;
  double shade(std::size_t row, std::size_t column) const { return shades[row * columns + column]; }
};
/// The grid with no more rows and columns than these: a shade is the mean of neighbours.
Grid pooled(const Grid& grid, std::size_t most_rows, std::size_t most_columns);

struct detail::Drawing {
  std::string title;
  std::vector<std::variant<Chart, Bars, Grid>> panels = {};
  std::vector<std::string> notes = {};
  std::uint32_t references = 1;
};

/// Throws Error if `value` is not in [least, most].
void check_between(std::string_view op, std::string_view argument, int value, int least, int most,
                   Caller caller);
}  // namespace reel::plot
