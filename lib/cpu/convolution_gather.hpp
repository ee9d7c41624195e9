// SPDX-License-Identifier: BSD-3-Clause
// The value of a convolution, and its gradient for the input.
#pragma once
#include "lib/cpu/convolution_depthwise.hpp"
#include "lib/pool/thread_count.hpp"

namespace reel::kernels::REEL_ISA {
/// How the work is divided: a band is some rows of one image, or several small images. Its input
/// and output stay in the L2 cache, if the weights do. An image is one depth of an element of the
/// batch.
struct Bands {
  bool copies, joined;             // joined: the taps of a window row are contiguous
  bool divides, divides_lines;     // in stretches: bands, lines
  Int columns, row, plane, image;  // elements from one to the next in the band
  Int rows, count, images, sets;
  Int run, runs;

  /// At least so many pieces, if there are as many lines. `packs`: the input is copied in any case.
  template <class T>
  Bands(const Geometry& g, Type<T>, Int pieces, bool packs = false) {
    const auto reach = [&](int a) { return (g.taps[a] - 1) * g.dilation[a] + 1; };
    const auto is_inside = [&](int a) {
      return g.before[a] == 0 && (g.out[a] - 1) * g.stride[a] + reach(a) <= g.in[a];
    };
    joined = g.dilation[2] == 1;
    run = (joined ? g.taps[2] : 1) * g.channels;
    runs = g.taps[0] * g.taps[1] * (joined ? 1 : g.taps[2]);
    divides = g.taps[0] == 1 && g.channels >= 16;
    // Where lines are short, and the ends of several come together.
    divides_lines =
        g.channels >= 64 && joined && g.out[1] * g.out[2] <= 100 && g.batch * g.out[0] >= 4;
    copies = packs || g.groups > 1 || !(is_inside(0) && is_inside(1) && is_inside(2));
    columns = (g.out[2] - 1) * g.stride[2] + reach(2);
    row = (copies ? columns : g.in[2]) * g.channels;
    constexpr Int size = size_in_bytes<T>;
    const Int halo = most(reach(1) - g.stride[1], 0) * columns * g.channels * size;
    const Int each = (columns * g.channels * g.stride[1] + g.out[2] * g.outputs) * size;
    const Int planes = g.taps[0], all = g.batch * g.out[0];
    // Each band reads all weights: more of the input at once where they do not stay in the L2
    // cache.
    const Int budget = most(band_bytes, least(runs * run * g.outputs * size / 2, 2 << 20));
    rows = within((budget - planes * halo) / (planes * each), 1,
                  most(1, least(g.out[1], g.out[1] * all / pieces)));
    count = (g.out[1] + rows - 1) / rows;
    rows = (g.out[1] + count - 1) / count;
    images = count > 1 ? 1 : within(budget / (planes * (each * g.out[1] + halo)), 1, all);
    images = least(images, most(1, all / pieces));
    sets = (all + images - 1) / images;
    plane = copies ? ((rows - 1) * g.stride[1] + reach(1)) * row : g.in[1] * row;
    image = g.taps[0] * plane;
  }
};

/// Positions of the output along an axis whose windows meet the same taps with elements of the
/// input; the other taps meet zeros around it.
struct Stretch {
  Int first, end, tap, end_tap;
};
/// The stretches from `first` to `end`.
struct Stretches {
  Stretch at[8];
  Int count = 0;

  Stretches(const Geometry& g, int a, Int first, Int end, bool divides) {
    for (Int o = first; o < end; ++o) {
      const Int start = o * g.stride[a] - g.before[a], step = g.dilation[a];
      Int tap = start < 0 ? (-start + step - 1) / step : 0;
      Int end_tap = least(g.taps[a], start < g.in[a] ? (g.in[a] - 1 - start) / step + 1 : 0);
      if (!divides || tap >= end_tap) tap = 0, end_tap = g.taps[a];
      if (count == 0 || tap != at[count - 1].tap || end_tap != at[count - 1].end_tap) {
        if (count == 8) {  // so many that each would be short
          at[0] = {first, end, 0, g.taps[a]}, count = 1;
          return;
        }
        at[count++] = {o, o, tap, end_tap};
      }
      at[count - 1].end = o + 1;
    }
  }
  const Stretch* begin() const { return at; }
  const Stretch* end() const { return at + count; }
};

template <class T>
class GatherBand {
 public:
  GatherBand(const Gather<T>& call, const Bands& bands, const Int* offsets, Int piece)
      : call_(call), g_(call.g), bands_(bands), offsets_(offsets) {
    group_ = piece % g_.groups;
    first_image_ = piece / g_.groups / bands.count * bands.images;
    first_ = piece / g_.groups % bands.count * bands.rows;
    rows_ = least(bands.rows, g_.out[1] - first_);
    images_ = least(bands.images, g_.batch * g_.out[0] - first_image_);
  }

