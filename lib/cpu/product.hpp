// SPDX-License-Identifier: BSD-3-Clause
// Products for kernels that are more than one product.
#pragma once
#include "lib/cpu/panels.hpp"

namespace reel::kernels::REEL_ISA {
/// c [x.rows, y.columns], row-major, = z + x y; z may be c, and its data null for zeros. Uses
/// scratch(). For float and double (matmul.cpp).
template <class T>
void product(const Matrix<T>& x, const Matrix<T>& y, const Matrix<T>& z, T* c);
extern template void product(const Matrix<float>&, const Matrix<float>&, const Matrix<float>&,
                             float*);
extern template void product(const Matrix<double>&, const Matrix<double>&, const Matrix<double>&,
                             double*);

/// Products of few rows with one y, many times: y is copied once, to the order in which it is read.
template <class T>
class RepeatedProduct {
 public:
  RepeatedProduct(const Matrix<T>& y, std::int64_t rows, std::int64_t times)
      : y_(y),
        rows_(rows),
        depth_(part_length(y.rows, most_depth<T> / 2, 4)),
        packs_(rows >= least_rows && times >= least_times) {}

  /// Elements of the memory that pack() fills; it has to last.
  std::int64_t room() const {
    return packs_ ? rounded_up(rounded_up(y_.columns, width) * y_.rows, 64) : 0;
  }
  void pack(T* memory) {
    packed_ = memory;
    if (packs_)
      each_panel([&](std::int64_t first, std::int64_t column, std::int64_t k, std::int64_t m) {
        copy_matrix({y_.data + first * y_.row + column * y_.column, k, m, y_.row, y_.column},
                    memory, width);
        memory += width * k;
      });
  }
  /// c = start + x y, all row-major; start may be c, and its rows are `start_row` apart.
  void operator()(const T* x, const T* start, std::int64_t start_row, T* c) const {
    if (!packs_)
      return product<T>({x, rows_, y_.rows, y_.rows, 1}, y_,
                        {start, rows_, y_.columns, start_row, 1}, c);
    const T* y = packed_;
    each_panel([&](std::int64_t first, std::int64_t column, std::int64_t k, std::int64_t m) {
      Product<T> panel{rows_,
                       m,
                       k,
                       x + first,
                       y_.rows,
                       1,
                       y,
                       width,
                       c + column,
                       y_.columns,
                       (first ? c : start) + column,
                       first ? y_.columns : start_row};
      y += width * k;
      panel.soon = y;  // the next panel; behind the last there is nothing that could fail
      panel.soon_row = width;
      panel.soon_lines = tile_vectors(most_tile_rows);
      multiply<Way::fetching>(panel, most_tile_rows);
    });
  }

 private:
  // Measured: fewer rows read y as it lies.
  static constexpr std::int64_t least_rows = 14, least_times = 3;
  static constexpr std::int64_t width = panel_width<most_tile_rows, T>;

  /// f(first row, first column, rows, columns) in the order of memory.
  template <class F>
  void each_panel(const F& f) const {
    for (std::int64_t first = 0; first < y_.rows; first += depth_)
      for (std::int64_t column = 0; column < y_.columns; column += width)
        f(first, column, least(depth_, y_.rows - first), least(width, y_.columns - column));
  }

  const Matrix<T> y_;
  const std::int64_t rows_, depth_;
  const bool packs_;
  const T* packed_ = nullptr;
};
}  // namespace reel::kernels::REEL_ISA
