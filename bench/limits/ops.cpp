// SPDX-License-Identifier: BSD-3-Clause
#include <utility>

#include "../serve.hpp"
#include "../task.hpp"
#include "curves.hpp"
#include "memory.hpp"
#include "rows.hpp"

namespace limits {
namespace {

using harness::keep;
using harness::Numbers;

void add(const float* __restrict x, const float* __restrict y, float* __restrict z,
         std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) z[i] = x[i] + y[i];
}

/// A new small value a call: taken from the free list, computed, counted down, given back.
struct AddSmall {
  Buffer x{Numbers(1).vector(16)}, y{Numbers(2).vector(16)};
  double last = 0;
  void operator()() {
    Block* z = allocate();
    add(x, y, z->payload, 16);
    keep(*z);
    AtomicCount::release(z);
  }
  double value() {
    Buffer z(16);
    add(x, y, z, 16);
    return sum_of_squares(z);
  }
};

struct ScalarOperand {
  Buffer x{Numbers(1).vector(16)};
  float factor = 1.5f;
  void operator()() {
    keep(factor);
    Block* z = allocate();
    for (std::size_t i = 0; i < 16; ++i) z->payload[i] = x[i] * factor;
    keep(*z);
    AtomicCount::release(z);
  }
  double value() { return factor * factor * sum_of_squares(x); }
};

struct AddLarge {
  explicit AddLarge(std::size_t count)
      : x(Numbers(1).vector(count)), y(Numbers(2).vector(count)), z(count) {}
  Buffer x, y, z;
  void operator()() {
    add(x, y, z, z.size());
    keep(*z.begin());
  }
  double value() { return sum_of_squares(z); }
};

struct Tanh {
  explicit Tanh(std::size_t count) : x(Numbers(1).vector(count, 2)), y(count) {}
  Buffer x, y;
  void operator()() {
    for (std::size_t i = 0; i < x.size(); i += Batch::size) {
      tanh(Batch::load_aligned(x + i)).store_aligned(y + i);
    }
    keep(*y.begin());
  }
  double value() { return sum_of_squares(y); }
};

/// Sixteen rows of sixteen floats.
using Lanes = float __attribute__((vector_size(64)));
using Block16 = std::array<Lanes, 16>;

/// Swaps the off-diagonal `step` by `step` blocks of each pair of rows that are `step` apart.
template <int step, int... lane>
void swap_blocks(Block16& rows, std::integer_sequence<int, lane...>) {
  for (std::size_t i = 0; i < 16; ++i) {
    if (i & step) continue;
    const Lanes a = rows[i], b = rows[i + step];
    rows[i] = __builtin_shufflevector(a, b, (lane & step ? 16 + lane - step : lane)...);
    rows[i + step] = __builtin_shufflevector(a, b, (lane & step ? 16 + lane : lane + step)...);
  }
}

/// 16 by 16 blocks are transposed in registers.
template <std::size_t side>
struct AddTransposed {
  static constexpr std::size_t block = 16;
  Buffer x{Numbers(1).vector(side * side)}, y{Numbers(2).vector(side * side)}, z{side * side};
  void operator()() {
    for (std::size_t i = 0; i < side; i += block) {
      for (std::size_t j = 0; j < side; j += block) add_block(i, j);
    }
    keep(*z.begin());
  }
  void add_block(std::size_t row, std::size_t column) {
    const auto lanes = std::make_integer_sequence<int, 16>();
    const auto at = [](auto* matrix, std::size_t i, std::size_t j) {
      using To = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(matrix)>>,
                                    const Lanes, Lanes>;
      return reinterpret_cast<To*>(matrix + i * side + j);
    };
    const float *left = x, *right = y;
    float* sum = z;
    Block16 transposed;
    for (std::size_t i = 0; i < block; ++i) transposed[i] = *at(right, column + i, row);
    swap_blocks<1>(transposed, lanes);
    swap_blocks<2>(transposed, lanes);
    swap_blocks<4>(transposed, lanes);
    swap_blocks<8>(transposed, lanes);
    for (std::size_t i = 0; i < block; ++i) {
      *at(sum, row + i, column) = *at(left, row + i, column) + transposed[i];
    }
  }
  double value() { return sum_of_squares(z); }
};

/// `parts` views of a 4 by 4 block: a header each, and a count on the storage.
struct View {
  int parts, first, height, row_step, column_step;
  Block* x = leaf();

  static Block* leaf() {
    Block* block = allocate();
    const auto numbers = Numbers(1).vector(block_floats);
    std::copy(numbers.begin(), numbers.end(), block->payload);
    return block;
  }
  Block* view(int part) const {
    Block* made = allocate();
    AtomicCount::take(x);
    made->storage = x;
    made->data = x->payload + first + part * height * row_step;
    made->shape[0] = height;
    made->shape[1] = 4;
    made->strides[0] = row_step;
    made->strides[1] = column_step;
    return made;
  }
  void operator()() {
    std::array<Block*, 4> views{};
    for (int i = 0; i < parts; ++i) keep(*(views[static_cast<std::size_t>(i)] = view(i)));
    for (int i = 0; i < parts; ++i) {
      AtomicCount::release(x);
      AtomicCount::release(views[static_cast<std::size_t>(i)]);
    }
  }
  double value() {
    double sum = 0;
    for (int part = 0; part < parts; ++part) {
      const Block* v = view(part);
      for (int i = 0; i < v->shape[0]; ++i) {
        for (int j = 0; j < v->shape[1]; ++j) {
          const double element = v->data[i * v->strides[0] + j * v->strides[1]];
          sum += element * element;
        }
      }
    }
    return sum;
  }
};

}  // namespace

void add_ops(harness::Rows& rows) {
  using harness::row;
  rows.push_back(row<AddSmall>("add 16", 1));
  rows.push_back(row<AddLarge>("add 1k", 1, std::size_t{1} << 10));
  rows.push_back(row<AddLarge>("add 64k", 1, std::size_t{1} << 16));
  rows.push_back(row<AddLarge>("add 16M", 1, std::size_t{1} << 24));
  rows.push_back(row<Tanh>("tanh 16", 1, std::size_t{16}));
  rows.push_back(row<Tanh>("tanh 64k", 1, std::size_t{1} << 16));
  rows.push_back(row<ScalarOperand>("scalar operand 16", 1));
  rows.push_back(row<AddTransposed<64>>("64x64 + transposed 64x64", 1));
  rows.push_back(row<AddTransposed<256>>("256x256 + transposed 256x256", 1));
  rows.push_back(row<View>("transpose view", 1, 1, 0, 4, 1, 4));
  rows.push_back(row<View>("slice view", 1, 1, 4, 2, 4, 1));
  rows.push_back(row<View>("split in 4", 1, 4, 0, 1, 4, 1));
}

}  // namespace limits