  void run() {
    constexpr Int width = panel<T>;
    if (rows_ <= 0) return;
    const Int length = bands_.runs * bands_.run, wide = rounded_up(g_.outputs, width);
    panels_ = call_.packed + group_ * wide * length;
    start_ = call_.start ? call_.start + group_ * wide : nullptr;
    pixels_ = images_ * rows_ * g_.out[2];
    const Int pointers = rounded_up(2 * pixels_ * size_in_bytes<T*> / size_in_bytes<T>, 16);
    const Int band = bands_.copies ? images_ * bands_.image : 0;
    T* const memory = elements<T>(scratch, pointers + band);
    if (bands_.copies) copy(memory + pointers);
    from_ = reinterpret_cast<const T**>(memory);
    to_ = const_cast<T**>(from_ + pixels_);
    const Int runs_of_row = bands_.runs / (g_.taps[0] * g_.taps[1]);
    // Sums skip rows of taps, and taps of rows, that meet zeros alone.
    const Stretches lines(g_, 1, first_, first_ + rows_, bands_.divides);
    const Stretches columns(g_, 2, 0, g_.out[2], bands_.divides_lines);
    Part parts[8 * 8];
    Int count = 0, pixel = 0;
    for (const Stretch& line : lines)
      for (const Stretch& column : columns) {
        Part& part = parts[count++];
        part = {pixel, find_positions(line, column, pixel, memory + pointers),
                0,     bands_.runs,
                0,     bands_.run};
        pixel = part.end;
        if (bands_.divides)
          part.first_run = line.tap * runs_of_row, part.end_run = line.end_tap * runs_of_row;
        if (bands_.divides_lines)
          part.skipped = column.tap * g_.channels,
          part.run = (column.end_tap - column.tap) * g_.channels;
      }
    // If all panels stay in L2, each tile goes through all of them, and y is written in order.
    const bool stays = !bands_.divides_lines && g_.outputs >= 2 * length &&
                       length * wide * size_in_bytes<T> <= tiles_bytes;
    const Int columns_at_once = stays ? g_.outputs : width;
    const Int in_pass =
        stays ? bands_.runs
        : bands_.divides_lines
            ? 1  // the weights of a part of each run do not follow one another
            : within(pass_bytes / (bands_.run * width * size_in_bytes<T>), 1, bands_.runs);
    for (Int column = 0; column < g_.outputs; column += columns_at_once) {
      const Int end_column = least(column + columns_at_once, g_.outputs);
      for (Int t = 0; t < bands_.runs; t += in_pass)
        for (const Part* part = parts; part < parts + count; ++part)
          compute(*part, most(t, part->first_run), least(t + in_pass, part->end_run), column,
                  end_column);
    }
  }

 private:
  /// Positions from `first` to `end`, which meet the runs from `first_run` to `end_run`, and of
  /// each run `run` elements behind the first `skipped`.
  struct Part {
    Int first, end, first_run, end_run, skipped, run;
  };
  /// The columns from `column` to `end_column`: adds the runs from `first` to `end`.
  void compute(const Part& part, Int first, Int end, Int column, Int end_column) const {
    if (first >= end) return;
    const Runs runs{offsets_ + first, end - first, part.run};
    const T* const weights = panels_ + (first * bands_.run + part.skipped) * panel<T>;
    const bool adds = first > part.first_run;
    for (Int at = part.first, height; at < part.end; at += height) {
      height = tile_rows_of(part.end - at, most_rows<T>(end_column - column));
      for (Int c = column; c < end_column; c += panel<T>)
        gather_rows<tall_height>(height, from_ + at, runs, weights + c * bands_.runs * bands_.run,
                                 to_ + at, c, least(panel<T>, end_column - c),
                                 start_ && !adds ? start_ + c : zeros<T>, adds);
    }
  }
  Source<T> plane_of(Int image, Int tap) const {
    const Int n = image / g_.out[0],
              d = image % g_.out[0] * g_.stride[0] + tap * g_.dilation[0] - g_.before[0];
    if (d < 0 || d >= g_.in[0]) return {};
    return call_.x + (n * g_.in[0] + d) * g_.in[1] * g_.in[2] * g_.all_channels() +
           group_ * g_.channels;
  }
  void copy(T* to) const {
    const Int rows = (rows_ - 1) * g_.stride[1] + (g_.taps[1] - 1) * g_.dilation[1] + 1;
    for (Int i = 0; i < images_; ++i)
      for (Int t = 0; t < g_.taps[0]; ++t)
        copy_band(plane_of(first_image_ + i, t), g_.in[1], g_.in[2], g_.channels, g_.all_channels(),
                  first_ * g_.stride[1] - g_.before[1], rows, -g_.before[2], bands_.columns,
                  to + i * bands_.image + t * bands_.plane);
  }

