// SPDX-License-Identifier: BSD-3-Clause
// Curves, histograms, matrices and images, as text for a terminal and as SVG for a page.
#pragma once        // defined in lib/plot
#include <cstdint>  // std::int64_t
#include <initializer_list>
#include <string>  // std::string
#include <type_traits>
#include <vector>  // std::vector

#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/operand.hpp>

namespace reel::plot {
namespace detail {
struct Drawing;
}

/// Numbers to draw: a tensor or Variable of any shape, dtype and device, or a std::vector of C++
/// numbers. They are read and copied.
class REEL_API Numbers {
 public:
  Numbers() = default;
  Numbers(const Tensor& x, Caller caller = Caller::here());
  Numbers(const Variable& x, Caller caller = Caller::here());
  template <class T>
  requires std::is_arithmetic_v<T> Numbers(const std::vector<T>& x) : Numbers(x.size()) {
    for (const T value : x) add(static_cast<double>(value));
  }
  /// In row-major order.
  const std::vector<double>& values() const { return values_; }

 private:
  explicit Numbers(std::size_t count);
  void add(double value);
  std::vector<double> values_;
};

/// A curve with its name in the legend. Without x, the points are at 0, 1, 2, ...
struct Series {
  std::string name;
  Numbers y;
  Numbers x = {};
};

/// Options of Plot::to_text().
struct TextOptions {
  int width = 72;      // characters, 40 to 1000
  int height = 16;     // lines of a chart without its axis, 2 to 500
  bool ascii = false;  // no characters beyond ASCII, except in names
};
/// Options of Plot::to_svg().
struct SvgOptions {
  int width = 640, height = 400;  // pixels, 100 to 10000
};

/// A finished drawing. Copies share it. Names and titles may have any characters: control
/// characters become spaces, and bytes that are not UTF-8 become U+FFFD.
class REEL_API Plot {
 public:
  /// Lines that end with '\n'. Throws Error for options out of their range.
  std::string to_text(const TextOptions& options = {}, Caller caller = Caller::here()) const;
  /// An SVG document without scripts, links and fonts of its own. Throws Error for options out of
  /// their range.
  std::string to_svg(const SvgOptions& options = {}, Caller caller = Caller::here()) const;

  explicit Plot(detail::Drawing&& drawing);  // for the functions below
  Plot(const Plot& other) noexcept;
  Plot& operator=(const Plot& other) noexcept;
  ~Plot();

 private:
  detail::Drawing* drawing_;
};

/// Options of lines().
struct LineOptions {
  std::string title = {}, x_label = {}, y_label = {};
  bool log_y = false;  // powers of ten at equal distances; numbers up to 0 are left out
};
/// Curves. NaN and infinities leave gaps, and a note counts them. In a text, a letter at the end of
/// a curve names it. Throws Error for no series, and ShapeError where x has another number of
/// elements than y.
///
///     plot::lines({{"train", train}, {"test", test}}, {.title = "loss"}).to_text();
REEL_API Plot lines(const std::vector<Series>& series, const LineOptions& options = {},
                    Caller caller = Caller::here());
/// Several curves, written in braces.
REEL_API Plot lines(std::initializer_list<Series> series, const LineOptions& options = {},
                    Caller caller = Caller::here());
/// One curve without a name.
REEL_API Plot lines(const Numbers& y, const LineOptions& options = {},
                    Caller caller = Caller::here());

/// Options of histogram().
struct HistogramOptions {
  std::string title = {}, label = {};  // the label of the numbers
  int buckets = 20;                    // 1 to 1000
};
/// How many of the numbers are in each bucket. The buckets are equally wide, from the smallest to
/// the largest number. NaN and infinities are left out, and a note counts them.
REEL_API Plot histogram(const Numbers& x, const HistogramOptions& options = {},
                        Caller caller = Caller::here());

/// Options of heatmap().
struct HeatmapOptions {
  std::string title = {}, x_label = {}, y_label = {};
  std::vector<std::string> rows = {}, columns = {};  // names; none, or as many as x has
};
/// A matrix [rows, columns] as shades from its smallest to its largest number. NaN and infinities
/// are `?` in a text and grey in SVG, and a note counts them. A matrix with more rows or columns
/// than there is room for is drawn as means of neighbours. Throws ShapeError for another rank, and
/// Error for another number of names.
REEL_API Plot heatmap(Operand x, const HeatmapOptions& options = {});

/// Options of confusion().
struct ConfusionOptions {
  std::string title = {};
  std::vector<std::string> classes = {};  // names; none, or as many as counts has
};
/// A matrix of metrics::confusion_matrix(), [classes, classes]: counts[i, j] elements of class i
/// were predicted as class j. Each cell has its count, and the shade is the share of its row.
/// Throws ShapeError for another shape, and Error for a negative or infinite count.
REEL_API Plot confusion(Operand counts, const ConfusionOptions& options = {});

/// Options of attention().
struct AttentionMapOptions {
  std::string title = {};
  std::vector<std::string> queries = {}, keys = {};  // names; none, or as many as weights has
};
/// Weights of attention, [queries, keys] or [heads, queries, keys], as one heatmap for each head.
/// All heads share one scale from 0. Throws ShapeError for another rank, and Error for another
/// number of names.
REEL_API Plot attention(Operand weights, const AttentionMapOptions& options = {});

/// Options of show().
struct ShowOptions {
  enum class Color : std::uint8_t { where_terminal, always, never };
  int width = 0;                        // characters, 1 to 1000; 0: that of the terminal, else 80
  Color color = Color::where_terminal;  // 24-bit colors, else shades of grey
  bool ascii = false;                   // shades of ASCII
  int descriptor = 1;                   // the file or terminal that is written to; 1 is stdout
};
/// Writes an image, [h, w], [h, w, 1] or [h, w, 3], of uint8 or of floating numbers from 0 to 1.
/// Numbers beyond are clipped; NaN is 0. An image that is too wide is drawn as means of its pixels.
/// Throws ShapeError or DTypeError for another image, and IoError where it cannot be written.
REEL_API void show(Operand image, const ShowOptions& options = {});
}  // namespace reel::plot
