// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <reel/error.hpp>
#include <reel/ops.hpp>
#include <reel/plot.hpp>
#include <reel/references.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "lib/body/text.hpp"
#include "lib/body/utf8.hpp"
#include "lib/plot/drawing.hpp"

namespace reel::plot {
namespace {
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> read(const Tensor& x, Caller caller, std::string_view op) {
  if (!x.defined()) fail<Error>(caller, op, "x", "a tensor", "an undefined Tensor");
  return stop_gradient(x).to(float64, caller).to_vector<double>(caller);
}
/// A tensor of one of two ranks, or a Variable of such a tensor.
Tensor array(const Operand& x, std::string_view op, std::string_view argument, std::size_t rank,
             std::size_t other_rank, std::string_view expected) {
  if (x.kind() == Operand::Kind::scalar)
    fail<ShapeError>(x.caller(), op, argument, expected, "a number");
  if (x.kind() != Operand::Kind::variable && !x.tensor().defined())
    fail<Error>(x.caller(), op, argument, "a tensor", "an undefined Tensor");
  const Shape& shape = x.shape();
  if (shape.rank() != rank && shape.rank() != other_rank)
    fail<ShapeError>(x.caller(), op, argument, expected, to_text(shape));
  return stop_gradient(x.value());
}

std::vector<std::string> names(const std::vector<std::string>& given, std::size_t count,
                               std::string_view op, std::string_view argument, Caller caller) {
  if (!given.empty() && given.size() != count)
    fail<Error>(caller, op, argument, fmt::format("{} names or none", count),
                fmt::format("{}", given.size()));
  std::vector<std::string> result;
  for (const std::string& name : given) result.push_back(printable(name));
  return result;
}

Plot finished(detail::Drawing drawing) {
  drawing.title = printable(drawing.title);
  return Plot(std::move(drawing));
}

/// "3 values of train are NaN or infinite"
void add_note(detail::Drawing& drawing, std::size_t count, std::string_view of,
              std::string_view what = "NaN or infinite") {
  if (count == 0) return;
  const bool one = count == 1;
  drawing.notes.push_back(fmt::format("{} value{}{}{} {} {}", count, one ? "" : "s",
                                      of.empty() ? "" : " of ", of, one ? "is" : "are", what));
}

std::size_t not_finite(const std::vector<double>& numbers) {
  return static_cast<std::size_t>(
      std::count_if(numbers.begin(), numbers.end(), [](double x) { return !std::isfinite(x); }));
}

void set_shades(Grid& grid, const std::vector<double>& numbers) {
  for (const double x : numbers)
    grid.shades.push_back(std::isfinite(x) ? grid.range.place(x) : nan);
}
}  // namespace

Numbers::Numbers(std::size_t count) try { values_.reserve(count); } catch (const std::bad_alloc&) {
  fail_memory({}, "plot");
}
void Numbers::add(double value) { values_.push_back(value); }
Numbers::Numbers(const Tensor& x, Caller caller) try : values_(read(x, caller, "plot")) {
} catch (const std::bad_alloc&) {
  fail_memory(caller, "plot");
}
Numbers::Numbers(const Variable& x, Caller caller) : Numbers(Operand(x, caller).value(), caller) {}

Plot::Plot(detail::Drawing&& drawing) : drawing_(new detail::Drawing(std::move(drawing))) {}
Plot::Plot(const Plot& other) noexcept : drawing_(other.drawing_) {
  reel::detail::add_reference(drawing_->references);
}
Plot& Plot::operator=(const Plot& other) noexcept {
  Plot copy(other);
  std::swap(drawing_, copy.drawing_);
  return *this;
}
Plot::~Plot() {
  if (reel::detail::drop_reference(drawing_->references)) delete drawing_;
}

void check_between(std::string_view op, std::string_view argument, int value, int least, int most,
                   Caller caller) {
  if (value < least || value > most)
    fail<Error>(caller, op, argument, fmt::format("a number from {} to {}", least, most),
                fmt::format("{}", value));
}

Plot lines(const std::vector<Series>& series, const LineOptions& options, Caller caller) try {
  if (series.empty()) fail<Error>(caller, "lines", "series", "at least one", "none");
  detail::Drawing drawing{options.title};
  Chart chart;
  chart.x_label = printable(options.x_label);
  chart.y_label = printable(options.y_label);
  chart.log_y = options.log_y;
  std::vector<double> all_x, all_y;
  for (const Series& one : series) {
    Curve curve{printable(one.name), one.x.values(), one.y.values()};
    if (curve.x.empty())
      for (std::size_t i = 0; i < curve.y.size(); ++i) curve.x.push_back(static_cast<double>(i));
    if (curve.x.size() != curve.y.size())
      fail<ShapeError>(caller, "lines", "x", fmt::format("{} elements, as y", curve.y.size()),
                       fmt::format("{}", curve.x.size()));
    std::size_t gaps = 0, negative = 0;
    for (std::size_t i = 0; i < curve.y.size(); ++i) {
      double& y = curve.y[i];
      const bool finite = std::isfinite(curve.x[i]) && std::isfinite(y);
      const bool drawn = finite && (!options.log_y || y > 0);
      gaps += !finite;
      negative += finite && !drawn;
      y = !drawn ? nan : options.log_y ? std::log10(y) : y;
      if (!drawn) continue;
      all_x.push_back(curve.x[i]);
      all_y.push_back(y);
    }
    add_note(drawing, gaps, curve.name);
    add_note(drawing, negative, curve.name, "not above 0");
    chart.curves.push_back(std::move(curve));
  }
  chart.x_range = range_of(all_x);
  chart.y_range = range_of(all_y);
  drawing.panels.emplace_back(std::move(chart));
  return finished(std::move(drawing));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "lines");
}