  /// Where each of these positions of the output begins in the band, or in x, and in y: written
  /// from position `to` on. Returns the end.
  Int find_positions(const Stretch& lines, const Stretch& columns, Int to, const T* band) {
    const Int step = g_.stride[2] * g_.channels, y_step = call_.y_step[2] * g_.all_outputs();
    const Int skipped = bands_.divides_lines ? columns.tap * g_.channels : 0;
    for (Int i = 0; i < images_; ++i) {
      const Int at = first_image_ + i, n = at / g_.out[0], d = at % g_.out[0];
      const T* const image = bands_.copies
                                 ? band + i * bands_.image
                                 : plane_of(at, 0).in_place() + first_ * g_.stride[1] * bands_.row;
      const Int depth = n * call_.y_length[0] + call_.y_first[0] + d * call_.y_step[0];
      for (Int r = lines.first; r < lines.end; ++r) {
        const T* const x = image + (r - first_) * g_.stride[1] * bands_.row + skipped;
        const Int line = depth * call_.y_length[1] + call_.y_first[1] + r * call_.y_step[1];
        T* const y = call_.y + (line * call_.y_length[2] + call_.y_first[2]) * g_.all_outputs() +
                     group_ * g_.outputs;
        for (Int q = columns.first; q < columns.end; ++q, ++to) {
          from_[to] = x + q * step;
          to_[to] = y + q * y_step;
        }
      }
    }
    return to;
  }

  const Gather<T>& call_;
  const Geometry& g_;
  const Bands& bands_;
  const Int* offsets_;
  Int group_, first_image_, first_, rows_, images_, pixels_ = 0;
  const T** from_ = nullptr;  // of each position of the output
  T** to_ = nullptr;
  const T *panels_ = nullptr, *start_ = nullptr;  // of the group
};

/// Elements of memory for the offsets of gather().
template <class T>
Int offsets_size(const Geometry& g) {
  return rounded_up(g.tap_count() * size_in_bytes<Int> / size_in_bytes<T> + 1, 16);
}
template <class T>
void gather(const Gather<T>& call, Int* offsets) {
  const Geometry& g = call.g;
  if (g.batch * g.out_pixels() * g.outputs == 0) return;
  const Bands bands(g, Type<T>(), thread_count(), call.x.is_half());
  Int* next = offsets;
  const Int depth = bands.copies ? bands.plane : g.dilation[0] * g.in[1] * g.in[2] * g.channels;
  for (Int d = 0; d < g.taps[0]; ++d)
    for (Int h = 0; h < g.taps[1]; ++h)
      for (Int w = 0; w < (bands.joined ? 1 : g.taps[2]); ++w)
        *next++ = d * depth + h * g.dilation[1] * bands.row + w * g.dilation[2] * g.channels;
  parallel_for(bands.sets * bands.count * g.groups,
               [&](Int piece) { GatherBand<T>(call, bands, offsets, piece).run(); });
}

template <class T>
void convolution_value(const Geometry& g, const Source<T>& x, const Source<T>& weight,
                       const Source<T>& bias, T* y) {
  if (is_depthwise(g)) {
    const Int size = g.tap_count() * g.groups;
    T* const memory = elements<T>(lasting_scratch, weight.is_half() ? size + g.groups : 0);
    return gather_depthwise<T>({g,
                                {g.out[0], g.out[1], g.out[2]},
                                {0, 0, 0},
                                {1, 1, 1},
                                x,
                                weight.read(size, memory),
                                bias ? bias.read(g.groups, memory + size) : nullptr,
                                y});
  }
  const Int wide = rounded_up(g.outputs, panel<T>), rows = g.tap_count() * g.channels;
  const Int offsets = offsets_size<T>(g), size = offsets + g.groups * wide * (rows + 1);
  T* const memory = elements<T>(lasting_scratch, size);
  T* const packed = memory + offsets;
  T* const start = packed + g.groups * wide * rows;
  for (Int group = 0; group < g.groups; ++group) {
    pack_panels(rows, g.outputs, packed + group * wide * rows, 1,
                [&](Int r) { return weight + r * g.all_outputs() + group * g.outputs; });
    for (Int j = 0; bias && j < wide; ++j)
      start[group * wide + j] = j < g.outputs ? bias[group * g.outputs + j] : T(0);
  }
  gather<T>({g,
             {g.out[0], g.out[1], g.out[2]},
             {0, 0, 0},
             {1, 1, 1},
             x,
             packed,
             bias ? start : nullptr,
             y},
            reinterpret_cast<Int*>(memory));
}

/// The positions of x along one axis that have one remainder modulo the stride, and the taps that
/// meet them: tap first_tap + m tap_step meets element i - m dilation of y, where i counts these
/// positions, plus `base`.
struct Residue {
  Int first, count, taps, first_tap, tap_step, dilation, base;

