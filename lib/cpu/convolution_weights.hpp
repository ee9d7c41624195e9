// SPDX-License-Identifier: BSD-3-Clause
// The gradient of a convolution for its weights: rows are (tap, channel), and the sum runs over the
// positions of the output.
#pragma once
#include "lib/cpu/convolution_gather.hpp"

namespace reel::kernels::REEL_ISA {
/// c [Rows, columns] += sum over positions of x[position][row] y[position][...].
template <int Rows, int Vectors, class T>
[[gnu::noinline]] void outer_tile(const T* x, const Int* at, Int count, Int step, const T* y, T* c,
                                  Int c_row, Int columns) {
  constexpr Int L = lanes<T>;
  Vector<T> sums[Rows][Vectors];
  REEL_UNROLL
  for (int r = 0; r < Rows; ++r) {
    REEL_UNROLL
    for (int v = 0; v < Vectors; ++v) sums[r][v] = load(zeros<T>);
    __builtin_prefetch(c + r * c_row, 1);
  }
  for (Int i = 0; i < count; ++i, y += panel<T>) {
    const T* const p = x + at[i] * step;
    Vector<T> d[Vectors];
    REEL_UNROLL
    for (int v = 0; v < Vectors; ++v) d[v] = load(y + v * L);
    REEL_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Vector<T> factor(p[r]);
      REEL_UNROLL
      for (int v = 0; v < Vectors; ++v) sums[r][v] = xsimd::fma(factor, d[v], sums[r][v]);
    }
  }
  REEL_UNROLL
  for (int r = 0; r < Rows; ++r) {
    REEL_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      const Int left = columns - v * L;
      T* const to = c + r * c_row + v * L;
      if (left >= L)
        store(to, Vector<T>(load(to) + sums[r][v]));
      else if (left > 0)
        store_part(to, Vector<T>(load_part(to, left) + sums[r][v]), left);
    }
  }
}
template <int Rows, class T>
void outer_rows(Int rows, const T* x, const Int* at, Int count, Int step, const T* y, T* c,
                Int c_row, Int columns) {
  if constexpr (Rows > 1)
    if (rows < Rows) return outer_rows<Rows - 1>(rows, x, at, count, step, y, c, c_row, columns);
  if (columns > narrow_panel<T>)
    outer_tile<Rows, panel_vectors>(x, at, count, step, y, c, c_row, columns);
  else if (columns > lanes<T>)
    outer_tile<Rows, narrow_panel<T> / lanes<T>>(x, at, count, step, y, c, c_row, columns);
  else
    outer_tile<Rows, 1>(x, at, count, step, y, c, c_row, columns);
}

/// How the sums are divided. Pieces depend on the shape alone, so the bits are the same for any
/// number of threads. Each piece sums over some units, or, where there are many sums, computes some
/// columns. A unit is a band of one image, or several small images.
template <class T>
struct WeightPieces {
  Bands bands;
  bool blocked;  // x is copied to [block of channels][position][channels of the block]
  bool by_columns;
  Int weights, panels, units, count, pixels;  // pixels: of the band of one image

  explicit WeightPieces(const Geometry& g) : bands(g, Type<T>(), 2) {
    constexpr Int size = size_in_bytes<T>;
    weights = g.tap_count() * g.channels * g.all_outputs();
    panels = (g.outputs + panel<T> - 1) / panel<T>;
    blocked = g.channels >= tile_height && g.tap_count() * panels >= 8;
    const Int rows = (bands.rows - 1) * g.stride[1] + (g.taps[1] - 1) * g.dilation[1] + 1;
    pixels = g.taps[0] * rows * bands.columns;
    // Each unit reads and writes all sums: more images where the sums are many.
    const Int budget = most(band_bytes, least(weights * size / 4, 2 << 20));
    const Int each = (pixels * g.channels + bands.rows * g.out[2] * g.outputs) * size;
    bands.images = bands.count > 1 ? 1 : within(budget / each, 1, g.batch * g.out[0]);
    bands.sets = (g.batch * g.out[0] + bands.images - 1) / bands.images;
    units = bands.sets * bands.count;
    by_columns = weights * size > (512 << 10) || units == 1;
    const double enough = g.work() / (8 << 20);
    count = by_columns ? least(panels, 4)
                       : most(1, least(least(units, 8), enough > 8 ? 8 : static_cast<Int>(enough)));
  }
};

