// SPDX-License-Identifier: BSD-3-Clause
// Products of bfloat16 and float16 beside those of float32: halves [ROUNDS]. One thread, its CPU
// time, all dtypes in turn. Prints microseconds and the medians of the ratios to float32.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <reel/reel.hpp>

using namespace reel;

namespace {
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Row {
  std::string name;
  Shape x, y;
  bool x_transposed = false, y_transposed = false;  // the last two axes, in memory
};
Tensor drawn(const Shape& shape, bool transposed, DType dtype) {
  const Tensor x = random::normal(shape).to(dtype);
  return transposed ? matrix_transpose(x) : x;
}

void measure(const Row& row, int rounds) {
  constexpr DType dtypes[] = {DType::float32, DType::bfloat16, DType::float16};
  std::vector<double> times[3], ratios[3];
  Tensor x[3], y[3];
  for (int i = 0; i < 3; ++i) {
    x[i] = drawn(row.x, row.x_transposed, dtypes[i]);
    y[i] = drawn(row.y, row.y_transposed, dtypes[i]);
    matmul(x[i], y[i]);
  }
  const double start = now();
  matmul(x[0], y[0]);
  const int calls = 1 + static_cast<int>(4000 / (now() - start + 0.1));
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < 3; ++i) {
      const double begin = now();
      for (int call = 0; call < calls; ++call) matmul(x[i], y[i]);
      times[i].push_back((now() - begin) / calls);
      ratios[i].push_back(times[i].back() / times[0].back());
    }
  std::printf("%-36s %9.1f %9.1f %9.1f %9.3f %9.3f\n", row.name.c_str(), median(times[0]),
              median(times[1]), median(times[2]), median(ratios[1]), median(ratios[2]));
  std::fflush(stdout);
}
}  // namespace

int main(int argc, char** argv) {
  set_num_threads(1);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  std::vector<Row> rows;
  for (const std::int64_t n : {16, 64, 128, 256, 512, 1000})
    rows.push_back({std::to_string(n), {n, n}, {n, n}});
  rows.push_back({"512, x transposed", {512, 512}, {512, 512}, true});
  rows.push_back({"512, y transposed", {512, 512}, {512, 512}, false, true});
  // A Transformer layer of 256 columns, for 8 sequences of 128 positions.
  rows.push_back({"projection 1024x256x256", {1024, 256}, {256, 256}});
  rows.push_back({"8 of 128x256x256, one weight", {8, 128, 256}, {256, 256}});
  rows.push_back({"feed forward 1024x256x1024", {1024, 256}, {256, 1024}});
  rows.push_back({"feed forward 1024x1024x256", {1024, 1024}, {1024, 256}});
  rows.push_back({"its weight gradient 256x1024x1024", {1024, 256}, {1024, 1024}, true});
  rows.push_back({"its input gradient 1024x1024x256", {1024, 1024}, {256, 1024}, false, true});
  rows.push_back({"scores, 32 of 128x64x128", {32, 128, 64}, {32, 128, 64}, false, true});
  rows.push_back({"weighted, 32 of 128x128x64", {32, 128, 128}, {32, 128, 64}});
  rows.push_back({"1x1024x1024", {1, 1024}, {1024, 1024}});
  rows.push_back({"32x256x1024", {32, 256}, {256, 1024}});
  std::printf("%-36s %9s %9s %9s %9s %9s\n", "product", "float32", "bfloat16", "float16", "ratio",
              "ratio");
  for (const Row& row : rows) measure(row, rounds);
}
