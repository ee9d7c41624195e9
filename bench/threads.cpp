// SPDX-License-Identifier: BSD-3-Clause
// One thread against two for the same work, batch by batch in turn: threads [PART OF A NAME]
// What two threads of the machine can give at most is measured beside it: virtual processors may
// share a core, and cores share the way to memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "rows.hpp"

namespace {
using namespace reel;
using rows::numbers;

template <class F>
void add(harness::Rows& rows, const std::string& name, F f) {
  rows.push_back({name, [f] {
                    return harness::Work{[f](std::size_t times) mutable {
                                           for (; times > 0; --times) harness::keep(f());
                                         },
                                         {}};
                  }});
}

void add_products(harness::Rows& rows) {
  for (const std::size_t n : {128, 160, 192, 256, 512, 1000}) {
    const Tensor x = numbers(1, {n, n}), y = numbers(2, {n, n}), t = transpose(x);
    const std::string size = std::to_string(n);
    add(rows, "product " + size, [=] { return matmul(x, y); });
    add(rows, "transposed product " + size, [=] { return matmul(t, y); });
  }
  const Tensor x = numbers(3, {32, 256}), y = numbers(4, {256, 1024}), g = numbers(5, {32, 1024});
  add(rows, "product 32x256x1024", [=] { return matmul(x, y); });
  add(rows, "product 256x32x1024", [=] { return matmul(transpose(x), g); });
  add(rows, "product 32x1024x256", [=] { return matmul(g, transpose(y)); });
  const Tensor row = numbers(6, {1, 2048}), wide = numbers(7, {2048, 2048});
  const Tensor rows_of_x = numbers(8, {5, 2048}), narrow = numbers(9, {2048, 1000});
  add(rows, "product 1x2048x2048", [=] { return matmul(row, wide); });
  add(rows, "product 1x2048x2048, transposed", [=] { return matmul(row, transpose(wide)); });
  add(rows, "product 5x2048x1000", [=] { return matmul(rows_of_x, narrow); });
  const Tensor many = numbers(10, {64, 64, 64});
  add(rows, "products 64 of 64", [=] { return matmul(many, many); });
}

void add_pointwise(harness::Rows& rows) {
  for (const std::size_t n : {1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 20, 1 << 24}) {
    const Tensor x = numbers(1, {n}), y = numbers(2, {n}), row = numbers(3, {256});
    const Tensor square = x.reshape({-1, 256});
    const std::string size = std::to_string(n >> 10) + "k";
    add(rows, "add " + size, [=] { return x + y; });
    add(rows, "add a row " + size, [=] { return square + row; });
    add(rows, "tanh " + size, [=] { return tanh(x); });
    if (n > 1 << 20) continue;
    add(rows, "transposed copy " + size, [=] { return transpose(square).reshape({-1}); });
    add(rows, "normal numbers " + size, [=] { return random::normal(x.shape()); });
  }
}

void add_sums(harness::Rows& rows) {
  for (const std::size_t n : {128, 256, 512, 1024, 4096}) {
    const Tensor x = numbers(1, {n, n});
    const std::string size = std::to_string(n);
    add(rows, "column sum " + size, [=] { return sum(x, 0); });
    add(rows, "row sum " + size, [=] { return sum(x, 1); });
    add(rows, "whole sum " + size, [=] { return sum(x); });
  }
}

void add_by_rows(harness::Rows& rows) {
  const Tensor gain = numbers(3, {512}), shift = numbers(4, {512});
  for (const std::size_t n : {64, 256, 2048}) {
    const Tensor x = numbers(1, {n, 96}), y = numbers(2, {n, 512});
    const std::string size = std::to_string(n);
    add(rows, "softmax " + size + "x96", [=] { return softmax(x); });
    add(rows, "layer norm " + size + "x512", [=] { return layer_norm(y, gain, shift); });
  }
  const Tensor table = numbers(1, {10000, 256}), places = random::integers(0, 10000, {4096});
  add(rows, "embedding 4096 of 256", [=] { return take(table, places); });
  const Tensor wide = numbers(5, {2048, 1024});
  const Tensor columns = random::integers(0, 1024, {2048, 1024});
  add(rows, "gather 2048x1024", [=] { return gather(wide, columns, 1); });
  add(rows, "concat 2 of 2048x1024", [=] { return concat({wide, wide}, 1); });
  using Sizes = std::pair<int, std::size_t>;
  for (const auto& [count, n] : {Sizes{1, 1 << 15}, {1, 1 << 17}, {1, 1 << 20}, {24, 30'000}}) {
    std::vector<Variable> variables;
    std::vector<Tensor> gradients;
    for (int i = 0; i < count; ++i) {
      variables.emplace_back("x", numbers(1, {n}));
      gradients.push_back(numbers(2, {n}));
    }
    optim::Adam adam{variables, {.learning_rate = harness::adam_rate}};
    add(rows, "Adam " + std::to_string(count) + " of " + std::to_string(n), [=]() mutable {
      adam.step(gradients);
      return 0;
    });
  }
}

/// Multiplications that fill the units of a core.
void keep_busy(int) {
  float x[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  for (int i = 0; i < 400'000; ++i)
    for (float& product : x) {
      product *= 1.0000001f;
      asm volatile("" : "+x"(product));  // one by one
    }
  harness::keep(x);
}
/// Reads memory beyond the caches, each thread its own.
void read_memory(int i) {
  static const std::string bytes[] = {std::string(1 << 26, 'x'), std::string(1 << 26, 'x')};
  harness::keep(bytes[i].find('y'));
}
/// How much more of f() two threads of the machine do than one, just now.
template <class F>
double capacity(const F& f) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  f(0);
  const auto middle = Clock::now();
  std::thread other(f, 1);
  f(0);
  other.join();
  return 2 * std::chrono::duration<double>(middle - start) /
         std::chrono::duration<double>(Clock::now() - middle);
}

double microseconds(const harness::Work& work, int threads, std::size_t times) {
  set_num_threads(threads);
  const auto start = std::chrono::steady_clock::now();
  work.run(times);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
             .count() /
         static_cast<double>(times);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void show(const harness::Row& row) {
  constexpr double batch = 8000;
  constexpr int rounds = 41;
  const harness::Work work = row.prepare();
  microseconds(work, 2, 1);
  const auto times = static_cast<std::size_t>(1 + batch / microseconds(work, 1, 2));
  std::vector<double> one, two, ratios, arithmetic, memory;
  for (int i = 0; i < rounds; ++i) {
    one.push_back(microseconds(work, 1, times));
    two.push_back(microseconds(work, 2, times));
    ratios.push_back(one.back() / two.back());
    arithmetic.push_back(capacity(keep_busy));
    memory.push_back(capacity(read_memory));
  }
  std::printf("%-27s %10.1f us %10.1f us %6.2f %11.2f %7.2f\n", row.name.c_str(), median(one),
              median(two), median(ratios), median(arithmetic), median(memory));
  std::fflush(stdout);
}
}  // namespace

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "";
  harness::Rows rows;
  add_products(rows);
  add_pointwise(rows);
  add_sums(rows);
  add_by_rows(rows);
  rows::add_char_rnn(rows);
  rows::add_mlp(rows);
  std::printf("%-27s %13s %13s %6s %11s %7s\n", "", "one thread", "two", "faster", "arithmetic",
              "memory");
  for (const harness::Row& row : rows)
    if (row.name.find(wanted) != row.name.npos) show(row);
}
