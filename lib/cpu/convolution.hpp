// SPDX-License-Identifier: BSD-3-Clause
// Convolution as a product of gathered rows. A row of the product has a pointer into an image with
// zeros around it, one for each output position. Each tap has one offset from this pointer. So the
// image is never copied once for each tap.
#pragma once
#include <cstring>

#include "lib/body/dtypes.hpp"
#include "lib/cpu/panels.hpp"
#include "lib/cpu/source.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/options/convolution.hpp"

namespace reel::kernels::REEL_ISA {
using Int = std::int64_t;
inline constexpr int spatial = 3;  // axes: depth, height, width; absent ones have length 1

inline Int within(Int x, Int low, Int high) { return x < low ? low : x > high ? high : x; }

struct Geometry : ConvolutionSizes {
  Int all_channels() const { return channels * groups; }
  Int all_outputs() const { return outputs * groups; }
  Int tap_count() const { return taps[0] * taps[1] * taps[2]; }
  Int in_pixels() const { return in[0] * in[1] * in[2]; }
  Int out_pixels() const { return out[0] * out[1] * out[2]; }
  double work() const {
    return static_cast<double>(batch * out_pixels() * all_outputs()) *
           static_cast<double>(channels * tap_count());
  }
};

// The width of a panel of weights: that of a tile of sums in registers.
inline constexpr int tile_height = wide_tile_rows, tall_height = 8;
inline constexpr int panel_vectors = tile_vectors(tile_height);
template <class T>
inline constexpr Int panel = panel_vectors* lanes<T>;
// Up to so many columns, tiles have fewer vectors and more rows. For float64 that is more code than
// it is worth.
template <class T>
inline constexpr Int narrow_panel = (panel_vectors > 2 && sizeof(T) == 4 ? 2 : 1) * lanes<T>;
/// The most rows of a tile with these columns.
template <class T>
Int most_rows(Int columns) {
  return columns <= narrow_panel<T> ? tall_height : tile_height;
}
inline constexpr Int band_bytes = 160 << 10, pass_bytes = 48 << 10, tiles_bytes = 80 << 10;

/// The number of rows of the next tile, so that the last two tiles are equal.
inline Int tile_rows_of(Int rows, Int highest) {
  return rows >= 2 * highest ? highest : rows > highest ? (rows + 1) / 2 : rows;
}

/// Where the elements of a sum are, relative to the pointer of a row: `count` runs of `run`
/// contiguous elements.
struct Runs {
  const Int* offsets;
  Int count, run;
};

/// c[row][column + ...], `columns` of them, = start + sum over the runs of x[row][i]
/// weights[i][...]. `start` is one row of Vectors vectors. If `adds`, the sums are added to c.
template <int Rows, int Vectors, class T>
[[gnu::noinline]] void gather_tile(const T* const* x, const Runs& runs, const T* weights,
                                   T* const* c, Int column, Int columns, const T* start,
                                   bool adds) {
  constexpr Int L = lanes<T>;
  Vector<T> sums[Rows][Vectors];
  const T* rows[Rows];
  REEL_UNROLL
  for (int r = 0; r < Rows; ++r) {
    rows[r] = x[r];
    REEL_UNROLL
    for (int v = 0; v < Vectors; ++v) sums[r][v] = load(start + v * L);
  }
  for (Int t = 0; t < runs.count; ++t) {
    const Int first = runs.offsets[t], end = first + runs.run;
    REEL_UNROLL_STEPS
    for (Int i = first; i < end; ++i, weights += panel<T>) {
      Vector<T> y[Vectors];
      REEL_UNROLL
      for (int v = 0; v < Vectors; ++v) y[v] = load(weights + v * L);
      REEL_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const Vector<T> factor(rows[r][i]);
        REEL_UNROLL
        for (int v = 0; v < Vectors; ++v) sums[r][v] = xsimd::fma(factor, y[v], sums[r][v]);
      }
    }
  }
  REEL_UNROLL
  for (int r = 0; r < Rows; ++r) {
    REEL_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      const Int left = columns - v * L;
      T* const to = c[r] + column + v * L;
      if (left >= L)
        store(to, adds ? Vector<T>(load(to) + sums[r][v]) : sums[r][v]);
      else if (left > 0)
        store_part(to, adds ? Vector<T>(load_part(to, left) + sums[r][v]) : sums[r][v], left);
    }
  }
}
/// gather_tile() for any number of rows up to Rows.
template <int Rows, class T>
void gather_rows(Int rows, const T* const* x, const Runs& runs, const T* weights, T* const* c,
                 Int column, Int columns, const T* start, bool adds) {
  if constexpr (Rows > 1)
    if (rows < Rows)
      return gather_rows<Rows - 1>(rows, x, runs, weights, c, column, columns, start, adds);
  if constexpr (Rows <= tile_height)
    if (columns > narrow_panel<T>)
      return gather_tile<Rows, panel_vectors>(x, runs, weights, c, column, columns, start, adds);
  if (columns > lanes<T>)
    gather_tile<Rows, narrow_panel<T> / lanes<T>>(x, runs, weights, c, column, columns, start,
                                                  adds);
  else
    gather_tile<Rows, 1>(x, runs, weights, c, column, columns, start, adds);
}

