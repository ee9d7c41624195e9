// SPDX-License-Identifier: BSD-3-Clause
#include "../serve.hpp"
#include "../task.hpp"
#include "memory.hpp"
#include "rows.hpp"

namespace limits {
namespace {

using harness::keep;
using harness::Numbers;

Block* leaf(std::uint64_t seed, float around) {
  Block* block = allocate();
  const auto numbers = Numbers(seed).vector(block_floats, 0.1f);
  for (std::size_t i = 0; i < block_floats; ++i) block->payload[i] = around + numbers[i];
  return block;
}

/// Forward calls that leave records, and the walk back over them.
template <class Count>
class Tape {
 public:
  explicit Tape(std::size_t capacity) : records_(capacity), gradients_(capacity * block_floats) {}

  Block* call(Record::Op op, Block* x, std::int32_t x_from, Block* y, std::int32_t y_from) {
    Block* z = allocate();
    for (std::size_t i = 0; i < block_floats; ++i) {
      const float a = x->payload[i], b = y->payload[i];
      z->payload[i] = op == Record::Op::add ? a + b : a * b;
    }
    Count::take(x);
    Count::take(y);
    Count::take(z);
    records_[count_++] = {op, {x_from, y_from}, x, y, z};
    return z;
  }
  std::int32_t last() const { return static_cast<std::int32_t>(count_) - 1; }

  /// Leaf i is -1 - i in a record; `gradients` has a row of 16 for each leaf.
  void backward(float* gradients) {
    for (std::size_t i = 0; i < block_floats; ++i) gradient(last())[i] = 1;
    while (count_ > 0) {
      const Record& record = records_[count_ - 1];
      const float* dz = gradient(last());
      accumulate(record, 0, dz, record.y->payload, gradients);
      accumulate(record, 1, dz, record.x->payload, gradients);
      release_last();
    }
  }
  void release_last() {
    const Record& record = records_[--count_];
    Count::release(record.x);
    Count::release(record.y);
    Count::release(record.z);
  }

 private:
  float* gradient(std::int32_t record) {
    return gradients_ + static_cast<std::size_t>(record) * block_floats;
  }
  /// A record's gradient is written by its one use, a leaf's is added to.
  void accumulate(const Record& record, std::size_t input, const float* dz, const float* other,
                  float* leaves) {
    const std::int32_t from = record.from[input];
    const bool product = record.op == Record::Op::multiply;
    if (from >= 0) {
      float* dx = gradient(from);
      for (std::size_t i = 0; i < block_floats; ++i) dx[i] = product ? dz[i] * other[i] : dz[i];
    } else {
      float* dx = leaves + static_cast<std::size_t>(-1 - from) * block_floats;
      for (std::size_t i = 0; i < block_floats; ++i) dx[i] += product ? dz[i] * other[i] : dz[i];
    }
  }

  std::vector<Record> records_;
  Buffer gradients_;
  std::size_t count_ = 0;
};

template <class Count>
struct AddRecorded {
  Block *x = leaf(1, 0), *y = leaf(2, 0);
  Tape<Count> tape{1};
  void operator()() {
    Block* z = tape.call(Record::Op::add, x, -1, y, -2);
    keep(*z);
    Count::release(z);
    tape.release_last();
  }
  double value() {
    double sum = 0;
    for (std::size_t i = 0; i < 16; ++i) {
      const float z = x->payload[i] + y->payload[i];
      sum += static_cast<double>(z) * z;
    }
    return sum;
  }
};

/// y = y * w, y = y + b in turn, and the gradient of the sum of y to w and b.
template <class Count>
struct Chain {
  Block *x = leaf(1, 0), *w = leaf(2, 1), *b = leaf(3, 0);
  Tape<Count> tape{harness::chain_length};
  Buffer gradients{3 * block_floats};
  void operator()() {
    for (float& g : gradients) g = 0;
    Block* y = x;
    std::int32_t from = -1;
    for (std::size_t i = 0; i < harness::chain_length; ++i) {
      Block* z = i % 2 == 0 ? tape.call(Record::Op::multiply, y, from, w, -2)
                            : tape.call(Record::Op::add, y, from, b, -3);
      if (y != x) Count::release(y);
      y = z;
      from = tape.last();
    }
    tape.backward(gradients);
    keep(gradients[0]);
    Count::release(y);
  }
  double value() { return sum_of_squares(gradients + block_floats, 2 * block_floats); }
};

template <class Count>
struct Square {
  Block* w = leaf(1, 1);
  Tape<Count> tape{1};
  Buffer gradient{block_floats};
  void operator()() {
    for (float& g : gradient) g = 0;
    Block* y = tape.call(Record::Op::multiply, w, -1, w, -1);
    tape.backward(gradient);
    keep(gradient[0]);
    Count::release(y);
  }
  double value() { return sum_of_squares(gradient); }
};

}  // namespace

void add_tape(harness::Rows& rows) {
  using harness::row;
  const double length = harness::chain_length;
  rows.push_back(row<AddRecorded<PlainCount>>("add 16 recorded", 1));
  rows.push_back(row<AddRecorded<AtomicCount>>("add 16 recorded, atomic counts", 1));
  rows.push_back(row<Chain<PlainCount>>("chain of 100, per op", length));
  rows.push_back(row<Chain<AtomicCount>>("chain of 100, per op, atomic counts", length));
  rows.push_back(row<Square<PlainCount>>("y = w*w and gradient", 1));
  rows.push_back(row<Square<AtomicCount>>("y = w*w and gradient, atomic counts", 1));
}

}  // namespace limits
