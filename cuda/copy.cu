// SPDX-License-Identifier: BSD-3-Clause
// Copies and dtype conversions.
#include "cuda/pack.hpp"
#include "cuda/places.hpp"
#include "lib/formulas/convert.hpp"

namespace reel::gpu {
namespace {
// --- copies: the kernels depend on the element size only ---
template <class T>
__global__ void copy_strided(Places<1> from, std::int64_t n, const T* __restrict__ x,
                             T* __restrict__ y) {
  constexpr int deep = 4;  // loads that run at the same time
  const std::int64_t by = grid_step();
  for (std::int64_t i = first_index(); i < n; i += deep * by) {
    T loaded[deep];
    REEL_UNROLL_ALL
    for (int k = 0; k < deep; ++k) {
      if (i + k * by >= n) continue;
      std::int64_t at[1];
      from.find(i + k * by, at);
      loaded[k] = x[at[0]];
    }
    REEL_UNROLL_ALL
    for (int k = 0; k < deep; ++k)
      if (i + k * by < n) y[i + k * by] = loaded[k];
  }
}

constexpr int side = 32, rows_at_once = 8;  // of a tile: its side, and its rows per step
/// Copies column-major matrices to row-major order: [count, rows, columns].
template <class T>
__global__ void transpose(std::int64_t count, std::int64_t rows, std::int64_t columns,
                          std::int64_t from_step, std::int64_t from_pitch, const T* __restrict__ x,
                          T* __restrict__ y) {
  REEL_SHARED(T, tile, side * (side + 1));
  const std::int64_t blocks_in_row = (columns + side - 1) / side,
                     blocks_in_column = (rows + side - 1) / side;
  const auto tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  for (std::int64_t block = blockIdx.x; block < count * blocks_in_row * blocks_in_column;
       block += gridDim.x) {
    const std::int64_t matrix = block / (blocks_in_row * blocks_in_column),
                       rest = block % (blocks_in_row * blocks_in_column);
    const std::int64_t first_row = rest / blocks_in_row * side,
                       first_column = rest % blocks_in_row * side;
    const T* const from = x + matrix * from_step;
    T* const to = y + matrix * rows * columns;
    REEL_UNROLL_ALL
    for (int k = 0; k < side / rows_at_once; ++k) {
      const int i = ty + k * rows_at_once;
      if (first_column + i < columns && first_row + tx < rows)
        tile[i * (side + 1) + tx] = from[(first_column + i) * from_pitch + first_row + tx];
    }
    __syncthreads();
    REEL_UNROLL_ALL
    for (int k = 0; k < side / rows_at_once; ++k) {
      const int i = ty + k * rows_at_once;
      if (first_row + i < rows && first_column + tx < columns)
        to[(first_row + i) * columns + first_column + tx] = tile[tx * (side + 1) + i];
    }
    __syncthreads();
  }
}

/// Whether the body is one column-major matrix or a batch of them, as transpose() needs it.
bool is_transposed(const Places<1>& x) {
  return x.rank >= 2 && x.rank <= 3 && x.step[0][x.rank - 2] == 1 && x.length[x.rank - 2] >= 8 &&
         x.length[x.rank - 1] >= 8;
}

template <class T>
void copy_transposed(const Queue& queue, std::int64_t count, std::int64_t rows,
                     std::int64_t columns, std::int64_t from_step, std::int64_t from_pitch,
                     const T* from, T* to) {
  const std::int64_t tiles = count * ((rows + side - 1) / side) * ((columns + side - 1) / side);
  queue.launch(transpose<T>, dim3(static_cast<unsigned>(std::min(tiles, queue.most_blocks()))),
               dim3(side, rows_at_once), 0, count, rows, columns, from_step, from_pitch, from, to);
}

template <class T>
void copy_elements(const Queue& queue, const Places<1>& places, const Body& from, Body& to) {
  const T* const x = from.as<T>();
  T* const y = to.as<T>();
  if (!is_transposed(places))
    return queue.launch_for(from.elements, copy_strided<T>, places, from.elements, x, y);
  const int last = places.rank - 1;
  const std::int64_t rows = places.length[last - 1], columns = places.length[last];
  const std::int64_t count = last == 2 ? places.length[0] : 1;
  copy_transposed(queue, count, rows, columns, last == 2 ? places.step[0][0] : 0,
                  places.step[0][last], x, y);
}

// --- conversions ---
template <class From, class To>
__global__ void convert(Places<1> from, std::int64_t n, const From* __restrict__ x,
                        To* __restrict__ y) {
  if (from.rank == 0 || (from.rank == 1 && from.step[0][0] == 1)) {
    REEL_UNROLL
    for (std::int64_t i = first_index(); i < n; i += grid_step())
      y[i] = formulas::converted<To>(x[i]);
    return;
  }
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    std::int64_t at[1];
    from.find(i, at);
    y[i] = formulas::converted<To>(x[at[0]]);
  }
}

/// A conversion from or to int8 or int16. One kernel is for all pairs of dtypes, because all
/// threads take the same branch.
__global__ void convert_stored(Places<1> from, std::int64_t n, DType of_x, const void* x,
                               DType of_y, void* y) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    std::int64_t at[1];
    from.find(i, at);
    with_element(of_x, [&]<class From>(Type<From>) {
      with_element(of_y, [&]<class To>(Type<To>) {
        if constexpr (only_stored<From> || only_stored<To>)
          static_cast<To*>(y)[i] =
              formulas::converted<To>(static_cast<const in_memory<From>*>(x)[at[0]]);
      });
    });
  }
}

KernelResult cast(const Call& call) {
  const Body& from = call.input(0);
  Body& to = call.output();
  if (from.elements == 0) return {};
  const Queue& queue = call.queue;
  const Places<1> places = places_of(from);
  if (from.dtype != to.dtype) {
    with_element(from.dtype, [&]<class From>(Type<From>) {
      with_element(to.dtype, [&]<class To>(Type<To>) {
        if constexpr (only_stored<From> || only_stored<To>)
          queue.launch_for(from.elements, convert_stored, places, from.elements, from.dtype,
                           static_cast<const void*>(from.data), to.dtype,
                           static_cast<void*>(to.data));
        else
          queue.launch_for(from.elements, convert<in_memory<From>, To>, places, from.elements,
                           from.as<in_memory<From>>(), to.as<To>());
      });
    });
    return {};
  }
  if (from.contiguous) {
    queue.check(cudaMemcpyAsync(to.data, from.data, static_cast<std::size_t>(from.bytes()),
                                cudaMemcpyDeviceToDevice, queue.stream));
    return {};
  }
  with_unit(size_of(from.dtype),
            [&]<class Unit>(Type<Unit>) { copy_elements<Unit>(queue, places, from, to); });
  return {};
}
}  // namespace

void copy_transposed(const Queue& queue, int size, std::int64_t rows, std::int64_t columns,
                     const void* from, void* to) {
  with_unit(size, [&]<class Unit>(Type<Unit>) {
    copy_transposed(queue, 1, rows, columns, 0, rows, static_cast<const Unit*>(from),
                    static_cast<Unit*>(to));
  });
}

extern const NamedKernel copy_kernels[] = {{"cast", cast}, {nullptr, nullptr}};
}  // namespace reel::gpu