/// Copies [rows, columns] pixels of a plane to contiguous memory, with zeros where the plane ends.
/// `channels` elements of each pixel are copied; pixels of the plane are `step` elements apart.
template <class T>
void copy_band(const Source<T>& plane, Int height, Int width, Int channels, Int step, Int top,
               Int rows, Int left, Int columns, T* to) {
  const auto clear = [&](T* from, Int pixels) {
    if (pixels > 0) std::memset(from, 0, static_cast<std::size_t>(pixels * channels) * sizeof(T));
  };
  const Int begin = within(-left, 0, columns), end = within(width - left, begin, columns);
  for (Int i = 0; i < rows; ++i, to += columns * channels) {
    const Int y = top + i;
    if (!plane || y < 0 || y >= height) {
      clear(to, columns);
      continue;
    }
    clear(to, begin);
    Source<T> from = plane + (y * width + left + begin) * step;
    T* at = to + begin * channels;
    if (channels == step)
      from.copy(at, (end - begin) * channels);
    else
      for (Int q = begin; q < end; ++q, from = from + step, at += channels) from.copy(at, channels);
    clear(to + end * channels, columns - end);
  }
}

/// Copies rows of weights to panels: [panel][row][column in panel], with zeros behind the last
/// column. at(r): where row r begins; its elements are `step` apart.
template <class T, class At>
void pack_panels(Int rows, Int columns, T* to, Int step, const At& at) {
  constexpr Int width = panel<T>, some = 16;  // rows at once, to read whole lines of a transpose
  for (Int first = 0; first < columns; first += width) {
    const Int left = least(width, columns - first);
    for (Int r = 0; r < rows; r += some) {
      const Int height = least(some, rows - r);
      Source<T> from[some];
      for (Int i = 0; i < height; ++i) from[i] = at(r + i) + first * step;
      if (step == 1 && left == width)
        for (Int i = 0; i < height; ++i) from[i].copy(to + i * width, width);
      else if (const bool together = from[0] + (height - 1) == from[height - 1];
               together && !from[0].is_half()) {
        transpose_elements(from[0].in_place(), step, to, width, height, left);
        for (Int i = 0; i < height; ++i)
          for (Int j = left; j < width; ++j) to[i * width + j] = 0;
      } else if (from[0].is_half())
        for (Int j = 0; j < width; ++j) {
          T column[some] = {};
          if (j < left && together)
            (from[0] + j * step).copy(column, height);
          else
            for (Int i = 0; i < height && j < left; ++i) column[i] = from[i][j * step];
          for (Int i = 0; i < height; ++i) to[i * width + j] = column[i];
        }
      else
        for (Int j = 0; j < width; ++j)
          for (Int i = 0; i < height; ++i)
            to[i * width + j] = j < left ? from[i].in_place()[j * step] : T(0);
      to += height * width;
    }
  }
}

template <class T>
T* elements(void* (*buffer)(std::size_t), Int count) {
  return static_cast<T*>(buffer(static_cast<std::size_t>(count) * sizeof(T)));
}

/// y[o] = sum over taps of x[o * stride + t * dilation - before] weight[t]. `before` may be
/// negative. Position o along an axis of y is at first + o * step of its length.
template <class T>
struct Gather {
  Geometry g;
  Int y_length[spatial], y_first[spatial], y_step[spatial];
  Source<T> x;
  const T* packed;  // panels of each group
  const T* start;   // a row of all outputs, whole panels for each group; null for zeros
  T* y;
};
}  // namespace reel::kernels::REEL_ISA
