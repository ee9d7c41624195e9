// SPDX-License-Identifier: BSD-3-Clause
// matmul, matmul_add and dense: the choice of a method for each product.
#include "lib/cpu/matmul.hpp"

#include "lib/cpu/kernels.hpp"
#include "lib/cpu/matmul_dots.hpp"
#include "lib/cpu/matmul_rows.hpp"
#include "lib/cpu/product.hpp"
#include "lib/cpu/transpose.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/pool/thread_count.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/matmul.hpp"

namespace reel::kernels::REEL_ISA {
PassFunction activation_pass(Activation activation, DType dtype);  // pointwise_activation.cpp

namespace {
/// Computes c = z + x y, or a part of it, then applies the activation, if any. Rows of c are c_row
/// elements apart. z may be c. z.data is null if nothing is added.
template <class T>
struct Task {
  Matrix<T> x, y, z;
  T* c;
  std::int64_t c_row;
  PassFunction activation;
  std::int64_t depth = 0;  // the length of blocks along k
  /// False: sums start from z. True: z is c, and is added when the sums are complete.
  bool adds = false;

  /// The number of multiply-adds. Fewer than 8 rows or columns count as 8, because such products
  /// wait for the memory of the other matrix.
  double work() const {
    constexpr std::int64_t few = 8;
    const auto at_least_few = [](std::int64_t n) { return static_cast<double>(n < few ? few : n); };
    return at_least_few(x.rows) * static_cast<double>(x.columns) * at_least_few(y.columns);
  }
  void activate_all() const {
    if (activation) activate_rows(activation, c, c_row, x.rows, y.columns);
  }
  /// The part of the task with at most `count` rows or columns, from `first` on.
  Task rows(std::int64_t first, std::int64_t count) const {
    Task part = *this;
    part.x.data += first * x.row;
    if (z.data) part.z.data += first * z.row;
    part.c += first * c_row;
    part.x.rows = part.z.rows = least(count, x.rows - first);
    return part;
  }
  Task columns(std::int64_t first, std::int64_t count) const {
    Task part = *this;
    part.y.data += first * y.column;
    if (z.data) part.z.data += first * z.column;
    part.c += first;
    part.y.columns = part.z.columns = least(count, y.columns - first);
    return part;
  }
};

// These limits were measured on AVX-512.
constexpr std::int64_t few_rows = 14;  // with fewer rows, copying y costs more than it saves
constexpr std::int64_t most_dot_rows = most_tile_rows > 6 ? 12 : 3, most_short_dot_rows = 3;
constexpr std::int64_t first_cache = 24 << 10, short_cache = 160 << 10, second_cache = 640 << 10;
constexpr std::int64_t most_sums = 256 << 10;  // bytes
constexpr std::int64_t short_sum = 32, band_rows = 16, least_banded_columns = 64;
constexpr std::int64_t least_row_columns = 384;
constexpr std::int64_t most_transposed = 1 << 18;  // elements of c

template <class T>
T* memory(std::int64_t elements) {
  return static_cast<T*>(scratch(static_cast<std::size_t>(elements) * sizeof(T)));
}

/// y is column-major, and x has few rows.
template <class T>
void dots(Matrix<T> x, const Matrix<T>& y, const Dots<T>& to) {
  if (x.column != 1) {
    T* const copy = memory<T>(x.rows * x.columns);
    copy_matrix(x, copy, x.columns);
    x = {copy, x.rows, x.columns, x.columns, 1};
  }
  multiply_dots(x, y, to);
}
template <class T>
void by_dots(const Task<T>& t) {
  dots(t.x, t.y, {t.c, t.c_row, 1, t.z.data != nullptr});
  t.activate_all();
}
/// For the opposite case: x is row-major, and y has few columns.
template <class T>
void by_transposed_dots(const Task<T>& t) {
  dots(t.y.transposed(), t.x.transposed(), {t.c, 1, t.c_row, t.z.data != nullptr});
  t.activate_all();
}

/// Copies z, whose steps may be 0, to c.
template <class T>
void copy_rows(const Matrix<T>& z, T* c) {
  for (std::int64_t i = 0; i < z.rows; ++i, c += z.columns) {
    const T* from = z.data + i * z.row;
    REEL_INDEPENDENT
    for (std::int64_t j = 0; j < z.columns; ++j) c[j] = from[j * z.column];
  }
}

/// Rough costs in cycles: of copying a matrix, which depends on its layout, and of a product that
/// reads vectors of y.
template <class T>
double moving_cost(const Matrix<T>& x) {
  const double each = x.column == 1 ? 0.1 : x.row == 1 ? 0.25 : 1;
  return each * static_cast<double>(x.rows * x.columns);
}
template <class T>
double cost(const Matrix<T>& x, const Matrix<T>& y) {
  const std::int64_t vectors = (y.columns + lanes<T> - 1) / lanes<T>;
  return moving_cost(x) + moving_cost(y) + 0.5 * static_cast<double>(x.rows * x.columns * vectors);
}

/// Whether computing the transpose of c from the transposes of y and x costs less than computing c.
template <class T>
bool pays_transposed(const Matrix<T>& x, const Matrix<T>& y, bool adds) {
  if (y.column == 1 && (x.row != 1 || x.column == 1)) return false;
  const std::int64_t size = x.rows * y.columns;
  if (x.columns == 0 || size > most_transposed) return false;
  const double turning = (adds ? 0.5 : 0.25) * static_cast<double>(size);
  return cost(y.transposed(), x.transposed()) + turning < cost(x, y);
}

/// Whether dot products are faster for a y with few columns. A tile wastes most of its vector on
/// few columns. Dot products handle four columns at a time, but must add up the lanes of each sum.
/// Measured on AVX-512.
template <class T>
bool pays_transposed_dots(const Matrix<T>& x, const Matrix<T>& y) {
  constexpr std::int64_t many_rows = 24, vectors = 16 / lanes<T>, adding_up = 128;
  if (y.columns >= lanes<T> || x.rows < many_rows || x.column != 1 || x.row == 1) return false;
  const std::int64_t fours = (y.columns + 3) / 4;
  return 2 * fours * (vectors * x.columns + adding_up) < 7 * x.columns;
}

/// Whether each row begins at a cache line.
template <class T>
bool is_lined_up(const Matrix<T>& x) {
  const auto row = static_cast<std::uintptr_t>(x.row) * sizeof(T);
  return (reinterpret_cast<std::uintptr_t>(x.data) | row) % 64 == 0;
}
template <class T>
std::int64_t bytes_of(const Matrix<T>& x) {
  return x.rows * x.columns * size_in_bytes<T>;
}
/// Whether y is read in its own layout, without a copy. This is best if y stays in the L1 cache, if
/// x has few rows, or if sums are so short that reading and writing c dominates.
template <class T>
bool reads_y_as_it_lies(const Matrix<T>& x, const Matrix<T>& y) {
  if (x.columns == 0) return true;
  if (y.column != 1) return false;
  const std::int64_t bytes = bytes_of(y);
  if (bytes <= first_cache || x.rows < few_rows) return true;
  return x.columns <= short_sum && bytes <= short_cache && is_lined_up(y);
}

template <class T>
Product<T> product_of(const Task<T>& t) {
  Product<T> p{t.x.rows, t.y.columns, t.x.columns, t.x.data, t.x.row,  t.x.column,
               t.y.data, t.y.row,     t.c,         t.c_row,  t.z.data, t.z.row};
  p.activation = t.activation;
  if (t.adds) p.start = nullptr;
  p.adds = t.adds;
  return p;
}

template <class T>
bool goes_by_row(const Task<T>& t) {
  return reads_by_lines && t.x.rows == 1 && t.y.columns >= least_row_columns && t.x.columns > 0 &&
         !is_lined_up(t.y);
}
/// If x has few rows and y does not fit in the L2 cache, y is read in bands of rows, in memory
/// order.
template <class T>
bool goes_in_bands(const Task<T>& t) {
  return t.x.rows < few_rows && t.x.columns > band_rows && t.y.columns > least_banded_columns &&
         bytes_of(t.y) > second_cache;
}
/// The number of elements of a buffer of this thread for sums that are read and written many times;
/// 0 if the sums stay in c. Parts of c that different threads write may share cache lines, and the
/// caches would exchange these lines all the time. A large c has few shared lines.
template <class T>
std::int64_t sums_size(const Task<T>& t) {
  const std::int64_t size = t.x.rows * t.y.columns;
  const bool apart = t.adds || t.x.columns > t.depth;
  return (apart || size * size_in_bytes<T> <= most_sums) && (goes_by_row(t) || goes_in_bands(t))
             ? size
             : 0;
}

/// Computes one block of k. `sums` has sums_size() elements, or is c if that is 0. At return p has
/// no rows left.
template <class T>
void plain_block(const Task<T>& t, Product<T>& p, T* sums) {
  if constexpr (reads_by_lines)
    if (goes_by_row(t)) {
      multiply_row(p, sums);
      return p.activate_rows(p.n);
    }
  const bool wide = p.n > 2 * most_tile_rows && p.m > panel_width<most_tile_rows, T>;
  const std::int64_t height = wide ? wide_tile_rows : most_tile_rows;
  for (const bool banded = goes_in_bands(t); banded && p.k > band_rows;) {
    Product<T> band = p;
    band.k = band_rows;
    band.c = sums;
    band.c_row = sums == t.c ? t.c_row : p.m;
    band.activation = nullptr;
    band.adds = false;
    multiply<Strategy::plain>(band, height);
    p.k -= band_rows;
    p.x += band_rows * p.x_column;
    p.y += band_rows * p.y_row;
    p.start = sums;
    p.start_row = band.c_row;
  }
  multiply<Strategy::plain>(p, height);
}
/// Reads y in its own layout, without a copy.
template <class T>
void by_plain_tiles(const Task<T>& t, T* sums) {
  Product<T> p = product_of(t);
  for_blocks(p, t.depth, [&](Product<T>& block) { plain_block(t, block, sums); });
}

template <class T>
void by_tiles(const Task<T>& t) {
  if (reads_y_as_it_lies(t.x, t.y)) {
    const std::int64_t size_needed = sums_size(t);
    return by_plain_tiles(t, size_needed ? memory<T>(size_needed) : t.c);
  }
  const Product<T> p = product_of(t);
  const Blocks<T> blocks(p, t.y.column, t.depth);
  blocks.multiply(memory<T>(blocks.scratch_size()));
}

/// Computes the transpose of c from the transposes of y and x, then transposes the result.
template <class T>
void by_transposed_tiles(const Task<T>& t) {
  const std::int64_t rows = t.y.columns, columns = t.x.rows;
  const std::int64_t size = rounded_up(rows * columns, Blocks<T>::line);
  Task<T> transposed{t.y.transposed(), t.x.transposed(), t.z.transposed(), nullptr,
                     columns,          t.activation,     t.depth,          t.adds};
  const auto begin = [&](std::int64_t size_needed) {
    transposed.c = memory<T>(size + size_needed);
    if (!t.z.data) return;
    copy_matrix(transposed.z, transposed.c, columns);
    transposed.z = {transposed.c, rows, columns, columns, 1};
  };
  if (reads_y_as_it_lies(transposed.x, transposed.y)) {
    const std::int64_t size_needed = sums_size(transposed);
    begin(size_needed);
    by_plain_tiles(transposed, transposed.c + (size_needed ? size : 0));
  } else {
    Product<T> p = product_of(transposed);
    const Blocks<T> blocks(p, transposed.y.column, t.depth);
    begin(blocks.scratch_size());
    p.c = transposed.c;
    p.start = t.adds ? nullptr : transposed.z.data;
    p.start_row = columns;
    blocks.multiply(transposed.c + size);
  }
  transpose_elements(transposed.c, columns, t.c, t.c_row, columns, rows);
}

constexpr double piece_work = 4 << 20;  // multiply-adds that pay for another thread
constexpr std::int64_t least_piece_rows = 48;
template <class T>
constexpr std::int64_t least_piece_columns = 4 * lanes<T>;

/// The numbers of equal parts of c's rows and columns.
struct Grid {
  std::int64_t rows = 1, columns = 1;
};
/// Halves the pieces as long as there are at most `most` of them. Each step halves the axis that
/// costs less: pieces of columns read x again, pieces of rows copy y again.
template <class T>
Grid grid_of(const Task<T>& t, bool transposed, double most) {
  const double x_again = transposed ? (t.x.row == 1 ? 0.5 : 1) : t.x.column == 1 ? 0.2 : 0.6;
  const double y_again = transposed ? (t.y.row == 1 ? 0.2 : 0.6) : t.y.column == 1 ? 0.5 : 1;
  Grid grid;
  while (static_cast<double>(2 * grid.rows * grid.columns) <= most) {
    const bool rows = t.x.rows >= 2 * least_piece_rows * grid.rows;
    const bool columns = t.y.columns >= 2 * least_piece_columns<T> * grid.columns;
    if (!rows && !columns) break;
    const bool cheaper = x_again * static_cast<double>(t.x.rows * grid.columns) <=
                         y_again * static_cast<double>(t.y.columns * grid.rows);
    (columns && (cheaper || !rows) ? grid.columns : grid.rows) *= 2;
  }
  return grid;
}

template <class T>
void in_pieces(const Task<T>& t, const Grid& grid, void (*method)(const Task<T>&)) {
  const std::int64_t rows =
      part_length(t.x.rows, (t.x.rows + grid.rows - 1) / grid.rows, wide_tile_rows);
  const std::int64_t columns =
      part_length(t.y.columns, (t.y.columns + grid.columns - 1) / grid.columns, lanes<T>);
  parallel_for(grid.rows * grid.columns, [&](std::int64_t i) {
    const std::int64_t row = i / grid.columns * rows, column = i % grid.columns * columns;
    if (row < t.x.rows && column < t.y.columns) method(t.rows(row, rows).columns(column, columns));
  });
}
/// Runs the product at once, or in one piece for each thread; in four if the number of threads is
/// no power of two. The bits are the same for any pieces.
template <class T>
void run(const Task<T>& t, void (*method)(const Task<T>&)) {
  const double work = t.work();
  if (work < 2 * piece_work) [[likely]]
    return method(t);
  const int threads = thread_count();
  if (threads == 1) return method(t);
  const double wanted = threads & (threads - 1) ? 4 * threads : threads;
  const double most = __builtin_fmin(work / piece_work, wanted);
  in_pieces(t, grid_of(t, method == by_transposed_tiles<T>, most), method);
}

/// Whether x, y and z are row-major, and y is narrow and fits in the L1 cache. Then one method is
/// always the best.
template <class T>
bool is_small(const Matrix<T>& x, const Matrix<T>& y, const Matrix<T>& z) {
  return x.column == 1 && y.column == 1 && z.column == 1 && y.columns > 1 &&
         y.columns <= panel_width<most_tile_rows, T> && bytes_of(y) <= first_cache &&
         y.rows <= most_depth<T> && !pays_transposed_dots(x, y);
}

template <class T>
bool apart(const Matrix<T>& x) {
  return x.columns >= least_apart;
}

/// Chooses the method and sets `depth` and `adds` of the task.
template <class T>
void large_product(Task<T>& task) {
  const Matrix<T>&x = task.x, &y = task.y, &z = task.z;
  T* const c = task.c;
  const PassFunction activation = task.activation;
  if (x.rows == 0 || y.columns == 0) return;
  // a column times a matrix: compute the transpose, which has one row
  if (y.columns == 1 && x.rows > 1)
    return product(y.transposed(), x.transposed(), z.transposed(), c, activation);
  const std::int64_t dot_rows =
      x.column == 1 && x.columns >= 8 * lanes<T> ? most_dot_rows : most_short_dot_rows;
  const bool dots = y.row == 1 && y.column != 1 && y.columns > 1 && x.rows <= dot_rows;
  const bool transposed_dots = !dots && pays_transposed_dots(x, y);
  if (z.data && z.data != c && (dots || transposed_dots || z.column != 1)) {
    copy_rows(z, c);
    return product(x, y, {c, x.rows, y.columns, y.columns, 1}, c, activation);
  }
  task.depth = depth_of(x, y);
  task.adds = z.data == c && apart(x);
  if (dots) return run(task, by_dots<T>);
  if (transposed_dots) return run(task, by_transposed_dots<T>);
  if (pays_transposed(x, y, z.data)) {
    task.depth = depth_of(y.transposed(), x.transposed());
    return run(task, by_transposed_tiles<T>);
  }
  run(task, by_tiles<T>);
}

/// Computes a product, small or large.
template <class T>
[[gnu::always_inline]] inline void any_product(Task<T>& task) {
  const Matrix<T>&x = task.x, &y = task.y, &z = task.z;
  if (!is_small(x, y, z)) return large_product(task);
  Product<T> p{x.rows, y.columns, x.columns, x.data,    x.row,  1,
               y.data, y.row,     task.c,    y.columns, z.data, z.row};
  if (z.data == task.c && apart(x)) {
    p.start = nullptr;
    p.adds = true;
  }
  multiply<Strategy::plain>(p, most_tile_rows);
  task.activate_all();
}
}  // namespace

void multiply_copied(Product<float>& p, std::int64_t height) {
  multiply<Strategy::fetching>(p, height);
}
template <class T>
void product(const Matrix<T>& x, const Matrix<T>& y, const Matrix<T>& z, T* c,
             PassFunction activation) {
  Task<T> task{x, y, z, c, y.columns, activation};
  any_product(task);
}
template void product(const Matrix<float>&, const Matrix<float>&, const Matrix<float>&, float*,
                      PassFunction);
template void product(const Matrix<double>&, const Matrix<double>&, const Matrix<double>&, double*,
                      PassFunction);
template <class T>
void product_of_tiles(Product<T> p) {
  multiply<Strategy::plain>(p, wide_tile_rows);
}
template void product_of_tiles(Product<float>);
template void product_of_tiles(Product<double>);
template <class T>
void product_of_dots(const Matrix<T>& x, const Matrix<T>& y, T* c, std::int64_t c_row) {
  multiply_dots(x, y, Dots<T>{c, c_row, 1, false});
}
template void product_of_dots(const Matrix<float>&, const Matrix<float>&, float*, std::int64_t);
template void product_of_dots(const Matrix<double>&, const Matrix<double>&, double*, std::int64_t);

namespace {
/// z is added to the products; it is null if nothing is added. It has the rank of the result, or it
/// broadcasts over the rows of one matrix. The activation may be set only for a single matrix.
template <class T>
void products(const KernelCall& call, const Body* z, PassFunction activation) {
  const Body &x = call.input(0), &y = call.input(1);
  T* c = call.output().as<T>();
  if (call.output().rank() == 2) {
    // The Matrix objects are built in place: a copy of one that was just written would wait for the
    // stores.
    const std::int64_t* const lengths = call.output().shape.data();
    Task<T> task{last_axes<T>(x), last_axes<T>(y), added<T>(z, lengths[0], lengths[1]), c,
                 lengths[1],      activation};
    return any_product(task);
  }
  const Matrix<T> a = last_axes<T>(x), b = last_axes<T>(y);
  const double work = Task<T>{a, b, {}, c, b.columns, nullptr}.work();
  const double grain = work < 2 * piece_work ? 1 + piece_work / (work + 1) : 1e18;
  for_each_product<T>(call, z, static_cast<std::int64_t>(grain),
                      [](auto&... matrices) { product(matrices...); });
}
/// False for the set that is compiled for size: it makes float32 copies of whole operands.
#if defined(__AVX2__) || defined(__aarch64__)
constexpr bool widens_blocks = true;
#else
constexpr bool widens_blocks = false;
#endif
KernelResult by_dtype(const KernelCall& call, const Body* z, PassFunction activation = nullptr) {
  if constexpr (widens_blocks)
    if (is_half(call.output().dtype)) [[unlikely]]
      return half_products(call, z, activation);
  return with_floating(call.output().dtype,
                       [&]<class T>(Type<T>) { products<T>(call, z, activation); });
}

KernelResult matmul(const KernelCall& call) {
  return by_dtype(call, call.accumulate & 1 ? &call.output() : nullptr);
}
KernelResult matmul_add(const KernelCall& call) { return by_dtype(call, &call.input(2)); }
KernelResult dense(const KernelCall& call) {
  const Activation activation = call.option<ActivationOptions>().activation;
  return by_dtype(call, &call.input(2), activation_pass(activation, computed(call.output().dtype)));
}

constexpr TakesHalves takes = widens_blocks ? takes_halves : nullptr;
const NamedKernel kernels[] = {{"matmul", matmul, takes},
                               {"matmul_add", matmul_add, takes},
                               {"dense", dense, takes},
                               {nullptr, nullptr}};
}  // namespace
extern const Family matmul_family;
const Family matmul_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