  Residue(Int remainder, Int length, Int all_taps, Int stride, Int dilated, Int before) {
    first = remainder;
    count = (length - remainder + stride - 1) / stride;
    Int divisor = stride;  // the greatest common one
    for (Int rest = dilated; rest;) {
      const Int next = divisor % rest;
      divisor = rest;
      rest = next;
    }
    tap_step = stride / divisor;
    dilation = dilated / divisor;
    first_tap = 0;
    while (first_tap < tap_step && (remainder + before - first_tap * dilated) % stride != 0)
      ++first_tap;
    taps = first_tap < tap_step && first_tap < all_taps
               ? (all_taps - first_tap + tap_step - 1) / tap_step
               : 0;
    base = taps ? (remainder + before - first_tap * dilated) / stride : 0;
  }
};

/// Whether dx by data_by_columns() is faster: a window row has few elements.
inline bool has_short_rows(const Geometry& g) {
  return g.out_pixels() * g.outputs > 0 && g.groups == 1 && g.channels > 0 && g.channels < 8 &&
         g.channels * g.taps[2] < 48 && g.dilation[0] == 1 && g.dilation[1] == 1 &&
         g.dilation[2] == 1;
}
/// dx where a window row has few elements: the products dy weight of some positions, with a column
/// for each element of the window, are added at their places in an image with zeros around it.
template <class T>
void data_by_columns(const Geometry& g, const Source<T>& dy, const Source<T>& weight, T* dx) {
  const Int c = g.channels, k = g.outputs, run = g.taps[2] * c, m = g.tap_count() * c;
  const Int wide = rounded_up(m, panel<T>), lines = g.out[0] * g.out[1], width = g.out[2];
  T* const packed = elements<T>(lasting_scratch, wide * k);
  pack_panels(k, m, packed, k, [&](Int o) { return weight + o; });
  Int length[spatial];
  for (int a = 0; a < spatial; ++a)
    length[a] = most(g.in[a] + g.before[a], (g.out[a] - 1) * g.stride[a] + g.taps[a]);
  const Int row = length[2] * c, plane = length[1] * row, all = length[0] * plane;
  const Int some = within((96 << 10) / (width * wide * size_in_bytes<T>), 1, lines);
  parallel_for(g.batch, [&](Int n) {
    const Int rows = some * width;
    T* const image =
        elements<T>(scratch, rounded_up(all, 16) + rows * (wide + (dy.is_half() ? k : 0)));
    T* const columns = image + rounded_up(all, 16);
    std::memset(image, 0, static_cast<std::size_t>(all) * sizeof(T));
    for (Int first = 0; first < lines; first += some) {
      const Int count = least(some, lines - first) * width;
      const T* const from =
          (dy + (n * lines + first) * width * k).read(count * k, columns + rows * wide);
      for (Int column = 0; column < wide; column += panel<T>)
        for (Int done = 0, height; done < count; done += height) {
          height = tile_rows_of(count - done, tile_height);
          const T* x[tall_height];
          T* to[tall_height];
          for (Int i = 0; i < height; ++i) {
            x[i] = from + (done + i) * k;
            to[i] = columns + (done + i) * wide + column;
          }
          static constexpr Int none = 0;
          gather_rows<tile_height>(height, x, {&none, 1, k}, packed + column * k, to, 0, panel<T>,
                                   zeros<T>, false);
        }
      for (Int p = 0; p < count; ++p) {
        const Int line = first + p / width, depth = line / g.out[1], height = line % g.out[1];
        T* const to = image + depth * g.stride[0] * plane + height * g.stride[1] * row +
                      p % width * g.stride[2] * c;
        const T* sums = columns + p * wide;
        for (Int d = 0; d < g.taps[0]; ++d)
          for (Int h = 0; h < g.taps[1]; ++h, sums += run) {
            T* const at = to + d * plane + h * row;
            Int e = 0;
            for (; e + lanes<T> <= run; e += lanes<T>)
              store(at + e, Vector<T>(load(at + e) + load(sums + e)));
            for (; e < run; ++e) at[e] += sums[e];
          }
      }
    }
    for (Int d = 0; d < g.in[0]; ++d)
      for (Int h = 0; h < g.in[1]; ++h)
        std::memcpy(dx + ((n * g.in[0] + d) * g.in[1] + h) * g.in[2] * c,
                    image + (d + g.before[0]) * plane + (h + g.before[1]) * row + g.before[2] * c,
                    static_cast<std::size_t>(g.in[2] * c) * sizeof(T));
  });
}

/// dx of a convolution: for each remainder of the positions of x modulo the strides a convolution
/// of dy with stride 1 over the taps that meet these positions, in reverse order.
template <class T>
void convolution_data(const Geometry& g, const Source<T>& dy, const Source<T>& weight, T* dx) {
  if (has_short_rows(g)) return data_by_columns(g, dy, weight, dx);
  const Int wide = rounded_up(g.channels, panel<T>);
  const Int offsets = offsets_size<T>(g);
  T* const memory =
      elements<T>(lasting_scratch, offsets + g.groups * wide * g.tap_count() * g.outputs);
  T* const packed = memory + offsets;
  for (Int remainder = 0; remainder < g.stride[0] * g.stride[1] * g.stride[2]; ++remainder) {
    const Int r[spatial] = {remainder / g.stride[2] / g.stride[1],
                            remainder / g.stride[2] % g.stride[1], remainder % g.stride[2]};
    const auto along = [&](int a) {
      return Residue(r[a], g.in[a], g.taps[a], g.stride[a], g.dilation[a], g.before[a]);
    };
    const Residue axes[spatial] = {along(0), along(1), along(2)};
    Gather<T> call{g, {}, {}, {}, dy, packed, nullptr, dx};
    Geometry& h = call.g;
    h.channels = g.outputs;
    h.outputs = g.channels;
    for (int a = 0; a < spatial; ++a) {
      h.in[a] = g.out[a];
      h.out[a] = most(axes[a].count, 0);
      h.taps[a] = axes[a].taps;
      h.stride[a] = 1;
      h.dilation[a] = axes[a].dilation;
      h.before[a] = (axes[a].taps - 1) * axes[a].dilation - axes[a].base;
      call.y_length[a] = g.in[a];
      call.y_first[a] = r[a];
      call.y_step[a] = g.stride[a];
    }
    if (h.tap_count() == 0 || h.channels == 0) {  // one tap of zeros
      for (int a = 0; a < spatial; ++a) h.taps[a] = 1, h.before[a] = h.in[a] + h.out[a];
      h.channels = 0;
    }
    const Int rows = h.tap_count() * h.channels;
    const auto weights_of = [&](Int tap) {  // of the reversed taps
      Int at[spatial], number = 0;
      for (int a = spatial; a-- > 0; tap /= h.taps[a]) at[a] = h.taps[a] - 1 - tap % h.taps[a];
      for (int a = 0; a < spatial; ++a)
        number = number * g.taps[a] + axes[a].first_tap + at[a] * axes[a].tap_step;
      return weight + number * g.channels * g.all_outputs();
    };
    if (is_depthwise(g) && h.channels > 0) {
      for (Int tap = 0; tap < rows; ++tap) weights_of(tap).copy(packed + tap * g.groups, g.groups);
      gather_depthwise(call);
      continue;
    }
    for (Int group = 0; group < g.groups; ++group)
      pack_panels(rows, h.outputs, packed + group * wide * rows, g.all_outputs(), [&](Int row) {
        return weights_of(row / h.channels) + group * g.outputs + row % h.channels;
      });
    gather(call, reinterpret_cast<Int*>(memory));
  }
}
}  // namespace reel::kernels::REEL_ISA