template <class T>
class WeightPiece {
 public:
  WeightPiece(const Geometry& g, const WeightPieces<T>& pieces, const Source<T>& x,
              const Source<T>& dy)
      : g_(g), pieces_(pieces), bands_(pieces.bands), x_(x), dy_(dy) {
    const Int pixels = bands_.images * bands_.rows * g.out[2];
    const Int at = rounded_up(pixels * size_in_bytes<Int> / size_in_bytes<T> + 1, 16);
    const Int image = bands_.images * pieces.pixels * g.channels + 64;
    T* const memory = elements<T>(scratch, at + rounded_up(image, 16) + pixels * panel<T>);
    at_ = reinterpret_cast<Int*>(memory);
    band_ = memory + at;
    panel_ = band_ + rounded_up(image, 16);
  }

  /// Adds the units from `first` to `end`, for these panels of columns.
  void add(Int first, Int end, Int first_panel, Int end_panel, T* sums) {
    for (Int unit = first; unit < end; ++unit) {
      first_image_ = unit / bands_.count * bands_.images;
      first_ = unit % bands_.count * bands_.rows;
      rows_ = least(bands_.rows, g_.out[1] - first_);
      images_ = least(bands_.images, g_.batch * g_.out[0] - first_image_);
      if (rows_ <= 0) continue;
      lines_ = (rows_ - 1) * g_.stride[1] + (g_.taps[1] - 1) * g_.dilation[1] + 1;
      count_ = 0;
      for (Int i = 0; i < images_; ++i)
        for (Int r = 0; r < rows_; ++r)
          for (Int q = 0; q < g_.out[2]; ++q)
            at_[count_++] =
                (i * g_.taps[0] * lines_ + r * g_.stride[1]) * bands_.columns + q * g_.stride[2];
      for (Int group = 0; group < g_.groups; ++group) {
        copy_x(group);
        for (Int p = first_panel; p < end_panel; ++p) {
          copy_dy(group, p * panel<T>);
          add_panel(group, p * panel<T>, sums);
        }
      }
    }
  }