Plot lines(std::initializer_list<Series> series, const LineOptions& options, Caller caller) try {
  return lines(std::vector<Series>(series), options, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "lines");
}

Plot lines(const Numbers& y, const LineOptions& options, Caller caller) try {
  return lines(std::vector<Series>{{"", y, {}}}, options, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "lines");
}

Plot histogram(const Numbers& x, const HistogramOptions& options, Caller caller) try {
  check_between("histogram", "buckets", options.buckets, 1, 1000, caller);
  const auto buckets = static_cast<std::size_t>(options.buckets);
  detail::Drawing drawing{options.title};
  Bars bars{printable(options.label), std::vector<std::int64_t>(buckets), range_of(x.values())};
  for (const double value : x.values()) {
    if (!std::isfinite(value)) continue;
    const double place = bars.range.place(value) * static_cast<double>(buckets);
    ++bars.counts[std::min(static_cast<std::size_t>(place), buckets - 1)];
  }
  add_note(drawing, not_finite(x.values()), "");
  drawing.panels.emplace_back(std::move(bars));
  return finished(std::move(drawing));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "histogram");
}

Plot heatmap(Operand x, const HeatmapOptions& options) try {
  const Tensor matrix = array(x, "heatmap", "x", 2, 2, "[rows, columns]");
  const std::vector<double> numbers = read(matrix, x.caller(), "heatmap");
  detail::Drawing drawing{options.title};
  Grid grid;
  grid.x_label = printable(options.x_label);
  grid.y_label = printable(options.y_label);
  grid.rows = static_cast<std::size_t>(matrix.shape()[0]);
  grid.columns = static_cast<std::size_t>(matrix.shape()[1]);
  grid.row_names = names(options.rows, grid.rows, "heatmap", "rows", x.caller());
  grid.column_names = names(options.columns, grid.columns, "heatmap", "columns", x.caller());
  grid.range = range_of(numbers);
  set_shades(grid, numbers);
  add_note(drawing, not_finite(numbers), "");
  drawing.panels.emplace_back(std::move(grid));
  return finished(std::move(drawing));
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "heatmap");
}

Plot confusion(Operand counts, const ConfusionOptions& options) try {
  const Tensor matrix = array(counts, "confusion", "counts", 2, 2, "[classes, classes]");
  const auto classes = static_cast<std::size_t>(matrix.shape()[0]);
  if (matrix.shape()[0] != matrix.shape()[1])
    fail<ShapeError>(counts.caller(), "confusion", "counts", "[classes, classes]",
                     to_text(matrix.shape()));
  const std::vector<double> numbers = read(matrix, counts.caller(), "confusion");
  Grid grid;
  grid.x_label = "predicted";
  grid.y_label = "true";
  grid.rows = grid.columns = classes;
  grid.row_names = names(options.classes, classes, "confusion", "classes", counts.caller());
  if (grid.row_names.empty())
    for (std::size_t i = 0; i < classes; ++i) grid.row_names.push_back(fmt::format("{}", i));
  grid.column_names = grid.row_names;
  for (std::size_t row = 0; row < classes; ++row) {
    double sum = 0;
    for (std::size_t i = row * classes; i < (row + 1) * classes; ++i) {
      if (!std::isfinite(numbers[i]) || numbers[i] < 0)
        fail<Error>(counts.caller(), "confusion", "counts", "numbers from 0",
                    number_text(numbers[i]) +
                        std::string(place_text(matrix.shape(), static_cast<std::int64_t>(i))));
      sum += numbers[i];
      grid.cells.push_back(fmt::format("{}", numbers[i]));
    }
    for (std::size_t i = row * classes; i < (row + 1) * classes; ++i)
      grid.shades.push_back(sum > 0 ? numbers[i] / sum : 0);
  }
  detail::Drawing drawing{options.title};
  drawing.panels.emplace_back(std::move(grid));
  return finished(std::move(drawing));
} catch (const std::bad_alloc&) {
  fail_memory(counts.caller(), "confusion");
}

Plot attention(Operand weights, const AttentionMapOptions& options) try {
  const Caller caller = weights.caller();
  const Tensor all =
      array(weights, "attention", "weights", 2, 3, "[queries, keys] or [heads, queries, keys]");
  const int first = all.shape().rank() == 3;
  const auto heads = static_cast<std::size_t>(first ? all.shape()[0] : 1);
  const std::vector<double> numbers = read(all, caller, "attention");
  detail::Drawing drawing{options.title};
  Grid grid;
  grid.x_label = "key";
  grid.y_label = "query";
  grid.rows = static_cast<std::size_t>(all.shape()[first]);
  grid.columns = static_cast<std::size_t>(all.shape()[first + 1]);
  grid.row_names = names(options.queries, grid.rows, "attention", "queries", caller);
  grid.column_names = names(options.keys, grid.columns, "attention", "keys", caller);
  Wide largest = 0;
  for (const double x : numbers)
    if (std::isfinite(x)) largest = std::max<Wide>(largest, x);
  if (largest > 0) grid.range.high = largest;
  const std::size_t size = grid.rows * grid.columns;
  for (std::size_t head = 0; head < heads; ++head) {
    Grid one = grid;
    if (first) one.title = fmt::format("head {}", head);
    const double* const begin = numbers.data() + head * size;
    set_shades(one, std::vector<double>(begin, begin + size));
    drawing.panels.emplace_back(std::move(one));
  }
  add_note(drawing, not_finite(numbers), "");
  return finished(std::move(drawing));
} catch (const std::bad_alloc&) {
  fail_memory(weights.caller(), "attention");
}
}  // namespace reel::plot