 private:
  /// The pixels of all images in the bands, with zeros around them, as copy_band() copies them, or
  /// in blocks of channels.
  void copy_x(Int group) {
    const Int all = images_ * g_.taps[0] * lines_ * bands_.columns;
    const Int height = pieces_.blocked ? tile_height : g_.channels;
    for (Int f = 0, some; f < g_.channels; f += some) {
      some = pieces_.blocked ? tile_rows_of(g_.channels - f, height) : g_.channels;
      T* to = band_ + f * all;
      for (Int i = 0; i < images_; ++i)
        for (Int t = 0; t < g_.taps[0]; ++t, to += lines_ * bands_.columns * some) {
          const Int image = first_image_ + i, n = image / g_.out[0];
          const Int d = image % g_.out[0] * g_.stride[0] + t * g_.dilation[0] - g_.before[0];
          Source<T> plane;
          if (d >= 0 && d < g_.in[0])
            plane = x_ + (n * g_.in[0] + d) * g_.in[1] * g_.in[2] * g_.all_channels() +
                    group * g_.channels + f;
          const Int top = first_ * g_.stride[1] - g_.before[1];
          if (pieces_.blocked)
            copy_block(plane, some, top, to);
          else
            copy_band(plane, g_.in[1], g_.in[2], some, g_.all_channels(), top, lines_,
                      -g_.before[2], bands_.columns, to);
        }
    }
  }
  void copy_block(const Source<T>& plane, Int some, Int top, T* to) const {
    const Int begin = within(g_.before[2], 0, bands_.columns);
    const Int end = within(g_.in[2] + g_.before[2], begin, bands_.columns);
    for (Int line = 0; line < lines_; ++line) {
      const Int y = top + line;
      const bool inside = plane && y >= 0 && y < g_.in[1];
      const Int from = inside ? begin : bands_.columns, until = inside ? end : bands_.columns;
      Int e = 0;
      for (; e < from * some; ++e) to[e] = 0;
      Source<T> p = plane;
      if (inside) p = p + (y * g_.in[2] + from - g_.before[2]) * g_.all_channels();
      if (p.is_half())
        for (Int q = from; q < until; ++q, p = p + g_.all_channels(), e += some)
          p.copy(to + e, some);
      else
        for (Int q = from; q < until; ++q, p = p + g_.all_channels(), e += some)
          // A vector may end behind the block; what follows is written later.
          for (Int j = 0; j < some; j += lanes<T>)
            store(to + e + j, Chunk<T>{least(some - j, lanes<T>)}.zero_padded(p.in_place() + j));
      for (; e < bands_.columns * some; ++e) to[e] = 0;
      to += bands_.columns * some;
    }
  }
  void copy_dy(Int group, Int column) {
    const Int left = least(panel<T>, g_.outputs - column), all = g_.all_outputs();
    T* to = panel_;
    for (Int i = 0; i < images_; ++i) {
      const Int line = (first_image_ + i) * g_.out[1] + first_;
      Source<T> from = dy_ + line * g_.out[2] * all + group * g_.outputs + column;
      for (Int e = 0; e < rows_ * g_.out[2]; ++e, from = from + all, to += panel<T>) {
        if (left == panel<T>)
          from.copy(to, panel<T>);
        else
          for (Int j = 0; j < panel<T>; ++j) to[j] = j < left ? from[j] : T(0);
      }
    }
  }
  void add_panel(Int group, Int column, T* sums) const {
    const Int left = least(panel<T>, g_.outputs - column), row = g_.all_outputs();
    const Int all = images_ * g_.taps[0] * lines_ * bands_.columns;
    // Without blocks the taps of a window row are rows side by side.
    const bool joined = !pieces_.blocked && bands_.joined;
    const Int run = (joined ? g_.taps[2] : 1) * g_.channels;
    for (Int f = 0, height; f < run; f += height) {
      height = tile_rows_of(run - f, tile_height);
      const Int step = pieces_.blocked ? height : g_.channels;
      const T* const block = pieces_.blocked ? band_ + f * all : band_ + f;
      for (Int d = 0; d < g_.taps[0]; ++d)
        for (Int i = 0; i < g_.taps[1]; ++i)
          for (Int j = 0; j < (joined ? 1 : g_.taps[2]); ++j) {
            const Int tap = (d * g_.taps[1] + i) * g_.taps[2] + j;
            const Int pixel =
                (d * lines_ + i * g_.dilation[1]) * bands_.columns + j * g_.dilation[2];
            outer_rows<tile_height>(
                height, block + pixel * step, at_, count_, step, panel_,
                sums + (tap * g_.channels + f) * row + group * g_.outputs + column, row, left);
          }
    }
  }

  const Geometry& g_;
  const WeightPieces<T>& pieces_;
  const Bands& bands_;
  const Source<T> x_, dy_;
  Int first_image_ = 0, first_ = 0, rows_ = 0, images_ = 0, lines_ = 0, count_ = 0;
  Int* at_;
  T *band_, *panel_;
};

template <class T>
void convolution_weights(const Geometry& g, const Source<T>& x, const Source<T>& dy, T* dweight) {
  const Int weights = g.tap_count() * g.channels * g.all_outputs();
  const auto clear = [&](T* sums) {
    std::memset(sums, 0, static_cast<std::size_t>(weights) * sizeof(T));
  };
  clear(dweight);
  if (weights * g.batch * g.out_pixels() == 0) return;
  const WeightPieces<T> pieces(g);
  const bool apart = !pieces.by_columns && pieces.count > 1;
  T* const parts = apart ? elements<T>(lasting_scratch, (pieces.count - 1) * weights) : nullptr;
  parallel_for(pieces.count, [&](Int i) {
    WeightPiece<T> piece(g, pieces, x, dy);
    const Int n = pieces.count;
    if (pieces.by_columns)
      return piece.add(0, pieces.units, pieces.panels * i / n, pieces.panels * (i + 1) / n,
                       dweight);
    T* const sums = i == 0 ? dweight : parts + (i - 1) * weights;
    if (i > 0) clear(sums);
    piece.add(pieces.units * i / n, pieces.units * (i + 1) / n, 0, pieces.panels, sums);
  });
  for (Int i = 1; apart && i < pieces.count; ++i)
    for (Int e = 0; e < weights; ++e) dweight[e] += parts[(i - 1) * weights + e];
}
}  // namespace reel::kernels::REEL_ISA
